"""Calls of the newest answer: which may start, and which are run once for several. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from zoea.model.enums import CallState, Role
from zoea.model.values import Memory, ToolCall
from zoea.swarm.turn.turn_types import PreparedCall, TurnState

_UNENDED = (CallState.PENDING, CallState.SENT)


def slice_calls(turn: TurnState) -> tuple[ToolCall, ...]:
    """Return the calls of the newest complete answer."""
    for memory in reversed(turn.memories):
        if memory.role is Role.ASSISTANT and not memory.partial:
            return memory.calls
    return ()


def find_call(turn: TurnState, call_id: int) -> tuple[Memory, ToolCall]:
    """Return a call of this turn and the answer that made it. Raises LookupError."""
    for memory in reversed(turn.memories):
        for call in memory.calls:
            if call.id == call_id:
                return memory, call
    raise LookupError(f"call {call_id} is not of turn {turn.turn_id}")


def first_batch(calls: tuple[PreparedCall, ...]) -> tuple[int, ...]:
    """Return the positions that start at once: leading read-only calls, or one other."""
    seen: set[bytes] = set()
    ready: list[tuple[int, bool]] = []
    for index, call in enumerate(calls):
        if not call.can_run or (call.read_only and call.fingerprint in seen):
            continue
        seen.add(call.fingerprint)
        ready.append((index, call.read_only))
    return _choose(ready)


def next_batch(turn: TurnState, calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    """Return the calls that start now, beside those that run. `calls` are the open ones of the slice.

    A read-only call that repeats another open one gets that one's result and never starts.
    """
    seen: set[bytes] = set()
    waiting: dict[int, ToolCall] = {}
    for call in calls:
        reads = call.name in turn.read_only
        is_running = call.id in turn.running
        if is_running and not reads:
            return ()
        if call.state not in _UNENDED or (reads and call.fingerprint in seen):
            continue
        seen.add(call.fingerprint)
        if not is_running:
            waiting[call.id] = call
    chosen = _choose([(call.id, call.name in turn.read_only) for call in waiting.values()])
    if turn.running:
        chosen = tuple(call_id for call_id in chosen if waiting[call_id].name in turn.read_only)
    return tuple(waiting[call_id] for call_id in chosen)


def repeats_of(turn: TurnState, answer: Memory, call: ToolCall) -> tuple[ToolCall, ...]:
    """Return the later calls of the answer that get the result of this one: read-only, identical, and not sent."""
    if call.name not in turn.read_only:
        return ()
    return tuple(
        other
        for other in answer.calls[call.position + 1 :]
        if other.fingerprint == call.fingerprint and other.state is CallState.PENDING and other.name == call.name
    )


def _choose(ready: list[tuple[int, bool]]) -> tuple[int, ...]:
    """Choose from (key, read-only), in call order, the keys that start when nothing runs."""
    chosen: list[int] = []
    for key, read_only in ready:
        if read_only:
            chosen.append(key)
            continue
        if not chosen:
            chosen.append(key)
        break
    return tuple(chosen)
