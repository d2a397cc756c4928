"""What a turn stores: each function is one op of the writer, all of it or nothing.

The SQL of turns, memories and calls lives here; what is decided lives in `turn.py`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

from zoea.context import Frozen, Note
from zoea.model.request import Answer, ToolResult
from zoea.model.values import Delivery, Memory, ToolCall, Usage
from zoea.model.words import (
    CallState,
    DeliveryState,
    ErrorClass,
    Finish,
    MessageKind,
    OpenedBy,
    Outcome,
    Role,
    Source,
)
from zoea.store import WriterConnection, put_blob
from zoea.swarm import approval_ops, fingerprint, mysis_ops, room, rows, spend_ops
from zoea.swarm import life as lf
from zoea.swarm.turn_types import (
    BreakOff,
    Close,
    FailRequest,
    MarkSent,
    Prepared,
    Resume,
    Settle,
    StoreAnswer,
    Stored,
    StoreNote,
    StoreResult,
    TakeSteers,
    TurnOp,
)
from zoea.text import clean, estimate

_BROKEN = "the arguments are not a JSON object: {why}. You wrote: {text}"
_UNKNOWN_TOOL = "there is no tool {name!r} in your toolbox; use one of the tools you were given"


@dataclass(frozen=True, slots=True)
class TurnOpened:
    """A turn as it now stands in the store; `left` are pending deliveries that it had no room for."""

    turn_id: int
    number: int
    hop: int
    opened_at: int
    frozen: Frozen
    memories: tuple[Memory, ...]
    left: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Keeper:
    """What every op of one turn needs to know: whose it is, and what its spending counts for."""

    mysis_id: int
    turn_number: int
    provider: str
    model: str
    metered: bool
    volatile: tuple[str, ...]
    approval_expiry: int
    prompt_room: int
    first_token_us: int | None = None  # of the request that is being settled


def open_turn(
    conn: WriterConnection,
    *,
    mysis_id: int,
    session_id: int | None,
    delivery_ids: tuple[int, ...],
    nudge_level: int,
    freeze: Callable[[int, int, int], Frozen],
) -> TurnOpened | None:
    """Write the turn row and make memories of the prompts that are still pending, as many as there is room for.

    `freeze(turn_id, number, before)` gives what is frozen, where `before` is the
    newest memory id of this mysis before the turn. None where nothing is left to
    open it with: every prompt was withdrawn meanwhile.
    """
    waiting = _pending(conn, mysis_id, delivery_ids)
    # What it waited for is over, and a nudge counts from the moment its turn is there.
    mysis_ops.keep_lasting(conn, mysis_id, lf.Lasting(0 if waiting else nudge_level))
    if not waiting and not nudge_level:
        return None
    now = conn.now()
    before = conn.execute("SELECT max(id) FROM memory WHERE mysis_id = ?", (mysis_id,)).fetchone()[0] or 0
    number = (conn.execute("SELECT max(number) FROM turn WHERE mysis_id = ?", (mysis_id,)).fetchone()[0] or 0) + 1
    opened_by = OpenedBy.PROMPT if waiting else OpenedBy.NUDGE
    turn_id = _inserted(
        conn.execute(
            "INSERT INTO turn(mysis_id, session_id, number, opened_by, nudge_level, hop, frozen, opened_at)"
            " VALUES (?,?,?,?,?,0,'{}',?)",
            (mysis_id, session_id, number, opened_by, 0 if waiting else nudge_level, now),
        )
    )
    frozen = freeze(turn_id, number, before)
    deliveries = room.those_that_fit(waiting, room.for_prompts(frozen), at_least=1)
    hop = max((delivery.hop for delivery in deliveries), default=0)
    conn.execute("UPDATE turn SET frozen = ?, hop = ? WHERE id = ?", (frozen.to_json(), hop, turn_id))
    memories = _take(conn, mysis_id, turn_id, number, deliveries, 1)
    conn.execute("UPDATE tally SET turns = turns + 1 WHERE mysis_id = ?", (mysis_id,))
    conn.emit("turn.opened", mysis_id, turn=turn_id, number=number, opened_by=str(opened_by), prompts=len(memories))
    left = tuple(delivery.id for delivery in waiting[len(deliveries) :])
    return TurnOpened(turn_id, number, hop, now, frozen, memories, left)


def _pending(conn: sqlite3.Connection, mysis_id: int, delivery_ids: tuple[int, ...]) -> tuple[Delivery, ...]:
    if not delivery_ids:
        return ()
    found = conn.execute(
        f"{rows.DELIVERY} WHERE d.mysis_id = ? AND d.state = 'pending' AND d.id IN ({rows.marks(delivery_ids)})"
        " ORDER BY d.id",
        (mysis_id, *delivery_ids),
    )
    return tuple(rows.delivery(row) for row in found)


def _take(
    conn: WriterConnection, mysis_id: int, turn_id: int, number: int, deliveries: tuple[Delivery, ...], seq: int
) -> tuple[Memory, ...]:
    """Prompts become memories, and their deliveries name the turn: in one op, so none is answered twice."""
    now = conn.now()
    memories = []
    for offset, delivery in enumerate(deliveries):
        source = Source.BROADCAST if delivery.kind is MessageKind.BROADCAST else Source.DIRECT
        sender_id = delivery.sender.id
        tokens = estimate.tokens(delivery.content)
        memory_id = _inserted(
            conn.execute(
                "INSERT INTO memory(mysis_id, turn_id, seq, role, source, message_id, sender_id, content, tokens,"
                " created_at) VALUES (?,?,?,'user',?,?,?,?,?,?)",
                (
                    mysis_id,
                    turn_id,
                    seq + offset,
                    source,
                    delivery.message_id,
                    sender_id,
                    delivery.content,
                    tokens,
                    now,
                ),
            )
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


def carry_out(conn: WriterConnection, keeper: Keeper, op: TurnOp) -> Stored:
    """Carry out one op of the turn machine; what it stored comes back with its ids."""
    match op:
        case StoreAnswer():
            return _store_answer(conn, keeper, op)
        case StoreResult():
            memory, call = _store_result(conn, keeper, op)
            return Stored(conn.now(), memories=(memory,), calls=(call,))
        case MarkSent():
            return Stored(conn.now(), calls=_mark_sent(conn, op.call_ids))
        case TakeSteers():
            texts = conn.execute("SELECT content FROM memory WHERE turn_id = ? AND role = 'user'", (op.turn_id,))
            deliveries = room.those_that_fit(
                _pending(conn, keeper.mysis_id, op.delivery_ids), keeper.prompt_room, (row[0] for row in texts)
            )
            memories = _take(conn, keeper.mysis_id, op.turn_id, keeper.turn_number, deliveries, op.seq)
            if deliveries:
                hop = max(delivery.hop for delivery in deliveries)
                conn.execute("UPDATE turn SET hop = max(hop, ?) WHERE id = ?", (hop, op.turn_id))
            return Stored(conn.now(), memories=memories, taken=tuple(delivery.id for delivery in deliveries))
        case StoreNote():
            conn.execute(
                "INSERT OR IGNORE INTO turn_note(turn_id, after_seq, kind, content) VALUES (?,?,?,?)",
                (op.turn_id, op.after_seq, op.kind, op.content),
            )
            conn.emit("turn.note", keeper.mysis_id, turn=op.turn_id, note=op.kind)
            return Stored(conn.now(), notes=(Note(op.after_seq, op.kind, op.content),))
        case Settle():
            spend_ops.settle(conn, keeper, op.request_id, op.usage, finish=op.finish)
            return Stored(conn.now())
        case FailRequest():
            spend_ops.fail(conn, keeper, op.request_id, op.usage, op.error_class)
            return Stored(conn.now())
        case Close() | BreakOff():
            return _leave(conn, keeper, op)
        case Resume():
            return _resume(conn, keeper, op)


def _store_answer(conn: WriterConnection, keeper: Keeper, op: StoreAnswer) -> Stored:
    now = conn.now()
    memory_id, memory = _insert_answer(conn, keeper, op.turn_id, op.seq, op.answer, op.request_id, partial=False)
    stored: list[Memory] = []
    calls: list[ToolCall] = []
    for position, prepared in enumerate(op.calls):
        call = _insert_call(conn, keeper, memory_id, position, prepared, sent=position in op.start)
        if not prepared.known or prepared.broken:
            why = _UNKNOWN_TOOL.format(name=prepared.name)
            if prepared.known:
                why = _BROKEN.format(why=prepared.broken, text=prepared.arguments[:500])
            result = StoreResult(
                op.turn_id, call.id, op.seq + 1 + position, ToolResult(why, is_error=True), CallState.ERROR
            )
            answered, call = _store_result(conn, keeper, result)
            stored.append(answered)
        calls.append(call)
    spend_ops.settle(conn, keeper, op.request_id, op.answer.usage, finish=op.answer.finish)
    if op.calls:
        conn.execute(
            "UPDATE tally SET tool_calls = tool_calls + ? WHERE mysis_id = ?", (len(op.calls), keeper.mysis_id)
        )
    if op.outcome is not None:
        _end(conn, keeper, op.turn_id, op.outcome, None)
    whole = Memory(
        id=memory_id,
        mysis_id=keeper.mysis_id,
        turn_id=op.turn_id,
        turn_number=keeper.turn_number,
        seq=op.seq,
        role=Role.ASSISTANT,
        source=Source.LLM,
        content=memory.text,
        reasoning=memory.reasoning,
        calls=tuple(calls),
        native=memory.native,
        tokens=estimate.tokens(memory.text) + estimate.tokens(memory.reasoning),
        created_at=now,
    )
    return Stored(now, memories=(whole, *stored))


def _insert_answer(
    conn: WriterConnection, keeper: Keeper, turn_id: int, seq: int, answer: Answer, request_id: int, *, partial: bool
) -> tuple[int, Answer]:
    text, reasoning = clean(answer.text), clean(answer.reasoning)
    memory_id = _inserted(
        conn.execute(
            "INSERT INTO memory(mysis_id, turn_id, seq, role, source, content, reasoning, native, partial, tokens,"
            " request_id, created_at) VALUES (?,?,?,'assistant','llm',?,?,?,?,?,?,?)",
            (
                keeper.mysis_id,
                turn_id,
                seq,
                text,
                reasoning,
                rows.native_text(answer.native),
                int(partial),
                estimate.tokens(text) + estimate.tokens(reasoning),
                request_id or None,
                conn.now(),
            ),
        )
    )
    return memory_id, Answer(text=text, reasoning=reasoning, native=answer.native)


def _insert_call(
    conn: WriterConnection, keeper: Keeper, memory_id: int, position: int, prepared: Prepared, *, sent: bool
) -> ToolCall:
    now = conn.now()
    state = CallState.PENDING
    if sent:
        state = CallState.SENT
    elif prepared.asks and prepared.known and not prepared.broken:
        state = CallState.APPROVAL
    name, arguments = clean(prepared.name), clean(prepared.arguments)
    call_id = _inserted(
        conn.execute(
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
    )
    if state is CallState.APPROVAL:
        approval_ops.ask_for_call(conn, keeper.mysis_id, call_id, prepared.schema_hash, keeper.approval_expiry)
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


def _store_result(conn: WriterConnection, keeper: Keeper, op: StoreResult) -> tuple[Memory, ToolCall]:
    now = conn.now()
    content = clean(op.result.content)
    tokens = estimate.tokens(content)
    memory_id = _inserted(
        conn.execute(
            "INSERT INTO memory(mysis_id, turn_id, seq, role, source, content, tokens, created_at)"
            " VALUES (?,?,?,'tool','tool',?,?,?)",
            (keeper.mysis_id, op.turn_id, op.seq, content, tokens, now),
        )
    )
    for position, blob in enumerate(op.result.blobs):
        conn.execute(
            "INSERT INTO memory_blob(memory_id, position, blob_id, media_type, note) VALUES (?,?,?,?,?)",
            (memory_id, position, put_blob(conn, blob.data), blob.media_type, clean(blob.note)),
        )
    digest = fingerprint.of_result(content, keeper.volatile)
    row = conn.execute(
        "UPDATE tool_call SET state = ?, result_memory_id = ?, result_fingerprint = ?, ended_at = ?"
        " WHERE id = ? RETURNING *",
        (op.state, memory_id, digest, now, op.call_id),
    ).fetchone()
    if op.state is not CallState.DONE:
        conn.execute("UPDATE tally SET errors = errors + 1 WHERE mysis_id = ?", (keeper.mysis_id,))
        if op.state in (CallState.CANCELLED, CallState.DENIED):
            approval_ops.expire_of_call(conn, op.call_id)
    memory = Memory(
        id=memory_id,
        mysis_id=keeper.mysis_id,
        turn_id=op.turn_id,
        turn_number=keeper.turn_number,
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
    return memory, _call(row)


def _call(row: sqlite3.Row) -> ToolCall:
    return ToolCall(
        id=row["id"],
        position=row["position"],
        name=row["name"],
        arguments=row["arguments"],
        upstream=row["upstream"],
        provider_call_id=row["provider_call_id"],
        fingerprint=row["fingerprint"],
        result_fingerprint=row["result_fingerprint"],
        state=CallState(row["state"]),
        result_memory_id=row["result_memory_id"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
    )


def _mark_sent(conn: WriterConnection, call_ids: tuple[int, ...]) -> tuple[ToolCall, ...]:
    changed = conn.execute(
        f"UPDATE tool_call SET state = 'sent', started_at = ? WHERE id IN ({rows.marks(call_ids)}) RETURNING *",
        (conn.now(), *call_ids),
    ).fetchall()
    return tuple(_call(row) for row in changed)


def _leave(conn: WriterConnection, keeper: Keeper, op: Close | BreakOff) -> Stored:
    """End a turn before its answer, or let it stand open; what was streamed stays readable."""
    partial: tuple[Memory, ...] = ()
    if op.unsent:
        spend_ops.fail(conn, keeper, op.request_id, Usage(), ErrorClass.CANCELLED)
    elif op.request_id and op.error_class is not None:
        spend_ops.fail(conn, keeper, op.request_id, op.usage, op.error_class)
    elif op.request_id:
        spend_ops.settle(
            conn, keeper, op.request_id, op.partial.usage if op.partial else Usage(), finish=Finish.UNKNOWN
        )
    if op.partial is not None and (op.partial.text.strip() or op.partial.reasoning.strip()):
        # Calls that were only half written are no calls; their text is what remains.
        memory_id, kept = _insert_answer(conn, keeper, op.turn_id, op.seq, op.partial, op.request_id, partial=True)
        partial = (
            Memory(
                id=memory_id,
                mysis_id=keeper.mysis_id,
                turn_id=op.turn_id,
                turn_number=keeper.turn_number,
                seq=op.seq,
                role=Role.ASSISTANT,
                source=Source.LLM,
                content=kept.text,
                reasoning=kept.reasoning,
                partial=True,
                created_at=conn.now(),
            ),
        )
    pairs = [_store_result(conn, keeper, result) for result in op.results]
    if isinstance(op, Close):
        _end(conn, keeper, op.turn_id, op.outcome, rows.failure_text(op.failure))
    else:
        conn.execute(
            "UPDATE turn SET broke_off = ?, failure = ? WHERE id = ?",
            (op.outcome, rows.failure_text(op.failure), op.turn_id),
        )
        conn.emit("turn.broke_off", keeper.mysis_id, turn=op.turn_id, why=str(op.outcome))
    return Stored(
        conn.now(), memories=(*(memory for memory, _ in pairs), *partial), calls=tuple(call for _, call in pairs)
    )


def _end(conn: WriterConnection, keeper: Keeper, turn_id: int, outcome: Outcome, failure: str | None) -> None:
    now = conn.now()
    conn.execute(
        "UPDATE turn SET outcome = ?, ended_at = ?, broke_off = NULL, failure = ? WHERE id = ?",
        (outcome, now, failure, turn_id),
    )
    approval_ops.expire_of_turn(conn, turn_id)
    if outcome in (Outcome.FAILED, Outcome.TIMEOUT):
        conn.execute("UPDATE tally SET errors = errors + 1 WHERE mysis_id = ?", (keeper.mysis_id,))
    conn.emit("turn.ended", keeper.mysis_id, turn=turn_id, outcome=str(outcome))


def _resume(conn: WriterConnection, keeper: Keeper, op: Resume) -> Stored:
    pairs = [_store_result(conn, keeper, result) for result in op.results]
    conn.execute("UPDATE turn SET attempt = attempt + 1, broke_off = NULL, failure = NULL WHERE id = ?", (op.turn_id,))
    approval_ops.ask_again(conn, op.turn_id, keeper.approval_expiry)
    conn.emit("turn.resumed", keeper.mysis_id, turn=op.turn_id)
    return Stored(conn.now(), memories=tuple(memory for memory, _ in pairs), calls=tuple(call for _, call in pairs))


def _inserted(cursor: sqlite3.Cursor) -> int:
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def plan_text(encoded: dict[str, object]) -> bytes:
    """The plan as the request row keeps it, before compression."""
    return json.dumps(encoded, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
