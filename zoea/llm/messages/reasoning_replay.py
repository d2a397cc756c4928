"""What a model family wants back of its own reasoning, within a turn.

`none`: it drops or refuses it. `reasoning_content`: the text, beside the calls it
led to (without it these answer 400 or lose the thread). `native`: the provider's
own blocks, unchanged. Sources: https://api-docs.deepseek.com/guides/thinking_mode,
https://platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model,
https://docs.z.ai/guides/capabilities/thinking-mode,
https://openrouter.ai/docs/use-cases/reasoning-tokens,
https://platform.claude.com/docs/en/build-with-claude/extended-thinking.
"""

from __future__ import annotations

from enum import StrEnum

from zoea.model.request import RequestMessage
from zoea.model.values import Native


class Replay(StrEnum):
    NONE = "none"
    REASONING_CONTENT = "reasoning_content"
    NATIVE = "native"


# The first entry whose key is in the model's name (lower case) holds.
_FAMILIES: tuple[tuple[str, Replay], ...] = (
    ("claude", Replay.NATIVE),
    ("gemini", Replay.NATIVE),
    ("deepseek-r1", Replay.NONE),
    ("deepseek", Replay.REASONING_CONTENT),
    ("kimi", Replay.REASONING_CONTENT),
    ("glm-", Replay.REASONING_CONTENT),
    ("minimax", Replay.REASONING_CONTENT),
    ("mimo", Replay.REASONING_CONTENT),
    ("gpt-oss", Replay.REASONING_CONTENT),
)


def replay_of(model: str) -> Replay:
    """What the model's family wants back; `none` for a family that is not in the table."""
    name = model.lower()
    return next((replay for key, replay in _FAMILIES if key in name), Replay.NONE)


def native_for(message: RequestMessage, provider: str, model: str) -> Native | None:
    """The message's native blocks, if they came from this very provider and model."""
    native = message.native
    return native if native is not None and (native.provider, native.model) == (provider, model) else None
