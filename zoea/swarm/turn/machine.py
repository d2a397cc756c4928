"""The pure state machine of one open turn.

It plans, calls, stores and runs tools until an answer has no calls.

`step(turn, input) -> (turn, effects)` over frozen values; ids, times and chance come with the
inputs. A `StoreOp` is the last effect of a step, and `OpStored` comes before any other effect
begins, so that later effects can rely on the stored rows.
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from zoea.context.topics.agent_texts import write_repair
from zoea.model.enums import DONE_TOOL, WAIT_TOOL, CallState, ErrorClass, Outcome, Role
from zoea.model.request import NO_RESPONSE, Answer, ToolResult
from zoea.model.values import Failure, Memory, ToolCall
from zoea.swarm.rules import SECOND, to_micros
from zoea.swarm.turn import loop_guard, message_budget
from zoea.swarm.turn import turn_types as t
from zoea.swarm.turn.call_slice import find_call, first_batch, next_batch, repeats_of, slice_calls
from zoea.swarm.turn.shown_notes import limit_kind, limit_text
from zoea.swarm.turn.turn_close import (
    NOTHING_USED,
    Step,
    break_off_turn,
    close_turn,
    describe_end,
    next_seq,
    report_timeout,
    result_op,
    state_of,
)

OUTPUT_NOTE = "output"
UNFIT_OUTPUT = "Its answer does not match the output schema"
UNFIT_HINT = "look at its last two answers, and make the template's output_schema or prompt clearer"
MOST_TOO_LONG = 4
"""Requests of a turn that may be too long; each is followed by a smaller one."""


def step(turn: t.TurnState, given: t.TurnInput) -> Step:
    """Process one input. Effects are carried out in order; `turn_types` describes them."""
    if turn.phase is t.TurnPhase.ENDED:
        return turn, ()
    match given:
        case t.TurnOpened():
            turn = replace(turn, earlier_calls=given.calls, earlier_texts=given.texts)
            return _after_slice(turn, given.at)
        case t.SummaryWanted():
            return _summarise(turn)
        case t.Summarised():
            return replace(turn, phase=t.TurnPhase.OPENING), (t.Fetch(),)
        case t.SummaryFailed():
            if given.can_retry and not turn.summary_retried:
                return _summarise(replace(turn, summary_retried=True))
            return replace(turn, phase=t.TurnPhase.OPENING), (t.Fetch(gives_up=True),)
        case t.Planned():
            return _planned(turn, given)
        case t.Unplannable():
            kind = ErrorClass.CONTEXT_LENGTH if turn.limit is not None else ErrorClass.BAD_REQUEST
            return close_turn(turn, Outcome.FAILED, failure=turn.refusal or given.failure, error_class=kind)
        case t.BudgetVerdict():
            return _verdict(turn, given)
        case t.Answered():
            return _answered(turn, given)
        case t.CallFailed():
            return _call_failed(turn, given)
        case t.OpStored():
            return _stored(turn, given)
        case t.CallFinished():
            return _finished(turn, given)
        case t.Approved():
            return _approved(turn, given)
        case t.Steered():
            return replace(turn, steers=(*turn.steers, *given.deliveries)), ()
        case t.HoldChanged():
            return replace(turn, held=given.on), ()
        case t.HoldLifted():
            return _lifted(turn)
        case t.CallWithheld():
            return _summarise(turn) if turn.phase is t.TurnPhase.SUMMARISING else _give_back(turn)
        case t.TimePassed():
            return _now(turn, given)
        case t.TurnCancelled():
            return _cancelled(turn, given)
        case _:
            assert_never(given)


def _end_of_slice(turn: t.TurnState) -> int:
    """Return the place of the newest answer's last result, or its own."""
    answers = (one for one in reversed(turn.memories) if one.role is Role.ASSISTANT and not one.partial)
    return next((one.seq + len(one.calls) for one in answers), 0)


def _last_seq(memories: tuple[Memory, ...]) -> int:
    """Return the place of the newest memory, 0 where there is none."""
    return max((memory.seq for memory in memories), default=0)


def iterations(memories: tuple[Memory, ...]) -> int:
    """Count the complete answers of this turn."""
    return sum(1 for memory in memories if memory.role is Role.ASSISTANT and not memory.partial)


# Planning and calling the model.


def _summarise(turn: t.TurnState) -> Step:
    """Have a model write a part of the summary, after a hold."""
    if turn.held:
        return replace(turn, phase=t.TurnPhase.HELD, next=t.NextStep.SUMMARISE), (t.AwaitLift(),)
    return replace(turn, phase=t.TurnPhase.SUMMARISING, next=t.NextStep.NOTHING), (t.Summarise(),)


def _after_slice(turn: t.TurnState, at: int) -> Step:
    """Continue or end once every call has its result."""
    calls = slice_calls(turn)
    if any(call.state.is_open for call in calls):
        is_cut = message_budget.is_used_up(turn) and not message_budget.may_run(calls)
        return _request(turn) if is_cut else _run_more(turn)
    if any(call.name in (WAIT_TOOL, DONE_TOOL) and call.state is CallState.DONE for call in calls):
        return close_turn(turn, Outcome.ANSWERED, at=at)
    done = iterations(turn.memories)
    if done >= turn.rules.turn.max_iterations:
        return close_turn(turn, Outcome.ITERATION_LIMIT)
    circling = _in_circles(turn) if done else None
    return circling or _request(turn)


def _in_circles(turn: t.TurnState) -> Step | None:
    """Warn of a repetition, or end the turn after a warning; None without a repetition."""
    seen = (turn.memories, turn.earlier_calls, turn.earlier_texts, turn.rules.loop)
    repeated = loop_guard.find_repetition(*seen)
    if repeated is None:
        return None
    # The note belongs to the slice; a later steer or partial answer does not repeat anything.
    last = _end_of_slice(turn)
    noted = [note.after_seq for note in turn.notes if note.kind == loop_guard.NOTE_KIND]
    if any(after < last and loop_guard.is_warning_of(after, repeated, *seen) for after in noted):
        return close_turn(turn, Outcome.LOOP, failure=Failure("Loop", "Going round in circles", repeated.words))
    if last in noted:
        return None
    note = t.StoreNote(turn.turn_id, last, loop_guard.NOTE_KIND, loop_guard.warning_text(repeated.words))
    return replace(turn, next=t.NextStep.REQUEST), (t.StoreOp(note),)


def _request(turn: t.TurnState) -> Step:
    if message_budget.is_used_up(turn):
        return close_turn(turn, Outcome.BUDGET, failure=message_budget.used_up_failure())
    if turn.held:
        return replace(turn, phase=t.TurnPhase.HELD, next=t.NextStep.REQUEST), (t.AwaitLift(),)
    if turn.steers:
        op = t.TakeSteers(turn.turn_id, turn.steers, next_seq(turn.memories))
        return replace(turn, steers=(), next=t.NextStep.REQUEST), (t.StoreOp(op),)
    turn = replace(turn, phase=t.TurnPhase.PLANNING, iteration=iterations(turn.memories) + 1)
    return turn, (t.PlanRequest(turn.limit),)


def _planned(turn: t.TurnState, given: t.Planned) -> Step:
    """Reserve the request. Where it is the last one, tell the model so and plan it again."""
    if not given.last_request or message_budget.is_last_request(turn):
        return _reserve(turn)
    note = t.StoreNote(turn.turn_id, next_seq(turn.memories) - 1, message_budget.NOTE_KIND, given.last_request)
    return replace(turn, next=t.NextStep.REQUEST), (t.StoreOp(note),)


def _reserve(turn: t.TurnState) -> Step:
    """Reserve the request. During a hold wait, so that nothing counts as spent after a crash."""
    if turn.held:
        return replace(turn, phase=t.TurnPhase.HELD, next=t.NextStep.RESERVE), (t.AwaitLift(),)
    return replace(turn, phase=t.TurnPhase.RESERVING, next=t.NextStep.NOTHING), (
        t.Reserve(turn.iteration, turn.attempt),
    )


def _call(turn: t.TurnState) -> Step:
    if turn.held:
        return _give_back(turn)
    return replace(turn, phase=t.TurnPhase.CALLING, next=t.NextStep.NOTHING), (t.Call(),)


def _give_back(turn: t.TurnState, following: t.NextStep = t.NextStep.RESERVE) -> Step:
    """Release the reservation of an unsent request, and reserve or plan it again."""
    op = t.FailRequest(turn.request_id, ErrorClass.CANCELLED, NOTHING_USED)
    return replace(turn, phase=t.TurnPhase.RESERVING, next=following), (t.StoreOp(op),)


def _lifted(turn: t.TurnState) -> Step:
    match turn.phase:
        case t.TurnPhase.HELD | t.TurnPhase.RUNNING if turn.held:
            return turn, (t.AwaitLift(),)  # a new hold began
        case t.TurnPhase.HELD if turn.next is t.NextStep.SUMMARISE:
            return _summarise(turn)
        case t.TurnPhase.HELD:
            # A steer that came during the hold joins this request.
            return _reserve(turn) if turn.next is t.NextStep.RESERVE and not turn.steers else _request(turn)
        case t.TurnPhase.RUNNING:
            return _run_more(turn)
        case _:
            return turn, ()


def _verdict(turn: t.TurnState, given: t.BudgetVerdict) -> Step:
    turn = replace(turn, request_id=given.request_id)
    if given.refused:
        failure = Failure("Budget", given.refused, hint=given.hint)
        return close_turn(turn, Outcome.BUDGET, failure=failure, stops=given.stops)
    if given.held:
        return replace(turn, phase=t.TurnPhase.HELD, next=t.NextStep.RESERVE), (t.AwaitLift(),)
    if given.asked:
        return replace(turn, phase=t.TurnPhase.RESTING, rest_until=0, next=t.NextStep.RESERVE), ()
    if turn.steers:
        # Steers that came while the turn was opened: plan its first request again with them.
        return _give_back(turn, t.NextStep.REQUEST)
    if given.rest_until is not None:
        return replace(turn, phase=t.TurnPhase.RESTING, rest_until=given.rest_until, next=t.NextStep.CALL), (
            t.Sleep(given.rest_until),
        )
    return _call(turn)


def _answered(turn: t.TurnState, given: t.Answered) -> Step:
    given = replace(given, answer=_without_warning(given.answer, turn))
    answer, is_cut = given.answer, message_budget.is_last_request(turn) and not message_budget.may_run(given.calls)
    if answer.is_empty and not turn.empty_retried:
        turn = replace(turn, empty_retried=True, attempt=turn.attempt + 1, next=t.NextStep.RESERVE)
        return turn, (t.StoreOp(t.SettleRequest(turn.request_id, answer.usage, answer.finish)),)
    op = t.StoreAnswer(
        turn_id=turn.turn_id,
        request_id=turn.request_id,
        seq=next_seq(turn.memories),
        answer=replace(answer, text=NO_RESPONSE) if answer.is_empty else answer,
        calls=given.calls,
        start=() if turn.held or is_cut else first_batch(given.calls),
    )
    turn = replace(turn, responded=not answer.is_empty or turn.responded, attempt=1, empty_retried=False)
    if not given.calls:
        return _conclude(turn, given, op)
    following = t.NextStep.REQUEST if is_cut else t.NextStep.RUN_STARTED
    return replace(turn, phase=t.TurnPhase.RUNNING, next=following), (t.StoreOp(op),)


def _without_warning(answer: Answer, turn: t.TurnState) -> Answer:
    text = loop_guard.drop_warning(answer.text, turn.notes) if turn.notes else answer.text
    return answer if text == answer.text else replace(answer, text=text)


def _conclude(turn: t.TurnState, given: t.Answered, op: t.StoreAnswer) -> Step:
    """End the turn with an answer.

    One that misses its output schema is asked for once more, and then fails the turn.
    """
    outcome, error = Outcome.ANSWERED, given.output.error if given.output is not None else ""
    if error:
        if not any(note.kind == OUTPUT_NOTE for note in turn.notes):
            note = t.StoreNote(turn.turn_id, op.seq, OUTPUT_NOTE, write_repair(error))
            return replace(turn, next=t.NextStep.REQUEST), (t.StoreOp(replace(op, note=note)),)
        outcome, failure = Outcome.FAILED, Failure("Output", UNFIT_OUTPUT, error, UNFIT_HINT)
        turn = replace(turn, failure=failure, error_class=ErrorClass.BAD_REQUEST, final=True)
    end = describe_end(replace(turn, outcome=outcome), given.at, concludes=given.answer)
    output = given.output.data if given.output is not None else ""
    op = replace(op, outcome=outcome, end=end, output=output, failure=turn.failure)
    return replace(turn, outcome=outcome, phase=t.TurnPhase.ENDING, next=t.NextStep.END, end=end), (t.StoreOp(op),)


def _call_failed(turn: t.TurnState, given: t.CallFailed) -> Step:
    op = t.FailRequest(turn.request_id, given.error_class, given.usage)
    retries = turn.rules.llm.retries
    if given.error_class is ErrorClass.TRANSIENT and turn.attempt <= retries:
        if given.retry_after is not None:
            rest = int(given.retry_after * SECOND)
        else:
            llm = turn.rules.llm
            ceiling = to_micros(min(llm.backoff_max, llm.backoff_first * 2 ** (turn.attempt - 1)))
            rest = int(ceiling * given.jitter)
        until = given.at + rest
        note = t.RetryNote(
            turn.turn_id,
            _last_seq(turn.memories),
            turn.attempt + 1,
            retries + 1,
            rest,
            given.cause,
            given.failure.what or given.failure.title,
        )
        op = replace(op, retry=note)
        turn = replace(
            turn, phase=t.TurnPhase.RESTING, attempt=turn.attempt + 1, rest_until=until, next=t.NextStep.REST
        )
        return turn, (t.StoreOp(op),)
    is_too_long = given.error_class is ErrorClass.CONTEXT_LENGTH
    if is_too_long and given.limit is not None and turn.too_long < MOST_TOO_LONG:
        # A note of the same kind at the same place is stored once, and a restored turn counts the notes.
        limit = given.limit if turn.limit is None else min(given.limit, turn.limit - 1)
        kind, text = limit_kind(limit), limit_text(given.failure.what or given.failure.title, limit)
        op = replace(op, note=t.StoreNote(turn.turn_id, _last_seq(turn.memories), kind, text))
        turn = replace(turn, limit=limit, too_long=turn.too_long + 1, refusal=given.failure)
        return replace(turn, phase=t.TurnPhase.RESTING, attempt=1, next=t.NextStep.REQUEST), (t.StoreOp(op),)
    # One op for the failed request and the turn, because a crash between two would send it again.
    turn = replace(turn, failure=given.failure, error_class=given.error_class, partial=given.partial)
    if given.error_class in (ErrorClass.BAD_REQUEST, ErrorClass.CONTEXT_LENGTH, ErrorClass.CONTENT_FILTER):
        return close_turn(turn, Outcome.FAILED, failure=given.failure, error_class=given.error_class, usage=given.usage)
    return break_off_turn(turn, Outcome.FAILED, usage=given.usage)


# Running tools.


def _run_more(turn: t.TurnState) -> Step:
    """Start the calls that may start, ask for approvals, or continue when all are done."""
    calls = [call for call in slice_calls(turn) if call.state.is_open]
    if not calls:
        return _after_slice(turn, turn.at)
    unasked = tuple(c.id for c in calls if c.state is CallState.APPROVAL and c.id not in turn.asked)
    asks = tuple(t.Ask(call_id) for call_id in unasked)
    turn = replace(turn, phase=t.TurnPhase.RUNNING, asked=turn.asked | frozenset(unasked))
    batch = next_batch(turn, calls)
    if not batch:
        return turn, asks
    chosen = tuple(call.id for call in batch)
    if all(call.state is CallState.SENT for call in batch):
        turn = replace(turn, running=turn.running | frozenset(chosen))
        return turn, (*asks, t.Run(chosen))
    if turn.held:
        return turn, (*asks, t.AwaitLift())
    return replace(turn, next=t.NextStep.RUN_STARTED), (*asks, t.StoreOp(t.MarkSent(chosen)))


def _finished(turn: t.TurnState, given: t.CallFinished) -> Step:
    answer, call = find_call(turn, given.call_id)
    if not call.state.is_open:
        return turn, ()  # a second result of the same call is ignored
    op = result_op(turn, given.call_id, given.result, state_of(given.result))
    if repeats := repeats_of(turn, answer, call):
        op = replace(op, repeats=tuple((other.id, answer.seq + 1 + other.position) for other in repeats))
    return replace(turn, running=turn.running - {given.call_id}, next=t.NextStep.RUN), (t.StoreOp(op),)


def _approved(turn: t.TurnState, approved: t.Approved) -> Step:
    given = approved.given
    _, call = find_call(turn, approved.call_id)
    if call.state is not CallState.APPROVAL:
        return turn, ()
    if given.answer.allows:
        memories = _with_calls(turn.memories, (replace(call, state=CallState.PENDING),))
        return _run_more(replace(turn, memories=memories, allowed={**turn.allowed, call.id: given}))
    reason = given.sentence or ("nobody answered in time" if given.answer == "expired" else "the commander said no")
    denied = ToolResult(f"{given.answer}: {reason}", is_error=True)
    op = result_op(turn, approved.call_id, denied, CallState.DENIED)
    return replace(turn, next=t.NextStep.RUN), (t.StoreOp(op),)


# After an acknowledgement.


def _stored(turn: t.TurnState, given: t.OpStored) -> Step:
    turn = replace(
        turn,
        at=given.at,
        memories=_merged(turn.memories, given.memories, given.calls),
        notes=(*turn.notes, *given.notes),
    )
    following = turn.next
    turn = replace(turn, next=t.NextStep.NOTHING)
    match following:
        case t.NextStep.NOTHING | t.NextStep.CALL | t.NextStep.SUMMARISE:
            return turn, ()  # nothing follows
        case t.NextStep.REQUEST:
            return _request(turn)
        case t.NextStep.RESERVE:
            return _reserve(turn)
        case t.NextStep.REST:
            return replace(turn, next=t.NextStep.RESERVE), (t.Sleep(turn.rest_until),)
        case t.NextStep.RUN | t.NextStep.RUN_STARTED:
            return _run_more(turn)
        case t.NextStep.FETCH:
            return turn, (t.Fetch(),)
        case t.NextStep.END:
            assert turn.end is not None
            return replace(turn, phase=t.TurnPhase.ENDED), (turn.end,)
        case _:
            assert_never(following)


def _merged(
    memories: tuple[Memory, ...], stored: tuple[Memory, ...], calls: tuple[ToolCall, ...]
) -> tuple[Memory, ...]:
    memories = _with_calls(memories, calls)
    if not stored:
        return memories
    if memories and stored[0].seq > memories[-1].seq:
        return (*memories, *stored)
    return tuple(sorted((*memories, *stored), key=lambda memory: memory.seq))


def _with_calls(memories: tuple[Memory, ...], calls: tuple[ToolCall, ...]) -> tuple[Memory, ...]:
    """Replace calls, in one pass from the newest answer on."""
    changed = {call.id: call for call in calls}
    made = list(memories)
    for index in range(len(made) - 1, -1, -1):
        if not changed:
            break
        memory = made[index]
        if any(call.id in changed for call in memory.calls):
            made[index] = replace(memory, calls=tuple([changed.pop(call.id, call) for call in memory.calls]))
    return tuple(made) if calls else memories


# Time, cancelling.


def _now(turn: t.TurnState, given: t.TimePassed) -> Step:
    if turn.phase is t.TurnPhase.RESTING:
        # `Sleep` ends the rest; like a hold, it counts for no deadline.
        if given.at < turn.rest_until:
            return turn, ()
        if turn.next is t.NextStep.CALL:
            return _call(turn)
        return _reserve(turn) if turn.next is t.NextStep.RESERVE else (turn, ())
    asking = any(call.state is CallState.APPROVAL for call in slice_calls(turn))
    if turn.held or asking or given.at - given.progress_at < to_micros(turn.rules.turn.timeout):
        return turn, ()
    return turn, (t.Abort(Outcome.TIMEOUT),)


def _cancelled(turn: t.TurnState, given: t.TurnCancelled) -> Step:
    if given.outcome is Outcome.TIMEOUT:
        turn = replace(turn, failure=report_timeout(turn))
    first = {done.call_id: done for done in reversed(given.finished)}
    finished = tuple(
        result_op(turn, done.call_id, done.result, state_of(done.result))
        for done in first.values()
        if find_call(turn, done.call_id)[1].state.is_open
    )
    turn = replace(turn, partial=given.partial, steers=(), running=given.on_wire)
    if given.unsent and turn.phase is t.TurnPhase.CALLING:
        turn = replace(turn, phase=t.TurnPhase.RESTING, next=t.NextStep.CALL)  # the provider never let it go
    if given.outcome is Outcome.CRASHED or (given.outcome is Outcome.TIMEOUT and not turn.nudged):
        return break_off_turn(turn, given.outcome, finished)
    return close_turn(turn, given.outcome, failure=turn.failure, finished=finished)
