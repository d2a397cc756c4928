"""End a turn for good, or leave it open to be resumed. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from zoea.model.enums import ASK_TOOL, DONE_TOOL, CallState, ErrorClass, Outcome, Role
from zoea.model.request import Answer, GivenAnswer, ToolResult
from zoea.model.values import Failure, Memory, ToolCall, Usage
from zoea.swarm.turn import turn_types as t
from zoea.swarm.turn import waits
from zoea.swarm.turn.call_slice import find_call, slice_calls
from zoea.swarm.turn.fingerprint import parsed

NOTHING_USED = Usage()
NEVER_RAN = ToolResult("cancelled: stopped before this ran", is_error=True)
MAY_HAVE_RUN = ToolResult(
    "unknown: stopped while this ran; it may have been carried out, check before repeating it",
    is_error=True,
    is_unknown=True,
)

Step = tuple[t.TurnState, tuple[t.TurnEffect, ...]]


def next_seq(memories: tuple[Memory, ...]) -> int:
    """Return the next free place, after all reserved results."""
    return max((memory.seq + len(memory.calls) for memory in memories), default=0) + 1


def state_of(result: ToolResult) -> CallState:
    if result.is_unknown:
        return CallState.UNKNOWN
    return CallState.ERROR if result.is_error else CallState.DONE


def result_op(turn: t.TurnState, call_id: int, result: ToolResult, state: CallState) -> t.StoreResult:
    memory, call = find_call(turn, call_id)
    if state not in (CallState.CANCELLED, CallState.DENIED):
        result = add_remark(result, call, turn.allowed.get(call_id))
    return t.StoreResult(turn.turn_id, call_id, memory.seq + 1 + call.position, result, state)


def add_remark(result: ToolResult, call: ToolCall, given: GivenAnswer | None) -> ToolResult:
    """Return a result that begins with the commander's remark or change, if there is any."""
    is_question = call.name == ASK_TOOL and not call.upstream  # the sentence is its result
    if given is None or is_question or not (given.sentence or given.arguments):
        return result
    how = "The commander allowed this call."
    if given.arguments:
        how = f"The commander changed the arguments of this call. It ran with: {given.arguments}"
    remark = f" The commander says: {given.sentence}" if given.sentence else ""
    return replace(result, content=f"[note from Zoea] {how}{remark}\n\n{result.content}")


def report_timeout(turn: t.TurnState) -> Failure:
    seconds = turn.rules.turn.timeout
    return Failure(
        "TurnTimeout",
        "Its turn made no progress",
        f"nothing came from its model or its tools for {seconds:g} s",
        "look at its provider and its tools, or raise turn.timeout",
    )


def _is_resting_before_call(turn: t.TurnState) -> bool:
    """True where backpressure or the provider delays a reserved request."""
    return turn.phase is t.TurnPhase.RESTING and turn.next is t.NextStep.CALL


def close_turn(
    turn: t.TurnState,
    outcome: Outcome,
    *,
    at: int | None = None,
    failure: Failure | None = None,
    error_class: ErrorClass | None = None,
    stops: bool = False,
    finished: tuple[t.StoreResult, ...] = (),
    usage: Usage = NOTHING_USED,
) -> Step:
    """End the turn for good. Open calls get the result `unknown` if they run, else `cancelled`."""
    done = {op.call_id for op in finished}
    rest = tuple(
        result_op(turn, call.id, MAY_HAVE_RUN, CallState.UNKNOWN)
        if call.id in turn.running
        else result_op(turn, call.id, NEVER_RAN, CallState.CANCELLED)
        for call in slice_calls(turn)
        if call.state.is_open and call.id not in done
    )
    turn = replace(
        turn, running=frozenset(), outcome=outcome, failure=failure, error_class=error_class, stops=stops, final=True
    )
    return _leave(t.CloseTurn, turn, outcome, (*finished, *rest), usage, turn.at if at is None else at)


def break_off_turn(
    turn: t.TurnState, outcome: Outcome, finished: tuple[t.StoreResult, ...] = (), usage: Usage = NOTHING_USED
) -> Step:
    """Leave the turn open, to be resumed from its stored records."""
    return _leave(t.BreakOffTurn, turn, outcome, finished, usage, turn.at)


def _leave(
    kind: type[t.CloseTurn] | type[t.BreakOffTurn],
    turn: t.TurnState,
    outcome: Outcome,
    results: tuple[t.StoreResult, ...],
    usage: Usage,
    at: int,
) -> Step:
    end = describe_end(replace(turn, outcome=outcome), at)
    op = kind(
        turn_id=turn.turn_id,
        outcome=outcome,
        request_id=turn.request_id if turn.phase is t.TurnPhase.CALLING or _is_resting_before_call(turn) else 0,
        partial=turn.partial,
        seq=next_seq(turn.memories),
        results=results,
        failure=turn.failure,
        unsent=_is_resting_before_call(turn),
        error_class=turn.error_class,
        usage=usage,
        end=end,
    )
    return replace(turn, phase=t.TurnPhase.ENDING, next=t.NextStep.END, end=end), (t.StoreOp(op),)


def describe_end(turn: t.TurnState, at: int, *, concludes: Answer | None = None) -> t.TurnEnd:
    """Return what the life machine hears; the op that ends the turn stores its consequences."""
    outcome = turn.outcome or Outcome.ANSWERED
    # A world may have stood still while Zoea did not run: ticks from before say nothing of its pace.
    recent = tuple(memory for memory in turn.memories if memory.created_at >= (turn.resumed_at or 0))
    tick = waits.learn_tick(recent, turn.rules_wait, turn.tick_length)
    wait = None
    if outcome is Outcome.ANSWERED:
        wait = waits.asked(
            turn.memories, turn.rules_wait, at, tick, concludes=concludes is not None, known=turn.known_ticks
        )
    report = _done_report(turn) if outcome is Outcome.ANSWERED else None
    answers = [memory for memory in turn.memories if memory.role is Role.ASSISTANT and not memory.partial]
    texts = (*(memory.content for memory in answers), concludes.text if concludes else "")
    return t.TurnEnd(
        outcome=outcome,
        responded=turn.responded,
        nudged=turn.nudged,
        failure=turn.failure,
        error_class=turn.error_class,
        final=turn.final,
        stops=turn.stops,
        wait_until=wait.until if wait else None,
        wait_reason=wait.reason if wait else "",
        tick_length=tick,
        done=report is not None,
        summary=report or "",
        called=any(memory.calls for memory in answers),
        said=tuple(text for text in texts if text.strip()),
        ticks=waits.newest_ticks(turn.memories, turn.rules_wait),
    )


def _done_report(turn: t.TurnState) -> str | None:
    """Return the summary of a turn that reported its task as done. None where it did not.

    An external agent may call tools of its own after that.
    """
    calls = (call for memory in reversed(turn.memories) if not memory.partial for call in memory.calls)
    reports = (call for call in calls if call.name == DONE_TOOL and not call.upstream and call.state is CallState.DONE)
    call = next(reports, None)
    arguments = parsed(call.arguments) if call is not None else None
    return str(arguments.get("summary", "")) if isinstance(arguments, dict) else None
