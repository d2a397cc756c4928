"""What every provider needs of a list of messages, whatever its wire form.

Plans are about meaning; providers have manners: one system text, nothing empty,
for some a user message first. These are met here, by pure functions, the same way each
time, so that a request stays a prefix of the next.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from zoea.llm.transport.json_safety import parse
from zoea.model.enums import Role
from zoea.model.request import RequestMessage

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
