"""Stored times after the wall clock was set.

What happened keeps its time, because people read it. What is still ahead moves by as much as the clock was set, so
that it comes after the same duration.
"""

from __future__ import annotations

from zoea.store.writer_connection import WriterConnection
from zoea.swarm.rules import SECOND


def move_times_ahead(conn: WriterConnection, delta: int) -> None:
    """Move the ends of waits, recoveries and questions by `delta` µs, in one op."""
    conn.execute("UPDATE mysis SET retry_at = retry_at + ? WHERE retry_at IS NOT NULL", (delta,))
    conn.execute(
        "UPDATE mysis SET wait = json_set(wait, '$.until', json_extract(wait, '$.until') + ?) WHERE wait IS NOT NULL",
        (delta,),
    )
    conn.execute(
        "UPDATE approval SET asked_at = asked_at + ?1, expires_at = expires_at + ?1 WHERE answer IS NULL", (delta,)
    )
    # An answer and the lifting of a hold are compared by their times, which may lie ahead now.
    now = conn.now()
    conn.execute("UPDATE approval SET answered_at = ? WHERE answered_at > ?", (now, now))
    conn.execute("UPDATE setting SET updated_at = ? WHERE updated_at > ?", (now, now))
    conn.emit("clock.set", None, seconds=round(delta / 1_000_000, 1))


def move_after_return(conn: WriterConnection) -> None:
    """Move stored times if the clock was set back while no swarm ran.

    The newest event tells how late it was at least. A clock that was set ahead cannot be told from a long pause.
    """
    row = conn.execute("SELECT created_at FROM event ORDER BY id DESC LIMIT 1").fetchone()
    if row is None or row["created_at"] <= conn.now() + SECOND:
        return
    move_times_ahead(conn, conn.now() - row["created_at"])
