"""What does the model see? Pure planning: values in, a plan with a reason for everything out.

`needs(frozen)` says what to read, `plan_turn(frozen, answers)` makes the request;
`plan` selects any packs under a budget. Nothing here reads, waits, or knows the time.
"""

from __future__ import annotations

from zoea.context.explain import done, explain, explain_data, why
from zoea.context.frozen_turn import PLAN_VERSION, Frozen, Limit, limit
from zoea.context.measure import MESSAGE_FRAME, Counter, message_tokens, request_tokens
from zoea.context.needs import Answer, LastAnswer, LatestSlice, Need, Note, StandingOrder, TurnRecord, TurnSoFar
from zoea.context.plan_record import encode, memories_of, rebuild
from zoea.context.plan_values import (
    Budget,
    Decision,
    Pack,
    Plan,
    Priority,
    Reason,
    Status,
    Step,
    StepKind,
    Truncation,
    Variant,
)
from zoea.context.planner import HEADROOM, plan_turn
from zoea.context.selection import plan
from zoea.context.strategies import STRATEGIES, Strategy, needs, packs

__all__ = [
    "HEADROOM",
    "MESSAGE_FRAME",
    "PLAN_VERSION",
    "STRATEGIES",
    "Answer",
    "Budget",
    "Counter",
    "Decision",
    "Frozen",
    "LastAnswer",
    "LatestSlice",
    "Limit",
    "Need",
    "Note",
    "Pack",
    "Plan",
    "Priority",
    "Reason",
    "StandingOrder",
    "Status",
    "Step",
    "StepKind",
    "Strategy",
    "Truncation",
    "TurnRecord",
    "TurnSoFar",
    "Variant",
    "done",
    "encode",
    "explain",
    "explain_data",
    "limit",
    "memories_of",
    "message_tokens",
    "needs",
    "packs",
    "plan",
    "plan_turn",
    "rebuild",
    "request_tokens",
    "why",
]
