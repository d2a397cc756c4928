"""Kept messages, which the strategy `window` never drops or summarises."""

from __future__ import annotations

from zoea.model.errors import UsageError
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence import row_values

MOST_PRESERVED = 100
"""Messages of one mysis that can be kept: more would have no room in a request."""
_COUNT = "SELECT count(*) FROM memory WHERE mysis_id = ? AND preserved = 1"

NEWEST_PROMPT = "SELECT id FROM memory WHERE mysis_id = ? AND role = 'user' ORDER BY id DESC LIMIT 1"

# With a call, its results: a request has both or neither.
OF_MYSIS = f"""
WITH marked AS (SELECT id FROM memory WHERE mysis_id = :mysis AND preserved = 1 AND id <= :before),
heads AS (SELECT id FROM marked UNION
  SELECT k.memory_id FROM tool_call k WHERE k.result_memory_id IN (SELECT id FROM marked)),
wanted AS (SELECT id, '' AS need FROM heads UNION
  SELECT k.result_memory_id, '' FROM tool_call k
  WHERE k.memory_id IN (SELECT id FROM heads) AND k.result_memory_id <= :before)
{row_values.WANTED_MEMORY}
ORDER BY turn_number, m.seq
"""
"""The kept messages of a mysis up to an id, in conversation order, with all of their loop slices."""


def preserve_memory(conn: WriterConnection, memory_id: int, on: bool, *, mysis_id: int | None = None) -> bool:
    """Keep a memory, or keep it no longer; return whether that was a change.

    Args:
        mysis_id: Whose memory it has to be; None for any.

    Raises:
        UsageError: There is no such memory, or its mysis keeps as many as it can.
    """
    row = conn.execute("SELECT mysis_id, turn_id, preserved FROM memory WHERE id = ?", (memory_id,)).fetchone()
    if row is None or (mysis_id is not None and row["mysis_id"] != mysis_id):
        raise UsageError(
            f"there is no message {memory_id}", hint="`zoea log NAME --json` and `zoea search` show the ids of messages"
        )
    if bool(row["preserved"]) is on:
        return False
    if on and conn.execute(_COUNT, (row["mysis_id"],)).fetchone()[0] >= MOST_PRESERVED:
        raise UsageError(
            f"this mysis keeps {MOST_PRESERVED} messages already",
            hint="Release one first: `zoea keep --of NAME` lists them, `zoea keep ID --remove` releases one",
        )
    conn.execute("UPDATE memory SET preserved = ? WHERE id = ?", (int(on), memory_id))
    kind = "memory.preserved" if on else "memory.released"
    conn.emit(kind, row["mysis_id"], memory=memory_id, turn=row["turn_id"])
    return True
