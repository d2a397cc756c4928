"""What the swarm did each minute, stored for charts and `zoea stats`.

Tokens and costs are stored as totals, and turns are counted from their events, so that neither a restart nor a
missed minute loses anything.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping

from zoea.store.writer_connection import WriterConnection

MINUTE_US = 60_000_000
KEPT_MINUTES = 8 * 24 * 60
"""Older rows are removed; the longest chart shows a week."""

_LAST = "SELECT minute, event_id, outcomes FROM minute_stat ORDER BY minute DESC LIMIT 1"
TOTALS = "SELECT coalesce(sum(tokens), 0) AS tokens, coalesce(sum(cost_micros), 0) AS cost FROM tally"
_NEWEST = "SELECT coalesce(max(id), 0) FROM event"
ENDED = """
SELECT coalesce(json_extract(data, '$.outcome'), json_extract(data, '$.why'), 'failed') AS outcome, count(*) AS turns
FROM event WHERE id > ? AND kind IN ('turn.ended', 'turn.broke_off') AND outcome <> 'crashed' GROUP BY outcome
"""
"""A turn that is cut off, because Zoea is closed, goes on at the next start."""
WAITING = """
SELECT count(*) FROM delivery d JOIN mysis y ON y.id = d.mysis_id WHERE d.state = 'pending' AND y.deleted_at IS NULL
"""
_STORE = """
INSERT INTO minute_stat(minute, event_id, tokens, cost_micros, statuses, outcomes, waiting) VALUES (?,?,?,?,?,?,?)
ON CONFLICT(minute) DO UPDATE SET event_id = excluded.event_id, tokens = excluded.tokens,
  cost_micros = excluded.cost_micros, statuses = excluded.statuses, outcomes = excluded.outcomes,
  waiting = excluded.waiting
"""


def store_minute(conn: WriterConnection, statuses: Mapping[str, int], minute: int | None = None) -> None:
    """Store the row of a minute, or bring it up to date. Remove rows that are too old.

    A row for the minute before the first one of a database counts nothing: the first one is compared with it.

    Args:
        minute: Minutes since the epoch; the present one if None.
    """
    minute = conn.now() // MINUTE_US if minute is None else minute
    last = conn.execute(_LAST).fetchone()
    newest = conn.execute(_NEWEST).fetchone()[0]
    outcomes: Counter[str] = Counter()
    if last is None:
        totals = conn.execute(TOTALS).fetchone()
        conn.execute(_STORE, (minute - 1, newest, totals["tokens"], totals["cost"], "{}", "{}", 0))
    else:
        minute = max(minute, last["minute"])
        outcomes.update({row["outcome"]: row["turns"] for row in conn.execute(ENDED, (last["event_id"],))})
        if last["minute"] == minute:
            outcomes.update(json.loads(last["outcomes"]))
    totals = conn.execute(TOTALS).fetchone()
    waiting = conn.execute(WAITING).fetchone()[0]
    conn.execute(
        _STORE,
        (minute, newest, totals["tokens"], totals["cost"], json.dumps(dict(statuses)), json.dumps(outcomes), waiting),
    )
    conn.execute("DELETE FROM minute_stat WHERE minute < ?", (minute - KEPT_MINUTES,))
