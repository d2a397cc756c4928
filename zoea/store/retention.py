"""Forgetting on purpose: whole turns that a rule lets go, the oldest first, with a record of who and how much.

Nothing else in Zoea removes what was said. A turn is removed with its memories, calls,
requests and deliveries, or not at all; the newest memories of every mysis and its
standing order stay whatever the rule says, because its next request is made of them.
A message goes with the last turn that took it. One that no turn ever took (to the
commander, to nobody, withdrawn) has its age alone: only a rule of days removes it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

LEAST = 100
"""Memories of each mysis that no rule touches: a request looks back over fewer."""
TURNS = 200
"""Turns of one step: a few milliseconds each thousand memories."""
_DAY = 86_400 * 1_000_000
MYSIS_IDS = "SELECT id FROM mysis ORDER BY id"


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """How much of each mysis stays: so many days, so many of its newest memories; 0 is everything."""

    days: float = 0
    memories: int = 0

    @property
    def is_everything(self) -> bool:
        return self.days <= 0 and self.memories <= 0


@dataclass(frozen=True, slots=True)
class RemovedCounts:
    """What a step took away. Characters are those of contents, reasoning, calls and messages."""

    turns: int = 0
    memories: int = 0
    characters: int = 0

    def __add__(self, other: RemovedCounts) -> RemovedCounts:
        return RemovedCounts(
            self.turns + other.turns, self.memories + other.memories, self.characters + other.characters
        )


# The oldest ended turns before every memory that has to stay: `:floor` is the newest id that may go.
_TURNS = """
SELECT t.id FROM turn t WHERE t.mysis_id = :mysis AND t.outcome IS NOT NULL
AND NOT EXISTS (SELECT 1 FROM memory m WHERE m.turn_id = t.id AND m.id > :floor)
AND t.number < (SELECT number FROM turn WHERE id =
  (SELECT turn_id FROM memory WHERE mysis_id = :mysis AND id > :floor ORDER BY id LIMIT 1))
AND t.id <> coalesce((SELECT turn_id FROM memory WHERE mysis_id = :mysis AND role = 'user' ORDER BY id DESC LIMIT 1), 0)
ORDER BY t.number LIMIT :most
"""
_MEMORIES = "SELECT id FROM memory WHERE turn_id = :turn"
_CALLS = f"SELECT id FROM tool_call WHERE memory_id IN ({_MEMORIES})"
_STEPS = (
    f"DELETE FROM approval WHERE turn_id = :turn OR tool_call_id IN ({_CALLS})",
    f"DELETE FROM tool_call WHERE memory_id IN ({_MEMORIES})",
    f"DELETE FROM memory_blob WHERE memory_id IN ({_MEMORIES})",
    "DELETE FROM delivery WHERE turn_id = :turn",
    "DELETE FROM turn_note WHERE turn_id = :turn",
    "DELETE FROM memory WHERE turn_id = :turn",
    "DELETE FROM request WHERE turn_id = :turn",
    "DELETE FROM turn WHERE id = :turn",
)
_SIZE = f"""
SELECT count(*), coalesce(sum(length(content) + length(reasoning)), 0)
  + (SELECT coalesce(sum(length(name) + length(arguments)), 0) FROM tool_call WHERE memory_id IN ({_MEMORIES}))
FROM memory WHERE turn_id = :turn
"""
_HEARD_IN = "SELECT DISTINCT message_id FROM delivery WHERE turn_id = :turn"
# What nobody's memory holds any more, and nobody will take. Who skipped it, or had it withdrawn, is forgotten with it.
_UNHEARD = """
NOT EXISTS (SELECT 1 FROM delivery d WHERE d.message_id = message.id AND d.state IN ('pending', 'taken'))
AND NOT EXISTS (SELECT 1 FROM memory m WHERE m.message_id = message.id)
"""
# Set with every removal, until the indexes are merged: what was removed leaves their files only then.
_MARK = """
INSERT INTO setting(key, value, updated_at) VALUES ('unmerged', 'true', :now)
ON CONFLICT(key) DO UPDATE SET updated_at = excluded.updated_at
"""
IS_UNMERGED = "SELECT 1 FROM setting WHERE key = 'unmerged'"
_BLOB_USERS = """
SELECT s.name, f."from" FROM sqlite_schema s JOIN pragma_foreign_key_list(s.name) f
WHERE s.type = 'table' AND f."table" = 'blob'
"""


def remove_turns(
    connection: sqlite3.Connection, mysis_id: int, keep: RetentionRule, *, now: int, who: str
) -> RemovedCounts:
    """Remove the oldest turns of a mysis that the rule lets go, at most `TURNS` of them. For use in an op.

    `now` is µs UTC; `who` asked for it. Nothing removed is an empty `RemovedCounts`; call
    again until then, then `remove_unused`, and merge the indexes at last: `IS_UNMERGED` says so
    until `mark_merged` is called, also to the process after this one.
    """
    floor = _floor(connection, mysis_id, keep, now)
    if floor <= 0:
        return RemovedCounts()
    removed = RemovedCounts()
    turns = connection.execute(_TURNS, {"mysis": mysis_id, "floor": floor, "most": TURNS}).fetchall()
    for (turn,) in map(tuple, turns):
        memories, characters = connection.execute(_SIZE, {"turn": turn}).fetchone()
        heard = [message_id for (message_id,) in map(tuple, connection.execute(_HEARD_IN, {"turn": turn}).fetchall())]
        for statement in _STEPS:
            connection.execute(statement, {"turn": turn})
        removed += RemovedCounts(1, memories, characters) + _unheard(connection, "id = ?", heard)
    if removed.turns:
        _note(connection, keep, mysis_id, removed, now=now, who=who)
    return removed


def remove_unused(connection: sqlite3.Connection, keep: RetentionRule, *, now: int, who: str) -> RemovedCounts:
    """Remove what no turn took and is older than a rule of days, and blobs that nothing shows. For use in an op."""
    removed = RemovedCounts()
    if keep.days > 0:
        removed = _unheard(connection, "created_at < ?", [now - int(keep.days * _DAY)])
        if removed.characters:
            _note(connection, keep, None, removed, now=now, who=who)
    unused = [
        f"NOT EXISTS (SELECT 1 FROM {table} u WHERE u.{column} = blob.id)"
        for table, column in map(tuple, connection.execute(_BLOB_USERS).fetchall())
    ]
    connection.execute(f"DELETE FROM blob WHERE {' AND '.join(unused)}")
    return removed


def _unheard(connection: sqlite3.Connection, which: str, values: Iterable[int]) -> RemovedCounts:
    """Remove those of these messages that nobody holds; how many characters that were."""
    removed = RemovedCounts()
    for value in values:
        sql = f"SELECT id, length(content) FROM message WHERE {which} AND {_UNHEARD}"
        for message_id, characters in map(tuple, connection.execute(sql, (value,)).fetchall()):
            connection.execute("DELETE FROM delivery WHERE message_id = ?", (message_id,))
            connection.execute("DELETE FROM message WHERE id = ?", (message_id,))
            removed += RemovedCounts(characters=characters)
    return removed


def _note(
    connection: sqlite3.Connection,
    keep: RetentionRule,
    mysis_id: int | None,
    removed: RemovedCounts,
    *,
    now: int,
    who: str,
) -> None:
    """Write down who removed how much of whom; the indexes are to be merged."""
    connection.execute(_MARK, {"now": now})
    connection.execute(
        "INSERT INTO removal(kind, who, why, mysis_id, turns, memories, characters, created_at)"
        " VALUES ('keep', ?, ?, ?, ?, ?, ?, ?)",
        (who, _rule(keep), mysis_id, removed.turns, removed.memories, removed.characters, now),
    )


def mark_merged(connection: sqlite3.Connection) -> None:
    """The indexes hold nothing any more of what was removed. For use in an op."""
    connection.execute("DELETE FROM setting WHERE key = 'unmerged'")


def _floor(connection: sqlite3.Connection, mysis_id: int, keep: RetentionRule, now: int) -> int:
    """The newest id that the rule lets go; 0 for none."""

    def beyond(count: int) -> int:
        sql = "SELECT id FROM memory WHERE mysis_id = ? ORDER BY id DESC LIMIT 1 OFFSET ?"
        row = connection.execute(sql, (mysis_id, count)).fetchone()
        return row[0] if row is not None else 0

    floors = [beyond(keep.memories)] if keep.memories > 0 else []
    if keep.days > 0:
        sql = "SELECT coalesce(max(id), 0) FROM memory WHERE mysis_id = ? AND created_at < ?"
        floors.append(connection.execute(sql, (mysis_id, now - int(keep.days * _DAY))).fetchone()[0])
    return min(max(floors, default=0), beyond(LEAST))


def _rule(keep: RetentionRule) -> str:
    parts = [f"{keep.days:g} days" if keep.days > 0 else "", f"{keep.memories} memories" if keep.memories > 0 else ""]
    return "keep " + ", ".join(filter(None, parts))
