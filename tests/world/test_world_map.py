"""The map: its proportions, its promises to a new captain, and that it follows from the seed."""

from __future__ import annotations

from collections import Counter

import pytest

from zoea.world.goods import BEST_ORE, NEAREST_ORE, ORES
from zoea.world.world_map import Chart, Kind, travel_ticks
from zoea.world.world_queries import map_of, map_text


@pytest.mark.parametrize("seed", range(5))
def test_the_default_map_has_forty_systems_120_points_30_belts_and_12_stations(seed: int) -> None:
    chart = Chart(seed)
    kinds = Counter(point.kind for point in chart.points.values())
    assert len(chart.systems) == 40
    assert len(chart.points) == 120
    assert (kinds[Kind.BELT], kinds[Kind.STATION]) == (30, 12)
    assert kinds[Kind.GAS] + kinds[Kind.DERELICT] == 78


def test_the_best_ore_is_worth_four_times_the_nearest() -> None:
    assert ORES[BEST_ORE] == 4 * ORES[NEAREST_ORE] == max(ORES.values())
    assert any(point.ore == BEST_ORE for point in Chart(3).points.values())


@pytest.mark.parametrize("seed", range(5))
def test_every_station_stands_in_a_belt_of_the_poorest_ore(seed: int) -> None:
    chart = Chart(seed)
    for station in (chart.points[id_] for id_ in chart.stations):
        beside = [chart.points[id_] for id_ in chart.systems[station.system].points]
        assert any(p.ore == NEAREST_ORE and p.orbit == station.orbit for p in beside)


@pytest.mark.parametrize("seed", range(5))
def test_every_system_can_be_reached_from_every_other_both_ways_alike(seed: int) -> None:
    chart = Chart(seed)
    for start in chart.systems:
        assert set(chart.ticks(start)) == set(chart.systems)
    assert chart.ticks("s1")["s9"] == chart.ticks("s9")["s1"]


def test_the_same_seed_gives_the_same_map_and_another_seed_another() -> None:
    assert map_text(Chart(7)) == map_text(Chart(7))
    assert map_text(Chart(7)) != map_text(Chart(8))


def test_the_map_of_a_big_world_is_large_on_purpose() -> None:
    assert len(map_text(Chart(1, 300))) > 100_000


def test_the_map_tells_no_secret() -> None:
    text = map_text(Chart(1))
    assert not any(ore in text for ore in ORES)
    assert len(map_of(Chart(1))["systems"]) == 40


@pytest.mark.parametrize("systems", [10, 25, 150])
def test_other_sizes_keep_the_proportions(systems: int) -> None:
    chart = Chart(2, systems)
    kinds = Counter(point.kind for point in chart.points.values())
    assert len(chart.points) == 3 * systems
    assert kinds[Kind.BELT] == round(systems * 0.75)
    assert kinds[Kind.STATION] == round(systems * 0.3)


def test_points_further_out_take_longer_and_an_orbit_is_one_place() -> None:
    assert travel_ticks(2, 2) == 0
    assert travel_ticks(0, 1) == travel_ticks(1, 0) == 1
    assert travel_ticks(0, 4) > travel_ticks(0, 1)
