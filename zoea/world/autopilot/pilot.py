"""What the autopilot answers: a pure function of a request's messages and tools.

A turn goes: look (status, log, notifications), write down and tell what is new, act
(a whole haul or a scouting trip, queued), report. Where the slice before the turn
shows a haul that went well, it is repeated without looking first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from zoea.model.request import AnswerCall, RequestMessage, ToolSpec
from zoea.world.autopilot import remarks
from zoea.world.autopilot.belt_notes import Finding, from_poi
from zoea.world.autopilot.knowledge import Charter, Order, chart_course, pressed_sales
from zoea.world.autopilot.request_facts import Deed, Sight, read

NEEDED = ("get_status", "undock", "mine", "dock", "sell")
ACTS = frozenset({"undock", "dock", "travel", "jump", "mine", "sell", "buy", "refuel", "repair", "scan"})
MOST_SLICES = 7
TELL_FROM = 17.0
"""Ore worth less a unit is not worth a broadcast."""


@dataclass(frozen=True, slots=True)
class Said:
    """One answer: what it says, why, and the calls it wants."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[AnswerCall, ...] = ()


def answer(messages: Sequence[RequestMessage], tools: Sequence[ToolSpec]) -> Said:
    """The answer to these messages with these tools; the same for the same."""
    sight = read(messages, tools)
    if not all(sight.has(tool) for tool in NEEDED):
        return Said(text=remarks.without_world(sight), reasoning="There is no Reef in my toolbox, so I only answer.")
    if len(sight.turn) >= MOST_SLICES:
        return Said(text=remarks.of_turn(sight), reasoning="This turn has been long enough.")
    last = sight.turn[-1] if sight.turn else ()
    if any(deed.tool in ACTS for deed in last):
        return _after_acting(sight, last)
    if not sight.turn and not sight.prompts and (again := _repeat(sight.before)):
        return _say(sight, "The last haul went well, so I fly it again without looking first.", [*_news(sight), *again])
    if sight.latest("get_status") is None:
        return _look(sight)
    return _decide(sight)


def _after_acting(sight: Sight, last: tuple[Deed, ...]) -> Said:
    acts = [deed for deed in last if deed.tool in ACTS]
    under_way = any((deed.result or {}).get("arrival_tick") for deed in acts if not deed.is_error)
    if under_way or sum(any(d.tool in ACTS for d in piece) for piece in sight.turn) > 1:
        return Said(text=remarks.of_turn(sight), reasoning="What I wanted is under way; now I wait for it.")
    if all(deed.is_error for deed in acts):
        return _look(sight)
    return Said(text=remarks.of_turn(sight), reasoning="That is done.")


def _repeat(before: tuple[Deed, ...]) -> list[Order]:
    """The haul of the slice before, if it can be flown again from where it ended."""
    acts = [deed for deed in before if deed.tool in ACTS]
    if not acts or any(deed.is_error for deed in acts) or _trouble(before):
        return []
    shape = [deed.tool for deed in acts if deed.tool not in ("refuel", "travel")]
    if shape not in (["undock", "mine", "dock", "sell"], ["undock", "jump", "mine", "jump", "dock", "sell"]):
        return []
    return [Order(deed.tool, deed.args) for deed in acts]


def _trouble(deeds: Sequence[Deed]) -> bool:
    """Whether notifications among the results tell of a failure, or of a price that others have pressed."""
    for deed in deeds:
        if deed.tool != "get_notifications" or deed.result is None:
            continue
        for notice in _list(deed.result, "notifications")[-8:]:
            if notice.get("kind") == "failed" and notice.get("action") != "refuel":
                return True
            if pressed_sales([notice]):
                return True
    return False


def _news(sight: Sight) -> list[Order]:
    return [Order("get_notifications", {"limit": 8})] if sight.has("get_notifications") else []


def _look(sight: Sight) -> Said:
    orders = [Order("get_status", {})]
    if sight.has("captains_log_list"):
        orders.append(Order("captains_log_list", {"limit": 40}))
    orders += _news(sight)
    if sight.has("get_system"):
        orders.append(Order("get_system", {}))
    if sight.turn and all(deed.is_error for deed in sight.deeds):
        return Said(text=remarks.of_failure(sight), reasoning="Looking does not work, so I say what I see.")
    return _say(sight, "I do not know where I stand, so I look: status, log, notifications.", orders)


def _decide(sight: Sight) -> Said:
    charter = Charter.of(sight)
    notes = [*charter.to_write_down()]
    if charter.to_examine and sight.has("get_poi") and not any(deed.tool == "get_poi" for deed in sight.deeds):
        orders = [Order("get_poi", {"poi_id": belt}) for belt in charter.to_examine]
        return _say(sight, "A scan found belts; I look which stations are near them.", orders)
    fresh = [f for deed in sight.deeds if deed.tool == "get_poi" and deed.result for f in _some(from_poi(deed.result))]
    known = charter.with_findings(fresh)
    for finding in fresh:
        notes.append(Order("captains_log_add", {"entry": finding.line()}))
    notes += _tell(sight, fresh)
    if not sight.has("captains_log_add"):
        notes = [order for order in notes if order.tool != "captains_log_add"]
    if charter.is_busy:
        if notes and not any(deed.tool in ("captains_log_add", "zoea_broadcast") for deed in sight.deeds):
            return _say(sight, "The ship is under way; I only write down what I heard.", notes)
        return Said(text=remarks.of_turn(sight), reasoning="The ship is under way; there is nothing to do but wait.")
    course = chart_course(sight, known)
    return _say(sight, course.why, [*notes, *course.orders])


def _some(finding: Finding | None) -> list[Finding]:
    return [finding] if finding is not None else []


def _tell(sight: Sight, fresh: list[Finding]) -> list[Order]:
    """One broadcast for the new belts that are rich; none that anybody told before is new."""
    rich = sorted((f for f in fresh if f.price >= TELL_FROM), key=lambda finding: -finding.price)
    if not rich or not sight.has("zoea_broadcast"):
        return []
    return [Order("zoea_broadcast", {"text": " ".join(finding.line() for finding in rich)})]


def _say(sight: Sight, why: str, orders: Sequence[Order]) -> Said:
    calls = tuple(
        AnswerCall(name=sight.names[order.tool], arguments=json.dumps(order.args))
        for order in orders
        if sight.has(order.tool)
    )
    return Said(text=remarks.before_calls(sight, orders), reasoning=why, calls=calls)


def _list(value: Any, key: str) -> list[dict[str, Any]]:
    found = value.get(key) if isinstance(value, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
