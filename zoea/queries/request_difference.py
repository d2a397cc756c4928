"""Compares two stored requests: what one showed that the other did not, and why."""

from __future__ import annotations

from msgspec import Struct

from zoea.context import Decision, PackStatus, Variant
from zoea.model.errors import UsageError
from zoea.queries.request_inspection import Inspection, SentMessage


class PackDifference(Struct, frozen=True):
    """Holds a pack with two decisions: `left out`, or its form with tokens."""

    id: str
    before: str
    after: str
    tokens: int
    reason: str
    setting: str


class RequestDifference(Struct, frozen=True):
    """The differences between two requests.

    Attributes:
        tokens: Tokens that the second has more.
        max_tokens: The budgets of both.
        packs: Packs that were decided differently.
        repeated: Messages that both begin with; a provider may keep them in its cache.
        removed, added: Messages that only the first, or only the second, holds.
        tools_removed, tools_added: Names of tools.
        values: Model, provider, calibration and template, where they differ.
    """

    first: int
    second: int
    tokens: int
    max_tokens: tuple[int, int]
    packs: tuple[PackDifference, ...]
    repeated: int
    removed: tuple[SentMessage, ...]
    added: tuple[SentMessage, ...]
    tools_removed: tuple[str, ...]
    tools_added: tuple[str, ...]
    values: dict[str, tuple[str, str]]


def compare_requests(first: Inspection, second: Inspection) -> RequestDifference:
    """Compare two requests. Raises UsageError where the plan of one was deleted."""
    for one in (first, second):
        if one.plan is None:
            raise UsageError(f"request {one.request.id} cannot be compared", hint=one.gone)
    assert first.plan is not None
    assert second.plan is not None
    before = {decision.id: decision for decision in first.plan.decisions}
    after = {decision.id: decision for decision in second.plan.decisions}
    packs = [
        _compare_packs(name, before.get(name), after.get(name))
        for name in dict.fromkeys([*before, *after])
        if _shape(before.get(name)) != _shape(after.get(name))
    ]
    repeated = 0
    for left, right in zip(first.messages, second.messages, strict=False):
        if left != right:
            break
        repeated += 1
    earlier, new = set(first.messages), set(second.messages)
    old_tools, new_tools = ({tool.name for tool in one.tools} for one in (first, second))
    return RequestDifference(
        first=first.request.id,
        second=second.request.id,
        tokens=second.plan.budget.final_tokens - first.plan.budget.final_tokens,
        max_tokens=(first.plan.budget.max_tokens, second.plan.budget.max_tokens),
        packs=tuple(packs),
        repeated=repeated,
        removed=tuple(sent for sent in first.sent if sent.message not in new),
        added=tuple(sent for sent in second.sent if sent.message not in earlier),
        tools_removed=tuple(sorted(old_tools - new_tools)),
        tools_added=tuple(sorted(new_tools - old_tools)),
        values=_differing_values(first, second),
    )


def _differing_values(first: Inspection, second: Inspection) -> dict[str, tuple[str, str]]:
    differences = {}
    for name in ("provider", "model", "turn_number", "opened_by", "calibration"):
        values = str(getattr(first.request, name)), str(getattr(second.request, name))
        if values[0] != values[1]:
            differences[name] = values
    return differences


def _shape(decision: Decision | None) -> tuple[object, ...]:
    if decision is None:
        return ()
    return decision.status, decision.variant, decision.tokens, decision.truncated


def _compare_packs(name: str, before: Decision | None, after: Decision | None) -> PackDifference:
    return PackDifference(
        id=name,
        before=_describe(before),
        after=_describe(after),
        tokens=(after.tokens if after else 0) - (before.tokens if before else 0),
        reason="" if after is None else str(after.reason),
        setting="" if after is None else after.setting,
    )


def _describe(decision: Decision | None) -> str:
    if decision is None:
        return "not there"
    if decision.status is PackStatus.SKIPPED:
        return "left out"
    form = "compact" if decision.variant is Variant.COMPACT else "full"
    return f"{form}{', cut' if decision.truncated else ''}, {decision.tokens:,} tokens"
