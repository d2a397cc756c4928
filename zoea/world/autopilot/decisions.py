"""Decide what the autopilot answers: a pure function of messages and tools.

A turn reads status, log and notifications, records and broadcasts new facts, queues a haul or a scouting trip, and
then reports. A haul that went well is repeated without reading first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from zoea.model.enums import CALL_TOOL, FIND_TOOL
from zoea.model.request import AnswerCall, RequestMessage, ToolSpec
from zoea.world.autopilot import remarks
from zoea.world.autopilot.belt_notes import BeltNote, build_note
from zoea.world.autopilot.knowledge import Knowledge, PlannedCall, plan_actions, read_low_prices
from zoea.world.autopilot.request_facts import ReefCall, RequestFacts, read_request

NEEDED = ("get_status", "undock", "mine", "dock", "sell")
ACTS = frozenset({"undock", "dock", "travel", "jump", "mine", "sell", "buy", "refuel", "repair", "scan"})
MOST_SLICES = 7
TELL_FROM = 17.0
"""Belts with ore of a lower price per unit are not broadcast."""


class AutopilotAnswer(Struct, frozen=True):
    """Hold an answer: text, reasoning, calls."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[AnswerCall, ...] = ()


def build_answer(messages: Sequence[RequestMessage], tools: Sequence[ToolSpec]) -> AutopilotAnswer:
    """Build the answer to these messages with these tools; deterministic."""
    facts = read_request(messages, tools)
    if not all(facts.has(tool) for tool in NEEDED):
        return AutopilotAnswer(
            text=remarks.explain_missing_world(facts), reasoning="There is no Reef in my toolbox, so I only answer."
        )
    if len(facts.turn) >= MOST_SLICES:
        return AutopilotAnswer(text=remarks.report_turn(facts), reasoning="This turn has been long enough.")
    last = facts.turn[-1] if facts.turn else ()
    if any(past_call.tool in ACTS for past_call in last):
        return _after_acting(facts, last)
    if not facts.turn and not facts.prompts and (again := _repeat_route(facts.before)):
        return _answer_with_calls(
            facts,
            "The last haul went well, so I fly it again without looking first.",
            [*_read_notifications(facts), *again],
        )
    if facts.latest("get_status") is None:
        return _ask_status(facts)
    return _decide(facts)


def _after_acting(facts: RequestFacts, last: tuple[ReefCall, ...]) -> AutopilotAnswer:
    acts = [past_call for past_call in last if past_call.tool in ACTS]
    under_way = any((past_call.result or {}).get("arrival_tick") for past_call in acts if not past_call.is_error)
    if under_way or sum(any(d.tool in ACTS for d in piece) for piece in facts.turn) > 1:
        return AutopilotAnswer(
            text=remarks.report_turn(facts), reasoning="What I wanted is under way; now I wait for it."
        )
    if all(past_call.is_error for past_call in acts):
        return _ask_status(facts)
    return AutopilotAnswer(text=remarks.report_turn(facts), reasoning="That is done.")


def _repeat_route(before: tuple[ReefCall, ...]) -> list[PlannedCall]:
    """Return the calls of the previous haul if it can be repeated."""
    acts = [past_call for past_call in before if past_call.tool in ACTS]
    if not acts or any(past_call.is_error for past_call in acts) or _has_trouble(before):
        return []
    shape = [past_call.tool for past_call in acts if past_call.tool not in ("refuel", "travel")]
    if shape not in (["undock", "mine", "dock", "sell"], ["undock", "jump", "mine", "jump", "dock", "sell"]):
        return []
    return [PlannedCall(past_call.tool, past_call.args) for past_call in acts]


def _has_trouble(past_calls: Sequence[ReefCall]) -> bool:
    """Return whether notifications report a failed action or a low price."""
    for past_call in past_calls:
        if past_call.tool != "get_notifications" or past_call.result is None:
            continue
        for notice in _list(past_call.result, "notifications")[-8:]:
            if notice.get("kind") == "failed" and notice.get("action") != "refuel":
                return True
            if read_low_prices([notice]):
                return True
    return False


def _read_notifications(facts: RequestFacts) -> list[PlannedCall]:
    return [PlannedCall("get_notifications", {"limit": 8})] if facts.has("get_notifications") else []


def _ask_status(facts: RequestFacts) -> AutopilotAnswer:
    orders = [PlannedCall("get_status", {})]
    if facts.has("captains_log_list"):
        orders.append(PlannedCall("captains_log_list", {"limit": 40}))
    orders += _read_notifications(facts)
    if facts.has("get_system"):
        orders.append(PlannedCall("get_system", {}))
    if facts.turn and all(past_call.is_error for past_call in facts.past_calls):
        return AutopilotAnswer(
            text=remarks.report_failure(facts), reasoning="Looking does not work, so I say what I see."
        )
    return _answer_with_calls(facts, "I do not know where I stand, so I look: status, log, notifications.", orders)


def _decide(facts: RequestFacts) -> AutopilotAnswer:
    knowledge = Knowledge.of(facts)
    notes = [*knowledge.to_write_down()]
    if (
        knowledge.to_examine
        and facts.has("get_poi")
        and not any(past_call.tool == "get_poi" for past_call in facts.past_calls)
    ):
        orders = [PlannedCall("get_poi", {"poi_id": belt}) for belt in knowledge.to_examine]
        return _answer_with_calls(facts, "A scan found belts; I look which stations are near them.", orders)
    fresh = [
        note
        for past_call in facts.past_calls
        if past_call.tool == "get_poi" and past_call.result and (note := build_note(past_call.result)) is not None
    ]
    known = knowledge.with_findings(fresh)
    for finding in fresh:
        notes.append(PlannedCall("captains_log_add", {"entry": finding.line()}))
    notes += _build_broadcast(facts, fresh)
    if not facts.has("captains_log_add"):
        notes = [order for order in notes if order.tool != "captains_log_add"]
    if knowledge.is_busy:
        if notes and not any(
            past_call.tool in ("captains_log_add", "zoea_broadcast") for past_call in facts.past_calls
        ):
            return _answer_with_calls(facts, "The ship is under way; I only write down what I heard.", notes)
        return AutopilotAnswer(
            text=remarks.report_turn(facts), reasoning="The ship is under way; there is nothing to do but wait."
        )
    course = plan_actions(facts, known)
    return _answer_with_calls(facts, course.why, [*notes, *course.orders])


def _build_broadcast(facts: RequestFacts, fresh: list[BeltNote]) -> list[PlannedCall]:
    """Return one broadcast call for new rich belts; none if there are none."""
    rich = sorted((f for f in fresh if f.price >= TELL_FROM), key=lambda finding: -finding.price)
    if not rich or not facts.has("zoea_broadcast"):
        return []
    return [PlannedCall("zoea_broadcast", {"text": " ".join(finding.line() for finding in rich)})]


def _answer_with_calls(facts: RequestFacts, why: str, orders: Sequence[PlannedCall]) -> AutopilotAnswer:
    wanted = [(facts.names[order.tool], order.args) for order in orders if facts.has(order.tool)]
    if unseen := list(dict.fromkeys(name for name, _ in wanted if name in facts.unseen)):
        return AutopilotAnswer(
            reasoning=f"I do not see how {', '.join(unseen)} is called, so I look it up.",
            calls=tuple(AnswerCall(FIND_TOOL, json.dumps({"query": name})) for name in unseen),
        )
    calls = tuple(
        AnswerCall(CALL_TOOL, json.dumps({"name": name, "arguments": args}))
        if name in facts.listed
        else AnswerCall(name, json.dumps(args))
        for name, args in wanted
    )
    return AutopilotAnswer(text=remarks.announce_calls(facts, orders), reasoning=why, calls=calls)


def _list(value: Any, key: str) -> list[dict[str, Any]]:
    items = value.get(key) if isinstance(value, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
