"""Format `openai-chat-v1`: a JSON list of messages as in OpenAI's chat completions.

An object with a list `messages`, such as a stored request, is read as that list.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from zoea.chain.entries import ContextCall, ContextEntry, read_block
from zoea.model.enums import Role
from zoea.model.errors import ContextFormatError
from zoea.text.large_json import parse_bounded


def read_messages(data: bytes) -> tuple[ContextEntry, ...]:
    """Return the entries of a message list. System messages become notes, because a template says who an agent is.

    Raises:
        ContextFormatError: It is no list of messages, or a result names no call before it.
    """
    reader = _ListReader()
    for place, message in enumerate(_messages(data), start=1):
        reader.add(message, place)
    return tuple(reader.entries)


def drop_unreadable(data: bytes) -> tuple[bytes, list[str]]:
    """Return a list without the messages that `read_messages` refuses, and why it refuses each.

    Raises:
        ContextFormatError: It is no list of messages, or all are refused.
    """
    reader, kept, reasons = _ListReader(), [], []
    for place, message in enumerate(_messages(data), start=1):
        try:
            reader.add(message, place)
            kept.append(message)
        except ContextFormatError as error:
            reasons.append(error.what)
    if reasons and not kept:
        raise ContextFormatError(reasons[0])
    return (_dump(kept) if reasons else data), reasons


class _ListReader:
    def __init__(self) -> None:
        self.entries: list[ContextEntry] = []
        self._positions: dict[str, int] = {}

    def add(self, message: Any, place: int) -> None:
        """Add the entry of a message. Raises ContextFormatError, and adds none then."""
        if not isinstance(message, dict):
            raise ContextFormatError(f"message {place} is no object")
        match message.get("role"):
            case "user":
                self.entries.append(ContextEntry(Role.USER, _text(message, place), "direct"))
            case "system" | "developer":
                self.entries.append(ContextEntry(Role.USER, _text(message, place), "system", is_synthetic=True))
            case "assistant":
                calls = message.get("tool_calls") or []
                if not isinstance(calls, list):
                    raise ContextFormatError(f"the tool calls of message {place} are no list")
                made = tuple(_call(call, place) for call in calls)
                reasoning = message.get("reasoning_content")
                text = reasoning if isinstance(reasoning, str) else ""
                entry = ContextEntry(Role.ASSISTANT, _text(message, place), "llm", reasoning=text, calls=made)
                self.entries.append(entry)
                self._positions = {str(call.get("id", "")): n for n, call in enumerate(calls)}
            case "tool":
                position = self._positions.get(str(message.get("tool_call_id", "")))
                if position is None:
                    raise ContextFormatError(
                        f"message {place} is the result of call {message.get('tool_call_id')!r},"
                        " which the answer before it does not make"
                    )
                self.entries.append(ContextEntry(Role.TOOL, _text(message, place), "tool", position=position))
            case role:
                raise ContextFormatError(f"message {place} has the role {role!r}")


def join_messages(deltas: Sequence[bytes]) -> bytes:
    """Join lists of messages."""
    return _dump([message for data in deltas for message in _messages(data)])


def write_messages(entries: Sequence[ContextEntry]) -> bytes:
    """Return entries as a list of messages; ids of calls are made of their places."""
    messages: list[dict[str, Any]] = []
    answer = 0
    for place, entry in enumerate(entries):
        match entry.role:
            case Role.ASSISTANT:
                answer = place
                message: dict[str, Any] = {"role": "assistant", "content": entry.content}
                if entry.reasoning:
                    message["reasoning_content"] = entry.reasoning
                if entry.calls:
                    message["tool_calls"] = [
                        {
                            "id": f"call_{place}_{n}",
                            "type": "function",
                            "function": {"name": call.name, "arguments": call.arguments},
                        }
                        for n, call in enumerate(entry.calls)
                    ]
                messages.append(message)
            case Role.TOOL:
                call_id = f"call_{answer}_{entry.position}"
                messages.append({"role": "tool", "tool_call_id": call_id, "content": entry.content})
            case _:
                messages.append({"role": "user", "content": entry.content})
    return _dump(messages)


def _messages(data: bytes) -> list[Any]:
    try:
        value = parse_bounded(data)
    except ValueError as error:
        raise ContextFormatError(f"the bytes are no JSON that can be read: {error}") from error
    if isinstance(value, dict):
        value = value.get("messages")
    if not isinstance(value, list):
        raise ContextFormatError("the JSON is no list of messages, and no object with a list `messages`")
    return value


def _text(message: Mapping[str, Any], place: int) -> str:
    """Return the text of a message. Of a list of parts the texts, with a note for each other part."""
    match message.get("content"):
        case None:
            return ""
        case str() as text:
            return text
        case list() as parts:
            return "\n".join(read_block(part) for part in parts)
        case _:
            raise ContextFormatError(f"the content of message {place} is neither a text nor a list of parts")


def _call(call: Any, place: int) -> ContextCall:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise ContextFormatError(f"message {place} has a tool call without a function's name")
    arguments = function.get("arguments", "{}")
    return ContextCall(function["name"], arguments if isinstance(arguments, str) else json.dumps(arguments))


def _dump(messages: list[Any]) -> bytes:
    return json.dumps(messages, ensure_ascii=False, indent=1).encode("utf-8", "replace") + b"\n"
