"""The map: its proportions, its promises to a new captain, and that it follows from the seed."""

from __future__ import annotations

from collections import Counter

from tests.case_tables import walk_cases
from zoea.world.goods import BEST_ORE, NEAREST_ORE, ORES
from zoea.world.world_map import PointKind, WorldMap, count_travel_ticks
from zoea.world.world_queries import build_map, build_map_json


@walk_cases("seed", range(5))
def test_the_default_map_has_forty_systems_120_points_30_belts_and_12_stations(seed: int) -> None:
    world_map = WorldMap(seed)
    kinds = Counter(point.kind for point in world_map.points.values())
    assert len(world_map.systems) == 40
    assert len(world_map.points) == 120
    assert (kinds[PointKind.BELT], kinds[PointKind.STATION]) == (30, 12)
    assert kinds[PointKind.GAS] + kinds[PointKind.DERELICT] == 78


def test_the_best_ore_is_worth_four_times_the_nearest() -> None:
    assert ORES[BEST_ORE] == 4 * ORES[NEAREST_ORE] == max(ORES.values())
    assert any(point.ore == BEST_ORE for point in WorldMap(3).points.values())


@walk_cases("seed", range(5))
def test_every_station_is_in_a_belt_of_the_poorest_ore(seed: int) -> None:
    world_map = WorldMap(seed)
    for station in (world_map.points[id_] for id_ in world_map.stations):
        beside = [world_map.points[id_] for id_ in world_map.systems[station.system].points]
        assert any(p.ore == NEAREST_ORE and p.orbit == station.orbit for p in beside)


@walk_cases("seed", range(5))
def test_every_system_can_be_reached_from_every_other_both_ways_alike(seed: int) -> None:
    world_map = WorldMap(seed)
    for start in world_map.systems:
        assert set(world_map.ticks(start)) == set(world_map.systems)
    assert world_map.ticks("s1")["s9"] == world_map.ticks("s9")["s1"]


def test_the_same_seed_gives_the_same_map_and_another_seed_another() -> None:
    assert build_map_json(WorldMap(7)) == build_map_json(WorldMap(7))
    assert build_map_json(WorldMap(7)) != build_map_json(WorldMap(8))


def test_the_map_of_a_big_world_is_large() -> None:
    assert len(build_map_json(WorldMap(1, 300))) > 100_000


def test_the_map_shows_no_ore() -> None:
    text = build_map_json(WorldMap(1))
    assert not any(ore in text for ore in ORES)
    assert len(build_map(WorldMap(1))["systems"]) == 40


@walk_cases("systems", [10, 25, 150])
def test_other_sizes_keep_the_proportions(systems: int) -> None:
    world_map = WorldMap(2, systems)
    kinds = Counter(point.kind for point in world_map.points.values())
    assert len(world_map.points) == 3 * systems
    assert kinds[PointKind.BELT] == round(systems * 0.75)
    assert kinds[PointKind.STATION] == round(systems * 0.3)


def test_points_further_out_take_longer_and_an_orbit_is_one_place() -> None:
    assert count_travel_ticks(2, 2) == 0
    assert count_travel_ticks(0, 1) == count_travel_ticks(1, 0) == 1
    assert count_travel_ticks(0, 4) > count_travel_ticks(0, 1)
