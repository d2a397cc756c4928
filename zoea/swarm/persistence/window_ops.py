"""The conversation that the strategy `window` shows, and its summaries."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from msgspec import Struct

from zoea.context import FrozenTurn, WindowRules
from zoea.context.units import read_units
from zoea.context.window.conversation_shape import Conversation, CoveredMessages, split_front
from zoea.store import Store, WriterConnection
from zoea.swarm.persistence import preserved_memories, row_values

MOST_READ = 5_000
"""Messages that are read at once. Where more are new, the oldest of them are left to the search tools."""
_SLICE_ROOM = 130
"""Rows read beside the primers, so that the last slice among them is whole."""

_NEWEST = """
SELECT * FROM summary WHERE mysis_id = ?1
  AND last_turn > coalesce((SELECT max(id) FROM turn WHERE mysis_id = ?1 AND number <= ?2), 0)
ORDER BY id DESC LIMIT 1
"""
# The newest id that `context.max_history` and `ttl` leave out.
_FLOOR = """
SELECT max(
  CASE WHEN :most > 0 THEN coalesce((SELECT id FROM memory WHERE mysis_id = :mysis AND id <= :before
    ORDER BY id DESC LIMIT 1 OFFSET :most), 0) ELSE 0 END,
  CASE WHEN :since > 0 THEN coalesce((SELECT max(id) FROM memory WHERE mysis_id = :mysis AND id <= :before
    AND created_at < :since), 0) ELSE 0 END) AS floor
"""
_OPENING = (
    f"{row_values.MEMORY} WHERE m.mysis_id = :mysis AND m.id > :floor AND m.id <= :before ORDER BY m.id LIMIT :most"
)
# One lower bound of the id, because SQLite seeks to the first of two and reads every row between.
_NEWER = f"""{row_values.MEMORY} WHERE m.mysis_id = :mysis AND m.id <= :before
  AND m.id > max(:floor, coalesce((SELECT min(id) - 1 FROM memory WHERE turn_id = :turn), 0))
  AND (m.turn_id, m.seq) > (:turn, :seq) ORDER BY m.id DESC LIMIT :most"""
_COUNT = """
SELECT count(*) AS count FROM memory m WHERE m.mysis_id = :mysis AND m.id > :floor AND m.id <= :before
  AND (m.turn_id, m.seq) > (:turn, :seq)"""


class ConversationRows(Struct, frozen=True):
    """The rows of a conversation as they were read. `conversation` converts them, which may take a while."""

    opening: Sequence[sqlite3.Row]
    newer: Sequence[sqlite3.Row]
    covered: CoveredMessages
    marked: Sequence[sqlite3.Row]
    primers: int
    unread: int

    def conversation(self) -> Conversation:
        """Return the values, with opening and newer messages apart."""
        opening = [row_values.memory(row) for row in self.opening]
        units, _ = read_units(opening)
        first = [memory for unit in split_front(units, self.primers)[0] for memory in unit.memories]
        taken = {memory.id for memory in first}
        newer = [row_values.memory(row) for row in self.newer if row["id"] not in taken]
        marked = tuple(row_values.memory(row) for row in self.marked)
        return Conversation(tuple(first), tuple(newer), self.covered, marked, self.unread)


async def read_conversation(store: Store, frozen: FrozenTurn, before: int, rules: WindowRules) -> ConversationRows:
    """Read the conversation before a turn, at most `MOST_READ` messages without a summary.

    What it inherited of its own conversation is left out.
    """
    mysis_id = frozen.mysis_id
    given: dict[str, int] = {"mysis": mysis_id, "before": before}
    floor = frozen.inherited_upto
    if rules.max_history or rules.since:
        found = await store.read(_FLOOR, {**given, "most": rules.max_history, "since": rules.since})
        floor = max(floor, found[0]["floor"])
    covered = _covered(await store.read(_NEWEST, (mysis_id, frozen.inherited_turn)))
    opening = await store.read(_OPENING, {**given, "floor": floor, "most": rules.primers + _SLICE_ROOM})
    last = {**given, "floor": floor, "turn": covered.last[0], "seq": covered.last[1]}
    newer = await store.read(_NEWER, {**last, "most": MOST_READ})
    unread = 0
    if len(newer) == MOST_READ:
        unread = (await store.read(_COUNT, last))[0]["count"] - len(newer)
    if rules.primers == 0:
        opening = []
    marked = await store.read(preserved_memories.OF_MYSIS, given)
    return ConversationRows(opening, newer, covered, marked, rules.primers, unread)


def _covered(rows: Sequence[sqlite3.Row]) -> CoveredMessages:
    if not rows:
        return CoveredMessages()
    row = rows[0]
    return CoveredMessages(
        row["id"],
        (row["first_turn"], row["first_seq"]),
        (row["last_turn"], row["last_seq"]),
        row["messages"],
        row["tokens"],
        row["kept"],
        row["content"],
        row["created_at"],
    )


class NewSummary(Struct, frozen=True):
    """A summary to store: its text, what it covers, and the model that wrote it."""

    content: str
    covered: CoveredMessages
    model: str = ""


def store_summary(conn: WriterConnection, mysis_id: int, new: NewSummary) -> int:
    """Store a summary; return its id."""
    return conn.insert(
        "INSERT INTO summary(mysis_id, first_turn, first_seq, last_turn, last_seq, messages, tokens, kept, content,"
        " model, created_at) VALUES (?,?,?,?,?,?,?,?,?,?,?)",
        (
            mysis_id,
            *new.covered.first,
            *new.covered.last,
            new.covered.messages,
            new.covered.tokens,
            new.covered.kept,
            new.content,
            new.model,
            conn.now(),
        ),
    )
