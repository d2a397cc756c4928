"""What planning takes and gives: packs in, a plan with a decision for each out.

Names and fields are planner.md's ("Public face"). A plan holds nothing that
cannot be explained: each pack has a decision, each memory that was changed or
left out a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from zoea.context.forms import Form
from zoea.model.request import RequestMessage

Body = str | tuple[RequestMessage, ...]


class Priority(StrEnum):
    """Who is chosen first when not everything fits."""

    REQUIRED = "required"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class PackStatus(StrEnum):
    INCLUDED = "included"
    SKIPPED = "skipped"


class Variant(StrEnum):
    FULL = "full"
    COMPACT = "compact"


class Reason(StrEnum):
    """Why a pack stands as it does."""

    REQUIRED = "required"
    FITS = "fits"
    BUDGET = "budget"
    MAX_CHARS = "max_chars"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class Pack:
    """A titled part of a request.

    `full` and `compact` are text, or messages. `preserve` packs are cut last.
    `counted` is for what a request carries beside its messages (tool schemas):
    its base tokens. `full_forms` and `compact_forms` say how each message was
    made from its memory, so that a plan can be kept as ids.
    """

    id: str
    section: str
    priority: Priority | str
    full: Body
    compact: Body | None = None
    preserve: bool = False
    counted: int | None = None
    full_forms: Mapping[int, Form] = field(default_factory=dict)
    compact_forms: Mapping[int, Form] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of one pack.

    `chars` and `tokens` are what it takes in the request (0 where skipped),
    `wanted_tokens` what its full form would take. `setting` names the setting
    and the value that would have kept it in full; empty where it is.
    """

    id: str
    section: str
    priority: Priority
    status: PackStatus
    variant: Variant | None
    reason: Reason
    chars: int = 0
    tokens: int = 0
    truncated: bool = False
    wanted_tokens: int = 0
    setting: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "section": self.section,
            "priority": self.priority.value,
            "status": self.status.value,
            "variant": self.variant.value if self.variant is not None else None,
            "reason": self.reason.value,
            "chars": self.chars,
            "tokens": self.tokens,
            "truncated": self.truncated,
            "wanted_tokens": self.wanted_tokens,
            "setting": self.setting,
        }


class StepKind(StrEnum):
    """What was done to one memory inside a pack. The first four leave its message in place."""

    LIMIT = "limit"
    SUPERSEDED = "superseded"
    CUT = "cut"
    REASONING = "reasoning"
    FOLDED = "folded"
    PARTIAL = "partial"
    INCOMPLETE = "incomplete"
    ORPHAN = "orphan"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One memory that a request does not hold verbatim, and what it holds instead. Sizes in characters."""

    kind: StepKind
    memory_id: int
    before_chars: int
    after_chars: int
    pack: str = "turn"

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind.value,
            "memory_id": self.memory_id,
            "before_chars": self.before_chars,
            "after_chars": self.after_chars,
            "pack": self.pack,
        }


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens of a plan: the limit, what is left of it, what is beyond it, what the packs take together."""

    max_tokens: int
    remaining_tokens: int
    over_budget_tokens: int
    final_tokens: int

    @classmethod
    def of(cls, max_tokens: int, final_tokens: int) -> Budget:
        return cls(max_tokens, max(0, max_tokens - final_tokens), max(0, final_tokens - max_tokens), final_tokens)

    def as_dict(self) -> dict[str, int]:
        return {
            "max_tokens": self.max_tokens,
            "remaining_tokens": self.remaining_tokens,
            "over_budget_tokens": self.over_budget_tokens,
            "final_tokens": self.final_tokens,
        }


@dataclass(frozen=True, slots=True)
class Truncation:
    """Whether the guard on characters had to act, and the sizes around it."""

    applied: bool
    before_chars: int
    after_chars: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The packs of one request, selected under a budget.

    `messages` is what goes to the model; `forms` says how each message with a
    memory was made from it; `steps` lists the memories that are not verbatim.
    """

    decisions: tuple[Decision, ...]
    budget: Budget
    truncation: Truncation
    messages: tuple[RequestMessage, ...]
    steps: tuple[PlanStep, ...] = ()
    forms: Mapping[int, Form] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The text of the included packs, in order, with nothing between them."""
        return "".join(message.content for message in self.messages)

    @property
    def tokens(self) -> int:
        """The estimate of the whole request."""
        return self.budget.final_tokens

    @property
    def trimmed(self) -> bool:
        """True where anything was compacted, cut or skipped for a limit."""
        limits = (Reason.BUDGET, Reason.MAX_CHARS)
        return any(decision.reason in limits or decision.truncated for decision in self.decisions)

    def decision(self, pack: str) -> Decision | None:
        """The decision on one pack, by its id."""
        return next((decision for decision in self.decisions if decision.id == pack), None)
