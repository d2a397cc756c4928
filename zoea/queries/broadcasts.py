"""Broadcasts and messages to the commander, with the state of their deliveries."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from msgspec import Struct

from zoea.queries.status_phrases import format_span
from zoea.store.database_file import convert_row, open_reader
from zoea.text.control_characters import prose_line

_LATEST = """
SELECT g.id, iif(g.sender_kind = 'commander', 'you', g.sender_name) AS sender, g.content AS text, g.created_at,
  count(iif(d.state = 'taken' AND t.outcome IN ('answered', 'iteration_limit'), 1, NULL)) AS answered,
  count(iif(d.state = 'taken' AND t.outcome IS NULL AND m.state = 'running', 1, NULL)) AS working,
  count(iif(d.state = 'taken' AND t.outcome IS NULL AND m.state <> 'running', 1, NULL)) AS interrupted,
  count(iif(d.state = 'pending', 1, NULL)) AS queued,
  count(iif(d.state = 'skipped', 1, NULL)) AS skipped,
  count(iif(d.state = 'taken' AND t.outcome NOT IN ('answered', 'iteration_limit'), 1, NULL)) AS unanswered,
  coalesce(group_concat(iif(d.state = 'taken' AND t.outcome IS NULL, d.mysis_id, NULL)), '') AS open_ids,
  count(d.id) AS recipients, g.kind = 'direct' AS to_commander
FROM message g LEFT JOIN delivery d ON d.message_id = g.id LEFT JOIN turn t ON t.id = d.turn_id
  LEFT JOIN mysis m ON m.id = d.mysis_id
WHERE g.kind = 'broadcast' OR (g.sender_kind = 'mysis' AND g.recipients_filter = '{"to": "commander"}')
GROUP BY g.id ORDER BY g.id DESC LIMIT ?
"""
NOT_DELIVERED = "not delivered"
"""How people read the status `skipped` of a delivery."""


class Broadcast(Struct, frozen=True):
    """A broadcast, and the number of its recipients in each state of delivery.

    `interrupted` counts those that failed or stopped in their turn, which goes on when they run again.
    """

    id: int
    sender: str
    text: str
    created_at: int
    recipients: int
    answered: int
    working: int
    queued: int
    skipped: int
    unanswered: int
    to_commander: bool
    interrupted: int = 0
    open_ids: str = ""
    """Ids of those whose turn is open, with commas between: they work on it, or were interrupted."""


def read_broadcasts(database: Path, limit: int = 50) -> tuple[Broadcast, ...]:
    """Read the newest broadcasts, newest first. Raises StoreError."""
    with closing(open_reader(database)) as reader:
        rows = reader.execute(_LATEST, (limit,)).fetchall()
    return tuple(convert_row(Broadcast, row) for row in rows)


_OFFERED = """
SELECT id, content, created_at FROM message
WHERE kind = 'broadcast' AND sender_kind = 'commander' AND created_at >= ? AND recipients_filter IS NULL
ORDER BY created_at DESC, id DESC LIMIT 1
"""
_SAID = """
SELECT content FROM message WHERE sender_kind = 'commander' AND topic_message_id IS NULL ORDER BY id DESC LIMIT ?
"""


_HOUR_US = 3600 * 1_000_000


class OfferedBroadcast(Struct, frozen=True):
    """A broadcast that a new mysis can get before its task."""

    id: int
    text: str
    created_at: int

    def describe(self, now: int) -> str:
        """Return age and text on one line: `your broadcast of 2 min ago: Mine iron`."""
        return f"your broadcast of {format_span(now - self.created_at)} ago: {prose_line(self.text)}"


def read_offered_broadcast(database: Path, hours: float, now: int) -> OfferedBroadcast | None:
    """Read the commander's newest broadcast to all; None if it is older than some hours. Raises StoreError."""
    with closing(open_reader(database)) as reader:
        row = reader.execute(_OFFERED, (now - round(hours * _HOUR_US),)).fetchone() if hours else None
    return OfferedBroadcast(row["id"], row["content"], row["created_at"]) if row else None


def read_commander_messages(database: Path, limit: int = 200) -> tuple[str, ...]:
    """Read the texts of the commander's newest messages, oldest first. Raises StoreError."""
    with closing(open_reader(database)) as reader:
        rows = reader.execute(_SAID, (limit,)).fetchall()
    return tuple(row["content"] for row in reversed(rows))
