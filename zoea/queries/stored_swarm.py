"""Reads the stored swarm from the database, without an owner process.

Synchronous and light, because `zoea list` and `zoea log` load it. A mysis stored as
running is reported as idle, which it is without a process and after the next start.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from msgspec import Struct

from zoea.model.enums import Activity, MysisState
from zoea.model.errors import MysisMissing, StoreError, UsageError
from zoea.model.status import KILLED
from zoea.model.values import ApprovalView, Delivery, GrantView, Memory, Mysis, MysisView, Receipt, SwarmView
from zoea.store.database_file import connect_reader, convert_row, open_reader
from zoea.store.retention import ONLY_A_SENDER
from zoea.store.sqlite_errors import translate_errors
from zoea.swarm.persistence import approval_ops, row_values
from zoea.text.control_characters import clean

_COUNTS = f"""
SELECT y.id, {row_values.ANSWERED_BY} AS answered_by,
  coalesce(t.turns, 0) AS turns, coalesce(t.tool_calls, 0) AS tool_calls, coalesce(t.errors, 0) AS errors,
  coalesce(t.requests, 0) AS requests, coalesce(t.tokens, 0) AS tokens, t.cost_micros,
  (SELECT count(*) FROM delivery d WHERE d.mysis_id = y.id AND d.state = 'pending') AS pending,
  (SELECT count(*) FROM approval a WHERE a.mysis_id = y.id AND a.answer IS NULL) AS approvals
FROM mysis y LEFT JOIN tally t ON t.mysis_id = y.id
"""

_KNOWN = """
SELECT y.uid, y.name, y.deleted_at IS NULL AS is_living, t.tokens
FROM mysis y LEFT JOIN tally t ON t.mysis_id = y.id ORDER BY y.id
"""
_CONFIGURATION = """
SELECT y.provider, y.model, p.name AS template, p.body AS template_body, coalesce(
  (SELECT group_concat(tag, ' ') FROM (SELECT tag FROM mysis_tag WHERE mysis_id = y.id ORDER BY tag)), '') AS tags
FROM mysis y JOIN template p ON p.hash = y.template_hash WHERE y.id = ?
"""
_DELETED = (
    "SELECT id, name, deleted_at FROM mysis WHERE deleted_at IS NOT NULL AND state_reason <> ?"
    " ORDER BY deleted_at DESC, id DESC"
)
_ANSWER = f"SELECT {row_values.ANSWER_OF_TURN.format('?')}"
STORED_FIELDS = [name for name in MysisView.__struct_fields__ if name in Mysis.__struct_fields__]
_LAST_SAID = f"{row_values.LAST_SAID.format(row_values.SAID)} WHERE y.id = ?"


_NEWEST = """
SELECT o.id, 0 FROM turn n CROSS JOIN memory o ON o.turn_id = n.id WHERE n.mysis_id = ?1 {}
ORDER BY n.number DESC, o.seq DESC LIMIT ?2
"""
# The outer loop walks the turns backwards by their index, so nothing is sorted.


@contextmanager
def open_database(database: Path) -> Iterator[sqlite3.Connection]:
    """Open a read-only connection; raise sqlite3 errors of the block as StoreError.

    All that the block reads is one state of the database, also where a swarm writes to it.
    """
    try:
        with closing(open_reader(database)) as reader:
            reader.execute("BEGIN")
            yield reader
    except sqlite3.Error as problem:
        raise StoreError(f"{database} cannot be read: {problem}") from problem


class MysisRecord(Struct, frozen=True):
    """A mysis, living or deleted, and all tokens it used. None if they were not counted."""

    uid: str
    name: str
    is_living: bool
    tokens: int | None


def read_mysis_records(database: Path) -> tuple[MysisRecord, ...]:
    """Read all myses, also deleted ones, oldest first. Raises as `read_swarm_view`."""
    with open_database(database) as reader:
        return tuple(convert_row(MysisRecord, row) for row in reader.execute(_KNOWN))


class StoredConfiguration(Struct, frozen=True):
    """The configuration of a mysis. `template_body` is the template's TOML; `tags` are separated by spaces."""

    template: str
    template_body: str
    provider: str
    model: str
    tags: str


def read_configurations(database: Path, mysis_ids: Sequence[int]) -> list[StoredConfiguration]:
    """Read the configuration of each of these myses.

    Raises:
        MysisMissing: naming the first id that does not exist.
        StoreError: if the database cannot be read.
    """
    configurations = []
    with open_database(database) as reader:
        for mysis_id in mysis_ids:
            row = reader.execute(_CONFIGURATION, (mysis_id,)).fetchone()
            if row is None:
                raise MysisMissing(f"there is no mysis #{mysis_id}")
            configurations.append(convert_row(StoredConfiguration, row))
    return configurations


class DeletedMysis(Struct, frozen=True):
    """A deleted mysis that can be restored; `deleted_at` is in µs UTC."""

    id: int
    name: str
    deleted_at: int


def read_deleted_myses(database: Path) -> tuple[DeletedMysis, ...]:
    """Read the myses that `undelete` can restore, the last deleted first. Raises as `read_swarm_view`."""
    with open_database(database) as reader:
        rows = reader.execute(_DELETED, (ONLY_A_SENDER,)).fetchall()
    return tuple(convert_row(DeletedMysis, row) for row in rows)


def read_swarm_view(database: Path) -> SwarmView:
    """Read all living myses.

    Raises:
        StoreMissing: if there is no database.
        StoreError: if it cannot be read.
    """
    with open_database(database) as reader:
        living = reader.execute(f"{row_values.MYSIS} WHERE y.deleted_at IS NULL ORDER BY y.id").fetchall()
        counts = {row["id"]: row for row in reader.execute(f"{_COUNTS} WHERE y.deleted_at IS NULL")}
        is_held, reason = _read_hold(reader)
        myses = tuple(_view(reader, row_values.mysis(row), counts[row["id"]], swarm_held=is_held) for row in living)
        newest = reader.execute("SELECT coalesce(max(id), 0) FROM event").fetchone()[0]
    return SwarmView(version=0, held=is_held, hold_reason=reason, myses=myses, event_id=newest)


def _read_hold(reader: sqlite3.Connection) -> tuple[bool, str]:
    """Read whether the swarm is on hold, and why."""
    row = reader.execute("SELECT value FROM setting WHERE key = 'hold'").fetchone()
    hold = json.loads(row[0]) if row else {}
    return bool(hold.get("on")), str(hold.get("reason", ""))


def read_mysis_view(database: Path, ref: str) -> MysisView:
    """Read one mysis, by name in any case or `#id`.

    Raises:
        MysisMissing: if it does not exist.
        StoreError: as `read_swarm_view`.
    """
    with open_database(database) as reader:
        row = _find(reader, ref)
        counts = reader.execute(f"{_COUNTS} WHERE y.id = ?", (row.id,)).fetchone()
        return _view(reader, row, counts, swarm_held=_read_hold(reader)[0])


def read_receipt(database: Path, message_id: int) -> Receipt:
    """Read the delivery state of a message for each recipient.

    Raises:
        UsageError: if the message does not exist.
        StoreError: as `read_swarm_view`.
    """
    from zoea.swarm.persistence import message_ops  # rarely needed

    with open_database(database) as reader:
        lines = tuple(map(message_ops.receipt_line, reader.execute(message_ops.RECEIPT, (message_id,))))
    if not lines:
        raise UsageError(f"there is no message {message_id}", hint="`zoea send` and `zoea broadcast` say its number.")
    return Receipt(message_id, lines)


def read_uid(database: Path, ref: str) -> str:
    """Read the uid of a mysis, by its name in any case or `#id`. Raises as `read_mysis_view`."""
    with open_database(database) as reader:
        return _find(reader, ref).uid


def read_memories(database: Path, ref: str, *, last: int = 100, turn: int | None = None) -> tuple[Memory, ...]:
    """Read the newest `last` memories in conversation order. The cost does not depend on the conversation's length.

    With `turn` only those of the turn of this number.

    Raises:
        MysisMissing, StoreError: as `read_mysis_view`.
    """
    with open_database(database) as reader:
        found = _find(reader, ref)
        picked = reader.execute(
            f"WITH wanted(id, need) AS ({_NEWEST.format('' if turn is None else 'AND n.number = ?3')})"
            f" {row_values.WANTED_MEMORY}",
            (found.id, last, turn)[: 2 if turn is None else 3],
        ).fetchall()
    memories = [row_values.memory(row) for row in picked]
    return tuple(sorted(memories, key=lambda memory: (memory.turn_number, memory.seq)))


def read_preserved(database: Path, ref: str) -> tuple[Memory, ...]:
    """Read the messages of a mysis that are kept word for word, oldest first. Raises as `read_mysis_view`."""
    with open_database(database) as reader:
        kept = f"{row_values.MEMORY} WHERE m.preserved = 1 AND m.mysis_id = ? ORDER BY m.id"
        return tuple(row_values.memory(row) for row in reader.execute(kept, (_find(reader, ref).id,)))


def read_queued(database: Path, ref: str) -> tuple[Delivery, ...]:
    """Read the pending deliveries of a mysis, oldest first. Raises as `read_mysis_view`."""
    with open_database(database) as reader:
        waiting = f"{row_values.DELIVERY} WHERE d.state = 'pending' AND d.mysis_id = ? ORDER BY d.id"
        return tuple(row_values.delivery(row) for row in reader.execute(waiting, (_find(reader, ref).id,)))


def read_open_approvals(database: Path) -> tuple[ApprovalView, ...]:
    """Read the approvals that were open when the swarm ended."""
    with open_database(database) as reader:
        return tuple(approval_ops.view(row) for row in reader.execute(f"{approval_ops.OPEN} ORDER BY a.id"))


def read_approval(database: Path, approval_id: int) -> ApprovalView | None:
    """Read an open approval with its whole arguments; None if it is not open. Raises StoreError."""
    with open_database(database) as reader:
        row = reader.execute(f"{approval_ops.OPEN} AND a.id = ?", (approval_id,)).fetchone()
    return None if row is None else approval_ops.view(row)


def read_grants(database: Path) -> tuple[GrantView, ...]:
    """Read the grants for whole templates."""
    with open_database(database) as reader:
        return tuple(approval_ops.grant_view(row) for row in reader.execute(approval_ops.GRANTS))


def read_answer(database: Path, turn_id: int) -> str:
    """Read the newest answer of a turn; empty if there is none."""
    with open_database(database) as reader:
        row = reader.execute(_ANSWER, (turn_id,)).fetchone()
    return row[0] or ""


# Whom a direct message `g` is for, written before its text; empty for a broadcast, and where it is not stored.
RECIPIENT = """CASE WHEN g.kind = 'direct' THEN coalesce('→ ' || (SELECT group_concat(t.name, ', ') FROM delivery d
  JOIN mysis t ON t.id = d.mysis_id WHERE d.message_id = g.id) || ': ',
  CASE WHEN g.recipients_filter = '{"to": "commander"}' THEN '→ you: ' END, '') ELSE '' END"""


def read_message(database: Path, message_id: int) -> str:
    """Read the text of a message; of a direct one with its recipient before it.

    It is empty for a message that does not exist.
    """
    with open_database(database) as reader:
        query = f"SELECT {RECIPIENT} || g.content FROM message g WHERE g.id = ?"
        row = reader.execute(query, (message_id,)).fetchone()
    return row[0] if row else ""


def _find(reader: sqlite3.Connection, ref: str) -> Mysis:
    is_id = ref.startswith("#") and ref[1:].isascii() and ref[1:].isdigit() and len(ref) < 19
    where, key = ("y.id = ?", int(ref[1:])) if is_id else ("y.deleted_at IS NULL AND y.name = ?", clean(ref))
    row = reader.execute(f"{row_values.MYSIS} WHERE {where}", (key,)).fetchone()
    if row is None:
        raise MysisMissing(f"there is no mysis {clean(ref)!r}", hint="`zoea list` shows them.")
    return row_values.mysis(row)


def _view(reader: sqlite3.Connection, mysis: Mysis, counts: sqlite3.Row, *, swarm_held: bool) -> MysisView:
    was_running = mysis.state is MysisState.RUNNING
    last = reader.execute(_LAST_SAID, (mysis.id,)).fetchone()
    fields = {name: getattr(mysis, name) for name in STORED_FIELDS} | dict(counts)
    if was_running:
        fields |= {"state": MysisState.IDLE, "state_reason": KILLED, "retry_at": None}
    if last:
        fields |= {"text": last["content"], "text_at": last["created_at"]}
    return MysisView(**fields, activity=Activity.IDLE, swarm_held=swarm_held)


_OUTCOME = f"""
SELECT t.outcome, t.failure ->> 'what', (SELECT coalesce(nullif({row_values.REPORT}, ''), n.content) FROM memory n
 WHERE n.turn_id = t.id AND n.role = 'assistant' AND n.partial = 0
 AND (n.content <> '' OR coalesce({row_values.REPORT}, '') <> '') ORDER BY n.seq DESC LIMIT 1)
FROM turn t WHERE
"""


class NewestAnswer(Struct, frozen=True):
    """The end of a turn: outcome (empty while open), last answer or summary, and failure."""

    outcome: str = ""
    text: str = ""
    failure: str = ""


def read_newest_answer(database: Path, mysis_id: int) -> NewestAnswer:
    """Read the newest turn of a mysis. Raises StoreError."""
    return _read_outcome(database, "t.mysis_id = ? ORDER BY t.id DESC LIMIT 1", mysis_id)


def read_turn_answer(database: Path, turn_id: int) -> NewestAnswer:
    """Read a turn by the id of its row. Raises StoreError."""
    return _read_outcome(database, "t.id = ?", turn_id)


def _read_outcome(database: Path, where: str, value: int) -> NewestAnswer:
    with closing(connect_reader(database)) as conn, translate_errors():
        row = conn.execute(f"{_OUTCOME} {where}", (value,)).fetchone()
    return NewestAnswer() if row is None else NewestAnswer(row[0] or "", row[2] or "", row[1] or "")
