"""Plan the request that a model sees: pure functions from values to a plan.

`needs(frozen, answers)` lists what to read, and `plan` selects packs under a budget. `plan_turn(frozen, answers)`
calls it with the packs of the turn's strategy and the turn. No I/O, no clock.
"""

from __future__ import annotations

from zoea.context.explain import describe_reason, describe_step, explain, explain_data
from zoea.context.frozen_turn import PLAN_VERSION, EarlierTurn, FrozenTurn, Limit, request_limit
from zoea.context.measure import MESSAGE_FRAME, Counter, message_tokens, request_tokens
from zoea.context.needs import (
    MAX_ROUNDS,
    CriteriaHints,
    EarlierTurns,
    InheritedContext,
    InheritedMessages,
    LastAnswer,
    LatestSlice,
    MemoriesById,
    Need,
    NeedAnswer,
    Note,
    OutsideNeed,
    Recall,
    ShownConversation,
    SourceMessages,
    StandingOrder,
    StoredAnswer,
    TurnRecord,
    TurnSoFar,
)
from zoea.context.past_packs import KEEP_WHILE_ROOM, RECALLED_CHARS, choose_earlier
from zoea.context.plan_record import encode, memories_of, rebuild
from zoea.context.plan_values import (
    Budget,
    Decision,
    Pack,
    PackStatus,
    Plan,
    PlanStep,
    Priority,
    Reason,
    StepKind,
    Truncation,
    Variant,
)
from zoea.context.planner import plan, plan_next, plan_turn
from zoea.context.strategies import STRATEGIES, Answers, Strategy, missing_needs, needs, packs
from zoea.context.topics.topic_rules import TopicRules
from zoea.context.turn_replay import HEADROOM, CurrentTurn, TurnReplay
from zoea.context.window.window_rules import WindowRules

__all__ = [
    "HEADROOM",
    "KEEP_WHILE_ROOM",
    "MAX_ROUNDS",
    "MESSAGE_FRAME",
    "PLAN_VERSION",
    "RECALLED_CHARS",
    "STRATEGIES",
    "Answers",
    "Budget",
    "Counter",
    "CriteriaHints",
    "CurrentTurn",
    "Decision",
    "EarlierTurn",
    "EarlierTurns",
    "FrozenTurn",
    "InheritedContext",
    "InheritedMessages",
    "LastAnswer",
    "LatestSlice",
    "Limit",
    "MemoriesById",
    "Need",
    "NeedAnswer",
    "Note",
    "OutsideNeed",
    "Pack",
    "PackStatus",
    "Plan",
    "PlanStep",
    "Priority",
    "Reason",
    "Recall",
    "ShownConversation",
    "SourceMessages",
    "StandingOrder",
    "StepKind",
    "StoredAnswer",
    "Strategy",
    "TopicRules",
    "Truncation",
    "TurnRecord",
    "TurnReplay",
    "TurnSoFar",
    "Variant",
    "WindowRules",
    "choose_earlier",
    "describe_reason",
    "describe_step",
    "encode",
    "explain",
    "explain_data",
    "memories_of",
    "message_tokens",
    "missing_needs",
    "needs",
    "packs",
    "plan",
    "plan_next",
    "plan_turn",
    "rebuild",
    "request_limit",
    "request_tokens",
]
