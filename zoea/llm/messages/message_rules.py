"""Rules of provider APIs for messages: one system text, no empty content, a user message first.

Pure functions that always give the same result for the same messages, so that a request stays a prefix of the next.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from msgspec.structs import replace

from zoea.llm.transport.json_safety import parse
from zoea.model.enums import Role
from zoea.model.request import RequestMessage
from zoea.model.values import Native

OPENING = "(the conversation so far)"
NO_RESPONSE = "(no response)"
NO_OUTPUT = "(no output)"
EMPTY = "(empty message)"


def settle(messages: Iterable[RequestMessage]) -> tuple[str, list[RequestMessage]]:
    """Return the system text, and the other messages: at least one, none with empty content."""
    system: list[str] = []
    rest: list[RequestMessage] = []
    for message in messages:
        if message.role is Role.SYSTEM:
            if message.content.strip():
                system.append(message.content)
            continue
        rest.append(_filled(message))
    return "\n\n".join(system), rest or [RequestMessage(Role.USER, OPENING)]


def user_first(messages: list[RequestMessage]) -> list[RequestMessage]:
    """Put a user message before a leading answer, for servers that refuse it."""
    return messages if messages[0].role is Role.USER else [RequestMessage(Role.USER, OPENING), *messages]


def _filled(message: RequestMessage) -> RequestMessage:
    if message.content.strip() or (message.role is Role.ASSISTANT and message.calls):
        return message
    standing = {Role.USER: EMPTY, Role.TOOL: NO_OUTPUT}.get(message.role, NO_RESPONSE)
    return replace(message, content=standing)


def merge_users(messages: Iterable[RequestMessage]) -> list[RequestMessage]:
    """Merge neighbouring user messages, and neighbouring plain answers, for strict chat templates."""
    merged: list[RequestMessage] = []
    for message in messages:
        last = merged[-1] if merged else None
        plain = message.role in (Role.USER, Role.ASSISTANT) and not message.calls
        if last is not None and plain and last.role is message.role and not last.calls:
            merged[-1] = replace(last, content=f"{last.content}\n\n{message.content}")
        else:
            merged.append(message)
    return merged


def result_text(message: RequestMessage) -> str:
    """Return a tool's result for a provider that has no mark for errors."""
    if message.is_error and not message.content.lower().startswith("error"):
        return f"Error: {message.content}"
    return message.content


def arguments_object(text: str) -> dict[str, Any]:
    """Return arguments as an object. Broken or cut ones are kept as text in it."""
    try:
        value = parse(text or "{}")
    except ValueError:
        return {"unreadable_arguments": text}
    return value if isinstance(value, dict) else {"unreadable_arguments": text}


def arguments_text(text: str) -> str:
    """Return arguments as JSON text that is always one object."""
    try:
        if isinstance(parse(text), dict):
            return text
    except ValueError:
        pass
    return json.dumps(arguments_object(text), ensure_ascii=False)


def encode(body: dict[str, Any]) -> bytes:
    """Encode a request body. A lone surrogate, which JSON cannot hold, becomes a question mark."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


class Replay(StrEnum):
    """How a model family wants its own reasoning sent back within a turn.

    `NONE`: it drops or refuses it. `REASONING_CONTENT`: the text, beside the calls it led to; without it these
    requests fail with 400 or lose the thread. `NATIVE`: the provider's own blocks, unchanged. Sources:
    https://api-docs.deepseek.com/guides/thinking_mode,
    https://platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model,
    https://docs.z.ai/guides/capabilities/thinking-mode,
    https://openrouter.ai/docs/use-cases/reasoning-tokens,
    https://platform.claude.com/docs/en/build-with-claude/extended-thinking.
    """

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
    """Return how the model's family wants reasoning back; `NONE` for an unknown family."""
    name = model.lower()
    return next((replay for key, replay in _FAMILIES if key in name), Replay.NONE)


def native_for(message: RequestMessage, provider: str, model: str) -> Native | None:
    """Return the message's native blocks if they came from this provider and model."""
    native = message.native
    return native if native is not None and (native.provider, native.model) == (provider, model) else None
