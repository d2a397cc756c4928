"""Rows of memories and calls: prompts, answers with their calls, results.

These are parts of the ops in `turn_ops.py`.
"""

from __future__ import annotations

import sqlite3

from msgspec import Struct

from zoea.context import Note
from zoea.model.enums import CallState, DeliveryState, MessageKind, Role, Source
from zoea.model.request import Answer, ToolResult
from zoea.model.values import Delivery, Memory, ToolCall
from zoea.store.blobs import put_blob
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence import approval_ops, row_values
from zoea.swarm.turn import fingerprint
from zoea.swarm.turn.turn_types import PreparedCall, StoreResult
from zoea.text import clean, estimate
from zoea.text.call_text import format_call

_SOURCES = {MessageKind.DIRECT: Source.DIRECT, MessageKind.BROADCAST: Source.BROADCAST, MessageKind.TOPIC: Source.TOPIC}


class TurnInfo(Struct, frozen=True):
    """Values that every op of one turn needs."""

    mysis_id: int
    turn_number: int
    provider: str
    model: str
    metered: bool
    volatile: tuple[str, ...]
    approval_expiry: int
    prompt_room: int
    mission_id: int | None = None
    is_background: bool = False
    first_token_us: int | None = None  # of the request that is being settled
    duration_us: int | None = None  # since it was reserved


def pending(conn: sqlite3.Connection, mysis_id: int, delivery_ids: tuple[int, ...]) -> tuple[Delivery, ...]:
    """Return the pending ones of these deliveries, in arrival order."""
    if not delivery_ids:
        return ()
    marks = row_values.marks(delivery_ids)
    found = conn.execute(
        f"{row_values.DELIVERY} WHERE d.mysis_id = ? AND d.state = 'pending' AND d.id IN ({marks}) ORDER BY d.id",
        (mysis_id, *delivery_ids),
    )
    return tuple(row_values.delivery(row) for row in found)


def take(
    conn: WriterConnection, mysis_id: int, turn_id: int, number: int, deliveries: tuple[Delivery, ...], seq: int
) -> tuple[Memory, ...]:
    """Store prompts as memories and name the turn in their deliveries, in one op."""
    now = conn.now()
    memories = []
    for offset, delivery in enumerate(deliveries):
        source = _SOURCES[delivery.kind]
        sender_id = delivery.sender.id
        tokens = estimate.tokens(delivery.content)
        memory_id = conn.insert(
            "INSERT INTO memory(mysis_id, turn_id, seq, role, source, message_id, sender_id, content, tokens,"
            " created_at) VALUES (?,?,?,'user',?,?,?,?,?,?)",
            (mysis_id, turn_id, seq + offset, source, delivery.message_id, sender_id, delivery.content, tokens, now),
        )
        conn.execute(
            "UPDATE delivery SET state = ?, turn_id = ?, memory_id = ?, taken_at = ? WHERE id = ?",
            (DeliveryState.TAKEN, turn_id, memory_id, now, delivery.id),
        )
        conn.emit("delivery.taken", mysis_id, delivery=delivery.id, message=delivery.message_id, turn=turn_id)
        memories.append(
            Memory(
                id=memory_id,
                mysis_id=mysis_id,
                turn_id=turn_id,
                turn_number=number,
                seq=seq + offset,
                role=Role.USER,
                source=source,
                content=delivery.content,
                label=delivery.label,
                sender_id=sender_id,
                message_id=delivery.message_id,
                tokens=tokens,
                created_at=now,
            )
        )
    return tuple(memories)


def insert_answer(
    conn: WriterConnection, info: TurnInfo, turn_id: int, seq: int, answer: Answer, request_id: int, *, partial: bool
) -> Memory:
    """Store the text of an answer, cleaned; its calls are separate rows."""
    now = conn.now()
    text, reasoning = clean(answer.text), clean(answer.reasoning)
    tokens = estimate.tokens(text) + estimate.tokens(reasoning)
    memory_id = conn.insert(
        "INSERT INTO memory(mysis_id, turn_id, seq, role, source, content, reasoning, native, partial, tokens,"
        " request_id, created_at) VALUES (?,?,?,'assistant','llm',?,?,?,?,?,?,?)",
        (
            info.mysis_id,
            turn_id,
            seq,
            text,
            reasoning,
            row_values.native_text(answer.native),
            int(partial),
            tokens,
            request_id or None,
            now,
        ),
    )
    return Memory(
        id=memory_id,
        mysis_id=info.mysis_id,
        turn_id=turn_id,
        turn_number=info.turn_number,
        seq=seq,
        role=Role.ASSISTANT,
        source=Source.LLM,
        content=text,
        reasoning=reasoning,
        native=answer.native,
        partial=partial,
        tokens=tokens,
        created_at=now,
    )


def insert_call(
    conn: WriterConnection, info: TurnInfo, memory_id: int, position: int, prepared: PreparedCall, *, sent: bool
) -> ToolCall:
    """Store a call of an answer, and its question where it needs approval."""
    now = conn.now()
    state = CallState.PENDING
    if sent:
        state = CallState.SENT
    elif prepared.asks and prepared.known and not prepared.broken and not prepared.skipped:
        state = CallState.APPROVAL
    name, arguments = clean(prepared.name), clean(prepared.arguments)
    call_id = conn.insert(
        "INSERT INTO tool_call(memory_id, position, provider_call_id, name, upstream, arguments, fingerprint,"
        " state, started_at) VALUES (?,?,?,?,?,?,?,?,?)",
        (
            memory_id,
            position,
            clean(prepared.provider_call_id),
            name,
            prepared.upstream,
            arguments,
            prepared.fingerprint,
            state,
            now if sent else None,
        ),
    )
    if state is CallState.APPROVAL:
        approval_ops.ask_for_call(conn, info.mysis_id, call_id, prepared, info.approval_expiry)
    return ToolCall(
        id=call_id,
        position=position,
        name=name,
        arguments=arguments,
        upstream=prepared.upstream,
        provider_call_id=prepared.provider_call_id,
        fingerprint=prepared.fingerprint,
        state=state,
        started_at=now if sent else None,
    )


def store_result(
    conn: WriterConnection, info: TurnInfo, op: StoreResult, digest: bytes | None = None
) -> tuple[Memory, ToolCall]:
    """Store a result at its reserved place and end the call. `digest` stands for that of its content."""
    now = conn.now()
    content = clean(op.result.content)
    tokens = estimate.tokens(content)
    memory_id = conn.insert(
        "INSERT INTO memory(mysis_id, turn_id, seq, role, source, content, tokens, created_at)"
        " VALUES (?,?,?,'tool','tool',?,?,?)",
        (info.mysis_id, op.turn_id, op.seq, content, tokens, now),
    )
    for position, blob in enumerate(op.result.blobs):
        conn.execute(
            "INSERT INTO memory_blob(memory_id, position, blob_id, media_type, note) VALUES (?,?,?,?,?)",
            (memory_id, position, put_blob(conn, blob.data), blob.media_type, clean(blob.note)),
        )
    digest = digest or fingerprint.of_result(content, info.volatile)
    row = conn.execute(
        "UPDATE tool_call SET state = ?, result_memory_id = ?, result_fingerprint = ?, ended_at = ?"
        " WHERE id = ? RETURNING *",
        (op.state, memory_id, digest, now, op.call_id),
    ).fetchone()
    if op.state is not CallState.DONE:
        conn.execute("UPDATE tally SET errors = errors + 1 WHERE mysis_id = ?", (info.mysis_id,))
        if op.state in (CallState.CANCELLED, CallState.DENIED):
            approval_ops.expire_of_call(conn, op.call_id)
    memory = Memory(
        id=memory_id,
        mysis_id=info.mysis_id,
        turn_id=op.turn_id,
        turn_number=info.turn_number,
        seq=op.seq,
        role=Role.TOOL,
        source=Source.TOOL,
        content=content,
        call_id=op.call_id,
        tool_name=row["name"],
        is_error=op.state is not CallState.DONE,
        tokens=tokens,
        created_at=now,
    )
    return memory, row_values.call(row)


def mark_sent(conn: WriterConnection, call_ids: tuple[int, ...]) -> tuple[ToolCall, ...]:
    """Mark calls as sent; after a crash it is unknown whether they ran."""
    changed = conn.execute(
        f"UPDATE tool_call SET state = 'sent', started_at = ? WHERE id IN ({row_values.marks(call_ids)}) RETURNING *",
        (conn.now(), *call_ids),
    ).fetchall()
    return tuple(row_values.call(row) for row in changed)


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
    rows = conn.execute(_UNTOLD, (mysis_id,)).fetchall()
    if not rows:
        return ()
    parts = ["[note from Zoea] Results that came after their turn was stopped:"]
    for row in rows[:MOST_TOLD]:
        outcome = "failed" if row["is_error"] else "was carried out"
        parts.append(f"{format_call(row['name'], row['arguments'])} of turn {row['number']} {outcome}:")
        text, left = row["content"], len(row["content"]) - CHARS_TOLD
        parts.append(text if left <= 0 else f"{text[:CHARS_TOLD]} [… {left:,} characters left out]")
    if len(rows) > MOST_TOLD:
        parts.append(f"and {len(rows) - MOST_TOLD} more calls ended.")
    note = Note(0, row_values.LATE_RESULT, "\n".join(parts))
    conn.execute(
        "INSERT INTO turn_note(turn_id, after_seq, kind, content) VALUES (?,?,?,?)",
        (turn_id, note.after_seq, note.kind, note.content),
    )
    conn.executemany(
        "UPDATE late_result SET told_in_turn = ? WHERE tool_call_id = ?",
        [(turn_id, row["tool_call_id"]) for row in rows],
    )
    return (note,)
