"""Values of planning: packs go in, a plan with their decisions comes out.

A plan explains everything: each pack has a decision, each changed or omitted memory a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from zoea.context.forms import Form
from zoea.model.request import RequestMessage

Body = str | tuple[RequestMessage, ...]


class Priority(StrEnum):
    """The order of selection when not everything fits."""

    REQUIRED = "required"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class PackStatus(StrEnum):
    """Whether a pack is in the request."""

    INCLUDED = "included"
    SKIPPED = "skipped"


class Variant(StrEnum):
    """Which form of a pack is in the request."""

    FULL = "full"
    COMPACT = "compact"


class Reason(StrEnum):
    """The reason for a decision."""

    REQUIRED = "required"
    FITS = "fits"
    BUDGET = "budget"
    MAX_CHARS = "max_chars"
    EMPTY = "empty"


class Pack(Struct, frozen=True):
    """A titled part of a request.

    Attributes:
        preserve: Whether it is cut last.
        counted: Base tokens of content sent beside the messages (tool schemas); it has no messages.
        turn_of: The turn of each memory shown, by ids, where the pack holds several turns.
        full_forms, compact_forms: The form of each memory shown, so that a plan can be stored as ids.
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
    turn_of: Mapping[int, int] = field(default_factory=dict)


class Decision(Struct, frozen=True):
    """The decision on one pack.

    Attributes:
        chars, tokens: What it takes in the request; 0 if skipped.
        wanted_tokens: Tokens of its full form.
        setting: The setting and value that would have kept it in full; empty if it is.
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


class StepKind(StrEnum):
    """The change to one memory inside a pack.

    LIMIT, SUPERSEDED, CUT and REASONING change its message. FOLDED joins a slice to one message.
    The others leave the memory out.
    """

    LIMIT = "limit"
    SUPERSEDED = "superseded"
    CUT = "cut"
    REASONING = "reasoning"
    FOLDED = "folded"
    PARTIAL = "partial"
    INCOMPLETE = "incomplete"
    ORPHAN = "orphan"
    ANSWER = "answer"


class PlanStep(Struct, frozen=True):
    """A memory that the request does not hold verbatim, with its size before and after."""

    kind: StepKind
    memory_id: int
    before_chars: int
    after_chars: int
    pack: str = "turn"


class Budget(Struct, frozen=True):
    """The token budget of a plan: limit, remainder, excess, and the total of its packs."""

    max_tokens: int
    remaining_tokens: int
    over_budget_tokens: int
    final_tokens: int

    @classmethod
    def of(cls, max_tokens: int, final_tokens: int) -> Budget:
        return cls(max_tokens, max(0, max_tokens - final_tokens), max(0, final_tokens - max_tokens), final_tokens)


class Truncation(Struct, frozen=True):
    """Whether the limit on characters applied, and the sizes before and after."""

    applied: bool
    before_chars: int
    after_chars: int


class Plan(Struct, frozen=True):
    """The packs of one request, selected under a budget.

    Attributes:
        forms: How each message with a memory was made from it.
        steps: The memories that are not verbatim.
        left_out_tools: Tools that the turn does not offer, because its requests would not fit with them.
        notes: Sentences about choices that no decision shows.
        cache_ends: Numbers of messages from the first on that later turns begin with too, for a provider's cache.
        label_to: The name of the mysis that the lines above its prompts say.
    """

    decisions: tuple[Decision, ...]
    budget: Budget
    truncation: Truncation
    messages: tuple[RequestMessage, ...]
    steps: tuple[PlanStep, ...] = ()
    forms: Mapping[int, Form] = field(default_factory=dict)
    left_out_tools: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    label_to: str = ""
    cache_ends: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """The text of all messages, joined without separators."""
        return "".join(message.content for message in self.messages)

    @property
    def tokens(self) -> int:
        """The estimate of the whole request."""
        return self.budget.final_tokens

    @property
    def trimmed(self) -> bool:
        """Whether a limit compacted, cut or skipped anything."""
        limits = (Reason.BUDGET, Reason.MAX_CHARS)
        return any(decision.reason in limits or decision.truncated for decision in self.decisions)

    @property
    def is_fitted(self) -> bool:
        """Whether the budget or the limit on characters shortened or left out something."""
        limits = (Reason.BUDGET, Reason.MAX_CHARS)
        return bool(self.left_out_tools) or any(decision.reason in limits for decision in self.decisions)

    def decision(self, pack: str) -> Decision | None:
        """Return the decision on a pack, by its id."""
        return next((decision for decision in self.decisions if decision.id == pack), None)
