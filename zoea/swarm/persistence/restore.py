"""Restores the state of the turn machine from stored rows. Pure.

A call that was not sent gets the result `cancelled`, one that was in flight `unknown`; an
open approval is asked again.
"""

from __future__ import annotations

from collections.abc import Mapping

from zoea.context import Note
from zoea.model.enums import CallState, ErrorClass, Role
from zoea.model.request import GivenAnswer, ToolResult
from zoea.model.values import Memory
from zoea.swarm.rules import TurnRules, WaitRules
from zoea.swarm.turn.turn_close import add_remark
from zoea.swarm.turn.turn_types import NextStep, PastRequest, ResumeTurn, StoreOp, StoreResult, TurnEffect, TurnState

NEVER_RAN = "cancelled: Zoea stopped before this ran"
MAY_HAVE_RUN = "unknown: Zoea stopped while this ran; check before repeating it"


def restore(
    *,
    turn_id: int,
    memories: tuple[Memory, ...],
    notes: tuple[Note, ...],
    rules: TurnRules,
    rules_wait: WaitRules,
    read_only: frozenset[str],
    nudged: bool,
    at: int,
    tick_length: int = 0,
    limits: tuple[int, ...] = (),
    requests: tuple[PastRequest, ...] = (),
    allowed: Mapping[int, GivenAnswer] | None = None,
) -> tuple[TurnState, tuple[TurnEffect, ...]]:
    """Return the machine as it was after the last stored row, and its first effects.

    Args:
        memories: Every memory of the turn, in conversation order.
        read_only: Names of tools that may overlap.
        limits: Of plans after requests of this turn that were too long.
        requests: Requests since the last answer, in order; they continue the count of attempts.
        allowed: The answers that allowed calls of the turn, by id of the call.
    """
    allowed = allowed or {}
    results = tuple(
        StoreResult(
            turn_id,
            call.id,
            memory.seq + 1 + call.position,
            add_remark(
                ToolResult(MAY_HAVE_RUN if sent else NEVER_RAN, is_error=True, is_unknown=sent),
                call,
                allowed.get(call.id) if sent else None,
            ),
            CallState.UNKNOWN if sent else CallState.CANCELLED,
        )
        for memory in memories
        for call in memory.calls
        if call.state.is_open and call.state is not CallState.APPROVAL
        for sent in (call.state is CallState.SENT,)
    )
    turn = TurnState(
        turn_id=turn_id,
        rules=rules,
        rules_wait=rules_wait,
        nudged=nudged,
        at=at,
        memories=memories,
        notes=notes,
        read_only=read_only,
        responded=any(memory.role is Role.ASSISTANT and not memory.partial for memory in memories),
        next=NextStep.FETCH,
        limit=min(limits, default=None),
        too_long=len(limits),
        empty_retried=any(request.was_empty for request in requests),
        attempt=_attempt(requests, rules),
        tick_length=tick_length,
        resumed_at=at,
    )
    return turn, (StoreOp(ResumeTurn(turn_id, results)),)


def _attempt(requests: tuple[PastRequest, ...], rules: TurnRules) -> int:
    """Return the number of the next attempt.

    The same again where the last was cut off or never left; the first after the turn broke off.
    """
    if not requests:
        return 1
    last = requests[-1]
    if last.error_class is None:
        return last.attempt + last.was_empty
    if last.error_class is ErrorClass.CANCELLED:
        return last.attempt
    return last.attempt + 1 if last.error_class.is_transient and last.attempt <= rules.llm.retries else 1
