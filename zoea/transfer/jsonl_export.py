"""Exports a conversation as JSON lines with every column of every row of a mysis.

`zoea.transfer.jsonl_import` reads it. The first line has the version, the last one the
number of lines, so that a truncated file is detected. Data of the workspace is not
exported: events, calibration, daily budgets, grants, and positions in the ledger of topics. Of that
ledger, the messages that the mysis got or published are exported.
"""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

from zoea.model.errors import StoreError
from zoea.queries.request_summary import plan_of
from zoea.store import get_blob
from zoea.text.redact.json_redaction import redact_json, redact_json_text

Clean = Callable[[str], str]
VERSION = 1

TABLES = {
    "template": "template",
    "mysis": "mysis",
    "tag": "mysis_tag",
    "tally": "tally",
    "session": "session",
    "spend": "spend",
    "catalogue": "catalogue",
    "removal": "removal",
    "turn": "turn",
    "delivery": "delivery",
    "topic_message": "topic_message",
    "message": "message",
    "note": "turn_note",
    "request": "request",
    "memory": "memory",
    "tool_call": "tool_call",
    "late_result": "late_result",
    "approval": "approval",
    "blob": "memory_blob",
}
"""The table of each kind of line. A line `sender` names a mysis that the conversation speaks of."""

JSON_TEXTS = frozenset(
    {"overrides", "error", "wait", "frozen", "failure", "native", "recipients_filter", "body", "about", "data"}
)
"""Columns with JSON text, which must stay JSON after redaction."""

SAID = frozenset(
    {"content", "reasoning", "arguments", "sentence", "note", "plan", "state_reason", "held_reason", "why"}
)
"""Columns of what somebody wrote. Ids, hashes, names and states have nothing to take out."""

_OF_MYSIS = (
    (
        "template",
        "SELECT * FROM template WHERE hash = (SELECT template_hash FROM mysis WHERE id = :mysis)"
        " OR hash IN (SELECT template_hash FROM session WHERE mysis_id = :mysis)"
        " OR lower(hex(hash)) IN"
        " (SELECT json_extract(frozen, '$.template_hash') FROM turn WHERE mysis_id = :mysis) ORDER BY hash",
    ),
    ("mysis", "SELECT * FROM mysis WHERE id = :mysis"),
    ("tag", "SELECT * FROM mysis_tag WHERE mysis_id = :mysis ORDER BY tag"),
    ("tally", "SELECT * FROM tally WHERE mysis_id = :mysis"),
    ("session", "SELECT * FROM session WHERE mysis_id = :mysis ORDER BY id"),
    ("spend", "SELECT * FROM spend WHERE scope = 'mysis' AND scope_id = :mysis ORDER BY day"),
    (
        "catalogue",
        "SELECT * FROM catalogue WHERE hash IN (SELECT catalogue_hash FROM request WHERE mysis_id = :mysis)"
        " ORDER BY hash",
    ),
    ("removal", "SELECT * FROM removal WHERE mysis_id = :mysis ORDER BY id"),
    (
        "sender",
        "SELECT id, uid, name FROM mysis WHERE id <> :mysis AND id IN (SELECT g.sender_id FROM message g"
        " JOIN delivery d ON d.message_id = g.id WHERE d.mysis_id = :mysis"
        " UNION SELECT sender_id FROM memory WHERE mysis_id = :mysis) ORDER BY id",
    ),
)

_TOPIC_MESSAGE = (
    "SELECT id, topic, sender_kind, sender_id, sender, receiver, content, data, is_raw, hop, created_at"
    " FROM topic_message"
)

_OF_TURN = (
    ("delivery", "SELECT * FROM delivery WHERE turn_id = ? ORDER BY id"),
    (
        "topic_message",
        f"{_TOPIC_MESSAGE} WHERE turn_id = ?1 OR id IN (SELECT g.topic_message_id FROM message g"
        " JOIN delivery d ON d.message_id = g.id WHERE d.turn_id = ?1) ORDER BY id",
    ),
    ("message", "SELECT * FROM message WHERE id IN (SELECT message_id FROM delivery WHERE turn_id = ?) ORDER BY id"),
    ("note", "SELECT * FROM turn_note WHERE turn_id = ? ORDER BY after_seq, kind"),
    ("request", "SELECT * FROM request WHERE turn_id = ? ORDER BY id"),
    ("memory", "SELECT * FROM memory WHERE turn_id = ? ORDER BY seq"),
    (
        "tool_call",
        "SELECT k.* FROM tool_call k JOIN memory m ON m.id = k.memory_id WHERE m.turn_id = ? ORDER BY k.id",
    ),
    (
        "late_result",
        "SELECT l.* FROM late_result l JOIN tool_call k ON k.id = l.tool_call_id JOIN memory m ON m.id = k.memory_id"
        " WHERE m.turn_id = ? ORDER BY l.tool_call_id",
    ),
    (
        "approval",
        "SELECT * FROM approval WHERE turn_id = ?1 OR tool_call_id IN (SELECT k.id FROM tool_call k"
        " JOIN memory m ON m.id = k.memory_id WHERE m.turn_id = ?1) ORDER BY id",
    ),
    (
        "blob",
        "SELECT x.*, b.hash, b.size FROM memory_blob x JOIN blob b ON b.id = x.blob_id JOIN memory m"
        " ON m.id = x.memory_id WHERE m.turn_id = ? ORDER BY x.memory_id, x.position",
    ),
)

# Deliveries that are pending, skipped or withdrawn; requests outside of turns; messages to the commander.
_OF_NO_TURN = (
    ("delivery", "SELECT * FROM delivery WHERE mysis_id = :mysis AND turn_id IS NULL ORDER BY id"),
    (
        "topic_message",
        f"{_TOPIC_MESSAGE} WHERE (sender_id = :mysis AND turn_id IS NULL) OR id IN (SELECT g.topic_message_id"
        " FROM message g JOIN delivery d ON d.message_id = g.id WHERE d.mysis_id = :mysis AND d.turn_id IS NULL)"
        " ORDER BY id",
    ),
    (
        "message",
        "SELECT * FROM message WHERE id IN"
        " (SELECT message_id FROM delivery WHERE mysis_id = :mysis AND turn_id IS NULL)"
        " OR (sender_id = :mysis AND NOT EXISTS (SELECT 1 FROM delivery d WHERE d.message_id = message.id))"
        " ORDER BY id",
    ),
    ("request", "SELECT * FROM request WHERE mysis_id = :mysis AND turn_id IS NULL ORDER BY id"),
)


def conversation_lines(reader: sqlite3.Connection, mysis_id: int, clean: Clean | None) -> Iterator[tuple[str, bool]]:
    """Yield the lines in groups, each with whether it is one turn.

    Args:
        clean: Redacts a text; None keeps everything.
    """
    count = turns = 0
    head = [json.dumps({"kind": "conversation", "version": VERSION}) + "\n"]
    for kind, query in _OF_MYSIS:
        head += _lines(reader, kind, query, {"mysis": mysis_id}, clean)
    count += len(head)
    yield "".join(head), False
    for turn in reader.execute("SELECT * FROM turn WHERE mysis_id = ? ORDER BY number", (mysis_id,)):
        lines = [_line(reader, "turn", turn, clean)]
        for kind, query in _OF_TURN:
            lines += _lines(reader, kind, query, (turn["id"],), clean)
        count += len(lines)
        turns += 1
        yield "".join(lines), True
    rest: list[str] = []
    for kind, query in _OF_NO_TURN:
        rest += _lines(reader, kind, query, {"mysis": mysis_id}, clean)
    rest.append(json.dumps({"kind": "end", "turns": turns, "lines": count + len(rest) + 1}) + "\n")
    yield "".join(rest), False


def swarm_line(count: int) -> str:
    """Return the header line of a file with several conversations."""
    return json.dumps({"kind": "swarm", "version": VERSION, "myses": count}) + "\n"


def _lines(
    reader: sqlite3.Connection, kind: str, query: str, given: tuple[Any, ...] | dict[str, Any], clean: Clean | None
) -> list[str]:
    return [_line(reader, kind, row, clean) for row in reader.execute(query, given).fetchall()]


def _line(reader: sqlite3.Connection, kind: str, row: sqlite3.Row, clean: Clean | None) -> str:
    values: dict[str, Any] = {}
    for name in row.keys():  # noqa: SIM118  a Row yields its values, not its names
        value = row[name]
        if (kind, name) == ("memory", "owner"):
            continue  # a generated column
        if isinstance(value, bytes):
            value = _plan(value, clean) if (kind, name) == ("request", "plan") else value.hex()
        elif isinstance(value, str) and clean is not None:
            value = _cleaned(kind, name, value, clean)
        values[name] = value
    if kind == "message" and values["topic_message_id"] is None:
        del values["topic_message_id"]
    if kind == "message" and not values["context"]:
        del values["context"]
    if kind == "memory" and not values["preserved"]:
        del values["preserved"]
    if kind == "blob":
        values["data"] = _bytes(reader, row["blob_id"]) if clean is None else None
    if "kind" in values:
        values = {"of": values.pop("kind"), **values}
    return json.dumps({"kind": kind, **values}, ensure_ascii=False) + "\n"


def _cleaned(kind: str, name: str, value: str, clean: Clean) -> str:
    if name in JSON_TEXTS or name == "arguments":
        return redact_json_text(value, clean)
    return clean(value) if name in SAID else value


def _bytes(reader: sqlite3.Connection, blob_id: int) -> str | None:
    """Return the bytes of a blob in base64. None if they were redacted or are lost."""
    try:
        return base64.b64encode(get_blob(reader, blob_id)).decode("ascii")
    except StoreError:
        return None


def _plan(blob: bytes, clean: Clean | None) -> Any:
    """Return the plan as JSON. A damaged one in its stored form, or None when redacting."""
    try:
        plan = plan_of(blob)
        return plan if clean is None else redact_json(plan, clean)
    except (StoreError, RecursionError):
        return {"zstd": blob.hex()} if clean is None else None
