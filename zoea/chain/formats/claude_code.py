"""Format `claude-code-v1`: JSON lines of a Claude Code transcript.

One answer of the model stands in several lines, one a block, with the same message id. Lines that
are no message (summaries, snapshots of files, notes of its own agents) stay in the bytes and make
no entries.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from zoea.chain.entries import ContextCall, ContextEntry, read_block
from zoea.chain.formats.claude_lines import (
    LATEST_US,
    TranscriptKind,
    TranscriptLine,
    is_note,
    read_lines,
    string,
    typed_command,
)
from zoea.chain.formats.claude_tree import TranscriptTree
from zoea.model.enums import Role
from zoea.model.errors import ContextFormatError
from zoea.text.json_text import parse_json
from zoea.text.large_json import is_deep

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAMESPACE = uuid.UUID("6f1c2f3e-5d0c-4a55-9f8e-0f6f7a656f61")
_EMPTY = "(no content)"
"""What Claude Code writes for a message without text, which its provider refuses."""
_LONGEST_FOLDER = 200
_NO_TOOL_NAME = re.compile(r"[^a-zA-Z0-9_-]")


class TranscriptOwner(Struct, frozen=True):
    """The folder and session that a written transcript belongs to.

    Attributes:
        session: The UUID of its session, by which Claude Code resumes it; empty for one that follows from the entries.
        folder: The directory in which Claude Code works.
        model: The model of the answers.
        version: Of Claude Code; its newest one that was tried.
    """

    session: str = ""
    folder: str = "/"
    model: str = "unknown"
    version: str = "2.1.197"


def read_transcript(data: bytes) -> tuple[ContextEntry, ...]:
    """Return the entries of the conversation of a transcript.

    Raises:
        ContextFormatError: A line is no JSON object, or a message has no readable content.
    """
    lines, damaged = read_lines(data)
    if damaged:
        raise ContextFormatError(damaged[0].why)
    return build_entries(TranscriptTree(lines).select_conversation())


def build_entries(lines: Iterable[TranscriptLine]) -> tuple[ContextEntry, ...]:
    """Return the entries of lines in their order. Results stand behind the answer that made their calls."""
    messages: list[list[ContextEntry]] = []  # a prompt or a note; an answer and its results
    calls: dict[str, tuple[list[ContextEntry], int]] = {}  # those without a result yet
    open_calls: set[str] = set()  # those of the newest answer
    newest: list[ContextEntry] = []
    newest_id, keys = "", set[str]()  # of the lines of the newest answer
    for line in lines:
        if line.kind is TranscriptKind.ANSWER:
            answer = _answer(line)
            is_last = bool(messages) and messages[-1] is newest and len(newest) == 1
            is_next = is_last or bool(open_calls) or string(line.data, "parentUuid") in keys
            if line.answer_id and line.answer_id == newest_id and is_next:  # a gateway may give one id to all answers
                first = len(newest[0].calls)
                newest[0] = _merged(newest[0], answer)
            else:
                first, newest = 0, [answer]
                messages.append(newest)
                open_calls.clear()
                keys.clear()
            calls |= {call: (newest, first + n) for n, call in enumerate(line.calls)}
            open_calls.update(line.calls)
            newest_id = line.answer_id
            keys.add(line.key)
        elif line.has_entries:
            for block in line.blocks:
                owner = calls.pop(string(block, "tool_use_id"), None) if block.get("type") == "tool_result" else None
                if owner is not None:  # else it is a second one, or its call is in a part that was cut off
                    owner[0].append(_result(block, line.at, owner[1]))
            open_calls.difference_update(line.results)
            messages.extend([entry] for entry in _said(line))
    return tuple(entry for message in messages for entry in message)


def join_transcripts(deltas: Sequence[bytes]) -> bytes:
    """Join transcripts by appending their bytes; a last line without its end gets one."""
    return b"".join(one if one.endswith(b"\n") or not one else one + b"\n" for one in deltas)


def write_transcript(entries: Sequence[ContextEntry], owner: TranscriptOwner = TranscriptOwner()) -> bytes:
    """Return entries as a transcript that Claude Code can resume. All ids follow from the entries and the owner."""
    state = repr([(entry.role, entry.content, entry.calls, entry.at) for entry in entries])
    session = owner.session or str(uuid.uuid5(_NAMESPACE, state))
    lines: list[bytes] = []
    parent: str | None = None
    answer, known = 0, 0
    at = next((entry.at for entry in entries if entry.at), 0)
    for place, entry in enumerate(entries):
        if entry.role is Role.ASSISTANT:
            answer = place
        at = max(at, min(entry.at, LATEST_US))  # what Zoea added has no time of its own
        own = str(uuid.uuid5(_NAMESPACE, f"{session} {place} {entry.role} {entry.content}"))
        line = {
            "parentUuid": parent,
            "isSidechain": False,
            "userType": "external",
            "entrypoint": "cli",
            "cwd": owner.folder,
            "sessionId": session,
            "version": owner.version,
            "gitBranch": "",
            "uuid": own,
            "timestamp": (_EPOCH + timedelta(microseconds=at)).isoformat().replace("+00:00", "Z"),
            **_message(entry, place, answer, known, owner.model),
        }
        lines.append(json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        parent = own
        known += entry.token_count
    return b"".join(lines)


def name_project(folder: str) -> str:
    """Return the directory name that Claude Code uses for the transcripts of a folder."""
    name = "".join(one if one.isascii() and one.isalnum() else "-" * (1 + (one > "\uffff")) for one in folder)
    if len(name) <= _LONGEST_FOLDER:
        return name
    number = 0
    data = folder.encode("utf-16-be", "surrogatepass")
    for place in range(0, len(data), 2):  # the hash of its JavaScript, over units of UTF-16, in 32 bits
        number = (31 * number + int.from_bytes(data[place : place + 2])) & 0xFFFFFFFF
    number = min(number, 2**32 - number)
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return f"{name[:_LONGEST_FOLDER]}-{digits or '0'}"


def read_folders(data: bytes) -> list[str]:
    """Return the folders in which the conversation of a transcript worked, newest first."""
    lines = TranscriptTree(read_lines(data)[0]).select_conversation()
    return list(dict.fromkeys(string(line.data, "cwd") for line in reversed(lines) if string(line.data, "cwd")))


def readdress_transcript(data: bytes, owner: TranscriptOwner) -> bytes:
    """Return the conversation of a transcript as that of another session. Each line follows one that is there."""
    tree = TranscriptTree(read_lines(data)[0])
    written = []
    for line in tree.select_conversation():
        parent = tree.parent_of(line)
        fields = {**line.data, "parentUuid": parent, "sessionId": owner.session, "cwd": owner.folder}
        if line.kind is TranscriptKind.BOUNDARY:
            fields |= {"parentUuid": None, "logicalParentUuid": parent}
        fields |= {"uuid": line.key, "isSidechain": False}
        written.append(json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
    return b"".join(written)


def _answer(line: TranscriptLine) -> ContextEntry:
    texts = [string(block, "text") for block in line.blocks if block.get("type") == "text"]
    thoughts = [string(block, "thinking") for block in line.blocks if block.get("type") == "thinking"]
    calls = tuple(
        ContextCall(string(block, "name"), json.dumps(block.get("input") or {}, ensure_ascii=False))
        for block in line.blocks
        if block.get("type") == "tool_use"
    )
    return ContextEntry(
        Role.ASSISTANT, "\n".join(texts), "llm", at=line.at, reasoning="\n".join(filter(None, thoughts)), calls=calls
    )


def _merged(before: ContextEntry, more: ContextEntry) -> ContextEntry:
    return replace(
        before,
        content="\n".join(filter(None, (before.content, more.content))),
        reasoning="\n".join(filter(None, (before.reasoning, more.reasoning))),
        calls=before.calls + more.calls,
    )


def _result(block: Mapping[str, Any], at: int, position: int) -> ContextEntry:
    content = block.get("content")
    parts = content if isinstance(content, list) else [{"text": content or ""}]
    text = "\n".join(read_block(one) for one in parts)
    return ContextEntry(Role.TOOL, text, "tool", at=at, position=position, is_error=bool(block.get("is_error")))


def _said(line: TranscriptLine) -> Iterator[ContextEntry]:
    """Yield the user's text of a line, and additions of Claude Code as notes."""
    notes: list[str] = []
    words: list[str] = []
    for block in line.blocks:
        if block.get("type") != "tool_result":
            text = read_block(block)
            is_said = line.kind in (TranscriptKind.PROMPT, TranscriptKind.RESULTS) and not is_note(text)
            (words if is_said else notes).append(typed_command(text) or text)
    if notes:
        yield ContextEntry(Role.USER, "\n".join(notes), "system", at=line.at, is_synthetic=True)
    if words:
        yield ContextEntry(Role.USER, "\n".join(words), "direct", at=line.at)


def _message(entry: ContextEntry, place: int, answer: int, known: int, model: str) -> dict[str, Any]:
    """Return the fields of a line that say what its message is."""
    if entry.role is Role.TOOL:
        result = {
            "type": "tool_result",
            "tool_use_id": f"toolu_{answer}_{entry.position}",
            "content": entry.content,
            "is_error": entry.is_error,
        }
        return {"type": "user", "message": {"role": "user", "content": [result]}, "toolUseResult": entry.content}
    if entry.role is not Role.ASSISTANT:
        note = {"isMeta": True} if entry.is_synthetic else {}
        return {
            "type": "user",
            "message": {"role": "user", "content": entry.content if entry.content.strip() else _EMPTY},
            **note,
        }
    blocks: list[dict[str, Any]] = [{"type": "text", "text": entry.content}] if entry.content.strip() else []
    blocks += [
        {
            "type": "tool_use",
            "id": f"toolu_{place}_{n}",
            "name": _NO_TOOL_NAME.sub("_", call.name)[:128] or "tool",  # the characters that its provider takes
            "input": _object(call.arguments),
        }
        for n, call in enumerate(entry.calls)
    ]
    message = {
        "id": f"msg_{place}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks or [{"type": "text", "text": _EMPTY}],
        "stop_reason": "tool_use" if entry.calls else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": known,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": entry.token_count,
        },
    }
    return {"type": "assistant", "message": message, "requestId": f"req_{place}"}


def _object(arguments: str) -> dict[str, Any]:
    value = parse_json(arguments, arguments)
    if is_deep(value):
        return {"arguments": arguments}
    return value if isinstance(value, dict) else {"arguments": value}
