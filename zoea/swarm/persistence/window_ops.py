"""The conversation that the strategy `window` shows, and its summaries."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from itertools import dropwhile

from msgspec import Struct

from zoea.context import FrozenTurn, WindowRules
from zoea.context.units import read_units
from zoea.context.window.conversation_shape import RANGE_MESSAGES, Conversation, SummaryRange, split_front
from zoea.model.enums import Role
from zoea.model.values import Memory
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence import preserved_memories, row_values

MOST_READ = 5_000
"""Messages that are read at once. Where more are new, the oldest of them are left to the search tools."""
_SLICE_ROOM = 130
"""Rows read beside the primers, so that the last slice among them is whole."""
_NEWEST_ROOM = 2 * RANGE_MESSAGES
"""Rows read beside the window: those that wait for a summary, and those of the range before them."""

_PLACES = """
SELECT id, first_turn, first_seq, last_turn, last_seq, messages, tokens FROM summary WHERE mysis_id = ?1
  AND last_turn > coalesce((SELECT max(id) FROM turn WHERE mysis_id = ?1 AND number <= ?2), 0)
ORDER BY id DESC LIMIT ?3
"""
_TEXTS = "SELECT id, content, model FROM summary WHERE id IN (SELECT value FROM json_each(?))"
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
_NEWEST = (
    f"{row_values.MEMORY} WHERE m.mysis_id = :mysis AND m.id > :floor AND m.id <= :before"
    " ORDER BY m.id DESC LIMIT :most"
)
# One lower bound of the id, because SQLite seeks to the first of two and reads every row between.
_AFTER = f"""{row_values.MEMORY} WHERE m.mysis_id = :mysis AND m.id <= :before
  AND m.id > max(:floor, coalesce((SELECT min(id) - 1 FROM memory WHERE turn_id = :turn), 0))
  AND (m.turn_id, m.seq) > (:turn, :seq) ORDER BY m.id DESC LIMIT :most"""
_BEFORE = f"""{row_values.MEMORY} WHERE m.mysis_id = :mysis AND m.id > :floor AND m.id <= :before
  AND (m.turn_id, m.seq) < (:turn, :seq) ORDER BY m.id LIMIT :most"""
_COUNT = """
SELECT count(*) AS count FROM memory m WHERE m.mysis_id = :mysis AND m.id > :floor AND m.id <= :before
  AND (m.turn_id, m.seq) > (:turn, :seq)"""
_COVERED = f"""{row_values.MEMORY} WHERE m.mysis_id = :mysis
  AND m.id <= coalesce((SELECT max(id) FROM memory WHERE turn_id = :last), 0)
  AND (m.turn_id, m.seq) <= (:last, :last_seq) ORDER BY m.id DESC LIMIT :most"""
MOST_PLACES = 100
"""Rows of summaries that are looked at; most of them were replaced by later ones."""
MOST_RANGES = 12
"""Ranges that stand for a conversation; then the oldest `JOINED` of them are joined to one."""
JOINED = 6


class ConversationRows(Struct, frozen=True):
    """The rows of a conversation as they were read. `conversation` converts them, which may take a while."""

    opening: Sequence[sqlite3.Row]
    newest: Sequence[sqlite3.Row]
    ranges: tuple[SummaryRange, ...]
    marked: Sequence[sqlite3.Row]
    primers: int
    unread: int
    is_whole: bool

    def conversation(self) -> Conversation:
        """Return the conversation, with its first, its newest and its other messages apart."""
        opening = [row_values.memory(row) for row in self.opening]
        units, _ = read_units(opening)
        first = [memory for unit in split_front(units, self.primers)[0] for memory in unit.memories]
        newer = sorted(map(row_values.memory, self.newest), key=lambda one: (one.turn_number, one.seq))
        if not self.is_whole:  # the calls of the first results may not have been read
            newer = [*dropwhile(lambda one: one.role is Role.TOOL, newer)]
        taken = {memory.id for memory in (*first, *newer)}
        primers = {memory.id for memory in first}
        return Conversation(
            tuple(first),
            tuple([memory for memory in newer if memory.id not in primers]),
            self.ranges,
            tuple(row_values.memory(row) for row in self.marked),
            self.unread,
            tuple([one for one in opening if one.id not in taken and not any(held.holds(one) for held in self.ranges)]),
            self.is_whole,
        )


async def read_conversation(store: Store, frozen: FrozenTurn, before: int, rules: WindowRules) -> ConversationRows:
    """Read what a request may show verbatim of the conversation, and what no summary covers.

    At most `MOST_READ` messages are read of the latter. What it inherited of its own conversation is left out.
    """
    mysis_id = frozen.mysis_id
    of_mysis: dict[str, int] = {"mysis": mysis_id, "before": before}
    floor = frozen.inherited_upto
    if rules.max_history or rules.since:
        rows = await store.read(_FLOOR, {**of_mysis, "most": rules.max_history, "since": rules.since})
        floor = max(floor, rows[0]["floor"])
    within = {**of_mysis, "floor": floor}
    ranges = await _read_ranges(store, mysis_id, frozen.inherited_turn)
    opening = await store.read(_OPENING, {**within, "most": rules.primers + _SLICE_ROOM})
    most = rules.size + _NEWEST_ROOM
    newest = await store.read(_NEWEST, {**within, "most": most})
    unread, is_whole = 0, len(newest) < most
    last = {"turn": ranges[-1].last[0], "seq": ranges[-1].last[1]} if ranges else {"turn": 0, "seq": 0}
    if not is_whole and (newest[-1]["turn_id"], newest[-1]["seq"]) > (last["turn"], last["seq"]):
        newest = await store.read(_AFTER, {**within, **last, "most": MOST_READ})
        if len(newest) == MOST_READ:
            unread = (await store.read(_COUNT, {**within, **last}))[0]["count"] - MOST_READ
        is_whole = not ranges and not unread
    if ranges and len(opening) == rules.primers + _SLICE_ROOM:
        first = {"turn": ranges[0].first[0], "seq": ranges[0].first[1]}
        if (opening[-1]["turn_id"], opening[-1]["seq"]) < tuple(first.values()):
            opening = await store.read(_BEFORE, {**within, **first, "most": MOST_READ})
    marked = await store.read(preserved_memories.OF_MYSIS, of_mysis)
    return ConversationRows(opening, newest, ranges, marked, rules.primers, unread, is_whole)


async def _read_ranges(store: Store, mysis_id: int, inherited_turn: int) -> tuple[SummaryRange, ...]:
    """Return the stored summaries that stand for the conversation, in order: of those that overlap the newest."""
    chosen: list[sqlite3.Row] = []
    for row in await store.read(_PLACES, (mysis_id, inherited_turn, MOST_PLACES)):
        place = _places(row)
        if all(place[1] < other[0] or other[1] < place[0] for other in map(_places, chosen)):
            chosen.append(row)
    if not chosen:
        return ()
    texts = await store.read(_TEXTS, (json.dumps([row["id"] for row in chosen]),))
    by_id = {row["id"]: row for row in texts}
    return tuple(
        SummaryRange(
            row["id"],
            *_places(row),
            row["messages"],
            row["tokens"],
            by_id[row["id"]]["content"],
            by_id[row["id"]]["model"],
        )
        for row in sorted(chosen, key=_places)
    )


def _places(row: sqlite3.Row) -> tuple[tuple[int, int], tuple[int, int]]:
    return (row["first_turn"], row["first_seq"]), (row["last_turn"], row["last_seq"])


async def read_covered(store: Store, mysis_id: int, newest: SummaryRange, most: int) -> tuple[Memory, ...]:
    """Read the newest messages that summaries cover, in order, and all of the newest range."""
    place = {"mysis": mysis_id, "last": newest.last[0], "last_seq": newest.last[1]}
    rows = await store.read(_COVERED, {**place, "most": max(most, newest.messages)})
    return tuple(sorted(map(row_values.memory, rows), key=lambda one: (one.turn_id, one.seq)))


def store_range(conn: WriterConnection, mysis_id: int, new: SummaryRange, kept: int) -> int:
    """Store a summary of a range; return its id.

    Args:
        kept: How many newer messages stay verbatim now.
    """
    return conn.insert(
        "INSERT INTO summary(mysis_id, first_turn, first_seq, last_turn, last_seq, messages, tokens, kept, content,"
        " model, created_at) VALUES (?,?,?,?,?,?,?,?,?,?,?)",
        (mysis_id, *new.first, *new.last, new.messages, new.tokens, kept, new.text, new.model, conn.now()),
    )
