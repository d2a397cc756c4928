"""Makes messages follow the rules of provider APIs.

One system text, no empty content, a user message first.

Pure functions that always give the same result for the same messages, so that a request stays a prefix of the next.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from zoea.llm.transport.json_safety import parse
from zoea.model.enums import Role
from zoea.model.request import NO_RESPONSE, RequestMessage
from zoea.model.values import Native
from zoea.text.shorten import head

OPENING = "(the conversation so far)"
NO_OUTPUT = "(no output)"
EMPTY = "(empty message)"
NO_OBJECT = "(the arguments of {name}, as written: {text})"
MAX_NOTED = 2_000
"""Characters of arguments that are told where they cannot be sent."""
_RECOGNISED = 200
"""Characters by which arguments are found in the result of their call, which tells those of a broken one."""
_HUGE = re.compile(r"[eE]\+?\d{3}")


def settle(messages: Iterable[RequestMessage]) -> tuple[str, list[RequestMessage]]:
    """Return the system text, and the other messages: at least one, none with empty content.

    The arguments of every call are a JSON object: what is none goes out as `{}`, with its text noted.
    """
    system: list[str] = []
    rest: list[RequestMessage] = []
    messages = tuple(messages)
    for message in messages:
        if message.role is Role.SYSTEM:
            if message.content.strip():
                system.append(message.content)
            continue
        if any(strict_object(call.arguments) is None for call in message.calls):
            message = _with_objects(message, messages)
        rest.append(_filled(message))
    return "\n\n".join(system), rest or [RequestMessage(Role.USER, OPENING)]


def _with_objects(message: RequestMessage, messages: Iterable[RequestMessage]) -> RequestMessage:
    """Replace arguments that are no JSON object. Note them where the result does not tell them."""
    broken = [call for call in message.calls if strict_object(call.arguments) is None]
    results = {one.call_id: one.content for one in messages if one.role is Role.TOOL}
    notes = [
        NO_OBJECT.format(name=call.name, text=head(call.arguments, MAX_NOTED))
        for call in broken
        if call.arguments[:_RECOGNISED] not in results.get(call.id, "")
    ]
    calls = tuple([replace(call, arguments="{}") if call in broken else call for call in message.calls])
    return replace(message, calls=calls, content="\n\n".join(filter(None, (message.content, *notes))))


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


def strict_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that arguments are. None for anything else, also with NaN or an infinite number."""
    try:
        value = parse(text or "{}", constant=_refuse_constant)
        if _HUGE.search(text):
            json.dumps(value, allow_nan=False)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def encode(body: dict[str, Any]) -> bytes:
    """Encode a request body as strict JSON.

    A lone surrogate, which JSON cannot hold, becomes a question mark, and a number that it cannot hold, null.
    """
    try:
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(body), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", "replace")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def native_for(message: RequestMessage, provider: str, model: str) -> Native | None:
    """Return the message's native blocks if they came from this provider and model."""
    native = message.native
    return native if native is not None and (native.provider, native.model) == (provider, model) else None
