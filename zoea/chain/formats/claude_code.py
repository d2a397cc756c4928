"""Format `claude-code-v1`: JSON lines of a Claude Code transcript.

One answer of the model stands in several lines, one a block, with the same message id. Lines that
are no message (summaries, snapshots of files, notes of its own agents) stay in the bytes and make
no entries.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from zoea.chain.entries import ContextCall, ContextEntry
from zoea.model.enums import Role
from zoea.model.errors import ContextFormatError
from zoea.text.large_json import is_deep

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_US = 253_402_300_799_999_999
"""The end of the year 9999, the last that the form of a timestamp has."""
_NAMESPACE = uuid.UUID("6f1c2f3e-5d0c-4a55-9f8e-0f6f7a656f61")


def read_transcript(data: bytes) -> tuple[ContextEntry, ...]:
    """Return the entries of a transcript, in the order of its lines.

    Raises:
        ContextFormatError: A line is no JSON object, or a message has no readable content.
    """
    entries: list[ContextEntry] = []
    newest_id = ""
    positions: dict[str, int] = {}
    for number, line in _lines(data):
        if line.get("type") not in ("user", "assistant") or line.get("isSidechain"):
            continue
        message = line.get("message")
        if not isinstance(message, dict):
            raise ContextFormatError(f"line {number} is a message without its content")
        at = _time(line.get("timestamp"))
        if line["type"] == "assistant":
            answer = _answer(message, at, number)
            ids = [str(block.get("id", "")) for block in _blocks(message, number) if block.get("type") == "tool_use"]
            same = bool(message.get("id")) and message.get("id") == newest_id
            if same and entries and entries[-1].role is Role.ASSISTANT:
                before = entries.pop()
                answer = _merged(before, answer)
                positions |= {one: len(before.calls) + n for n, one in enumerate(ids)}
            else:
                positions = {one: n for n, one in enumerate(ids)}
            newest_id = str(message.get("id", ""))
            entries.append(answer)
        else:
            entries.extend(_user_entries(line, message, at, number, positions))
    return tuple(entries)


def join_transcripts(deltas: Sequence[bytes]) -> bytes:
    """Join transcripts by appending their bytes; a last line without its end gets one."""
    return b"".join(one if one.endswith(b"\n") or not one else one + b"\n" for one in deltas)


def write_transcript(entries: Sequence[ContextEntry]) -> bytes:
    """Return entries as a transcript that Claude Code can resume. All ids follow from the entries."""
    lines: list[bytes] = []
    parent: str | None = None
    session = str(uuid.uuid5(_NAMESPACE, f"{len(entries)} {entries[0].content if entries else ''}"))
    answer = 0
    for place, entry in enumerate(entries):
        if entry.role is Role.ASSISTANT:
            answer = place
        own = str(uuid.uuid5(_NAMESPACE, f"{session} {place} {entry.role} {entry.content}"))
        line = {
            "parentUuid": parent,
            "isSidechain": False,
            "userType": "external",
            "sessionId": session,
            "type": "assistant" if entry.role is Role.ASSISTANT else "user",
            "message": _message(entry, place, answer),
            "uuid": own,
            "timestamp": (_EPOCH + timedelta(microseconds=min(entry.at, _LATEST_US)))
            .isoformat()
            .replace("+00:00", "Z"),
        }
        lines.append(json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        parent = own
    return b"".join(lines)


def _lines(data: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, raw in enumerate(data.split(b"\n"), start=1):
        if not raw.strip():
            continue
        try:
            line = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise ContextFormatError(f"line {number} of the transcript is no JSON: {error}") from error
        if not isinstance(line, dict):
            raise ContextFormatError(f"line {number} of the transcript is no JSON object")
        yield number, line


def _blocks(message: Mapping[str, Any], number: int) -> list[dict[str, Any]]:
    match message.get("content"):
        case str() as text:
            return [{"type": "text", "text": text}]
        case list() as blocks if all(isinstance(block, dict) for block in blocks):
            return blocks
        case _:
            raise ContextFormatError(f"the message of line {number} has no readable content")


def _answer(message: Mapping[str, Any], at: int, number: int) -> ContextEntry:
    blocks = _blocks(message, number)
    texts = [_string(block, "text") for block in blocks if block.get("type") == "text"]
    thoughts = [_string(block, "thinking") for block in blocks if block.get("type") == "thinking"]
    calls = tuple(
        ContextCall(_string(block, "name"), json.dumps(block.get("input") or {}, ensure_ascii=False))
        for block in blocks
        if block.get("type") == "tool_use"
    )
    return ContextEntry(
        Role.ASSISTANT, "\n".join(texts), "llm", at=at, reasoning="\n".join(filter(None, thoughts)), calls=calls
    )


def _merged(before: ContextEntry, more: ContextEntry) -> ContextEntry:
    return replace(
        before,
        content="\n".join(filter(None, (before.content, more.content))),
        reasoning="\n".join(filter(None, (before.reasoning, more.reasoning))),
        calls=before.calls + more.calls,
    )


def _user_entries(
    line: Mapping[str, Any], message: Mapping[str, Any], at: int, number: int, positions: Mapping[str, int]
) -> Iterator[ContextEntry]:
    """Yield the results of a line, then its text as a prompt."""
    blocks = _blocks(message, number)
    for block in blocks:
        if block.get("type") != "tool_result":
            continue
        position = positions.get(str(block.get("tool_use_id", "")))
        if position is None:
            continue  # of a call in a part of the transcript that was cut off
        match block.get("content"):
            case None:
                text = ""
            case str() as text:
                pass
            case list() as parts:
                text = "\n".join(_part(one) for one in parts)
            case _:
                raise ContextFormatError(f"a result in line {number} has no readable content")
        failed = bool(block.get("is_error"))
        yield ContextEntry(Role.TOOL, text, "tool", at=at, position=position, is_error=failed)
    rest = [_part(block) for block in blocks if block.get("type") != "tool_result"]
    if rest:
        is_note = bool(line.get("isMeta") or line.get("isCompactSummary"))
        source = "system" if is_note else "direct"
        yield ContextEntry(Role.USER, "\n".join(rest), source, at=at, is_synthetic=is_note)


def _part(block: Any) -> str:
    if isinstance(block, dict) and isinstance(block.get("text"), str):
        text: str = block["text"]
        return text
    return f"[{block.get('type') if isinstance(block, dict) else type(block).__name__} left out]"


def _string(block: Mapping[str, Any], name: str) -> str:
    value = block.get(name, "")
    return value if isinstance(value, str) else ""


def _time(value: object) -> int:
    """Return a timestamp in µs UTC; 0 where it cannot be read."""
    if not isinstance(value, str):
        return 0
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return 0
    delta = (at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH
    micros = (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
    return micros if 0 <= micros <= _LATEST_US else 0


def _message(entry: ContextEntry, place: int, answer: int) -> dict[str, Any]:
    if entry.role is Role.TOOL:
        result = {
            "type": "tool_result",
            "tool_use_id": f"toolu_{answer}_{entry.position}",
            "content": entry.content,
            "is_error": entry.is_error,
        }
        return {"role": "user", "content": [result]}
    if entry.role is not Role.ASSISTANT:
        return {"role": "user", "content": entry.content}
    blocks: list[dict[str, Any]] = [{"type": "text", "text": entry.content}] if entry.content else []
    blocks += [
        {"type": "tool_use", "id": f"toolu_{place}_{n}", "name": call.name, "input": _object(call.arguments)}
        for n, call in enumerate(entry.calls)
    ]
    return {"id": f"msg_{place}", "type": "message", "role": "assistant", "content": blocks}


def _object(arguments: str) -> dict[str, Any]:
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return {"arguments": arguments}
    if is_deep(value):
        return {"arguments": arguments}
    return value if isinstance(value, dict) else {"arguments": value}
