"""What the autopilot says: short, with figures, never twice the same while anything changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from zoea.world.autopilot.request_facts import Deed, Sight

if TYPE_CHECKING:
    from zoea.world.autopilot.knowledge import Order


def without_world(sight: Sight) -> str:
    """An answer where there is nothing to play."""
    heard = next((prompt.text.strip() for prompt in reversed(sight.prompts) if prompt.text.strip()), "")
    said = f' You said: "{heard[:200]}".' if heard else ""
    return f"I am the autopilot, no model: I can only play Reef, and its tools are not in my toolbox.{said}"


def before_calls(sight: Sight, orders: Sequence[Order]) -> str:
    """A line beside the calls."""
    names = [order.tool for order in orders]
    tick = _tick(sight)
    at = f"Tick {tick}: " if tick is not None else ""
    return f"{at}{', '.join(_counted(names))}."


def of_turn(sight: Sight) -> str:
    """The report that ends a turn: what was done, where the ship is, when it is free."""
    parts = []
    status = sight.latest("get_status")
    if status is not None:
        where = f"docked at {status['docked']}" if status.get("docked") else "in space"
        parts.append(
            f"I have {_credits(sight)} credits; I found the ship {where} in {status.get('system_id')}, "
            f"{status.get('cargo_used')} of {status.get('cargo_capacity')} units aboard"
        )
    sales = _sales(sight)
    if sales:
        parts.append(f"Sold {sales}")
    acts = [deed.tool for deed in sight.deeds if _is_act(deed)]
    if acts:
        parts.append(f"Ordered {', '.join(_counted(acts))}")
    until = _until(sight)
    if until:
        parts.append(f"The ship is free again at tick {until}")
    failed = [deed for deed in sight.deeds if deed.is_error]
    if failed:
        parts.append(f"{failed[-1].tool} was refused: {failed[-1].code or failed[-1].raw[:80]}")
    tick = _tick(sight)
    return f"Report at tick {tick}. {'. '.join(parts)}." if parts else f"Nothing to report at tick {tick}."


def of_failure(sight: Sight) -> str:
    """Where not even looking works."""
    last = sight.deeds[-1]
    return f"I cannot reach Reef: {last.tool} says {(last.code or last.raw or 'nothing')[:160]}. I try again later."


def _credits(sight: Sight) -> object:
    """As the newest result that tells them has it."""
    told = [deed.result["credits"] for deed in sight.deeds if deed.result and "credits" in deed.result]
    return told[-1] if told else "no"


def _sales(sight: Sight) -> str:
    for deed in reversed(sight.deeds):
        if deed.tool == "sell" and deed.result and not deed.is_error:
            lines = _dicts(deed.result.get("sold"))
            if lines:
                return ", ".join(
                    f"{line.get('units')} {line.get('item')} for {line.get('credits')} credits" for line in lines
                )
        if deed.tool == "get_notifications" and deed.result:
            for notice in reversed(_dicts(deed.result.get("notifications"))):
                result = notice.get("result")
                if notice.get("action") == "sell" and isinstance(result, dict):
                    return f"a load for {result.get('earned')} credits, {result.get('credits')} now"
    return ""


def _is_act(deed: Deed) -> bool:
    return not deed.is_error and "action" in (deed.result or {})


def _until(sight: Sight) -> int | None:
    ticks = [deed.result["arrival_tick"] for deed in sight.deeds if deed.result and "arrival_tick" in deed.result]
    whole = [tick for tick in ticks if isinstance(tick, int)]
    return max(whole, default=None)


def _tick(sight: Sight) -> int | None:
    ticks = [deed.result.get("current_tick") for deed in (*sight.before, *sight.deeds) if deed.result]
    return max((tick for tick in ticks if isinstance(tick, int)), default=None)


def _counted(names: Sequence[str]) -> list[str]:
    """`mine x3` for a run of three."""
    runs: list[tuple[str, int]] = []
    for name in names:
        if runs and runs[-1][0] == name:
            runs[-1] = (name, runs[-1][1] + 1)
        else:
            runs.append((name, 1))
    return [name if count == 1 else f"{name} x{count}" for name, count in runs]


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
