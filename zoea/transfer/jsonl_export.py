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
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from zoea.model.errors import StoreError
from zoea.queries.request_summary import plan_of
from zoea.store.blobs import get_blob
from zoea.store.redaction import text_columns
from zoea.store.table_schema import find_parts, read_tables, write_condition
from zoea.text.redact.json_redaction import redact_json, redact_json_text

Clean = Callable[[str], str]
VERSION = 1

OWN_NAMES = {"tag": "mysis_tag", "note": "turn_note", "blob": "memory_blob"}
"""Kinds of lines that are not named as their table. A line `sender` names a mysis that the conversation speaks of."""
_STAYS = {"ctx_origin", "topic_cursor", "turn_answer", "summary"}
"""Tables of a mysis that are not exported: contexts travel as bundles, and the others name rows of this workspace by
ids in their texts; a turn that goes on makes new ones."""
_OF_LEDGER = {"cluster_id", "turn_id", "idempotency_key"}
"""Columns of a topic's message that are not exported."""

_HEAD = {
    "template": "hash = (SELECT template_hash FROM mysis WHERE id = :root)"
    " OR hash IN (SELECT template_hash FROM session WHERE mysis_id = :root) OR lower(hex(hash)) IN"
    " (SELECT json_extract(frozen, '$.template_hash') FROM turn WHERE mysis_id = :root)",
    "mysis": "id = :root",
    "spend": "scope = 'mysis' AND scope_id = :root",
    "catalogue": "hash IN (SELECT catalogue_hash FROM request WHERE mysis_id = :root)",
    "removal": "mysis_id = :root",
}
"""Rows of other tables that stand before the first turn, for the mysis `:root`."""
_SENDERS = "SELECT g.sender_id FROM message g JOIN delivery d ON d.message_id = g.id WHERE d.mysis_id = :root"
_HEARD = "SELECT message_id FROM delivery WHERE {}"
_PUBLISHED = "SELECT topic_message_id FROM message WHERE id IN ({})"
# Deliveries that are pending, skipped or withdrawn.
_UNHEARD = _HEARD.format("mysis_id = :root AND turn_id IS NULL")
_IN_TURN = _HEARD.format("turn_id = :root")
_MESSAGES = {
    "topic_message": f"turn_id = :root OR id IN ({_PUBLISHED.format(_IN_TURN)})",
    "message": f"id IN ({_IN_TURN})",
}
"""Messages that a turn got or published, for the turn `:root`."""
_OTHER_MESSAGES = {
    "topic_message": f"(sender_id = :root AND turn_id IS NULL) OR id IN ({_PUBLISHED.format(_UNHEARD)})",
    "message": f"id IN ({_UNHEARD})"
    " OR (sender_id = :root AND NOT EXISTS (SELECT 1 FROM delivery d WHERE d.message_id = message.id))",
}
"""Those that no turn has taken, and those to the commander, for the mysis `:root`."""


class ConversationTables:
    """The exported tables, as the schema describes them.

    Attributes:
        tables: By the kind of their lines.
        head: Kinds of lines before the first turn: first those that others refer to.
        of_turn: Kinds of lines of a turn, each after those that it refers to.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        every = read_tables(connection)
        kinds = {name: kind for kind, name in OWN_NAMES.items()}
        owned, in_turn = find_parts(every, "mysis"), find_parts(every, "turn")
        parts = [name for name in owned if name not in in_turn and name not in _STAYS and name != "turn"]
        self.head = [*_HEAD, *(kinds.get(name, name) for name in parts)]
        self.of_turn = [*_MESSAGES, *(kinds.get(name, name) for name in in_turn if name not in _STAYS)]
        self.tables = {kind: every[OWN_NAMES.get(kind, kind)] for kind in ("turn", *self.head, *self.of_turn)}
        self._every, self._owned, self._in_turn = every, owned, in_turn

    def head_queries(self) -> Iterator[tuple[str, str]]:
        """Yield kind and query of the rows before the first turn."""
        for kind in self.head:
            yield kind, self._select(kind, _HEAD.get(kind) or self._condition(kind, "mysis"))
        named = [_SENDERS] + [
            f"SELECT {column} FROM {table.name} WHERE {self._condition(kind, 'mysis')}"
            for kind, table in self.tables.items()
            for column, other in table.references.items()
            if other == "mysis" and column != "mysis_id" and table.name in self._owned
        ]
        yield (
            "sender",
            f"SELECT id, uid, name FROM mysis WHERE id <> :root AND id IN ({' UNION '.join(named)}) ORDER BY id",
        )

    def turn_queries(self) -> Iterator[tuple[str, str]]:
        """Yield kind and query of the rows of a turn."""
        for kind in self.of_turn:
            yield kind, self._select(kind, _MESSAGES.get(kind) or self._condition(kind, "turn"))

    def other_queries(self) -> Iterator[tuple[str, str]]:
        """Yield kind and query of the rows that could have a turn and have none."""
        for kind in self.of_turn:
            table = self.tables[kind]
            ties = self._in_turn.get(table.name, ())
            if kind in _OTHER_MESSAGES:
                yield kind, self._select(kind, _OTHER_MESSAGES[kind])
            elif all(table.columns[column].takes_null for column in ties):
                without = "".join(f" AND {column} IS NULL" for column in ties)
                yield kind, self._select(kind, f"({self._condition(kind, 'mysis')}){without}")

    def is_late(self, kind: str, column: str) -> bool:
        """Return whether a column may name a turn that stands further below."""
        table = self.tables[kind]
        is_tie = column in self._in_turn.get(table.name, ())
        return table.references[column] == "turn" and table.columns[column].takes_null and not is_tie

    def _condition(self, kind: str, root: str) -> str:
        parts = self._owned if root == "mysis" else self._in_turn
        return write_condition(self._every, parts, self.tables[kind].name, root)

    def _select(self, kind: str, where: str) -> str:
        table = self.tables[kind]
        names = [name for name in table.columns if kind != "topic_message" or name not in _OF_LEDGER]
        if (blob := table.blob_column) is not None:
            names += [f"(SELECT {name} FROM blob WHERE id = {blob}) AS {name}" for name in ("hash", "size")]
        return f"SELECT {', '.join(names)} FROM {table.name} WHERE {where} ORDER BY {', '.join(table.key)}"


def conversation_lines(reader: sqlite3.Connection, mysis_id: int, clean: Clean | None) -> Iterator[tuple[str, bool]]:
    """Yield the lines in groups, each with whether it is one turn.

    Args:
        clean: Redacts a text; None keeps everything.
    """
    layout = ConversationTables(reader)
    writer = _LineWriter(reader, layout, clean)
    lines = [json.dumps({"kind": "conversation", "version": VERSION}) + "\n"]
    for kind, query in layout.head_queries():
        lines += writer.lines(kind, query, mysis_id)
    count, turns = len(lines), 0
    yield "".join(lines), False
    queries = list(layout.turn_queries())
    for (turn_id,) in reader.execute("SELECT id FROM turn WHERE mysis_id = ? ORDER BY number", (mysis_id,)):
        lines = writer.lines("turn", "SELECT * FROM turn WHERE id = :root", turn_id)
        for kind, query in queries:
            lines += writer.lines(kind, query, turn_id)
        count += len(lines)
        turns += 1
        yield "".join(lines), True
    lines = [line for kind, query in layout.other_queries() for line in writer.lines(kind, query, mysis_id)]
    lines.append(json.dumps({"kind": "end", "turns": turns, "lines": count + len(lines) + 1}) + "\n")
    yield "".join(lines), False


def swarm_line(uids: Sequence[str]) -> str:
    """Return the header line of a file with the conversations of these myses, in order."""
    return json.dumps({"kind": "swarm", "version": VERSION, "myses": len(uids), "uids": uids}) + "\n"


class _LineWriter:
    """Writes rows as lines; `clean` redacts their texts."""

    def __init__(self, reader: sqlite3.Connection, layout: ConversationTables, clean: Clean | None) -> None:
        self._reader = reader
        self._layout = layout
        self._clean = clean
        self._redactions: dict[tuple[str, str], Clean] = {}
        if clean is not None:
            as_json = partial(redact_json_text, redact=clean)
            for table, column, is_json in text_columns(reader):
                self._redactions[table, column] = as_json if is_json else clean
            self._redactions["tool_call", "arguments"] = as_json  # JSON where the model wrote it well

    def lines(self, kind: str, query: str, root: int) -> list[str]:
        """Return a line for each row of a query about the row `:root`."""
        return [self._line(kind, dict(row)) for row in self._reader.execute(query, {"root": root}).fetchall()]

    def _line(self, kind: str, row: dict[str, Any]) -> str:
        table = self._layout.tables.get(kind)
        name = "mysis" if table is None else table.name
        if table is not None and table.blob_column is not None:
            row["data"] = self._bytes(row[table.blob_column]) if self._clean is None else None
        for column, value in row.items():
            if isinstance(value, bytes):
                row[column] = self._plan(value) if (kind, column) == ("request", "plan") else value.hex()
            elif isinstance(value, str) and (redact := self._redactions.get((name, column))) is not None:
                row[column] = redact(value)
        if "kind" in row:
            row = {"of": row.pop("kind"), **row}
        return json.dumps({"kind": kind, **row}, ensure_ascii=False) + "\n"

    def _bytes(self, blob_id: int) -> str | None:
        """Return the bytes of a blob in base64. None if they were redacted or are lost."""
        try:
            return base64.b64encode(get_blob(self._reader, blob_id)).decode("ascii")
        except StoreError:
            return None

    def _plan(self, blob: bytes) -> Any:
        """Return the plan as JSON. A damaged one in its stored form, or None when redacting."""
        try:
            plan = plan_of(blob)
            return plan if self._clean is None else redact_json(plan, self._clean)
        except (StoreError, RecursionError):
            return {"zstd": blob.hex()} if self._clean is None else None
