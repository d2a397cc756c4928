"""Measured packs and the decisions made on them, before they become a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from zoea.context.forms import Form
from zoea.context.measure import Counter, TextCounter, message_chars
from zoea.context.plan_values import (
    Body,
    Budget,
    Decision,
    Pack,
    PackStatus,
    Plan,
    Priority,
    Reason,
    Truncation,
    Variant,
)
from zoea.model.enums import Role
from zoea.model.errors import SettingsError
from zoea.model.request import RequestMessage
from zoea.text.estimate import tokens as text_tokens

_RANK = {priority: rank for rank, priority in enumerate(Priority)}


class Size(Struct, frozen=True):
    """The size of a pack in characters and tokens."""

    chars: int
    tokens: int


NO_SIZE = Size(0, 0)


class PackMeter:
    """Measures packs with one counter.

    A plain function counts the text of messages only; a `Counter` also counts calls, names and reasoning.
    """

    __slots__ = ("_count", "_whole")

    def __init__(self, count: TextCounter | None) -> None:
        self._count: TextCounter = text_tokens if count is None else count
        self._whole = count if isinstance(count, Counter) else None

    def body(self, body: Body | None) -> Size:
        if not body:
            return NO_SIZE
        if isinstance(body, str):
            if self._whole is not None:
                return Size(len(body), self._whole.message(as_message(body, "")))
            return Size(len(body), self._count(body))
        if self._whole is not None:
            return Size(sum(map(message_chars, body)), self._whole.messages(body))
        text = "".join([message.content for message in body])
        return Size(len(text), self._count(text) if text else 0)

    def pack(self, pack: Pack) -> Size:
        """Return the size of a pack's full form."""
        if pack.counted is not None:
            return Size(pack.counted * 4, self._whole.scale(pack.counted) if self._whole else pack.counted)
        return self.body(pack.full)


class PackCandidate(Struct):
    """A pack with the decision made on it so far.

    Attributes:
        body: The form that goes into the request.
        size: The size of `body`.
        forms: The form of each memory in `body`, by memory id.
        setting: The setting and value that would have kept the pack in full.
    """

    pack: Pack
    index: int
    priority: Priority
    full: Size
    compact: Size
    status: PackStatus = PackStatus.SKIPPED
    variant: Variant | None = None
    reason: Reason = Reason.BUDGET
    body: Body = ""
    size: Size = NO_SIZE
    forms: Mapping[int, Form] = field(default_factory=dict)
    truncated: bool = False
    setting: str = ""

    def copy(self) -> PackCandidate:
        made = PackCandidate(self.pack, self.index, self.priority, self.full, self.compact)
        made.status, made.variant, made.reason, made.setting = self.status, self.variant, self.reason, self.setting
        made.body, made.size, made.forms, made.truncated = self.body, self.size, self.forms, self.truncated
        return made

    @property
    def is_required(self) -> bool:
        return self.priority is Priority.REQUIRED

    @property
    def has_compact(self) -> bool:
        return bool(self.pack.compact)

    def take(self, variant: Variant, reason: Reason) -> None:
        self.status, self.variant, self.reason = PackStatus.INCLUDED, variant, reason
        if variant is Variant.FULL:
            self.body, self.size, self.forms = self.pack.full, self.full, self.pack.full_forms
        else:
            self.body, self.size, self.forms = self.pack.compact or "", self.compact, self.pack.compact_forms

    def skip(self, reason: Reason) -> None:
        self.status, self.variant, self.reason = PackStatus.SKIPPED, None, reason
        self.body, self.size, self.forms = "", NO_SIZE, {}

    def cut_to(self, body: Body, size: Size, reason: Reason) -> None:
        """Replace the body by a shortened one, which no longer maps to memory forms."""
        self.body, self.size, self.forms = body, size, {}
        self.reason, self.truncated = reason, True

    def decision(self) -> Decision:
        return Decision(
            self.pack.id,
            self.pack.section,
            self.priority,
            self.status,
            self.variant,
            self.reason,
            self.size.chars,
            self.size.tokens,
            self.truncated,
            self.full.tokens,
            self.setting,
        )


def measure_packs(packs: Sequence[Pack], scale: PackMeter) -> list[PackCandidate]:
    """Return a candidate for each pack, in declaration order, with nothing chosen yet.

    Raises:
        SettingsError: A pack has an unknown priority.
    """
    candidates = []
    for index, pack in enumerate(packs):
        try:
            priority = Priority(pack.priority)
        except ValueError:
            allowed = ", ".join(Priority)
            raise SettingsError(
                f"The pack {pack.id} has the priority {pack.priority!r}.", hint=f"Use one of {allowed}."
            ) from None
        compact = scale.body(pack.compact) if pack.compact else NO_SIZE
        candidates.append(PackCandidate(pack, index, priority, scale.pack(pack), compact))
    return candidates


def sort_by_priority(candidates: Sequence[PackCandidate]) -> list[PackCandidate]:
    """Sort by priority, then by declaration order."""
    return sorted(candidates, key=lambda one: (_RANK[one.priority], one.index))


def build_plan(candidates: Sequence[PackCandidate], max_tokens: int, truncation: Truncation) -> Plan:
    """Build the plan from decided candidates, in declaration order. Texts of the section `system` are one message."""
    messages: list[RequestMessage] = []
    forms: dict[int, Form] = {}
    for candidate in candidates:
        if candidate.status is PackStatus.SKIPPED or not candidate.body:
            continue
        if isinstance(candidate.body, str):
            message = as_message(candidate.body, candidate.pack.section)
            if message.role is Role.SYSTEM and messages and messages[-1].role is Role.SYSTEM:
                message = replace(message, content=messages.pop().content + message.content)
            messages.append(message)
        else:
            messages += candidate.body
            forms.update(candidate.forms)
    final = sum(candidate.size.tokens for candidate in candidates)
    return Plan(
        tuple([candidate.decision() for candidate in candidates]),
        Budget.of(max_tokens, final),
        truncation,
        tuple(messages),
        forms=forms,
    )


def as_message(text: str, section: str) -> RequestMessage:
    """Turn a pack of text into a message: system for the section `system`, else user."""
    return RequestMessage(Role.SYSTEM if section == "system" else Role.USER, text)
