"""Write operations of a turn, each stored whole or not at all.

The rules are in `turn/machine.py`; `memory_ops.py` writes the rows of memories and calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from zoea.context import MESSAGE_FRAME, EarlierTurn, FrozenTurn, Note, choose_earlier, missing_needs, request_limit
from zoea.context.window.prompt_context import merge_contexts, override_turn, read_stored
from zoea.llm.model_traits import describe_trait
from zoea.model.enums import CallState, ErrorClass, Finish, OpenedBy, Outcome
from zoea.model.request import Catalogue, ToolResult
from zoea.model.values import Delivery, Memory, ToolCall, Usage
from zoea.store.writer_connection import WriterConnection
from zoea.swarm import life as lf
from zoea.swarm.persistence import (
    approval_ops,
    memory_ops,
    model_facts,
    mysis_ops,
    row_values,
    spend_ops,
    topic_ops,
    turn_records,
)
from zoea.swarm.resolved_template import drop_told_goal
from zoea.swarm.turn import prompt_budget, shown_notes, tool_budget
from zoea.swarm.turn import turn_types as t
from zoea.text import clean, estimate

_PLAN_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_BROKEN = "the arguments are not a JSON object: {why}. You wrote: {text}"
# The newest memory, the number of the next turn and its row id, which the frozen turn contains.
_BEFORE_TURN = """
SELECT coalesce((SELECT max(id) FROM memory WHERE mysis_id = ?1), 0),
  coalesce((SELECT max(number) FROM turn WHERE mysis_id = ?1), 0) + 1,
  coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'turn'), 0) + 1
"""
_NOTE = "INSERT OR IGNORE INTO turn_note(turn_id, after_seq, kind, content) VALUES (?,?,?,?)"
SAME_RESULT = "the same result as the identical call before it: read-only calls of one answer run once"
_UNKNOWN_TOOL = "there is no tool {name!r} in your toolbox; use one of the tools you were given"


class OpenedTurn(Struct, frozen=True):
    """A new turn as stored.

    `left` are pending deliveries that it had no room for; `before` answers the needs of its first plan.
    """

    turn_id: int
    number: int
    hop: int
    opened_at: int
    frozen: FrozenTurn
    memories: tuple[Memory, ...]
    notes: tuple[Note, ...]
    left: tuple[int, ...]
    before: turn_records.BeforeTurn


def open_turn(
    conn: WriterConnection,
    *,
    mysis_id: int,
    session_id: int | None,
    delivery_ids: tuple[int, ...],
    nudge_level: int,
    stored_life: lf.StoredLife,
    freeze: Callable[[int, int, int], FrozenTurn],
    catalogue: Catalogue,
) -> OpenedTurn | None:
    """Write the turn row, and store the pending prompts that fit as its memories.

    Returns None where every prompt was withdrawn.

    Args:
        stored_life: Stored in the same op: a prompt ends a wait, and a nudge counts once its turn exists.
        freeze: Called with turn id, number, and the newest memory id before the turn.
        catalogue: The tools that the mysis may call.
    """
    waiting = memory_ops.pending(conn, mysis_id, delivery_ids)
    mysis_ops.store_life(conn, mysis_id, stored_life)
    if not waiting and not nudge_level:
        return None
    now = conn.now()
    before, number, turn_id = conn.execute(_BEFORE_TURN, (mysis_id,)).fetchone()
    opened_by = OpenedBy.PROMPT if waiting else OpenedBy.NUDGE
    frozen = topic_ops.begin_turn(conn, freeze(turn_id, number, before))
    earlier = turn_records.read_before_opened(conn, mysis_id, missing_needs(frozen))
    required = estimate.tokens(waiting[0].content) if waiting else estimate.tokens(turn_records.read_order(earlier))
    if not waiting:
        frozen = replace(frozen, nudge_text=drop_told_goal(frozen.nudge_text, turn_records.read_order(earlier)))
    frozen, deliveries = _choose_content(conn, frozen, catalogue, waiting, required)
    frozen = topic_ops.note_triggers(conn, frozen, tuple([one.message_id for one in deliveries]))
    if frozen.earlier:
        answers = turn_records.read_before_opened(conn, mysis_id, missing_needs(frozen, earlier.answers)).answers
        earlier = replace(earlier, answers={**earlier.answers, **answers})
    hop = max((delivery.hop for delivery in deliveries), default=0)
    level = 0 if waiting else nudge_level
    conn.execute(
        "INSERT INTO turn(id, mysis_id, session_id, number, opened_by, nudge_level, hop, frozen, opened_at)"
        " VALUES (?,?,?,?,?,?,?,?,?)",
        (turn_id, mysis_id, session_id, number, opened_by, level, hop, frozen.to_json(), now),
    )
    memories = memory_ops.take(conn, mysis_id, turn_id, number, deliveries, 1)
    notes = memory_ops.tell_late_results(conn, mysis_id, turn_id)
    conn.execute("UPDATE tally SET turns = turns + 1 WHERE mysis_id = ?", (mysis_id,))
    conn.emit("turn.opened", mysis_id, turn=turn_id, number=number, opened_by=str(opened_by), prompts=len(memories))
    left = tuple(delivery.id for delivery in waiting[len(deliveries) :])
    return OpenedTurn(turn_id, number, hop, now, frozen, memories, notes, left, earlier)


def _choose_content(
    conn: WriterConnection, frozen: FrozenTurn, catalogue: Catalogue, waiting: tuple[Delivery, ...], required: int
) -> tuple[FrozenTurn, tuple[Delivery, ...]]:
    """Return the turn with tools, earlier turns and overrides, and the prompts that fit.

    Args:
        required: The tokens of the prompt or order that every request of the turn holds.
    """
    known_tools = KnownTools(conn, frozen.mysis_id, frozen.turn_number)

    def offer(turn: FrozenTurn, read_known: Callable[[], frozenset[str]] = known_tools.read) -> FrozenTurn:
        return tool_budget.choose_tools(
            turn,
            catalogue,
            read_known,
            required,
            lambda: dict(map(tuple, conn.execute(turn_records.TOOL_USES, (frozen.mysis_id,)))),
        )

    chosen, deliveries = _choose_prompts(conn, frozen, waiting, offer)
    chosen = choose_earlier_turns(conn, chosen, sum(map(prompt_budget.prompt_tokens, deliveries)))
    if chosen.shown_tools and (kept := known_tools.after_cut(chosen)) != known_tools.read():
        chosen = offer(chosen, lambda: kept)
    return chosen, deliveries


def _choose_prompts(
    conn: WriterConnection, frozen: FrozenTurn, waiting: tuple[Delivery, ...], offer: Callable[[FrozenTurn], FrozenTurn]
) -> tuple[FrozenTurn, tuple[Delivery, ...]]:
    """Return the turn with its tools and overrides, and the prompts that fit."""
    offered = offer(frozen)
    waiting = prompt_budget.select_together(waiting, lambda one: bool(read_stored(one.context).own_turn))
    deliveries = prompt_budget.select_fitting(waiting, prompt_budget.room_for_prompts(offered), at_least=1)
    contexts = {delivery.message_id: read_stored(delivery.context) for delivery in deliveries}
    context = merge_contexts(contexts.values())
    if context.token_budget_per_agent is not None:
        offered = offer(override_turn(frozen, context))
        room = prompt_budget.room_for_prompts(offered)
        deliveries = prompt_budget.select_fitting(deliveries, room, at_least=1)
    totals = {one: tokens for one, limits in contexts.items() if (tokens := limits.token_budget_total) is not None}
    return spend_ops.share_mission(conn, override_turn(offered, context), totals), deliveries


def store_answers(conn: WriterConnection, turn_id: int, answers: Mapping[str, str]) -> None:
    """Store what readers answered for a turn, by the key of the need. The first answer to a need stays."""
    conn.executemany(
        "INSERT OR IGNORE INTO turn_answer(turn_id, need, answer, created_at) VALUES (?,?,?,?)",
        [(turn_id, need, answer, conn.now()) for need, answer in answers.items()],
    )


def carry_out(conn: WriterConnection, info: memory_ops.TurnInfo, op: t.TurnOp) -> t.OpStored:
    """Carry out one op of the turn machine and return the stored rows."""
    match op:
        case t.StoreAnswer():
            return _store_answer(conn, info, op)
        case t.StoreResult():
            pairs = [memory_ops.store_result(conn, info, op)]
            for call_id, seq in op.repeats:
                repeat = replace(op, call_id=call_id, seq=seq, result=replace(op.result, content=SAME_RESULT, blobs=()))
                pairs.append(memory_ops.store_result(conn, info, repeat, pairs[0][1].result_fingerprint))
            return t.OpStored(conn.now(), tuple(memory for memory, _ in pairs), tuple(call for _, call in pairs))
        case t.MarkSent():
            return t.OpStored(conn.now(), calls=memory_ops.mark_sent(conn, op.call_ids))
        case t.TakeSteers():
            texts = conn.execute("SELECT content FROM memory WHERE turn_id = ? AND role = 'user'", (op.turn_id,))
            deliveries = prompt_budget.select_fitting(
                memory_ops.pending(conn, info.mysis_id, op.delivery_ids), info.prompt_room, (row[0] for row in texts)
            )
            memories = memory_ops.take(conn, info.mysis_id, op.turn_id, info.turn_number, deliveries, op.seq)
            if deliveries:
                mysis_ops.end_wait(conn, info.mysis_id)
                hop = max(delivery.hop for delivery in deliveries)
                conn.execute("UPDATE turn SET hop = max(hop, ?) WHERE id = ?", (hop, op.turn_id))
            return t.OpStored(conn.now(), memories=memories, taken=tuple(delivery.id for delivery in deliveries))
        case t.StoreNote():
            return t.OpStored(conn.now(), notes=(store_note(conn, info.mysis_id, op),))
        case t.SettleRequest():
            spend_ops.settle(conn, info, op.request_id, op.usage, finish=op.finish)
            return t.OpStored(conn.now())
        case t.FailRequest():
            spend_ops.fail(conn, info, op.request_id, op.usage, op.error_class)
            if op.retry is not None:
                _note_retry(conn, info, op.request_id, op.retry)
            if op.note is not None:
                store_note(conn, info.mysis_id, op.note)
            return t.OpStored(conn.now())
        case t.CloseTurn() | t.BreakOffTurn():
            return _leave(conn, info, op)
        case t.ResumeTurn():
            return _resume(conn, info, op)


def _note_retry(conn: WriterConnection, info: memory_ops.TurnInfo, request_id: int, retry: t.RetryNote) -> None:
    """Note a retry for people: in the conversation, and as an event."""
    text = shown_notes.retry_text(retry.what, retry.attempt, retry.attempts, retry.rest)
    conn.execute(_NOTE, (retry.turn_id, retry.after_seq, shown_notes.retry_kind(retry.attempt), text))
    conn.emit(
        "request.retried",
        info.mysis_id,
        turn=retry.turn_id,
        request=request_id,
        attempt=retry.attempt,
        attempts=retry.attempts,
        seconds=round(retry.rest / 1_000_000, 1),
        why=retry.cause,
    )


def _store_answer(conn: WriterConnection, info: memory_ops.TurnInfo, op: t.StoreAnswer) -> t.OpStored:
    answer = memory_ops.insert_answer(conn, info, op.turn_id, op.seq, op.answer, op.request_id, partial=False)
    stored: list[Memory] = []
    calls: list[ToolCall] = []
    for position, prepared in enumerate(op.calls):
        call = memory_ops.insert_call(conn, info, answer.id, position, prepared, sent=position in op.start)
        if not prepared.known or prepared.broken or prepared.skipped:
            why, state = _UNKNOWN_TOOL.format(name=prepared.name), CallState.ERROR
            if prepared.skipped:
                why, state = prepared.skipped, CallState.CANCELLED
            elif prepared.known:
                why = _BROKEN.format(why=prepared.broken, text=prepared.arguments[:500])
            result = t.StoreResult(op.turn_id, call.id, op.seq + 1 + position, ToolResult(why, is_error=True), state)
            answered, call = memory_ops.store_result(conn, info, result)
            stored.append(answered)
        calls.append(call)
    spend_ops.settle(conn, info, op.request_id, op.answer.usage, finish=op.answer.finish, model=op.answer.model)
    model_facts.learn_from_answer(conn, info.provider, info.model or op.answer.model, op.answer)
    for trait, _ in op.answer.traits:
        note = f"{info.model or op.answer.model} on {info.provider} {describe_trait(trait)}"
        store_note(conn, info.mysis_id, t.StoreNote(op.turn_id, op.seq, shown_notes.trait_kind(trait), note))
    if op.answer.are_calls_text:
        conn.execute(_NOTE, (op.turn_id, op.seq, shown_notes.TEXT_CALL, shown_notes.TEXT_CALL_NOTE))
        conn.emit("turn.note", info.mysis_id, turn=op.turn_id, note=shown_notes.TEXT_CALL_NOTE)
    if op.calls:
        conn.execute("UPDATE tally SET tool_calls = tool_calls + ? WHERE mysis_id = ?", (len(op.calls), info.mysis_id))
    notes: tuple[Note, ...] = ()
    if op.note is not None:
        notes = (store_note(conn, info.mysis_id, op.note),)
    if op.outcome is not None:
        _end(conn, info, op.turn_id, op.outcome, row_values.failure_text(op.failure))
    return t.OpStored(conn.now(), memories=(replace(answer, calls=tuple(calls)), *stored), notes=notes)


def store_note(conn: WriterConnection, mysis_id: int, op: t.StoreNote) -> Note:
    """Store a note of a turn, once at its place."""
    content = clean(op.content)
    conn.execute(_NOTE, (op.turn_id, op.after_seq, op.kind, content))
    conn.emit("turn.note", mysis_id, turn=op.turn_id, note=op.kind)
    return Note(op.after_seq, op.kind, content)


def _leave(conn: WriterConnection, info: memory_ops.TurnInfo, op: t.CloseTurn | t.BreakOffTurn) -> t.OpStored:
    """End a turn without an answer, or leave it open; streamed text stays readable."""
    partial: tuple[Memory, ...] = ()
    if op.unsent:
        spend_ops.fail(conn, info, op.request_id, Usage(), ErrorClass.CANCELLED)
    elif op.request_id and op.error_class is not None:
        spend_ops.fail(conn, info, op.request_id, op.usage, op.error_class)
    elif op.request_id:
        spend_ops.settle(conn, info, op.request_id, op.partial.usage if op.partial else Usage(), finish=Finish.UNKNOWN)
    # After a failed op the turn may not know of its request, which would stay reserved until the next start.
    for row in conn.execute(
        "SELECT id FROM request WHERE turn_id = ? AND state = 'reserved'", (op.turn_id,)
    ).fetchall():
        spend_ops.settle(conn, info, row["id"], Usage(), finish=Finish.UNKNOWN)
    if op.partial is not None and (op.partial.text.strip() or op.partial.reasoning.strip()):
        # Incomplete calls are dropped; their text remains.
        partial = (memory_ops.insert_answer(conn, info, op.turn_id, op.seq, op.partial, op.request_id, partial=True),)
    pairs = [memory_ops.store_result(conn, info, result) for result in op.results]
    if isinstance(op, t.CloseTurn):
        _end(conn, info, op.turn_id, op.outcome, row_values.failure_text(op.failure))
    else:
        conn.execute(
            "UPDATE turn SET broke_off = ?, failure = ? WHERE id = ?",
            (op.outcome, row_values.failure_text(op.failure), op.turn_id),
        )
        conn.emit("turn.broke_off", info.mysis_id, turn=op.turn_id, why=str(op.outcome))
    return t.OpStored(
        conn.now(), memories=(*(memory for memory, _ in pairs), *partial), calls=tuple(call for _, call in pairs)
    )


def _end(
    conn: WriterConnection, info: memory_ops.TurnInfo, turn_id: int, outcome: Outcome, failure: str | None
) -> None:
    now = conn.now()
    conn.execute(
        "UPDATE turn SET outcome = ?, ended_at = ?, broke_off = NULL, failure = ? WHERE id = ?",
        (outcome, now, failure, turn_id),
    )
    approval_ops.expire_of_turn(conn, turn_id)
    if outcome in (Outcome.FAILED, Outcome.TIMEOUT):
        conn.execute("UPDATE tally SET errors = errors + 1 WHERE mysis_id = ?", (info.mysis_id,))
    conn.emit("turn.ended", info.mysis_id, turn=turn_id, outcome=str(outcome))


def _resume(conn: WriterConnection, info: memory_ops.TurnInfo, op: t.ResumeTurn) -> t.OpStored:
    pairs = [memory_ops.store_result(conn, info, result) for result in op.results]
    conn.execute("UPDATE turn SET attempt = attempt + 1, broke_off = NULL, failure = NULL WHERE id = ?", (op.turn_id,))
    approval_ops.ask_again(conn, op.turn_id)
    conn.emit("turn.resumed", info.mysis_id, turn=op.turn_id)
    return t.OpStored(conn.now(), memories=tuple(memory for memory, _ in pairs), calls=tuple(call for _, call in pairs))


def plan_text(encoded: dict[str, object]) -> bytes:
    """Encode a plan for its request row, before compression."""
    try:
        return msgspec.json.encode(encoded)
    except (TypeError, UnicodeError):  # half of a character, or a kind of text
        return _PLAN_ENCODER.encode(encoded).encode("utf-8", "replace")


_LAST_SHOWN = """
SELECT id, frozen -> '$.shown_tools' AS shown FROM turn WHERE mysis_id = ? AND number < ? ORDER BY number DESC LIMIT 1
"""
_FIRST_SHOWN = """
SELECT frozen ->> '$.earlier[0][0]' FROM turn
WHERE mysis_id = ? AND number < ? AND opened_by = 'prompt' ORDER BY number DESC LIMIT 1
"""
_USED_TOOLS = """
SELECT DISTINCT k.name FROM tool_call k JOIN memory m ON m.id = k.memory_id WHERE m.turn_id IN ({marks})
"""


class KnownTools(Struct):
    """Reads once which tools a new turn shows whole, as the turns before used them.

    They are those that the last turn showed whole or used, until the earlier turns that are shown are cut: then
    those that the ones still shown, or the last turn, used.
    """

    conn: WriterConnection
    mysis_id: int
    number: int
    found: frozenset[str] | None = None

    def read(self) -> frozenset[str]:
        """Return the tools that the last turn showed whole or used."""
        if self.found is None:
            last = self.conn.execute(_LAST_SHOWN, (self.mysis_id, self.number)).fetchone()
            shown = json.loads(last["shown"] or "[]") if last is not None else ()
            self.found = frozenset(shown) | self._used(() if last is None else (last["id"],))
        return self.found

    def after_cut(self, frozen: FrozenTurn) -> frozenset[str]:
        """Return the known tools where the turn shows fewer earlier turns than before."""
        first = self.conn.execute(_FIRST_SHOWN, (self.mysis_id, self.number)).fetchone()
        if first is None or first[0] is None or not frozen.earlier or frozen.earlier[0].turn_id == first[0]:
            return self.read()
        last = self.conn.execute(_LAST_SHOWN, (self.mysis_id, self.number)).fetchone()
        return self._used((last["id"], *(one.turn_id for one in frozen.earlier)))

    def _used(self, turn_ids: Iterable[int]) -> frozenset[str]:
        ids = tuple(dict.fromkeys(turn_ids))
        if not ids:
            return frozenset()
        return frozenset(row[0] for row in self.conn.execute(_USED_TOOLS.format(marks=row_values.marks(ids)), ids))


_EARLIER_SHARE = 0.5  # of what the system prompt, the tools and the prompts leave free
_PER_ROW = MESSAGE_FRAME + 4  # the frame of a message, and what rounding may add
_MOST_BACK = 200  # turns back, so that a long time of nudges costs nothing
_LAST_EARLIER = """
SELECT id, frozen -> '$.earlier' AS earlier FROM turn
WHERE mysis_id = ? AND number BETWEEN ? AND ? AND opened_by = 'prompt' AND outcome IS NOT NULL
ORDER BY number DESC LIMIT 1
"""
# Characters and messages of each turn: whole, and of its prompts and last answer alone.
_TURN_SIZES = """
SELECT m.turn_id, count(*) AS rows, sum(length(m.content)) AS chars,
  coalesce(sum((SELECT sum(length(k.name) + length(k.arguments) + 8) FROM tool_call k WHERE k.memory_id = m.id)), 0)
    AS calls,
  sum(m.role = 'user') AS bare_rows, sum(iif(m.role = 'user', length(m.content), 0)) AS bare_chars,
  coalesce((SELECT length(n.content) FROM memory n WHERE n.turn_id = m.turn_id AND n.role = 'assistant'
    ORDER BY n.seq DESC LIMIT 1), 0) AS answer
FROM memory m WHERE m.turn_id IN ({marks}) GROUP BY m.turn_id
"""


def choose_earlier_turns(conn: WriterConnection, frozen: FrozenTurn, prompt_tokens: int) -> FrozenTurn:
    """Freeze the earlier turns that the requests show, and whether anything is left to recall.

    Args:
        prompt_tokens: Of the prompts that open the turn, before calibration.
    """
    if frozen.is_nudged:
        return frozen
    earlier = _read_earlier(conn, frozen, prompt_tokens) if frozen.keep_turns else ()
    # Turns are numbered from 1, so all of the past is shown where so many are shown whole.
    is_all_shown = sum(one.whole for one in earlier) >= frozen.turn_number - 1
    return replace(frozen, earlier=earlier, recall_items=0 if is_all_shown else frozen.recall_items)


def _read_earlier(conn: WriterConnection, frozen: FrozenTurn, prompt_tokens: int) -> tuple[EarlierTurn, ...]:
    first = max(frozen.turn_number - _MOST_BACK, frozen.inherited_turn + 1)
    newest = conn.execute(_LAST_EARLIER, (frozen.mysis_id, first, frozen.turn_number)).fetchone()
    if newest is None:
        return ()
    shown = tuple(EarlierTurn(turn_id, bool(whole)) for turn_id, whole in json.loads(newest["earlier"] or "[]"))
    ids = (*(one.turn_id for one in shown), newest["id"])
    whole, bare = dict[int, int](), dict[int, int]()
    for row in conn.execute(_TURN_SIZES.format(marks=row_values.marks(ids)), ids):
        chars = row["chars"] + row["calls"]
        whole[row["turn_id"]] = -(-chars // estimate.CHARS_PER_TOKEN) + _PER_ROW * row["rows"]
        short = row["bare_chars"] + row["answer"]
        bare[row["turn_id"]] = -(-short // estimate.CHARS_PER_TOKEN) + _PER_ROW * (row["bare_rows"] + 1)
    limit = int(request_limit(frozen).tokens / frozen.calibration)
    free = limit - estimate.tokens(frozen.system) - frozen.tools_tokens - prompt_tokens - 2 * MESSAGE_FRAME
    room = max(0, int(free * _EARLIER_SHARE))
    room = min(room, frozen.earlier_tokens or room)
    return choose_earlier(shown, newest["id"], whole, bare, keep=frozen.keep_turns, room=room)
