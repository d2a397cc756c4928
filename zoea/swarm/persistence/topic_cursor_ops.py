"""A mysis's places in the ledger: begin of its previous turn, end of its task.

Both are written in the op that opens or ends a turn, so that no crash comes between.
"""

from __future__ import annotations

from msgspec.structs import replace

from zoea.context import FrozenTurn
from zoea.model.topics import SWARM_CLUSTER
from zoea.store import WriterConnection
from zoea.swarm.persistence import row_values

_NEWEST = "SELECT coalesce(max(id), 0) FROM topic_message WHERE cluster_id = ?"
_STORED = "SELECT last_task_end, last_agent_start FROM topic_cursor WHERE mysis_id = ? AND cluster_id = ?"
_BEGUN = """
INSERT INTO topic_cursor(mysis_id, cluster_id, last_agent_start) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET last_agent_start = ?3
"""
_ENDED = """
INSERT INTO topic_cursor(mysis_id, cluster_id, last_task_end) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET last_task_end = ?3
"""
_TRIGGERS = """
SELECT p.id, p.topic FROM message g JOIN topic_message p ON p.id = g.topic_message_id WHERE g.id IN ({marks})
ORDER BY p.id
"""


def begin_turn(conn: WriterConnection, frozen: FrozenTurn) -> FrozenTurn:
    """Return a turn with its places in the ledger, and store where it begins.

    A turn of another strategy than `topics` stays as it is.
    """
    rules = frozen.topics
    if rules is None:
        return frozen
    until = _newest_id(conn, rules.cluster_id)
    row = conn.execute(_STORED, (frozen.mysis_id, rules.cluster_id)).fetchone() or (0, 0)
    conn.execute(_BEGUN, (frozen.mysis_id, rules.cluster_id, until))
    return replace(frozen, topics=replace(rules, until=until, last_task_end=row[0], last_agent_start=row[1]))


def note_triggers(conn: WriterConnection, frozen: FrozenTurn, message_ids: tuple[int, ...]) -> FrozenTurn:
    """Return a turn with the ledger messages among the prompts that open it."""
    if frozen.topics is None:
        return frozen
    found = conn.execute(_TRIGGERS.format(marks=row_values.marks(message_ids)), message_ids).fetchall()
    return replace(frozen, topics=replace(frozen.topics, triggers=tuple([(row[0], row[1]) for row in found])))


def end_task(conn: WriterConnection, mysis_id: int, cluster_id: int = SWARM_CLUSTER) -> None:
    """Store that an answered turn ended after all that is in the ledger now."""
    conn.execute(_ENDED, (mysis_id, cluster_id, _newest_id(conn, cluster_id) + 1))


def _newest_id(conn: WriterConnection, cluster_id: int) -> int:
    newest: int = conn.execute(_NEWEST, (cluster_id,)).fetchone()[0]
    return newest
