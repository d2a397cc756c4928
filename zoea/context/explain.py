"""Explain a plan in words and as data, for `zoea explain`."""

from __future__ import annotations

from typing import Any

from msgspec.structs import asdict

from zoea.context.frozen_turn import WINDOW_SETTING
from zoea.context.plan_values import Decision, PackStatus, Plan, PlanStep, Reason, StepKind, Variant
from zoea.text.sentences import count_of

NAME_WIDTH = 12
_PACK_KEYS = ("id", "section", "priority", "status", "variant", "reason", "chars", "tokens", "truncated")
_WHY = {
    Reason.REQUIRED: "always sent",
    Reason.FITS: "it fits",
    Reason.BUDGET: "over the token budget",
    Reason.MAX_CHARS: "over the limit of characters",
    Reason.EMPTY: "nothing to add",
}

_DONE = {
    StepKind.LIMIT: "cut, it is longer than a single result may be",
    StepKind.SUPERSEDED: "replaced, a later call with the same arguments has a newer result",
    StepKind.CUT: "cut to head and tail",
    StepKind.REASONING: "shown without its reasoning",
    StepKind.FOLDED: "folded into a line",
    StepKind.PARTIAL: "left out, it was cut off before it was an answer",
    StepKind.INCOMPLETE: "left out, a call of it has no result",
    StepKind.ORPHAN: "left out, the call it answers is not there",
    StepKind.ANSWER: "left out, it ended the turn",
}


def advise(setting: str, reason: str) -> str:
    """Say what would have kept a pack whole, or that no setting does.

    It is empty for a pack that is whole or was empty.
    """
    if setting:
        return f"{describe_advice(setting)} would have kept it whole"
    if reason not in (Reason.BUDGET, Reason.MAX_CHARS):
        return ""
    return "no setting keeps all parts whole, because together they exceed what a request may have"


def describe_advice(setting: str) -> str:
    """Return the setting, or the server's option, that would have kept a pack whole.

    A window is the server's: a larger number in Zoea's settings alone would only make its requests too long.
    """
    return " and ".join(_describe_setting(one) for one in setting.split(" and "))


def _describe_setting(setting: str) -> str:
    name, _, value = setting.partition(" = ")
    if name != WINDOW_SETTING or not value.isdecimal():
        return setting
    return f"a model server with a window of {int(value):,} tokens"


def describe_reason(reason: Reason) -> str:
    """Return the reason of a decision in words."""
    return _WHY[reason]


def describe_step(kind: StepKind) -> str:
    """Describe a change to a memory in words."""
    return _DONE[kind]


def explain(plan: Plan, *, title: str = "", limit: str = "") -> str:
    """Describe a plan as text: the budget and what it comes from (`limit`), each pack with its reason, each change."""
    budget = plan.budget
    lines = [title] if title else []
    lines.append(
        f"{count_of(len(plan.messages), 'message')}, {budget.final_tokens:,} of {budget.max_tokens:,} tokens"
        f" ({budget.remaining_tokens:,} left){f'; {limit}' if limit else ''}"
    )
    if budget.over_budget_tokens:
        lines.append(f"{budget.over_budget_tokens:,} tokens over the budget, because the required parts are larger")
    lines.append("")
    width = max([NAME_WIDTH, *(len(decision.id) + 2 for decision in plan.decisions)])
    lines += [_decision_line(decision, width) for decision in plan.decisions]
    if plan.steps:
        lines += ["", "Not in full:"]
        lines += [_step_line(step) for step in plan.steps]
    if plan.left_out_tools:
        names = ", ".join(plan.left_out_tools)
        lines += ["", f"Tools left out in this turn, because its requests would not fit with them: {names}"]
        lines.append("  Allow fewer tools in the template, or raise the budget or the context window.")
    if plan.notes:
        lines += ["", *plan.notes]
    advice = [
        (decision.id, sentence)
        for decision in plan.decisions
        if (sentence := advise(decision.setting, decision.reason))
    ]
    if advice:
        lines += ["", "To change that:", *(f"  {name}: {sentence}" for name, sentence in advice)]
    return "\n".join(lines)


def explain_data(plan: Plan) -> dict[str, Any]:
    """Return the explanation as plain values for `--json`, without any memory's text."""
    truncation = plan.truncation
    sections: dict[str, dict[str, int]] = {}
    for decision in plan.decisions:
        section = sections.setdefault(decision.section, {"chars": 0, "tokens": 0})
        section["chars"] += decision.chars
        section["tokens"] += decision.tokens
    return {
        "messages": len(plan.messages),
        "trimmed": plan.trimmed,
        "budget": asdict(plan.budget),
        "truncation": {
            "applied": truncation.applied,
            "before_chars": truncation.before_chars,
            "after_chars": truncation.after_chars,
        },
        "sections": sections,
        "packs": [asdict(decision) for decision in plan.decisions],
        "steps": [asdict(step) for step in plan.steps],
        "left_out_tools": list(plan.left_out_tools),
        "notes": list(plan.notes),
    }


def _decision_line(decision: Decision, width: int) -> str:
    size = f"{decision.tokens:>8,} tokens"
    reason = describe_reason(decision.reason)
    if decision.status is PackStatus.SKIPPED:
        wanted = f", {decision.wanted_tokens:,} tokens" if decision.wanted_tokens else ""
        form = "empty" if decision.reason is Reason.EMPTY else "left out"
        return f"  {decision.id:<{width}}{form:<9}{'':>15}  {reason}{wanted}"
    form = "compact" if decision.variant is Variant.COMPACT else "full"
    cut = ", parts of it cut" if decision.truncated else ""
    return f"  {decision.id:<{width}}{form:<9}{size}  {reason}{cut}"


def _step_line(step: PlanStep) -> str:
    size = f"{step.before_chars:,} to {step.after_chars:,} characters"
    return f"  {step.pack} memory {step.memory_id}: {describe_step(step.kind)} ({size})"


def measure_context(plan: Plan) -> dict[str, Any]:
    """Return characters and tokens in total, by section and by pack, with budget and truncation."""
    data = explain_data(plan)
    sections = data["sections"]
    return {
        "chars": sum(section["chars"] for section in sections.values()),
        "tokens": sum(section["tokens"] for section in sections.values()),
        "messages": data["messages"],
        "sections": sections,
        "packs": [{key: pack[key] for key in _PACK_KEYS} for pack in data["packs"]],
        "budget": data["budget"],
        "truncation": data["truncation"],
    }
