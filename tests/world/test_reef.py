"""The rules of the simulation: time, ore, prices, ships, and each refusal."""

from __future__ import annotations

from typing import Any

import pytest

from zoea.world.goods import FUEL, LOG_ENTRIES, NOTICES, QUEUE_LIMIT, RECOVERY, SLIP, TANKER_FUEL, TANKER_TICKS
from zoea.world.reef import Reef
from zoea.world.refusal import ReefRefusal
from zoea.world.state import Player, World
from zoea.world.world_map import PointKind, PointOfInterest, WorldMap

CHART = WorldMap(1)


class Game:
    """A reef with one captain, and short ways to play."""

    def __init__(self) -> None:
        self.reef = Reef(CHART)
        self.me: Player = self.reef.register("alpha", "secret")

    def do(self, tool: str, **args: Any) -> dict[str, Any]:
        return self.reef.call("alpha", tool, args)

    def now(self, tool: str, **args: Any) -> dict[str, Any]:
        """Do it and let time pass until the ship is free."""
        result = self.do(tool, **args)
        self.rest()
        return result

    def rest(self) -> None:
        while self.reef.is_waiting("alpha"):
            self.reef.tick()

    def refused(self, tool: str, **args: Any) -> ReefRefusal:
        with pytest.raises(ReefRefusal) as caught:
            self.do(tool, **args)
        return caught.value

    def put(self, point: PointOfInterest, *, docked: bool = False) -> None:
        self.me.docked = ""
        self.reef.arrive(self.me, point.system, point.orbit)
        if docked:
            self.me.docked = point.id


@pytest.fixture
def game() -> Game:
    return Game()


def first(kind: PointKind, ore: str = "") -> PointOfInterest:
    """A point that stands alone in its place."""
    for point in CHART.points.values():
        alone = [p for p in CHART.points.values() if (p.system, p.orbit) == (point.system, point.orbit)] == [point]
        if point.kind is kind and (not ore or point.ore == ore) and (alone or kind is PointKind.STATION):
            return point
    raise AssertionError(kind)


def test_the_first_load_takes_at_most_six_ticks(game: Game) -> None:
    for tool in ("undock", "mine", "mine", "mine", "dock", "sell"):
        game.do(tool)
    for _ in range(6):
        game.reef.tick()
    assert game.me.earned > 0
    assert not game.me.queue


def test_an_action_of_a_free_ship_starts_at_once_and_gives_its_cooldown(game: Game) -> None:
    result = game.do("undock")
    assert result["cooldown_ticks"] == 1
    assert result["current_tick"] == 0
    assert game.me.docked == ""


def test_an_action_of_a_busy_ship_is_queued_and_gives_its_arrival_tick(game: Game) -> None:
    game.do("undock")
    assert game.do("mine") == {"queued": True, "action": "mine", "position": 1, "arrival_tick": 2, "current_tick": 0}
    assert game.do("mine", times=4)["arrival_tick"] == 6


def test_a_queued_action_is_done_at_its_arrival_tick(game: Game) -> None:
    belt = next(p for p in CHART.points.values() if p.ore == "iridium")
    game.do("undock")
    game.do("jump", system_id=belt.system)
    game.do("mine", times=5)
    home = CHART.points[CHART.stations[0]].system
    promised = game.do("jump", system_id=home)["arrival_tick"]
    while game.me.queue or game.me.task:
        game.reef.tick()
    assert game.reef.tick_now == promised
    assert game.me.cargo == {"iridium": 5}


def test_a_journey_takes_as_many_ticks_and_as_much_fuel_as_its_lanes(game: Game) -> None:
    game.now("undock")
    start = game.me.system
    goal, ticks = CHART.systems[start].lanes[0]
    ticks = CHART.ticks(start)[goal]
    result = game.do("jump", system_id=goal)
    assert result["arrival_tick"] == game.reef.tick_now + ticks
    assert result["fuel_used"] == ticks
    game.rest()
    assert (game.me.system, game.me.distance, game.me.fuel) == (goal, ticks, FUEL - ticks)


def test_a_queued_action_that_fails_is_a_notification_and_drops_what_follows(game: Game) -> None:
    game.do("undock")
    game.do("undock")
    game.do("mine")
    game.reef.tick()
    (notice,) = game.do("get_notifications")["notifications"]
    assert (notice["kind"], notice["code"], notice["dropped"]) == ("failed", "not_docked", 1)
    assert not game.me.queue


def test_the_queue_has_a_limit(game: Game) -> None:
    game.do("undock")
    for _ in range(QUEUE_LIMIT):
        game.do("mine")
    assert game.refused("mine").code == "queue_full"


def test_mining_ends_early_when_the_hold_is_full(game: Game) -> None:
    game.now("undock")
    game.me.cargo["copper"] = 17
    game.now("mine", times=20)
    assert game.me.cargo["iron"] == 3
    assert game.reef.tick_now < 6
    assert game.refused("mine").code == "cargo_full"


def test_ore_is_shared_finite_and_regrows(game: Game) -> None:
    game.now("undock")
    belt = next(p for p in game.reef.here(game.me) if p.ore)
    game.reef.world.ore[belt.id] = [1.0, game.reef.tick_now]
    assert game.now("mine")["units"] == 1
    game.reef.world.ore[belt.id] = [0.0, game.reef.tick_now]
    assert game.refused("mine").code == "belt_empty"
    before = game.reef.world.units(belt.id, belt.capacity, belt.regrow)
    for _ in range(50):
        game.reef.tick()
    after = game.reef.world.units(belt.id, belt.capacity, belt.regrow)
    assert after == pytest.approx(before + 50 * belt.regrow)
    for _ in range(400):
        game.reef.tick()
    assert game.reef.world.units(belt.id, belt.capacity, belt.regrow) == belt.capacity


def test_a_price_falls_two_percent_with_each_unit_and_recovers_five_percent_of_the_distance(game: Game) -> None:
    game.me.cargo = {"iron": 10}
    line = game.do("sell", item="iron")["sold"][0]
    assert line["price_after"] == pytest.approx(line["price_before"] * SLIP**10, abs=0.01)
    expected = sum(line["base_price"] * SLIP**i for i in range(10))
    assert line["credits"] == pytest.approx(expected, abs=1)
    game.reef.tick()
    price = next(p for p in game.do("get_market")["prices"] if p["item"] == "iron")
    gap = line["base_price"] - line["price_after"]
    assert price["price"] == pytest.approx(line["base_price"] - gap * (1 - RECOVERY), abs=0.02)


def test_sell_takes_a_part_one_good_or_the_whole_cargo(game: Game) -> None:
    game.me.cargo = {"iron": 5, "copper": 2}
    assert game.now("sell", item="iron", quantity=2)["sold"][0]["units"] == 2
    assert game.me.cargo == {"iron": 3, "copper": 2}
    assert {line["item"] for line in game.now("sell")["sold"]} == {"iron", "copper"}
    assert game.refused("sell").code == "nothing_to_sell"


def test_selling_too_much_or_an_unknown_good_is_refused(game: Game) -> None:
    game.me.cargo = {"iron": 5}
    assert game.refused("sell", item="iron", quantity=6).code == "not_enough"
    assert game.refused("sell", item="gold").code == "unknown_good"
    assert game.refused("sell", item="copper").code == "nothing_to_sell"


def test_goods_and_modules_are_bought_with_credits(game: Game) -> None:
    assert game.refused("buy", item="iron").code == "no_credits"
    game.me.credits = 2_000
    assert game.now("buy", item="iron", quantity=3)["paid"] > 30
    assert game.me.cargo == {"iron": 3}
    for item in ("cargo_pod", "fuel_tank", "mining_laser"):
        game.now("buy", item=item)
    assert (game.me.capacity, game.me.tank) == (30, FUEL + 40)
    assert game.me.price_of("cargo_pod") == 800
    assert game.refused("buy", item="cargo_pod", quantity=2).code == "one_at_a_time"
    assert game.refused("buy", item="iron", quantity=40).code == "cargo_full"
    assert game.refused("buy", item="gold").code == "unknown_good"
    game.now("undock")
    assert game.now("mine")["units"] == 2


def test_a_round_trip_of_buying_and_selling_loses(game: Game) -> None:
    game.me.credits = 1_000
    game.now("buy", item="iridium", quantity=10)
    game.now("sell")
    assert game.me.credits < 1_000


def test_fuel_is_bought_at_a_dock_and_a_tanker_is_free(game: Game) -> None:
    assert game.refused("refuel").code == "tank_full"
    game.me.fuel = 10
    assert game.refused("refuel").code == "no_credits"
    game.me.credits = 30
    assert game.now("refuel", quantity=5)["fuel"] == 15
    assert game.now("refuel")["fuel"] == 40
    game.now("undock")
    game.me.fuel = 0
    assert game.do("refuel")["arrival_tick"] == game.reef.tick_now + TANKER_TICKS
    game.rest()
    assert game.me.fuel == TANKER_FUEL


def test_without_fuel_no_journey_and_no_scan_begins(game: Game) -> None:
    game.now("undock")
    game.me.fuel = 0
    far = next(s for s in CHART.systems if s != game.me.system)
    assert game.refused("jump", system_id=far).code == "no_fuel"
    assert game.refused("scan").code == "no_fuel"


def test_jumps_wear_the_hull_and_repairs_mend_it(game: Game) -> None:
    assert game.refused("repair").code == "hull_whole"
    game.me.hull = 90
    assert game.refused("repair").code == "no_credits"
    game.me.credits = 10
    assert game.now("repair")["hull"] == 95
    game.now("undock")
    game.me.hull = 10
    goal = CHART.systems[game.me.system].lanes[0][0]
    assert game.refused("jump", system_id=goal).code == "hull_weak"
    game.now("repair")
    assert game.me.hull == 25
    game.now("jump", system_id=goal)
    assert game.me.hull == 24


def test_a_scan_tells_what_belts_hold_and_the_first_to_scan_a_derelict_takes_its_salvage(game: Game) -> None:
    wreck = first(PointKind.DERELICT)
    game.put(wreck)
    result = game.now("scan")
    assert result["salvage_credits"] == wreck.salvage == game.me.credits
    assert game.now("scan")["salvage_credits"] == 0
    assert all(point in game.me.known for point in CHART.systems[wreck.system].points)


def test_what_a_belt_holds_is_unknown_until_it_was_visited_or_scanned(game: Game) -> None:
    belt = next(p for p in CHART.points.values() if p.ore == "iridium")
    assert "unknown" in game.do("get_poi", poi_id=belt.id)["ore"]
    game.put(belt)
    seen = game.do("get_poi", poi_id=belt.id)
    assert (seen["ore"], seen["price"], seen["units"]) == ("iridium", 40.0, int(belt.capacity))
    game.put(CHART.points[CHART.stations[0]])
    assert "unknown" in game.do("get_poi", poi_id=belt.id)["units"]


def test_actions_that_do_not_fit_the_place_say_what_to_do(game: Game) -> None:
    assert game.refused("mine").code == "docked"
    assert game.refused("dock").code == "docked"
    game.now("undock")
    assert game.refused("undock").code == "not_docked"
    assert game.refused("sell").code == "not_docked"
    game.put(first(PointKind.DERELICT))
    assert game.refused("mine").code == "nothing_here"
    assert game.refused("dock").code == "no_station"
    assert game.refused("get_market").code == "no_station"
    assert game.refused("jump", system_id=game.me.system).code == "already_there"


def test_unknown_names_are_refused_even_for_queued_actions(game: Game) -> None:
    game.do("undock")
    assert game.refused("travel", poi_id="p999").code == "unknown_poi"
    assert game.refused("jump", system_id="s999").code == "unknown_system"
    assert game.refused("buy", item="gold").code == "unknown_good"
    assert game.refused("sell", item="gold").code == "unknown_good"
    assert game.refused("get_system", system_id="s0").code == "unknown_system"


def test_travel_stays_within_a_system(game: Game) -> None:
    game.now("undock")
    other = next(p for p in CHART.points.values() if p.system != game.me.system)
    assert game.refused("travel", poi_id=other.id).code == "other_system"
    assert game.do("travel", poi_id=game.reef.here(game.me)[0].id)["arrived"] is True


def test_travel_within_a_system_takes_ticks(game: Game) -> None:
    system = max(CHART.systems.values(), key=lambda s: len(s.points))
    points = [CHART.points[id_] for id_ in system.points]
    game.put(points[0])
    far = max(points, key=lambda p: p.orbit)
    game.now("travel", poi_id=far.id)
    assert game.me.orbit == far.orbit


def test_prices_are_heard_only_within_the_system(game: Game) -> None:
    here = game.me.docked
    away = next(s for s in CHART.stations if s != here)
    assert game.do("get_market")["station_id"] == here
    assert game.refused("get_market", station_id=away).code == "no_signal"
    belt = next(p.id for p in CHART.points.values() if p.kind is PointKind.BELT)
    assert game.refused("get_market", station_id=belt).code == "no_station"


def test_the_status_of_a_busy_ship_shows_action_and_arrival_tick(game: Game) -> None:
    assert game.do("get_status")["busy"] is False
    game.do("undock")
    game.do("mine", times=3)
    game.reef.tick()
    status = game.do("get_status")
    assert (status["busy"], status["doing"], status["arrival_tick"]) == (True, "mine", 4)


def test_chat_reaches_those_in_the_system_or_one_captain(game: Game) -> None:
    others = [game.reef.register(f"c{i}", "") for i in range(12)]
    neighbour = others[-1]
    assert neighbour.system == game.me.system
    assert game.do("chat", text="hello")["heard_by"] == 1
    assert game.do("chat", text="psst", to="C0")["heard_by"] == 1
    assert [n["text"] for n in neighbour.notices] == ["hello"]
    assert others[0].notices[0]["private"] is True
    assert game.refused("chat", text="  ").code == "empty_text"
    assert game.refused("chat", text="x", to="nobody").code == "unknown_player"
    assert [p["name"] for p in game.do("get_nearby")["players"]] == ["c11"]


def test_the_log_keeps_entries_newest_first_and_refuses_an_empty_one(game: Game) -> None:
    assert game.refused("captains_log_add", entry=" \n").code == "empty_entry"
    for number in range(LOG_ENTRIES + 5):
        game.do("captains_log_add", entry=f"entry {number}")
    page = game.do("captains_log_list", limit=2)
    assert [e["entry"] for e in page["entries"]] == [f"entry {LOG_ENTRIES + 4}", f"entry {LOG_ENTRIES + 3}"]
    older = game.do("captains_log_list", limit=100, before_id=page["entries"][-1]["id"])
    assert older["entries"][0]["entry"] == f"entry {LOG_ENTRIES + 2}"
    assert len(older["entries"]) == LOG_ENTRIES - 2


def test_notifications_are_read_again_from_any_id_and_only_the_newest_are_kept(game: Game) -> None:
    for number in range(NOTICES + 10):
        game.me.notice(number, "chat", text=str(number))
    answer = game.do("get_notifications", limit=3)
    assert [n["id"] for n in answer["notifications"]] == [48, 49, 50]
    assert game.do("get_notifications", after_id=answer["newest_id"])["notifications"] == []
    assert len(game.me.notices) == NOTICES


def test_skills_grow_with_use(game: Game) -> None:
    assert game.do("get_skills")["skills"]["mining"]["level"] == 0
    game.me.xp["mining"] = 200
    game.me.xp["trading"] = 10**9
    skills = game.do("get_skills")["skills"]
    assert (skills["mining"]["level"], skills["mining"]["next_level_at"]) == (2, 450)
    assert (skills["trading"]["level"], skills["trading"]["next_level_at"]) == (10, None)
    assert game.do("get_ship")["mining_rate"] == 1.2
    game.now("undock")
    game.now("mine", times=5)
    assert game.me.cargo["iron"] == 6
    assert game.do("get_cargo")["cargo_used"] == 6


def test_get_system_names_the_nearest_systems_and_which_of_them_were_scanned(game: Game) -> None:
    near = game.do("get_system")["nearest_systems"]
    assert [n["ticks"] for n in near] == sorted(n["ticks"] for n in near)
    assert not any(n["scanned"] for n in near)
    other = game.do("get_system", system_id=near[0]["system_id"])
    assert (other["you_are_here"], other["visited"]) == (False, False)


def test_get_map_shows_every_system(game: Game) -> None:
    assert len(game.do("get_map")["map"]["systems"]) == 40


def test_a_name_is_free_until_its_first_login(game: Game) -> None:
    again = game.reef.register("ALPHA", "other")
    assert (again is game.me, again.secret) == (True, "other")
    game.reef.claim("alpha")
    with pytest.raises(ReefRefusal, match="taken"):
        game.reef.register("Alpha", "third")


def test_state_goes_to_json_and_back_with_the_same_hash(game: Game) -> None:
    game.do("undock")
    game.do("mine", times=5)
    game.reef.tick()
    again = World.from_json(game.reef.world.to_json())
    assert again.hash() == game.reef.world.hash()
    revived = Reef(CHART, again)
    for reef in (game.reef, revived):
        for _ in range(10):
            reef.tick()
    assert revived.world.hash() == game.reef.world.hash()
    assert revived.world.players["alpha"].cargo == {"iron": 5}
