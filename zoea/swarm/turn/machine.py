"""One open turn as a pure machine: plan, call, store, run tools, until an answer without calls.

`step(turn, input) -> (turn, effects)` over frozen values; ids, times and chance come with the
inputs. A `StoreOp` is the last effect of a step, and `OpStored` comes before any other effect
begins, so that later effects can rely on the stored rows.
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from zoea.context.topics.agent_texts import write_repair
from zoea.model.enums import DONE_TOOL, WAIT_TOOL, CallState, ErrorClass, Outcome, Role
from zoea.model.request import Answer, ToolResult
from zoea.model.values import Failure, Memory, ToolCall
from zoea.swarm.moved_times import move_times
from zoea.swarm.rules import SECOND
from zoea.swarm.turn import loop_guard, message_budget
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
from zoea.swarm.turn.turn_types import (
    Abort,
    Answered,
    Approved,
    Ask,
    AwaitLift,
    BudgetVerdict,
    Call,
    CallFailed,
    CallFinished,
    CallWithheld,
    ClockJumped,
    FailRequest,
    Fetch,
    HoldChanged,
    HoldLifted,
    MarkSent,
    NextStep,
    OpStored,
    Planned,
    PlanRequest,
    Reserve,
    RetryNote,
    Run,
    SettleRequest,
    Sleep,
    Steered,
    StoreAnswer,
    StoreNote,
    StoreOp,
    Summarise,
    Summarised,
    SummaryFailed,
    SummaryWanted,
    TakeSteers,
    TimePassed,
    TurnCancelled,
    TurnInput,
    TurnOpened,
    TurnPhase,
    TurnState,
    Unplannable,
)

NO_RESPONSE = "(no response)"
OUTPUT_NOTE = "output"
UNFIT_OUTPUT = "Its answer does not match the output schema"
UNFIT_HINT = "look at its last two answers, and make the template's output_schema or prompt clearer"
MOST_TOO_LONG = 4
"""Requests of a turn that may be too long; each is followed by a smaller one."""


def step(turn: TurnState, given: TurnInput) -> Step:
    """Process one input. Effects are carried out in order; `turn_types` describes them."""
    if turn.phase is TurnPhase.ENDED:
        return turn, ()
    match given:
        case TurnOpened():
            turn = replace(turn, earlier_calls=given.calls, earlier_texts=given.texts)
            return _after_slice(turn, given.at)
        case SummaryWanted():
            return _summarise(turn)
        case Summarised():
            return replace(turn, phase=TurnPhase.OPENING), (Fetch(),)
        case SummaryFailed():
            if given.can_retry and not turn.summary_retried:
                return _summarise(replace(turn, summary_retried=True))
            return replace(turn, phase=TurnPhase.OPENING), (Fetch(gives_up=True),)
        case Planned():
            return _planned(turn, given)
        case Unplannable():
            kind = ErrorClass.CONTEXT_LENGTH if turn.limit is not None else ErrorClass.BAD_REQUEST
            return close_turn(turn, Outcome.FAILED, failure=turn.refusal or given.failure, error_class=kind)
        case BudgetVerdict():
            return _verdict(turn, given)
        case Answered():
            return _answered(turn, given)
        case CallFailed():
            return _call_failed(turn, given)
        case OpStored():
            return _stored(turn, given)
        case CallFinished():
            return _finished(turn, given)
        case Approved():
            return _approved(turn, given)
        case Steered():
            return replace(turn, steers=(*turn.steers, *given.deliveries)), ()
        case HoldChanged():
            return replace(turn, held=given.on), ()
        case HoldLifted():
            return _lifted(turn)
        case CallWithheld():
            return _summarise(turn) if turn.phase is TurnPhase.SUMMARISING else _give_back(turn)
        case TimePassed():
            return _now(turn, given)
        case ClockJumped():
            memories = tuple(move_times(memory, given.delta) for memory in turn.memories)
            end = None if turn.end is None else move_times(turn.end, given.delta)
            return replace(move_times(turn, given.delta), memories=memories, end=end), ()
        case TurnCancelled():
            return _cancelled(turn, given)
        case _:
            assert_never(given)


def _end_of_slice(turn: TurnState) -> int:
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


def _summarise(turn: TurnState) -> Step:
    """Have a model write a part of the summary, after a hold."""
    if turn.held:
        return replace(turn, phase=TurnPhase.HELD, next=NextStep.SUMMARISE), (AwaitLift(),)
    return replace(turn, phase=TurnPhase.SUMMARISING, next=NextStep.NOTHING), (Summarise(),)


def _after_slice(turn: TurnState, at: int) -> Step:
    """Continue or end once every call has its result."""
    calls = slice_calls(turn)
    if any(call.state.is_open for call in calls):
        is_cut = message_budget.is_used_up(turn) and not message_budget.may_run(calls)
        return _request(turn) if is_cut else _run_more(turn)
    if any(call.name in (WAIT_TOOL, DONE_TOOL) and call.state is CallState.DONE for call in calls):
        return close_turn(turn, Outcome.ANSWERED, at=at)
    done = iterations(turn.memories)
    if done >= turn.rules.max_iterations:
        return close_turn(turn, Outcome.ITERATION_LIMIT)
    circling = _in_circles(turn) if done else None
    return circling or _request(turn)


def _in_circles(turn: TurnState) -> Step | None:
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
    note = StoreNote(turn.turn_id, last, loop_guard.NOTE_KIND, loop_guard.warning_text(repeated.words))
    return replace(turn, next=NextStep.REQUEST), (StoreOp(note),)


def _request(turn: TurnState) -> Step:
    if message_budget.is_used_up(turn):
        return close_turn(turn, Outcome.BUDGET, failure=message_budget.used_up_failure())
    if turn.held:
        return replace(turn, phase=TurnPhase.HELD, next=NextStep.REQUEST), (AwaitLift(),)
    if turn.steers:
        op = TakeSteers(turn.turn_id, turn.steers, next_seq(turn.memories))
        return replace(turn, steers=(), next=NextStep.REQUEST), (StoreOp(op),)
    turn = replace(turn, phase=TurnPhase.PLANNING, iteration=iterations(turn.memories) + 1)
    return turn, (PlanRequest(turn.limit),)


def _planned(turn: TurnState, given: Planned) -> Step:
    """Reserve the request; where it is the last one, tell the model so and plan it again."""
    if not given.last_request or message_budget.is_last_request(turn):
        return _reserve(turn)
    note = StoreNote(turn.turn_id, next_seq(turn.memories) - 1, message_budget.NOTE_KIND, given.last_request)
    return replace(turn, next=NextStep.REQUEST), (StoreOp(note),)


def _reserve(turn: TurnState) -> Step:
    """Reserve the request; during a hold wait, so that nothing counts as spent after a crash."""
    if turn.held:
        return replace(turn, phase=TurnPhase.HELD, next=NextStep.RESERVE), (AwaitLift(),)
    return replace(turn, phase=TurnPhase.RESERVING, next=NextStep.NOTHING), (Reserve(turn.iteration, turn.attempt),)


def _call(turn: TurnState) -> Step:
    if turn.held:
        return _give_back(turn)
    return replace(turn, phase=TurnPhase.CALLING, next=NextStep.NOTHING), (Call(),)


def _give_back(turn: TurnState, following: NextStep = NextStep.RESERVE) -> Step:
    """Release the reservation of a request that was not sent, and reserve or plan it again."""
    op = FailRequest(turn.request_id, ErrorClass.CANCELLED, NOTHING_USED)
    return replace(turn, phase=TurnPhase.RESERVING, next=following), (StoreOp(op),)


def _lifted(turn: TurnState) -> Step:
    match turn.phase:
        case TurnPhase.HELD | TurnPhase.RUNNING if turn.held:
            return turn, (AwaitLift(),)  # a new hold began
        case TurnPhase.HELD if turn.next is NextStep.SUMMARISE:
            return _summarise(turn)
        case TurnPhase.HELD:
            # A steer that came during the hold joins this request.
            return _reserve(turn) if turn.next is NextStep.RESERVE and not turn.steers else _request(turn)
        case TurnPhase.RUNNING:
            return _run_more(turn)
        case _:
            return turn, ()


def _verdict(turn: TurnState, given: BudgetVerdict) -> Step:
    turn = replace(turn, request_id=given.request_id)
    if given.refused:
        failure = Failure("Budget", given.refused, hint=given.hint)
        return close_turn(turn, Outcome.BUDGET, failure=failure, stops=given.stops)
    if given.held:
        return replace(turn, phase=TurnPhase.HELD, next=NextStep.RESERVE), (AwaitLift(),)
    if given.asked:
        return replace(turn, phase=TurnPhase.RESTING, rest_until=0, next=NextStep.RESERVE), ()
    if turn.steers:
        # Steers that came while the turn was opened: plan its first request again with them.
        return _give_back(turn, NextStep.REQUEST)
    if given.rest_until is not None:
        return replace(turn, phase=TurnPhase.RESTING, rest_until=given.rest_until, next=NextStep.CALL), (
            Sleep(given.rest_until),
        )
    return _call(turn)


def _answered(turn: TurnState, given: Answered) -> Step:
    given = replace(given, answer=_without_warning(given.answer, turn))
    answer, is_cut = given.answer, message_budget.is_last_request(turn) and not message_budget.may_run(given.calls)
    if answer.is_empty and not turn.empty_retried:
        turn = replace(turn, empty_retried=True, attempt=turn.attempt + 1, next=NextStep.RESERVE)
        return turn, (StoreOp(SettleRequest(turn.request_id, answer.usage, answer.finish)),)
    op = StoreAnswer(
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
    following = NextStep.REQUEST if is_cut else NextStep.RUN_STARTED
    return replace(turn, phase=TurnPhase.RUNNING, next=following), (StoreOp(op),)


def _without_warning(answer: Answer, turn: TurnState) -> Answer:
    text = loop_guard.drop_warning(answer.text, turn.notes) if turn.notes else answer.text
    return answer if text == answer.text else replace(answer, text=text)


def _conclude(turn: TurnState, given: Answered, op: StoreAnswer) -> Step:
    """End the turn with an answer.

    One that misses its output schema is asked for once more, and then fails the turn.
    """
    outcome, error = Outcome.ANSWERED, given.output.error if given.output is not None else ""
    if error:
        if not any(note.kind == OUTPUT_NOTE for note in turn.notes):
            note = StoreNote(turn.turn_id, op.seq, OUTPUT_NOTE, write_repair(error))
            return replace(turn, next=NextStep.REQUEST), (StoreOp(replace(op, note=note)),)
        outcome, failure = Outcome.FAILED, Failure("Output", UNFIT_OUTPUT, error, UNFIT_HINT)
        turn = replace(turn, failure=failure, error_class=ErrorClass.BAD_REQUEST, final=True)
    end = describe_end(replace(turn, outcome=outcome), given.at, concludes=given.answer)
    output = given.output.data if given.output is not None else ""
    op = replace(op, outcome=outcome, end=end, output=output, failure=turn.failure)
    return replace(turn, outcome=outcome, phase=TurnPhase.ENDING, next=NextStep.END, end=end), (StoreOp(op),)


def _call_failed(turn: TurnState, given: CallFailed) -> Step:
    op = FailRequest(turn.request_id, given.error_class, given.usage)
    rules = turn.rules
    if given.error_class is ErrorClass.TRANSIENT and turn.attempt <= rules.retries:
        if given.retry_after is not None:
            rest = int(given.retry_after * SECOND)
        else:
            ceiling = min(rules.backoff_max, rules.backoff_first * 2 ** (turn.attempt - 1))
            rest = int(ceiling * given.jitter)
        until = given.at + rest
        note = RetryNote(
            turn.turn_id,
            _last_seq(turn.memories),
            turn.attempt + 1,
            rules.retries + 1,
            rest,
            given.cause,
            given.failure.what or given.failure.title,
        )
        op = replace(op, retry=note)
        turn = replace(turn, phase=TurnPhase.RESTING, attempt=turn.attempt + 1, rest_until=until, next=NextStep.REST)
        return turn, (StoreOp(op),)
    is_too_long = given.error_class is ErrorClass.CONTEXT_LENGTH
    if is_too_long and given.limit is not None and turn.too_long < MOST_TOO_LONG:
        kind, text = limit_kind(given.limit), limit_text(given.failure.what or given.failure.title, given.limit)
        op = replace(op, note=StoreNote(turn.turn_id, _last_seq(turn.memories), kind, text))
        turn = replace(turn, limit=given.limit, too_long=turn.too_long + 1, refusal=given.failure)
        return replace(turn, phase=TurnPhase.RESTING, attempt=1, next=NextStep.REQUEST), (StoreOp(op),)
    # One op for the failed request and the turn, because a crash between two would send it again.
    turn = replace(turn, failure=given.failure, error_class=given.error_class, partial=given.partial)
    if given.error_class in (ErrorClass.BAD_REQUEST, ErrorClass.CONTEXT_LENGTH, ErrorClass.CONTENT_FILTER):
        return close_turn(turn, Outcome.FAILED, failure=given.failure, error_class=given.error_class, usage=given.usage)
    return break_off_turn(turn, Outcome.FAILED, usage=given.usage)


# Running tools.


def _run_more(turn: TurnState) -> Step:
    """Start the calls that may start, ask for approvals, or continue when all are done."""
    calls = [call for call in slice_calls(turn) if call.state.is_open]
    if not calls:
        return _after_slice(turn, turn.at)
    unasked = tuple(c.id for c in calls if c.state is CallState.APPROVAL and c.id not in turn.asked)
    asks = tuple(Ask(call_id) for call_id in unasked)
    turn = replace(turn, phase=TurnPhase.RUNNING, asked=turn.asked | frozenset(unasked))
    batch = next_batch(turn, calls)
    if not batch:
        return turn, asks
    chosen = tuple(call.id for call in batch)
    if all(call.state is CallState.SENT for call in batch):
        turn = replace(turn, running=turn.running | frozenset(chosen))
        return turn, (*asks, Run(chosen))
    if turn.held:
        return turn, (*asks, AwaitLift())
    return replace(turn, next=NextStep.RUN_STARTED), (*asks, StoreOp(MarkSent(chosen)))


def _finished(turn: TurnState, given: CallFinished) -> Step:
    answer, call = find_call(turn, given.call_id)
    if not call.state.is_open:
        return turn, ()  # a second result of the same call is ignored
    op = result_op(turn, given.call_id, given.result, state_of(given.result))
    if repeats := repeats_of(turn, answer, call):
        op = replace(op, repeats=tuple((other.id, answer.seq + 1 + other.position) for other in repeats))
    return replace(turn, running=turn.running - {given.call_id}, next=NextStep.RUN), (StoreOp(op),)


def _approved(turn: TurnState, given: Approved) -> Step:
    _, call = find_call(turn, given.call_id)
    if call.state is not CallState.APPROVAL:
        return turn, ()
    if given.answer.allows:
        turn = replace(turn, memories=_with_calls(turn.memories, (replace(call, state=CallState.PENDING),)))
        return _run_more(turn)
    said = given.sentence or ("nobody answered in time" if given.answer == "expired" else "the commander said no")
    denied = ToolResult(f"{given.answer}: {said}", is_error=True)
    op = result_op(turn, given.call_id, denied, CallState.DENIED)
    return replace(turn, next=NextStep.RUN), (StoreOp(op),)


# After an acknowledgement.


def _stored(turn: TurnState, given: OpStored) -> Step:
    turn = replace(
        turn,
        at=given.at,
        memories=_merged(turn.memories, given.memories, given.calls),
        notes=(*turn.notes, *given.notes),
    )
    following = turn.next
    turn = replace(turn, next=NextStep.NOTHING)
    match following:
        case NextStep.NOTHING | NextStep.CALL | NextStep.SUMMARISE:
            return turn, ()  # nothing follows
        case NextStep.REQUEST:
            return _request(turn)
        case NextStep.RESERVE:
            return _reserve(turn)
        case NextStep.REST:
            return replace(turn, next=NextStep.RESERVE), (Sleep(turn.rest_until),)
        case NextStep.RUN | NextStep.RUN_STARTED:
            return _run_more(turn)
        case NextStep.FETCH:
            return turn, (Fetch(),)
        case NextStep.END:
            assert turn.end is not None
            return replace(turn, phase=TurnPhase.ENDED), (turn.end,)
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


def _now(turn: TurnState, given: TimePassed) -> Step:
    if turn.phase is TurnPhase.RESTING:
        # `Sleep` ends the rest; like a hold, it counts for no deadline.
        if given.at < turn.rest_until:
            return turn, ()
        if turn.next is NextStep.CALL:
            return _call(turn)
        return _reserve(turn) if turn.next is NextStep.RESERVE else (turn, ())
    asking = any(call.state is CallState.APPROVAL for call in slice_calls(turn))
    if turn.held or asking or given.at - given.progress_at < turn.rules.timeout:
        return turn, ()
    return turn, (Abort(Outcome.TIMEOUT),)


def _cancelled(turn: TurnState, given: TurnCancelled) -> Step:
    if given.outcome is Outcome.TIMEOUT:
        turn = replace(turn, failure=report_timeout(turn))
    first = {done.call_id: done for done in reversed(given.finished)}
    finished = tuple(
        result_op(turn, done.call_id, done.result, state_of(done.result))
        for done in first.values()
        if find_call(turn, done.call_id)[1].state.is_open
    )
    turn = replace(turn, partial=given.partial, steers=(), running=given.on_wire)
    if given.unsent and turn.phase is TurnPhase.CALLING:
        turn = replace(turn, phase=TurnPhase.RESTING, next=NextStep.CALL)  # the provider never let it go
    if given.outcome is Outcome.CRASHED or (given.outcome is Outcome.TIMEOUT and not turn.nudged):
        return break_off_turn(turn, given.outcome, finished)
    return close_turn(turn, given.outcome, failure=turn.failure, finished=finished)
