"""Texts of the autopilot: short, with figures, different whenever something changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from zoea.world.autopilot.request_facts import ReefCall, RequestFacts

if TYPE_CHECKING:
    from zoea.world.autopilot.knowledge import PlannedCall


def explain_missing_world(facts: RequestFacts) -> str:
    """Return an answer for a toolbox without Reef."""
    heard = next((prompt.text.strip() for prompt in reversed(facts.prompts) if prompt.text.strip()), "")
    quote = f' You said: "{heard[:200]}".' if heard else ""
    return f"I am the autopilot, no model: I can only play Reef, and its tools are not in my toolbox.{quote}"


def announce_calls(facts: RequestFacts, orders: Sequence[PlannedCall]) -> str:
    """Return a line about the calls."""
    names = [order.tool for order in orders]
    tick = _tick(facts)
    at = f"Tick {tick}: " if tick is not None else ""
    return f"{at}{', '.join(_counted(names))}."


def report_turn(facts: RequestFacts) -> str:
    """Return the report of a turn: actions, place, time until the ship is free."""
    parts = []
    status = facts.latest("get_status")
    if status is not None:
        where = f"docked at {status['docked']}" if status.get("docked") else "in space"
        parts.append(
            f"I have {_credits(facts)} credits; I found the ship {where} in {status.get('system_id')}, "
            f"{status.get('cargo_used')} of {status.get('cargo_capacity')} units aboard"
        )
    sales = _sales(facts)
    if sales:
        parts.append(f"Sold {sales}")
    acts = [past_call.tool for past_call in facts.past_calls if _is_act(past_call)]
    if acts:
        parts.append(f"Ordered {', '.join(_counted(acts))}")
    until = _until(facts)
    if until:
        parts.append(f"The ship is free again at tick {until}")
    failed = [past_call for past_call in facts.past_calls if past_call.is_error]
    if failed:
        parts.append(f"{failed[-1].tool} was refused: {failed[-1].code or failed[-1].raw[:80]}")
    tick = _tick(facts)
    return f"Report at tick {tick}. {'. '.join(parts)}." if parts else f"Nothing to report at tick {tick}."


def report_failure(facts: RequestFacts) -> str:
    """Return a report for when Reef cannot be reached."""
    last = facts.past_calls[-1]
    return f"I cannot reach Reef: {last.tool} says {(last.code or last.raw or 'nothing')[:160]}. I try again later."


def _credits(facts: RequestFacts) -> object:
    """Return the credits in the newest result that has them."""
    amounts = [
        past_call.result["credits"]
        for past_call in facts.past_calls
        if past_call.result and "credits" in past_call.result
    ]
    return amounts[-1] if amounts else "no"


def _sales(facts: RequestFacts) -> str:
    for past_call in reversed(facts.past_calls):
        if past_call.tool == "sell" and past_call.result and not past_call.is_error:
            lines = _dicts(past_call.result.get("sold"))
            if lines:
                return ", ".join(
                    f"{line.get('units')} {line.get('item')} for {line.get('credits')} credits" for line in lines
                )
        if past_call.tool == "get_notifications" and past_call.result:
            for notice in reversed(_dicts(past_call.result.get("notifications"))):
                result = notice.get("result")
                if notice.get("action") == "sell" and isinstance(result, dict):
                    return f"a load for {result.get('earned')} credits, {result.get('credits')} now"
    return ""


def _is_act(past_call: ReefCall) -> bool:
    return not past_call.is_error and "action" in (past_call.result or {})


def _until(facts: RequestFacts) -> int | None:
    ticks = [
        past_call.result["arrival_tick"]
        for past_call in facts.past_calls
        if past_call.result and "arrival_tick" in past_call.result
    ]
    whole = [tick for tick in ticks if isinstance(tick, int)]
    return max(whole, default=None)


def _tick(facts: RequestFacts) -> int | None:
    ticks = [
        past_call.result.get("current_tick") for past_call in (*facts.before, *facts.past_calls) if past_call.result
    ]
    return max((tick for tick in ticks if isinstance(tick, int)), default=None)


def _counted(names: Sequence[str]) -> list[str]:
    """Join repeated names: `mine x3`."""
    runs: list[tuple[str, int]] = []
    for name in names:
        if runs and runs[-1][0] == name:
            runs[-1] = (name, runs[-1][1] + 1)
        else:
            runs.append((name, 1))
    return [name if count == 1 else f"{name} x{count}" for name, count in runs]


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
