"""Decisions of a captain, case by case."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.world.sample_fleet import toolbox
from zoea.model.enums import Role, Source
from zoea.model.request import RequestCall, RequestMessage
from zoea.world.autopilot.belt_notes import BeltNote, BeltOutlet
from zoea.world.autopilot.knowledge import ActionPlan, Knowledge, plan_actions, read_low_prices
from zoea.world.autopilot.request_facts import RequestFacts, read_request
from zoea.world.catalog import REEF_TOOLS

NEAR = BeltNote("p7", "s2", 0, "titanium", (BeltOutlet("p1", "s1", 4),))
RICH = BeltNote("p9", "s5", 2, "iridium", (BeltOutlet("p4", "s5", 0), BeltOutlet("p1", "s1", 6)))
FLYING = {"credits": 50, "earned": 50, "fuel": 90, "fuel_capacity": 100, "cargo_capacity": 20, "hull": 100}
SCOUTED = [{"entry": f"Scanned s{n}: nothing."} for n in range(20, 30)]


def facts(status: dict[str, Any], *, log: Sequence[BeltNote] = (), order: str = "go", **results: Any) -> RequestFacts:
    """A turn in which the captain looked around."""
    entries = [{"entry": finding.line()} for finding in log] + results.pop("entries", SCOUTED)
    found = {
        "get_status": {"name": "alpha", "current_tick": 500, "system_id": "s1", **FLYING, **status},
        "captains_log_list": {"entries": entries},
        **results,
    }
    calls = tuple(RequestCall(tool, tool, "{}") for tool in found)
    turn = [RequestMessage(Role.TOOL, json.dumps(r), Source.TOOL, call_id=t, name=t) for t, r in found.items()]
    asked = RequestMessage(Role.USER, order, Source.DIRECT)
    return read_request(
        [asked, RequestMessage(Role.ASSISTANT, "", Source.LLM, calls=calls), *turn], toolbox(share=False)
    )


def course(*args: Any, **options: Any) -> ActionPlan:
    seen = facts(*args, **options)
    return plan_actions(seen, Knowledge.of(seen))


def steps(found: ActionPlan) -> list[str]:
    return [" ".join([order.tool, *map(str, order.args.values())]) for order in found.orders]


def test_a_haul_goes_out_fills_the_hold_and_comes_back_to_sell() -> None:
    found = course({"docked": "p1", "place": ["p1"]}, log=[NEAR])
    assert steps(found) == ["undock", "jump s2", "mine 20", "jump s1", "dock", "sell", "refuel"]


def test_a_belt_off_the_first_orbit_is_travelled_to_and_from() -> None:
    only = BeltNote("p9", "s5", 2, "iridium", (BeltOutlet("p4", "s5", 0),))
    found = course({"system_id": "s5", "place": ["p4"]}, log=[only])
    assert steps(found) == ["travel p9", "mine 20", "travel p4", "dock", "sell"]


def test_a_full_hold_is_sold_first() -> None:
    found = course({"system_id": "s2", "place": ["p7"], "cargo_used": 18}, log=[NEAR])
    assert steps(found) == ["jump s1", "dock", "sell", "refuel"]


def test_at_the_dock_cargo_is_sold_the_tank_filled_and_the_hull_mended() -> None:
    status = {"docked": "p1", "cargo_used": 5, "fuel": 20, "hull": 30, "credits": 500}
    assert steps(course(status, log=[NEAR]))[:4] == ["sell", "refuel", "repair", "undock"]


def test_short_of_fuel_in_space_a_tanker_is_called() -> None:
    assert steps(course({"fuel": 3}, log=[NEAR])) == ["refuel"]


def test_with_little_known_the_nearest_unknown_system_is_scouted() -> None:
    near = [
        {"system_id": "s8", "ticks": 3, "belts": 1, "scanned": True},
        {"system_id": "s9", "ticks": 4, "belts": 0, "scanned": False},
        {"system_id": "s6", "ticks": 5, "belts": 1, "scanned": False},
    ]
    found = course({"docked": "p1"}, log=[NEAR], entries=[], get_system={"nearest_systems": near})
    assert steps(found) == ["undock", "jump s6", "scan"]
    far = [{"system_id": "s6", "ticks": 95, "belts": 1, "scanned": False}]
    assert "scan" not in steps(course({"docked": "p1"}, log=[NEAR], entries=[], get_system={"nearest_systems": far}))


def test_a_captain_with_the_best_belt_stops_scouting() -> None:
    assert not Knowledge.of(facts({}, log=[RICH], entries=[])).wants_to_scout()
    assert Knowledge.of(facts({}, log=[NEAR], entries=[])).wants_to_scout()


def test_an_ore_that_was_asked_for_is_hauled_though_another_is_worth_more() -> None:
    found = course({"docked": "p1"}, log=[RICH, NEAR], order="Please mine some titanium and report")
    assert "jump s2" in steps(found)


def test_lost_with_nothing_known_the_nearest_station_is_sought() -> None:
    near = [{"system_id": "s8", "ticks": 3, "stations": 1}]
    found = course({"cargo_used": 4}, get_system={"nearest_systems": near})
    assert steps(found) == ["jump s8", "dock", "sell"]
    assert steps(course({"docked": "p1"})) == ["undock", "mine 10", "dock", "sell"]


def test_a_belt_that_is_mined_out_is_left_for_a_while_and_written_down() -> None:
    notice = {"kind": "failed", "tick": 490, "action": "mine", "code": "belt_empty", "message": "p9 is mined out."}
    seen = facts({"docked": "p1"}, log=[RICH, NEAR], get_notifications={"notifications": [notice]})
    knowledge = Knowledge.of(seen)
    assert "jump s2" in steps(plan_actions(seen, knowledge))
    assert [order.args["entry"] for order in knowledge.to_write_down()] == ["Mined out: p9 at tick 500."]
    later = Knowledge.of(facts({"current_tick": 800}, log=[RICH], entries=[{"entry": "Mined out: p9 at tick 500."}]))
    assert not later.empty


def sale(part: float) -> dict[str, Any]:
    line = {"item": "iridium", "units": 20, "price_before": 40 * part, "base_price": 40.0}
    return {"kind": "done", "tick": 490, "action": "sell", "result": {"station": "p4", "sold": [line], "credits": 1}}


def test_a_low_price_is_logged_and_another_outlet_is_used() -> None:
    seen = facts({"docked": "p4", "system_id": "s5"}, log=[RICH], get_notifications={"notifications": [sale(0.2)]})
    knowledge = Knowledge.of(seen)
    haul = knowledge.choose()
    assert haul is not None
    assert haul.outlet.station == "p1"
    assert [order.args["entry"] for order in knowledge.to_write_down()] == [
        "Pressed: iridium at p4 brings 0.20 of its price, tick 500."
    ]
    assert read_low_prices([sale(0.9)]) == {}
    assert read_low_prices([]) == {}


def test_a_logged_low_price_is_parsed_again() -> None:
    note = {"entry": "Pressed: iridium at p4 brings 0.20 of its price, tick 480."}
    knowledge = Knowledge.of(facts({}, log=[RICH], entries=[note]))
    assert knowledge.pressed == {"p4 iridium": 0.2}
    assert not list(knowledge.to_write_down())


def test_scanned_belts_are_examined_and_logged() -> None:
    found = [{"poi_id": "p30", "ore": "nickel"}, {"poi_id": "p31", "ore": "iridium"}, {"poi_id": "p32", "ore": "iron"}]
    notice = {"kind": "done", "action": "scan", "result": {"system_id": "s9", "found": found}}
    knowledge = Knowledge.of(facts({}, get_notifications={"notifications": [notice]}))
    assert knowledge.to_examine == ("p31", "p30")
    assert [o.args["entry"] for o in knowledge.to_write_down()] == ["Scanned s9: nickel, iridium, iron."]


def test_every_planned_call_is_valid_in_reef() -> None:
    for status in ({"docked": "p1"}, {}, {"cargo_used": 18}, {"docked": "p1", "cargo_used": 5, "fuel": 9}):
        for order in course(status, log=[RICH, NEAR]).orders:
            REEF_TOOLS[order.tool].args.model_validate({"session_id": "x", **order.args})
