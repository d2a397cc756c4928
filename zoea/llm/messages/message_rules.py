"""What every provider needs of a list of messages, whatever its wire form.

Plans are about meaning; providers have manners: one system text, nothing empty,
for some a user message first. These are met here, by pure functions, the same way each
time, so that a request stays a prefix of the next.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from typing import Any

from zoea.llm.transport.json_safety import parse
from zoea.model.enums import Role
from zoea.model.request import RequestMessage
from zoea.model.values import Native

OPENING = "(the conversation so far)"
NO_RESPONSE = "(no response)"
NO_OUTPUT = "(no output)"
EMPTY = "(empty message)"


def settle(messages: Iterable[RequestMessage]) -> tuple[str, list[RequestMessage]]:
    """The system text, and the rest: at least one message, no content empty where that is refused."""
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
    """A user message before a history that begins with an answer, for those who refuse it otherwise."""
    return messages if messages[0].role is Role.USER else [RequestMessage(Role.USER, OPENING), *messages]


def _filled(message: RequestMessage) -> RequestMessage:
    if message.content.strip() or (message.role is Role.ASSISTANT and message.calls):
        return message
    standing = {Role.USER: EMPTY, Role.TOOL: NO_OUTPUT}.get(message.role, NO_RESPONSE)
    return replace(message, content=standing)


def merge_users(messages: Iterable[RequestMessage]) -> list[RequestMessage]:
    """Neighbouring user messages, and neighbouring plain answers, as one: for strict chat templates."""
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
    """A tool's result for a provider that has no mark for errors."""
    if message.is_error and not message.content.lower().startswith("error"):
        return f"Error: {message.content}"
    return message.content


def arguments_object(text: str) -> dict[str, Any]:
    """Arguments for a provider that wants an object. Stored ones may be broken or cut: then their text is kept."""
    try:
        value = parse(text or "{}")
    except ValueError:
        return {"unreadable_arguments": text}
    return value if isinstance(value, dict) else {"unreadable_arguments": text}


def arguments_text(text: str) -> str:
    """Arguments for a provider that wants JSON text: always one object."""
    try:
        if isinstance(parse(text), dict):
            return text
    except ValueError:
        pass
    return json.dumps(arguments_object(text), ensure_ascii=False)


def encode(body: dict[str, Any]) -> bytes:
    """The bytes that go out. A lone surrogate, which no JSON may hold, becomes a question mark."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


# `none`: it drops or refuses it. `reasoning_content`: the text, beside the calls it
# led to (without it these answer 400 or lose the thread). `native`: the provider's
# own blocks, unchanged. Sources: https://api-docs.deepseek.com/guides/thinking_mode,
# https://platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model,
# https://docs.z.ai/guides/capabilities/thinking-mode,
# https://openrouter.ai/docs/use-cases/reasoning-tokens,
# https://platform.claude.com/docs/en/build-with-claude/extended-thinking.


class Replay(StrEnum):
    """What a model family wants back of its own reasoning within a turn.

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
    """What the model's family wants back; `none` for a family that is not in the table."""
    name = model.lower()
    return next((replay for key, replay in _FAMILIES if key in name), Replay.NONE)


def native_for(message: RequestMessage, provider: str, model: str) -> Native | None:
    """The message's native blocks, if they came from this very provider and model."""
    native = message.native
    return native if native is not None and (native.provider, native.model) == (provider, model) else None
