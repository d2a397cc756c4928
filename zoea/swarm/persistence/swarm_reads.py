"""Queries about the swarm: events, hold, templates, and the parts of a situation pack."""

from __future__ import annotations

import json

from zoea.store.store import Store

EVENTS_AFTER = "SELECT * FROM event WHERE id > ? ORDER BY id LIMIT ?"

# Deliveries count that a turn took, and those that are about to open a turn (?2, a JSON array).
_HEARD = "d.mysis_id = ?1 AND (d.state = 'taken' OR d.state = 'pending' AND d.id IN (SELECT value FROM json_each(?2)))"
LATEST_BROADCAST = f"""
SELECT d.id, g.content FROM delivery d JOIN message g ON g.id = d.message_id
WHERE {_HEARD} AND g.kind = 'broadcast' AND g.sender_kind = 'commander'
  AND g.id > coalesce((SELECT max(d.message_id) FROM delivery d JOIN message h ON h.id = d.message_id
                       WHERE {_HEARD} AND h.kind = 'direct'), 0)
ORDER BY g.id DESC LIMIT 1
"""
"""The commander's latest broadcast to a mysis, if no direct message came after it."""

SNAPSHOTS = """
SELECT c.name, m.content, m.created_at FROM memory m JOIN tool_call c ON c.result_memory_id = m.id
WHERE m.mysis_id = :mysis AND c.state = 'done' AND c.name GLOB :pattern
  AND m.id > (SELECT max(id) FROM memory WHERE mysis_id = :mysis) - 500
ORDER BY m.id DESC LIMIT 40
"""
"""The newest results of tools that match a pattern, newest first, among the last 500 memory ids."""


async def newest_event_id(store: Store) -> int:
    """Return the id of the newest event, 0 without events."""
    rows = await store.read("SELECT max(id) AS id FROM event")
    return rows[0]["id"] or 0


async def swarm_hold(store: Store) -> tuple[bool, str]:
    """Return whether the swarm was on hold when it was closed, and why."""
    rows = await store.read("SELECT value FROM setting WHERE key = 'hold'")
    if not rows:
        return False, ""
    value = json.loads(rows[0]["value"])
    return bool(value["on"]), str(value["reason"])


async def template_bodies(store: Store) -> dict[bytes, str]:
    """Return the text of every stored template by its hash."""
    return {row["hash"]: row["body"] for row in await store.read("SELECT hash, body FROM template")}
