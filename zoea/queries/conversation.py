"""Reads the conversation of a mysis, a page of turns at a time.

A page is found by the number of a turn, so 100,000 memories open as fast as a hundred.
Synchronous and read-only; fronts call it in a thread.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from zoea.model.enums import MessageKind, OpenedBy, Outcome, SenderKind
from zoea.model.values import Delivery, Failure, Memory, Sender
from zoea.queries.stored_swarm import open_database
from zoea.store.database_file import convert_row
from zoea.swarm.persistence import row_values
from zoea.swarm.turn.shown_notes import find_attempt

PAGE_MEMORIES = 60
PAGE_TURNS = 40
SHOWN_CHARS = 20_000
_NO_END = 1 << 62

_TURNS = """
SELECT t.id, t.number, t.opened_by, t.nudge_level, t.attempt, t.outcome, coalesce(t.broke_off, '') AS broke_off,
  t.failure, t.opened_at, t.ended_at, (SELECT count(*) FROM memory m WHERE m.turn_id = t.id) AS memories
FROM turn t WHERE t.mysis_id = ?
"""
_BESIDE = """
SELECT m.id, m.request_id, m.preserved, q.duration_us, g.kind, g.sender_kind, g.sender_id, g.sender_name, p.topic
FROM memory m LEFT JOIN request q ON q.id = m.request_id LEFT JOIN message g ON g.id = m.message_id
LEFT JOIN topic_message p ON p.id = g.topic_message_id
"""
_SPENT = """
SELECT turn_id, count(*) AS requests, sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)
    + CASE WHEN input_tokens IS NULL AND output_tokens IS NULL AND state = 'estimated' THEN estimated_tokens ELSE 0 END)
    AS tokens, max(state = 'estimated') AS is_estimate
FROM request WHERE state <> 'refused' AND purpose = 'turn'
"""
_LATE = """
SELECT l.content, l.is_error, c.name, m.turn_id, m.seq FROM late_result l JOIN tool_call c ON c.id = l.tool_call_id
JOIN memory m ON m.id = c.result_memory_id
"""


_CHANGED = """
SELECT a.tool_call_id, a.about ->> 'arguments' AS arguments FROM memory m JOIN tool_call c ON c.memory_id = m.id
JOIN approval a ON a.tool_call_id = c.id WHERE a.about ->> 'arguments' IS NOT NULL
"""


class ConversationEntry(Struct, frozen=True):
    """One memory with the data that fronts show beside it.

    Args:
        memory: Its content is cut to `SHOWN_CHARS`; `read_content` reads all of it.
        chars: Length of the whole content.
        sender, kind: Sender and kind of a prompt; None for other memories.
        request_id: The request that an answer came from.
        took_us: Duration of that request.
        topic: The topic of a prompt that came by one.
        is_preserved: Whether the strategy `window` keeps it word for word.
        changed: The arguments that a person gave calls in place of the model's, by call id.
    """

    memory: Memory
    chars: int
    sender: Sender | None = None
    kind: MessageKind | None = None
    request_id: int | None = None
    took_us: int | None = None
    topic: str = ""
    is_preserved: bool = False
    changed: Mapping[int, str] = {}


class TurnNote(Struct, frozen=True):
    """A note of Zoea in a turn, placed after the memory of that `seq`."""

    after_seq: int
    kind: str
    content: str


class ConversationTurn(Struct, frozen=True):
    """A turn with its memories in conversation order.

    `outcome` is None while it is open; `broke_off` is then the reason if it was
    interrupted. `tokens` counts all its requests and is an estimate if a provider did
    not report.
    """

    id: int
    number: int
    opened_by: OpenedBy
    nudge_level: int
    attempt: int
    outcome: Outcome | None
    broke_off: str
    failure: Failure | None
    opened_at: int
    ended_at: int | None
    requests: int
    tokens: int
    is_estimate: bool
    entries: tuple[ConversationEntry, ...]
    notes: tuple[TurnNote, ...] = ()

    @property
    def is_running_a_call(self) -> bool:
        """Return whether a call is in progress. Its time grows without a change in the database."""
        calls = (call for entry in self.entries for call in entry.memory.calls)
        return any(call.started_at is not None and call.ended_at is None for call in calls)


class ConversationPage(Struct, frozen=True):
    """Consecutive turns, oldest first, and whether there are more on either side."""

    turns: tuple[ConversationTurn, ...] = ()
    has_older: bool = False
    has_newer: bool = False
    pending: tuple[Delivery, ...] = ()
    last_number: int = 0


def read_newest(database: Path, mysis_id: int, *, memories: int = PAGE_MEMORIES) -> ConversationPage:
    """Read the newest turns and the pending deliveries. Raises StoreError."""
    return read_older(database, mysis_id, _NO_END, memories=memories)


def read_older(database: Path, mysis_id: int, before: int, *, memories: int = PAGE_MEMORIES) -> ConversationPage:
    """Read the turns before the one of this number. Raises StoreError."""
    with open_database(database) as reader:
        back, more = _back(reader, mysis_id, before, memories)
        return _page(reader, mysis_id, back[::-1], has_older=more)


def read_newer(database: Path, mysis_id: int, since: int, *, memories: int = PAGE_MEMORIES) -> ConversationPage:
    """Read the turns from the one of this number on. Raises StoreError."""
    with open_database(database) as reader:
        on, _ = _forth(reader, mysis_id, since, memories)
        return _page(reader, mysis_id, on, has_older=True)


def read_around(database: Path, mysis_id: int, number: int, *, memories: int = PAGE_MEMORIES) -> ConversationPage:
    """Read the turn of this number with its neighbours on both sides. Raises StoreError."""
    with open_database(database) as reader:
        back, more = _back(reader, mysis_id, number, memories // 2)
        on, _ = _forth(reader, mysis_id, number, memories // 2)
        return _page(reader, mysis_id, [*back[::-1], *on], has_older=more)


def read_content(database: Path, memory_id: int) -> str:
    """Read the whole content of one memory; empty if it does not exist. Raises StoreError."""
    with open_database(database) as reader:
        row = reader.execute("SELECT content FROM memory WHERE id = ?", (memory_id,)).fetchone()
    return row[0] if row else ""


def iterate_turns(reader: sqlite3.Connection, mysis_id: int) -> Iterator[ConversationTurn]:
    """Yield all turns with whole contents, oldest first; reads a page at a time."""
    since = 0
    while True:
        turns, _ = _forth(reader, mysis_id, since, PAGE_MEMORIES)
        if not turns:
            return
        yield from _turns(reader, turns, cut=None)
        since = turns[-1]["number"] + 1


def _back(reader: sqlite3.Connection, mysis_id: int, before: int, memories: int) -> tuple[list[sqlite3.Row], bool]:
    """Read turn rows before a number, newest first, and whether there are more."""
    rows = reader.execute(
        f"{_TURNS} AND t.number < ? ORDER BY t.number DESC LIMIT ?", (mysis_id, before, PAGE_TURNS + 1)
    )
    return _enough(rows, memories)


def _forth(reader: sqlite3.Connection, mysis_id: int, since: int, memories: int) -> tuple[list[sqlite3.Row], bool]:
    rows = reader.execute(f"{_TURNS} AND t.number >= ? ORDER BY t.number LIMIT ?", (mysis_id, since, PAGE_TURNS + 1))
    return _enough(rows, memories)


def _enough(found: Iterator[sqlite3.Row], memories: int) -> tuple[list[sqlite3.Row], bool]:
    taken: list[sqlite3.Row] = []
    held = 0
    for row in found:
        if taken and (held + row["memories"] > memories or len(taken) == PAGE_TURNS):
            return taken, True
        taken.append(row)
        held += row["memories"]
    return taken, False


def _page(
    reader: sqlite3.Connection, mysis_id: int, found: Sequence[sqlite3.Row], *, has_older: bool
) -> ConversationPage:
    row = reader.execute("SELECT max(number) FROM turn WHERE mysis_id = ?", (mysis_id,)).fetchone()
    last: int = row[0] or 0
    has_newer = bool(found) and found[-1]["number"] < last
    pending: tuple[Delivery, ...] = ()
    if not has_newer:
        waiting = reader.execute(
            f"{row_values.DELIVERY} WHERE d.state = 'pending' AND d.mysis_id = ? ORDER BY d.id LIMIT 100", (mysis_id,)
        )
        pending = tuple(row_values.delivery(one) for one in waiting)
    return ConversationPage(_turns(reader, found, cut=SHOWN_CHARS), has_older, has_newer, pending, last)


def _turns(
    reader: sqlite3.Connection, found: Sequence[sqlite3.Row], *, cut: int | None
) -> tuple[ConversationTurn, ...]:
    if not found:
        return ()
    ids = [row["id"] for row in found]
    among = f"({row_values.marks(ids)})"
    beside = {row["id"]: row for row in reader.execute(f"{_BESIDE} WHERE m.turn_id IN {among}", ids)}
    spent = {row["turn_id"]: row for row in reader.execute(f"{_SPENT} AND turn_id IN {among} GROUP BY turn_id", ids)}
    notes: dict[int, list[TurnNote]] = {}
    for row in reader.execute(f"SELECT * FROM turn_note WHERE turn_id IN {among} ORDER BY turn_id, after_seq", ids):
        notes.setdefault(row["turn_id"], []).append(TurnNote(row["after_seq"], row["kind"], row["content"]))
    for row in reader.execute(f"{_LATE} WHERE m.turn_id IN {among} ORDER BY l.arrived_at", ids):
        # Beside the result `unknown`.
        outcome = "failed" if row["is_error"] else "was carried out"
        content = f"{row['name']} {outcome} after the turn was stopped:\n{row['content'][:cut]}"
        notes.setdefault(row["turn_id"], []).append(TurnNote(row["seq"], row_values.LATE_RESULT, content))
    notes = {turn_id: _drop_earlier_attempts(each) for turn_id, each in notes.items()}
    changed = {
        row["tool_call_id"]: row["arguments"] for row in reader.execute(f"{_CHANGED} AND m.turn_id IN {among}", ids)
    }
    entries: dict[int, list[ConversationEntry]] = {}
    for row in reader.execute(f"{row_values.MEMORY} WHERE m.turn_id IN {among} ORDER BY m.turn_id, m.seq", ids):
        memory = row_values.memory(row)
        entries.setdefault(memory.turn_id, []).append(_entry(memory, beside[memory.id], cut, changed))
    return tuple(
        _turn(row, spent.get(row["id"]), tuple(entries.get(row["id"], ())), tuple(notes.get(row["id"], ())))
        for row in found
    )


def _drop_earlier_attempts(notes: Sequence[TurnNote]) -> list[TurnNote]:
    """Return the notes in order, with only the last attempt of each request."""
    last: dict[int, int] = {}
    for note in notes:
        last[note.after_seq] = max(last.get(note.after_seq, 0), find_attempt(note.kind))
    kept = (note for note in notes if find_attempt(note.kind) in (0, last[note.after_seq]))
    return sorted(kept, key=lambda note: note.after_seq)


def _entry(memory: Memory, beside: sqlite3.Row, cut: int | None, changed: Mapping[int, str]) -> ConversationEntry:
    chars = len(memory.content)
    if cut is not None and chars > cut:
        memory = replace(memory, content=memory.content[:cut])
    sender = kind = None
    if beside["kind"] is not None:
        sender = Sender(SenderKind(beside["sender_kind"]), beside["sender_id"], beside["sender_name"])
        kind = row_values.message_kind(beside["kind"], beside["topic"])
    return ConversationEntry(
        memory,
        chars,
        sender,
        kind,
        beside["request_id"],
        beside["duration_us"],
        beside["topic"] or "",
        bool(beside["preserved"]),
        {call.id: changed[call.id] for call in memory.calls if call.id in changed},
    )


def _turn(
    row: sqlite3.Row, spent: sqlite3.Row | None, entries: tuple[ConversationEntry, ...], notes: tuple[TurnNote, ...]
) -> ConversationTurn:
    return convert_row(
        ConversationTurn,
        row,
        failure=row_values.failure(row["failure"]),
        requests=spent["requests"] if spent else 0,
        tokens=spent["tokens"] if spent else 0,
        is_estimate=bool(spent and spent["is_estimate"]),
        entries=entries,
        notes=notes,
    )
