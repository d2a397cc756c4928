"""Late results: what calls returned after their turn was stopped while they ran.

The call's own result says that its end is unknown, and stays. The late one is shown beside it,
and told to the next turn in a note; nothing wakes for it.
"""

from __future__ import annotations

from zoea.context import Note
from zoea.model.request import ToolResult
from zoea.store import WriterConnection
from zoea.text import clean
from zoea.text.call_text import format_call

NOTE_KIND = "late result"
MOST_TOLD = 8
CHARS_TOLD = 2_000
# The few untold results come first: the joins are in this order, because the planner would begin with all memories.
_UNTOLD = """
SELECT l.tool_call_id, l.content, l.is_error, c.name, c.arguments, t.number FROM late_result l
CROSS JOIN tool_call c ON c.id = l.tool_call_id CROSS JOIN memory m ON m.id = c.memory_id
CROSS JOIN turn t ON t.id = m.turn_id
WHERE l.told_in_turn IS NULL AND m.mysis_id = ? ORDER BY l.arrived_at, l.tool_call_id
"""


def store_late_result(conn: WriterConnection, mysis_id: int, call_id: int, result: ToolResult) -> None:
    """Store the result of a call that went on after its turn. Texts of other parts are left out."""
    conn.execute(
        "INSERT OR IGNORE INTO late_result(tool_call_id, content, is_error, arrived_at) VALUES (?,?,?,?)",
        (call_id, clean(result.content), int(result.is_error), conn.now()),
    )
    conn.emit("call.late_result", mysis_id, call=call_id, error=result.is_error)


def tell_late_results(conn: WriterConnection, mysis_id: int, turn_id: int) -> tuple[Note, ...]:
    """Store the note about results that no turn was told of, when a turn opens."""
    found = conn.execute(_UNTOLD, (mysis_id,)).fetchall()
    if not found:
        return ()
    parts = ["[note from Zoea] Results that came after their turn was stopped:"]
    for row in found[:MOST_TOLD]:
        outcome = "failed" if row["is_error"] else "was carried out"
        parts.append(f"{format_call(row['name'], row['arguments'])} of turn {row['number']} {outcome}:")
        parts.append(_shortened(row["content"]))
    if len(found) > MOST_TOLD:
        parts.append(f"and {len(found) - MOST_TOLD} more calls ended.")
    note = Note(0, NOTE_KIND, "\n".join(parts))
    conn.execute(
        "INSERT INTO turn_note(turn_id, after_seq, kind, content) VALUES (?,?,?,?)",
        (turn_id, note.after_seq, note.kind, note.content),
    )
    conn.executemany(
        "UPDATE late_result SET told_in_turn = ? WHERE tool_call_id = ?",
        [(turn_id, row["tool_call_id"]) for row in found],
    )
    return (note,)


def _shortened(text: str) -> str:
    left = len(text) - CHARS_TOLD
    return text if left <= 0 else f"{text[:CHARS_TOLD]} [… {left:,} characters left out]"
