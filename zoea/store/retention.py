"""Remove old turns by a retention rule, or an archived mysis, and record how much.

Only this and redaction remove texts. A turn goes with its memories, calls, requests and
deliveries, or not at all. The newest memories of each mysis and its standing order always stay,
because its next request needs them. A message goes with the last turn that took it; one that no
turn took is removed by age only, as are messages of topics. The newest of each topic always stay.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Container, Iterable

from msgspec import Struct

from zoea.store.table_schema import read_tables, write_removal

LEAST = 100
"""Memories of each mysis that no rule removes; a request looks back over fewer."""
TURNS = 200
"""Turns removed per step: a few milliseconds per thousand memories."""
_DAY = 86_400 * 1_000_000
# The oldest ended turns before all memories that must stay; `:floor` is the newest removable id.
_TURNS = """
SELECT t.id FROM turn t WHERE t.mysis_id = :mysis AND t.outcome IS NOT NULL
AND NOT EXISTS (SELECT 1 FROM memory m WHERE m.turn_id = t.id AND m.id > :floor)
AND t.number < (SELECT number FROM turn WHERE id =
  (SELECT turn_id FROM memory WHERE mysis_id = :mysis AND id > :floor ORDER BY id LIMIT 1))
AND t.id <> coalesce((SELECT turn_id FROM memory WHERE mysis_id = :mysis AND role = 'user' ORDER BY id DESC LIMIT 1), 0)
ORDER BY t.number LIMIT :most
"""
_MEMORIES = "SELECT id FROM memory WHERE turn_id = :root"
_CALLS = f"SELECT id FROM tool_call WHERE memory_id IN ({_MEMORIES})"
# What a summary tells of this turn goes with it; the next turn sums up what is left.
_SUMMARIES = "DELETE FROM summary WHERE first_turn <= :root AND mysis_id = (SELECT mysis_id FROM turn WHERE id = :root)"
_FORGET_MYSIS = (
    "UPDATE mysis SET state_reason = :reason, overrides = '{}', error = NULL, wait = NULL, held_reason = '', goal = ''"
    " WHERE id = :root"
)
_NUMBERS = ("mysis", "tally", "session")
"""Tables of which a removed mysis keeps its rows: whoever heard from it refers to them, and they hold numbers."""
ONLY_A_SENDER = "known only as a sender"
"""The state reason of a mysis that is stored only as the sender of messages."""
_SIZE = f"""
SELECT count(*), coalesce(sum(length(content) + length(reasoning)), 0)
  + (SELECT coalesce(sum(length(name) + length(arguments)), 0) FROM tool_call WHERE memory_id IN ({_MEMORIES}))
  + (SELECT coalesce(sum(length(content)), 0) FROM late_result WHERE tool_call_id IN ({_CALLS}))
FROM memory WHERE turn_id = :root
"""
_HEARD_IN = "SELECT DISTINCT message_id FROM delivery WHERE turn_id = :root"
# Messages without a memory and without a delivery that is pending or taken.
_UNHEARD = """
NOT EXISTS (SELECT 1 FROM delivery d WHERE d.message_id = message.id AND d.state IN ('pending', 'taken'))
AND NOT EXISTS (SELECT 1 FROM memory m WHERE m.message_id = message.id)
"""
_PUBLISHED = "sender_id = :mysis"
# Before the newest of their topic.
_OLD = """
created_at < :since AND id < coalesce((SELECT n.id FROM topic_message n WHERE n.cluster_id = topic_message.cluster_id
  AND n.topic = topic_message.topic ORDER BY n.id DESC LIMIT 1 OFFSET :least - 1), 0)
"""
# Set by every removal until the indexes are merged, because only a merge erases the removed text.
_MARK = """
INSERT INTO setting(key, value, updated_at) VALUES ('unmerged', 'true', :now)
ON CONFLICT(key) DO UPDATE SET updated_at = excluded.updated_at
"""
IS_UNMERGED = "SELECT 1 FROM setting WHERE key = 'unmerged'"


class RetentionRule(Struct, frozen=True):
    """The part of each mysis to keep, in days and newest memories; 0 keeps everything."""

    days: float = 0
    memories: int = 0

    @property
    def is_everything(self) -> bool:
        return self.days <= 0 and self.memories <= 0


class RemovedCounts(Struct, frozen=True):
    """Counts of what a step removed; characters of contents, reasoning, calls and messages."""

    turns: int = 0
    memories: int = 0
    characters: int = 0

    def __add__(self, other: RemovedCounts) -> RemovedCounts:
        return RemovedCounts(
            self.turns + other.turns, self.memories + other.memories, self.characters + other.characters
        )


def remove_turns(
    connection: sqlite3.Connection, mysis_id: int, keep: RetentionRule, *, now: int, who: str
) -> RemovedCounts:
    """Remove the oldest turns the rule allows, at most `TURNS` of them. For use in an op.

    Call it until the result is empty, then `remove_unused`, and merge the indexes last; `IS_UNMERGED`
    stays true until `mark_merged`, also for the next process. `now` is in µs UTC.
    """
    floor = _newest_removable_id(connection, mysis_id, keep, now)
    if floor <= 0:
        return RemovedCounts()
    removed = RemovedCounts()
    turns = connection.execute(_TURNS, {"mysis": mysis_id, "floor": floor, "most": TURNS}).fetchall()
    statements = (_SUMMARIES, *write_removal(read_tables(connection), "turn")) if turns else ()
    for (turn,) in map(tuple, turns):
        memories, characters = connection.execute(_SIZE, {"root": turn}).fetchone()
        heard = [message_id for (message_id,) in map(tuple, connection.execute(_HEARD_IN, {"root": turn}).fetchall())]
        for statement in statements:
            connection.execute(statement, {"root": turn})
        removed += RemovedCounts(1, memories, characters) + _remove_messages(connection, "id = ?", heard)
    if removed.turns:
        record_removal(connection, "keep", _describe_rule(keep), mysis_id, removed, now=now, who=who)
    return removed


def remove_mysis(connection: sqlite3.Connection, mysis_id: int, *, now: int, who: str) -> RemovedCounts:
    """Remove all that is stored of an archived mysis, except what others heard from it. For use in a transaction.

    Its row stays as the sender of those messages; it cannot be restored. The caller merges the indexes.
    """
    removed = RemovedCounts()
    heard = [row[0] for row in connection.execute("SELECT message_id FROM delivery WHERE mysis_id = ?", (mysis_id,))]
    message_ids = [row[0] for row in connection.execute("SELECT id FROM message WHERE sender_id = ?", (mysis_id,))]
    for (turn,) in connection.execute("SELECT id FROM turn WHERE mysis_id = ?", (mysis_id,)).fetchall():
        memories, characters = connection.execute(_SIZE, {"root": turn}).fetchone()
        removed += RemovedCounts(1, memories, characters)
    for statement in write_removal(read_tables(connection), "mysis", stays=_NUMBERS):
        connection.execute(statement, {"root": mysis_id})
    connection.execute(_FORGET_MYSIS, {"root": mysis_id, "reason": ONLY_A_SENDER})
    removed += _remove_messages(connection, "id = ?", sorted({*heard, *message_ids}))
    removed += _remove_topic_messages(connection, _PUBLISHED, {"mysis": mysis_id})
    record_removal(connection, "purge", "", mysis_id, removed, now=now, who=who)
    return removed


def remove_unused(connection: sqlite3.Connection, keep: RetentionRule, *, now: int, who: str) -> RemovedCounts:
    """Remove messages that no turn took and that are too old, and unused blobs. For use in an op."""
    removed = RemovedCounts()
    if keep.days > 0:
        since = now - int(keep.days * _DAY)
        removed = _remove_messages(connection, "created_at < ?", [since])
        removed += _remove_topic_messages(connection, _OLD, {"since": since, "least": LEAST})
        if removed.characters:
            record_removal(connection, "keep", _describe_rule(keep), None, removed, now=now, who=who)
    remove_unused_blobs(connection)
    return removed


def remove_unused_blobs(connection: sqlite3.Connection) -> None:
    """Remove the blobs that no row refers to. For use in an op."""
    connection.execute(f"DELETE FROM blob WHERE {is_unused(connection, 'blob')}")


def is_unused(connection: sqlite3.Connection, blob: str, *, but: Container[str] = ()) -> str:
    """Return a condition on a row of `blob`: no table refers to it. Rows of the given tables do not count."""
    users = [
        f"NOT EXISTS (SELECT 1 FROM {table.name} u WHERE u.{column} = {blob}.id)"
        for table in read_tables(connection).values()
        for column, other in table.references.items()
        if other == "blob" and table.name not in but
    ]
    return " AND ".join(users)


def mark_merged(connection: sqlite3.Connection) -> None:
    """Record that the indexes hold no removed text. For use in an op."""
    connection.execute("DELETE FROM setting WHERE key = 'unmerged'")


MYSIS_IDS = "SELECT id FROM mysis ORDER BY id"


def _remove_messages(connection: sqlite3.Connection, which: str, values: Iterable[int]) -> RemovedCounts:
    """Remove those of the messages that no memory or delivery needs; count their characters."""
    removed = RemovedCounts()
    for value in values:
        sql = f"SELECT id, length(content) FROM message WHERE {which} AND {_UNHEARD}"
        for message_id, characters in map(tuple, connection.execute(sql, (value,)).fetchall()):
            connection.execute("DELETE FROM delivery WHERE message_id = ?", (message_id,))
            connection.execute("DELETE FROM message WHERE id = ?", (message_id,))
            removed += RemovedCounts(characters=characters)
    return removed


def _remove_topic_messages(connection: sqlite3.Connection, which: str, values: dict[str, int]) -> RemovedCounts:
    """Remove those of the messages of topics that no message to a mysis refers to. Count their characters."""
    where = f"{which} AND NOT EXISTS (SELECT 1 FROM message g WHERE g.topic_message_id = topic_message.id)"
    size = "coalesce(sum(length(content) + length(coalesce(data, ''))), 0)"
    characters = connection.execute(f"SELECT {size} FROM topic_message WHERE {where}", values).fetchone()[0]
    connection.execute(f"DELETE FROM topic_message WHERE {where}", values)
    return RemovedCounts(characters=characters)


def _describe_rule(keep: RetentionRule) -> str:
    limits = [f"{keep.days:g} days" if keep.days > 0 else "", f"{keep.memories} memories" if keep.memories > 0 else ""]
    return "keep " + ", ".join(filter(None, limits))


def record_removal(
    connection: sqlite3.Connection,
    kind: str,
    why: str,
    mysis_id: int | None,
    removed: RemovedCounts,
    *,
    now: int,
    who: str,
) -> None:
    """Record who removed how much, and mark the indexes as unmerged."""
    connection.execute(_MARK, {"now": now})
    connection.execute(
        "INSERT INTO removal(kind, who, why, mysis_id, turns, memories, characters, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (kind, who, why, mysis_id, removed.turns, removed.memories, removed.characters, now),
    )


def _newest_removable_id(connection: sqlite3.Connection, mysis_id: int, keep: RetentionRule, now: int) -> int:
    """Return the newest memory id that the rule allows to remove; 0 for none."""

    def oldest_after(count: int) -> int:
        sql = "SELECT id FROM memory WHERE mysis_id = ? ORDER BY id DESC LIMIT 1 OFFSET ?"
        row = connection.execute(sql, (mysis_id, count)).fetchone()
        return row[0] if row is not None else 0

    floors = [oldest_after(keep.memories)] if keep.memories > 0 else []
    if keep.days > 0:
        sql = "SELECT coalesce(max(id), 0) FROM memory WHERE mysis_id = ? AND created_at < ?"
        floors.append(connection.execute(sql, (mysis_id, now - int(keep.days * _DAY))).fetchone()[0])
    return min(max(floors, default=0), oldest_after(LEAST))
