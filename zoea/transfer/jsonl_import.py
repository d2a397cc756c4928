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
from zoea.settings.paths import is_file
from zoea.settings.schema import Settings
from zoea.store.blobs import put_blob
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence.mysis_ops import check_name
from zoea.text.document_bounds import check_memory
from zoea.text.sentences import count_of
from zoea.transfer.conflicts import LONGEST_NAME, ImportTarget, insert_row, insert_with_id
from zoea.transfer.jsonl_export import ConversationTables
from zoea.transfer.jsonl_parser import (
    FilePosition,
    InvalidColumn,
    JsonLine,
    RowIds,
    check_header,
    check_json,
    convert_frozen,
    convert_plan,
    read_columns,
    read_lines,
)
from zoea.transfer.report import ImportedMysis, ImportReport, Progress

_UID = re.compile(r"[0-9A-Za-z_.:-]{1,80}")
_TAG = re.compile(r"[^\x00-\x1f\x7f]{1,100}")
_OTHER_REFERENCES = {"spend": (("scope_id", "mysis"),)}
"""References that the schema does not declare."""
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
        self.layout = ConversationTables(conn)
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
        uids = first.values.get("uids", [])  # older exports have none
        if not isinstance(uids, list) or not all(isinstance(uid, str) and _UID.fullmatch(uid) for uid in uids):
            first.place.refuse("the uids of its myses are invalid")
        for uid in uids:  # lists are in the order of ids, and a conversation may name a sender that follows it
            self.arrivals.sender(uid, uid[:LONGEST_NAME])
        count = 0
        for line in lines:
            self._conversation(line, lines)
            count += 1
        if count != first.values.get("myses"):
            first.place.refuse(f"the file is truncated: it holds {count_of(count, 'mysis')} and should hold more")
        return self.report

    def _watched(self) -> Iterator[JsonLine]:
        size = self.file.stat().st_size if is_file(self.file) else 0
        for number, (line, read) in enumerate(read_lines(self.file, self.layout.tables)):
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
        self._ids: dict[str, dict[Any, Any]] = {"template": {}}
        self._late: dict[int, list[tuple[str, tuple[Any, ...]]]] = {}
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
        if line.kind in (*self._in.layout.head, "sender"):
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
        mysis_id = self._in.arrivals.known(uid)
        if mysis_id is not None:
            self._is_here = True
            self._in.report.skipped[name] = f"it is here already, as {mysis_id}"
            return
        for template in by_kind.get("template", []):
            self._template(template)
        self._admit(who[0], uid, name)
        for sender in by_kind.get("sender", []):
            self._sender(sender)
        for kind in self._in.layout.head:
            for one in by_kind.get(kind, []) if kind not in ("template", "mysis") else ():
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
        row = self._read(line)
        digest: bytes = blake3(row["body"].encode()).digest()
        if digest != row["hash"]:
            self._arrival.mended["a template was changed since, and is kept as what it is now"] += 1
        self._ids["template"][row["hash"]] = row["hash"] = digest
        with _refusals(line):
            self._conn.execute(
                "INSERT OR IGNORE INTO template(hash, name, body, created_at) VALUES (?,?,?,?)",
                (row["hash"], row["name"], row["body"], row["created_at"]),
            )

    def _admit(self, line: JsonLine, uid: str, name: str) -> None:
        row = self._read(line)
        old = row.pop("id")
        self._move(line, row)
        row.setdefault("deleted_at", None)
        row["name"] = name if row["deleted_at"] is not None else self._in.arrivals.free_name(name)
        with _refusals(line):
            new = self._in.arrivals.admit(row)
        self._ids["mysis"] = {old: new}
        self._ids["sender"] = {old: new}
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
        self._ids["sender"].setdefault(old, self._in.arrivals.sender(uid, name))

    def _store(self) -> None:
        block, self._block = self._block, []
        if self._is_here or not block:
            return
        by_kind: dict[str, list[JsonLine]] = {}
        for line in block:
            by_kind.setdefault(line.kind, []).append(line)
        turns = [(line, self._row(line)) for line in by_kind.get("turn", [])]
        for kind in self._in.layout.of_turn:
            for line in by_kind.get(kind, []):
                match kind:
                    case "topic_message":
                        self._topic_message(line)
                    case "message":
                        self._message(line)
                    case _:
                        self._row(line)
        for line, turn_id in turns:
            self._freeze(line, turn_id)
        for line in by_kind.get("request", []):
            self._plan(line)
        self._arrival.turns += len(turns)
        self._arrival.memories += len(by_kind.get("memory", []))
        self._arrival.tool_calls += len(by_kind.get("tool_call", []))

    def _read(self, line: JsonLine) -> dict[str, Any]:
        """Return the columns of a line, checked but for references."""
        table = self._in.layout.tables[line.kind]
        row = read_columns(line, table)
        try:
            for name, value in row.items():
                check_json(table.columns[name], value)
        except InvalidColumn as wrong:
            line.place.refuse(f"{wrong} in this {line.kind}")
        return row

    def _row(self, line: JsonLine) -> int:
        """Store a line as a row of its table. Return the row's id, 0 without one."""
        table = self._in.layout.tables[line.kind]
        row = self._read(line)
        old = row.pop("id", None)
        late = self._move(line, row)
        match line.kind:
            case "tag" if not _TAG.fullmatch(row["tag"]):
                line.place.refuse("this tag is invalid")
            case "spend" if row["scope"] != "mysis":
                line.place.refuse("this spending is not a mysis's")
            case "tally":
                self._conn.execute("DELETE FROM tally WHERE mysis_id = ?", (row["mysis_id"],))
            case "catalogue":
                stored = self._conn.execute("SELECT 1 FROM catalogue WHERE hash = ?", (row["hash"],)).fetchone()
                if stored is not None:
                    return 0
            case "turn":
                row["frozen"] = "{}"  # set after its memories are stored
        with _refusals(line):
            if old is None:
                new = 0
                insert_row(self._conn, table.name, row)
            else:
                new = row["id"] = insert_with_id(self._conn, table.name, row)
        for column, turn in late.items():
            update = f"UPDATE {table.name} SET {column} = ? WHERE {' AND '.join(f'{name} = ?' for name in table.key)}"
            self._late.setdefault(turn, []).append((update, tuple(row[name] for name in table.key)))
        if old is not None:
            ids = self._ids.setdefault(table.name, {})
            if old in ids:
                line.place.refuse(f"{line.kind} {old} occurs twice")
            ids[old] = new
        for update, key in self._late.pop(old, ()) if line.kind == "turn" else ():
            self._conn.execute(update, (new, *key))
        return new

    def _move(self, line: JsonLine, row: dict[str, Any]) -> dict[str, int]:
        """Replace the references of a row by ids of this workspace.

        Return those to turns that may stand further below, by column.
        """
        table, late = self._in.layout.tables[line.kind], {}
        for column, other in (*table.references.items(), *_OTHER_REFERENCES.get(table.name, ())):
            old = row.get(column)
            if old is None:
                continue
            if other == "blob":
                row[column] = self._bytes(line)
                continue
            # Who owns a row is the mysis itself; another that it names may be any sender.
            is_owner = column in ("mysis_id", "scope_id")
            new = self._ids.get("sender" if other == "mysis" and not is_owner else other, {}).get(old)
            if new is None and self._in.layout.is_late(line.kind, column):
                late[column] = old
            elif new is None and other == "template":
                line.place.refuse(f"the template of this {line.kind} is not in the file")
            elif new is None:
                line.place.refuse(f"{column} of this {line.kind} is {old}, which does not occur above it")
            row[column] = new
        return late

    def _message(self, line: JsonLine) -> None:
        row = self._read(line)
        old = row.pop("id")
        self._move(line, row)
        if not row.get("sender_name", "").isprintable():
            line.place.refuse("the sender's name is invalid")  # it is printed in front of the message
        if old in self._ids.get("message", {}):
            return  # repeated with another delivery
        message_id = self._in.messages.get(old)
        if message_id is not None:
            if message_id[1] != row:
                line.place.refuse(f"message {old} occurs twice with different values")
            new = message_id[0]
        else:
            (mysis_id,) = self._ids["mysis"].values()
            with _refusals(line):
                new = self._in.arrivals.message(row, mysis_id)
            self._in.messages[old] = (new, row)
        self._ids.setdefault("message", {})[old] = new

    def _topic_message(self, line: JsonLine) -> None:
        """Store a message of a topic apart from this swarm's ledger, once for all conversations."""
        row = self._read(line)
        old = row.pop("id")
        self._move(line, row)
        try:
            check_topic(row.get("topic", ""))
        except UsageError as refused:
            line.place.refuse(refused.what)
        if not f"{row.get('sender', '')}{row.get('receiver', '')}".isprintable():
            line.place.refuse("the sender or receiver of this topic_message is invalid")
        row |= {"cluster_id": IMPORTED_CLUSTER, "turn_id": None, "idempotency_key": None}
        same = " AND ".join(f"{name} IS :{name}" for name in row)
        with _refusals(line):
            stored = self._conn.execute(f"SELECT id FROM topic_message WHERE {same}", row).fetchone()
            new = stored[0] if stored is not None else insert_with_id(self._conn, "topic_message", row)
        self._ids.setdefault("topic_message", {})[old] = new

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
        ids = RowIds(
            memories=self._ids.get("memory", {}),
            turns=self._ids["turn"],
            messages=self._ids.get("message", {}),
            topic_messages=self._ids.get("topic_message", {}),
            templates={old.hex(): new.hex() for old, new in self._ids["template"].items()},
        )
        (mysis_id,) = self._ids["mysis"].values()
        with _refusals(line):
            text = convert_frozen(str(line.values["frozen"]), ids, mysis_id=mysis_id, turn_id=turn_id)
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
