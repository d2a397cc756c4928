"""Imports a file of `zoea export --format jsonl` completely or not at all.

Rows get new ids, and references to them are changed accordingly. A mysis that is already
in the workspace, by its uid, is skipped.
"""

from __future__ import annotations

import base64
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import zstandard
from blake3 import blake3

from zoea.model.errors import NameRefused, UsageError
from zoea.model.topics import IMPORTED_CLUSTER, check_topic
from zoea.settings import Settings
from zoea.store import WriterConnection, put_blob
from zoea.swarm.persistence.mysis_ops import check_name
from zoea.text.large_json import check_memory
from zoea.text.sentences import count_of
from zoea.transfer.conflicts import ImportTarget, insert_row, insert_with_id
from zoea.transfer.jsonl_export import TABLES
from zoea.transfer.jsonl_parser import (
    FilePosition,
    InvalidColumn,
    JsonLine,
    SchemaColumns,
    check_header,
    check_json,
    convert_frozen,
    convert_plan,
    read_lines,
)
from zoea.transfer.report import ImportedMysis, ImportReport, Progress

_UID = re.compile(r"[0-9A-Za-z_.:-]{1,80}")
_TAG = re.compile(r"[^\x00-\x1f\x7f]{1,100}")
_JSON = {
    "mysis": ("error", "wait", "overrides"),
    "turn": ("failure",),
    "memory": ("native",),
    "message": ("recipients_filter",),
    "approval": ("about",),
    "topic_message": ("data",),
}

# The kind of row that a column refers to. `person` is the mysis itself or one of the senders.
_REFERENCES: dict[str, dict[str, str]] = {
    "tag": {"mysis_id": "mysis"},
    "tally": {"mysis_id": "mysis"},
    "session": {"mysis_id": "mysis"},
    "spend": {"scope_id": "mysis"},
    "removal": {"mysis_id": "mysis"},
    "turn": {"mysis_id": "mysis", "session_id": "session"},
    "topic_message": {"sender_id": "person"},
    "message": {"sender_id": "person", "topic_message_id": "topic_message"},
    "request": {"mysis_id": "mysis", "turn_id": "turn"},
    "memory": {
        "mysis_id": "mysis",
        "turn_id": "turn",
        "message_id": "message",
        "sender_id": "person",
        "request_id": "request",
    },
    "delivery": {"message_id": "message", "mysis_id": "mysis", "turn_id": "turn", "memory_id": "memory"},
    "note": {"turn_id": "turn"},
    "tool_call": {"memory_id": "memory", "result_memory_id": "memory"},
    "approval": {"tool_call_id": "tool_call", "turn_id": "turn", "mysis_id": "mysis"},
    "late_result": {"tool_call_id": "tool_call"},
    "blob": {"memory_id": "memory"},
}
_HEAD = frozenset({"template", "mysis", "tag", "tally", "session", "spend", "catalogue", "removal", "sender"})
_SAID_EVERY = 500
_compressor = zstandard.ZstdCompressor()


def import_file(conn: WriterConnection, file: Path, settings: Settings, progress: Progress) -> ImportReport:
    """Import every conversation of the file that is not in the workspace. This is the op.

    Raises:
        UsageError: naming the line that is invalid.
        SwarmFull: if the limit of living myses is exceeded.
    """
    return _FileImport(conn, file, settings, progress).run()


class _FileImport:
    """The import of one file."""

    def __init__(self, conn: WriterConnection, file: Path, settings: Settings, progress: Progress) -> None:
        self.conn = conn
        self.file = file
        self.settings = settings
        self.columns = SchemaColumns(conn)
        self.arrivals = ImportTarget(conn, settings.swarm.max_myses)
        self.messages: dict[int, tuple[int, dict[str, Any]]] = {}
        self.report = ImportReport(f"{file.name}, an export of Zoea")
        self._progress = progress

    def run(self) -> ImportReport:
        lines = self._watched()
        first = next(lines, None)
        if first is None:
            FilePosition(self.file, 1).refuse("the file has blank lines only")
        if first.kind != "swarm":
            self._conversation(first, lines)
            for more in lines:
                more.place.refuse("the file continues after its end line")
            return self.report
        check_header(first, "swarm")
        count = 0
        for line in lines:
            self._conversation(line, lines)
            count += 1
        if count != first.values.get("myses"):
            first.place.refuse(f"the file is truncated: it holds {count_of(count, 'mysis')} and should hold more")
        return self.report

    def _watched(self) -> Iterator[JsonLine]:
        size = self.file.stat().st_size if self.file.is_file() else 0
        for number, (line, read) in enumerate(read_lines(self.file)):
            if number % _SAID_EVERY == 0:
                self._progress(self.file.name, read, size)
            yield line

    def _conversation(self, first: JsonLine, lines: Iterator[JsonLine]) -> None:
        check_header(first, "conversation")
        intake = _ConversationImport(self)
        count = 1
        for line in lines:
            count += 1
            if line.kind in ("conversation", "swarm"):
                line.place.refuse("the conversation above it is truncated")
            if line.kind == "end":
                intake.end(line, count)
                return
            intake.take(line)
        first.place.refuse("the conversation that begins here is truncated: its end is missing")


class _ConversationImport:
    """The import of one conversation: first the mysis, then turn by turn."""

    def __init__(self, intake: _FileImport) -> None:
        self._in = intake
        self._conn = intake.conn
        self._head: list[JsonLine] | None = []
        self._block: list[JsonLine] = []
        self._memory = 0
        self._ids: dict[str, dict[int, int]] = {}
        self._told: dict[int, list[int]] = {}
        self._templates: dict[bytes, bytes] = {}
        self._is_here = False
        self._turns = 0
        self._arrival = ImportedMysis("", "")

    def take(self, line: JsonLine) -> None:
        """Take the next line."""
        if line.kind == "turn":
            self._memory = 0  # those of the turns before are stored
        self._memory += line.memory
        try:
            check_memory(self._memory)
        except ValueError as problem:
            line.place.refuse(f"the lines above the next turn are too large: {problem}")
        if line.kind in _HEAD:
            if self._head is None:
                line.place.refuse(f"a {line.kind} stands after the first turn")
            self._head.append(line)
            return
        self._begin(line)
        if line.kind == "turn":
            self._store()
            self._turns += 1
        self._block.append(line)

    def end(self, line: JsonLine, count: int) -> None:
        """Take the end line and check that no line is missing."""
        self._begin(line)
        self._store()
        if line.values.get("lines") != count or line.values.get("turns") != self._turns:
            line.place.refuse(f"lines are missing: {count} are there, the end counts {line.values.get('lines')!s:.20}")
        if not self._is_here:
            self._in.report.arrivals.append(self._arrival)

    def _begin(self, line: JsonLine) -> None:
        head, self._head = self._head, None
        if head is None:
            return
        by_kind: dict[str, list[JsonLine]] = {}
        for one in head:
            by_kind.setdefault(one.kind, []).append(one)
        who = by_kind.get("mysis", [])
        if len(who) != 1:
            line.place.refuse(f"the conversation is of {len(who)} myses instead of one")
        uid, name = self._who(who[0])
        known = self._in.arrivals.known(uid)
        if known is not None:
            self._is_here = True
            self._in.report.skipped[name] = f"it is here already, as {known}"
            return
        for template in by_kind.get("template", []):
            self._template(template)
        self._admit(who[0], uid, name)
        for sender in by_kind.get("sender", []):
            self._sender(sender)
        for kind in ("tag", "tally", "session", "spend", "catalogue", "removal"):
            for one in by_kind.get(kind, []):
                self._row(one)

    def _who(self, line: JsonLine) -> tuple[str, str]:
        uid, name = line.values.get("uid"), line.values.get("name")
        if not isinstance(uid, str) or not _UID.fullmatch(uid):
            line.place.refuse("the uid of this mysis is invalid")
        if not isinstance(name, str):
            line.place.refuse("the name of this mysis is not a text")
        try:
            return uid, check_name(name)
        except NameRefused as refused:
            line.place.refuse(refused.what)

    def _template(self, line: JsonLine) -> None:
        row = self._in.columns.read(line)
        digest: bytes = blake3(row["body"].encode()).digest()
        if digest != row["hash"]:
            self._arrival.mended["a template was changed since, and is kept as what it is now"] += 1
        self._templates[row["hash"]] = row["hash"] = digest
        with _refusals(line):
            self._conn.execute(
                "INSERT OR IGNORE INTO template(hash, name, body, created_at) VALUES (?,?,?,?)",
                (row["hash"], row["name"], row["body"], row["created_at"]),
            )

    def _admit(self, line: JsonLine, uid: str, name: str) -> None:
        row = self._in.columns.read(line)
        old = row.pop("id")
        self._shaped(line, row)
        row["template_hash"] = self._known_template(line, row)
        row.setdefault("deleted_at", None)
        row["name"] = name if row["deleted_at"] is not None else self._in.arrivals.free_name(name)
        with _refusals(line):
            new = self._in.arrivals.admit(row)
        self._ids["mysis"] = {old: new}
        self._ids["person"] = {old: new}
        self._arrival.name, self._arrival.wanted = row["name"], name
        if row["provider"] and self._in.settings.provider_named(row["provider"]) is None:
            self._arrival.notes.append(
                f"its provider {row['provider']} is not configured here:"
                f" `zoea configure {row['name']} --provider NAME` gives it another"
            )

    def _sender(self, line: JsonLine) -> None:
        uid, name = self._who(line)
        old = line.values.get("id")
        if not isinstance(old, int) or isinstance(old, bool):
            line.place.refuse("the id of this sender is not a number")
        self._ids["person"].setdefault(old, self._in.arrivals.sender(uid, name))

    def _known_template(self, line: JsonLine, row: dict[str, Any]) -> bytes:
        found = self._templates.get(row["template_hash"])
        if found is None:
            line.place.refuse(f"the template of this {line.kind} is not in the file")
        return found

    def _store(self) -> None:
        block, self._block = self._block, []
        if self._is_here or not block:
            return
        by_kind: dict[str, list[JsonLine]] = {}
        for line in block:
            by_kind.setdefault(line.kind, []).append(line)
        turns = [(line, self._row(line)) for line in by_kind.get("turn", [])]
        for line in by_kind.get("topic_message", []):
            self._topic_message(line)
        for line in by_kind.get("message", []):
            self._message(line)
        for kind in ("request", "memory", "delivery"):
            for line in sorted(by_kind.get(kind, []), key=_number):
                self._row(line)
        memories = self._ids.get("memory", {})
        calls = by_kind.get("tool_call", [])
        for line in sorted(calls, key=lambda one: (memories.get(_number(one, "memory_id"), 0), _number(one))):
            self._row(line)
        for kind in ("approval", "late_result", "note"):
            for line in by_kind.get(kind, []):
                self._row(line)
        for line in by_kind.get("blob", []):
            self._blob(line)
        for line, turn_id in turns:
            self._freeze(line, turn_id)
        for line in by_kind.get("request", []):
            self._plan(line)
        self._arrival.turns += len(turns)
        self._arrival.memories += len(by_kind.get("memory", []))
        self._arrival.calls += len(calls)

    def _row(self, line: JsonLine) -> int:
        """Store a line as a row of its table. Return the row's id, 0 without one."""
        row = self._in.columns.read(line)
        kind = line.kind
        old = row.pop("id", None)
        self._shaped(line, row)
        self._moved(line, row)
        match kind:
            case "session":
                row["template_hash"] = self._known_template(line, row)
            case "tag" if not _TAG.fullmatch(row["tag"]):
                line.place.refuse("this tag is invalid")
            case "spend" if row["scope"] != "mysis":
                line.place.refuse("this spending is not a mysis's")
            case "tally":
                self._conn.execute("DELETE FROM tally WHERE mysis_id = ?", (row["mysis_id"],))
            case "catalogue":
                known = self._conn.execute("SELECT 1 FROM catalogue WHERE hash = ?", (row["hash"],)).fetchone()
                if known is not None:
                    return 0
            case "turn":
                row["frozen"] = "{}"  # set after its memories are stored
            case "late_result" if (told := row.pop("told_in_turn", None)) is not None:
                self._told.setdefault(told, []).append(row["tool_call_id"])  # a turn that comes later in the file
        with _refusals(line):
            if old is None:
                insert_row(self._conn, TABLES[kind], row)
                return 0
            new = insert_with_id(self._conn, TABLES[kind], row)
        ids = self._ids.setdefault(kind, {})
        if old in ids:
            line.place.refuse(f"{kind} {old} occurs twice")
        ids[old] = new
        for call_id in self._told.pop(old, ()) if kind == "turn" else ():
            self._conn.execute("UPDATE late_result SET told_in_turn = ? WHERE tool_call_id = ?", (new, call_id))
        return new

    def _moved(self, line: JsonLine, row: dict[str, Any]) -> None:
        """Replace the references of a row by ids of this workspace."""
        for column, kind in _REFERENCES.get(line.kind, {}).items():
            old = row.get(column)
            if old is None:
                continue
            new = self._ids.get(kind, {}).get(old)
            if new is None:
                line.place.refuse(f"{column} of this {line.kind} is {old}, which does not occur above it")
            row[column] = new

    def _shaped(self, line: JsonLine, row: dict[str, Any]) -> None:
        try:
            for name in _JSON.get(line.kind, ()):
                check_json(name, row.get(name))
        except InvalidColumn as wrong:
            line.place.refuse(f"{wrong} in this {line.kind}")

    def _message(self, line: JsonLine) -> None:
        row = self._in.columns.read(line)
        old = row.pop("id")
        self._shaped(line, row)
        self._moved(line, row)
        if not row.get("sender_name", "").isprintable():
            line.place.refuse("the sender's name is invalid")  # it is printed in front of the message
        if old in self._ids.get("message", {}):
            return  # repeated with another delivery
        known = self._in.messages.get(old)
        if known is not None:
            if known[1] != row:
                line.place.refuse(f"message {old} occurs twice with different values")
            new = known[0]
        else:
            (mysis_id,) = self._ids["mysis"].values()
            with _refusals(line):
                new = self._in.arrivals.message(row, mysis_id)
            self._in.messages[old] = (new, row)
        self._ids.setdefault("message", {})[old] = new

    def _topic_message(self, line: JsonLine) -> None:
        """Store a message of a topic apart from this swarm's ledger, once for all conversations."""
        row = self._in.columns.read(line)
        old = row.pop("id")
        self._shaped(line, row)
        self._moved(line, row)
        try:
            check_topic(row.get("topic", ""))
        except UsageError as refused:
            line.place.refuse(refused.what)
        if not f"{row.get('sender', '')}{row.get('receiver', '')}".isprintable():
            line.place.refuse("the sender or receiver of this topic_message is invalid")
        row |= {"cluster_id": IMPORTED_CLUSTER, "turn_id": None, "idempotency_key": None}
        same = " AND ".join(f"{name} IS :{name}" for name in row)
        with _refusals(line):
            known = self._conn.execute(f"SELECT id FROM topic_message WHERE {same}", row).fetchone()
            new = known[0] if known is not None else insert_with_id(self._conn, "topic_message", row)
        self._ids.setdefault("topic_message", {})[old] = new

    def _blob(self, line: JsonLine) -> None:
        row = self._in.columns.read(line)
        self._moved(line, row)
        row["blob_id"] = self._bytes(line)
        with _refusals(line):
            insert_row(self._conn, "memory_blob", row)

    def _bytes(self, line: JsonLine) -> int:
        """Store the blob and return its id; missing bytes are marked as redacted."""
        data, said = line.values.get("data"), line.values.get("hash")
        try:
            digest = bytes.fromhex(said) if isinstance(said, str) else b""
            content = base64.b64decode(data, validate=True) if isinstance(data, str) else None
        except ValueError:
            line.place.refuse("the bytes of this blob cannot be read")
        if content is not None:
            if blake3(content).digest() != digest:
                line.place.refuse("the bytes of this blob do not match its hash")
            return put_blob(self._conn, content)
        size = line.values.get("size")
        if len(digest) != 32 or not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 62:
            line.place.refuse("hash or size of this blob is invalid")
        self._arrival.mended["bytes that the file does not hold are kept as redacted"] += 1
        self._conn.execute("INSERT OR IGNORE INTO blob(hash, size, place) VALUES (?, ?, 'redacted')", (digest, size))
        return int(self._conn.execute("SELECT id FROM blob WHERE hash = ?", (digest,)).fetchone()[0])

    def _freeze(self, line: JsonLine, turn_id: int) -> None:
        memories = self._ids.get("memory", {})

        def before(old: int) -> int:
            found = memories.get(old)
            return found if found is not None else max((new for o, new in memories.items() if o <= old), default=0)

        templates = {old.hex(): new.hex() for old, new in self._templates.items()}
        (mysis_id,) = self._ids["mysis"].values()
        with _refusals(line):
            text = convert_frozen(
                str(line.values["frozen"]), mysis_id=mysis_id, turn_id=turn_id, before=before, templates=templates
            )
        self._conn.execute("UPDATE turn SET frozen = ? WHERE id = ?", (text, turn_id))

    def _plan(self, line: JsonLine) -> None:
        memories, calls = self._ids.get("memory", {}), self._ids.get("tool_call", {})
        with _refusals(line):
            plan = convert_plan(line.values.get("plan"), memories, calls)
        if plan is not None:
            request_id = self._ids["request"][line.values["id"]]
            self._conn.execute("UPDATE request SET plan = ? WHERE id = ?", (_compressor.compress(plan), request_id))


@contextmanager
def _refusals(line: JsonLine) -> Iterator[None]:
    """Name the line in an error of the database or of a JSON column."""
    try:
        yield
    except sqlite3.IntegrityError as refused:
        line.place.refuse(f"the database refuses this {line.kind}: {refused}")
    except InvalidColumn as wrong:
        line.place.refuse(str(wrong))


def _number(line: JsonLine, name: str = "id") -> int:
    """Return a number for sorting; the line is not checked yet."""
    value = line.values.get(name)
    return value if isinstance(value, int) else 0
