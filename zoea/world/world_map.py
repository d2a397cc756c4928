"""Map of a Reef: systems joined by lanes, each with points of interest.

The map is made from a seed and never changes; ore, prices and ships are state. Points in one orbit are one place: a
station in a belt is one `undock` away from it.
"""

from __future__ import annotations

import heapq
import math
import random
from enum import StrEnum

from msgspec import Struct, field

from zoea.world.goods import BEST_ORE, GASES, GOODS, NEAREST_ORE


class PointKind(StrEnum):
    STATION = "station"
    BELT = "belt"
    GAS = "gas_cloud"
    DERELICT = "derelict"


class PointOfInterest(Struct, frozen=True):
    """Define a point.

    Args:
        ore: Ore or gas of a belt or cloud.
        capacity: Units of ore.
        regrow: Units that regrow per tick.
        salvage: Credits in a derelict, found once.
        factors: Price factors of a station, by good.
    """

    id: str
    name: str
    kind: PointKind
    system: str
    orbit: int
    ore: str = ""
    capacity: float = 0.0
    regrow: float = 0.0
    salvage: int = 0
    factors: dict[str, float] = field(default_factory=dict)
    note: str = ""


class StarSystem(Struct, frozen=True):
    """Define a system; `lanes` are (system id, ticks) of its neighbours."""

    id: str
    name: str
    x: int
    y: int
    lanes: tuple[tuple[str, int], ...]
    points: tuple[str, ...]


class WorldMap:
    """Generate the whole map and its routes.

    Args:
        seed: Seed; equal seeds and sizes give equal maps.
        systems: Number of systems; 40 give 120 points with 12 stations and 30 belts, other sizes keep the
            proportions.
    """

    def __init__(self, seed: int, systems: int = 40) -> None:
        self.seed = seed
        dice = random.Random(f"reef {seed} {systems}")
        places = _scatter(dice, systems)
        lanes = _lanes(places)
        homes = _spread(dice, places, max(2, round(systems * 0.3)))
        points = _points(dice, systems, homes, lanes)
        self.points: dict[str, PointOfInterest] = {point.id: point for point in points}
        names = _names(dice, systems)
        self.systems: dict[str, StarSystem] = {}
        for index, (x, y) in enumerate(places):
            here = f"s{index + 1}"
            self.systems[here] = StarSystem(
                id=here,
                name=names[index],
                x=x,
                y=y,
                lanes=tuple(sorted((f"s{to + 1}", ticks) for to, ticks in lanes[index].items())),
                points=tuple(point.id for point in points if point.system == here),
            )
        self.stations = tuple(point.id for point in points if point.kind is PointKind.STATION)
        self._ticks: dict[str, dict[str, int]] = {}

    def ticks(self, start: str) -> dict[str, int]:
        """Return the ticks of the fastest route from a system to every other."""
        if start not in self._ticks:
            self._ticks[start] = _dijkstra({s.id: s.lanes for s in self.systems.values()}, start)
        return self._ticks[start]


def count_travel_ticks(start: int, end: int) -> int:
    """Return the ticks between two orbits of a system; 0 within one orbit."""
    apart = abs(start - end)
    return 1 + apart // 2 if apart else 0


def _scatter(dice: random.Random, count: int) -> list[tuple[int, int]]:
    side = round(100 * math.sqrt(count))
    apart = 55
    places: list[tuple[int, int]] = []
    while len(places) < count:
        x, y = dice.randrange(side), dice.randrange(side)
        if all((x - a) ** 2 + (y - b) ** 2 >= apart**2 for a, b in places):
            places.append((x, y))
    return places


def _lanes(places: list[tuple[int, int]]) -> list[dict[int, int]]:
    """Join all systems by a tree, and each with its two nearest."""
    lanes: list[dict[int, int]] = [{} for _ in places]

    def join(a: int, b: int) -> None:
        lanes[a][b] = lanes[b][a] = max(3, round(math.dist(places[a], places[b]) / 25))

    outside = {i: (math.dist(places[0], places[i]), 0) for i in range(1, len(places))}
    while outside:
        nearest = min(outside, key=lambda i: (outside[i][0], i))
        join(nearest, outside.pop(nearest)[1])
        for other, (far, _) in outside.items():
            now = math.dist(places[nearest], places[other])
            if now < far:
                outside[other] = (now, nearest)
    for a, here in enumerate(places):
        for b in sorted((i for i in range(len(places)) if i != a), key=lambda i: (math.dist(here, places[i]), i))[:2]:
            join(a, b)
    return lanes


def _spread(dice: random.Random, places: list[tuple[int, int]], count: int) -> list[int]:
    """Choose systems far from each other, so that every region gets a station."""
    chosen = [dice.randrange(len(places))]
    while len(chosen) < count:
        chosen.append(
            max(
                (i for i in range(len(places)) if i not in chosen),
                key=lambda i: (min(math.dist(places[i], places[c]) for c in chosen), -i),
            )
        )
    return chosen


def _dijkstra(lanes: dict[str, tuple[tuple[str, int], ...]], start: str) -> dict[str, int]:
    best = {start: 0}
    heap = [(0, start)]
    while heap:
        ticks, here = heapq.heappop(heap)
        if ticks > best[here]:
            continue
        for there, more in lanes[here]:
            if ticks + more < best.get(there, 1 << 30):
                best[there] = ticks + more
                heapq.heappush(heap, (ticks + more, there))
    return best


_BELTS = (
    *("copper", "nickel", "copper", "nickel", "copper", "nickel", "copper", "palladium", BEST_ORE),
    *("copper", "nickel", "copper", "titanium", "copper", "nickel", "copper", "nickel", BEST_ORE),
)


def _points(dice: random.Random, systems: int, homes: list[int], lanes: list[dict[int, int]]) -> list[PointOfInterest]:
    """Place stations and poor belts in home systems, then belts, clouds and derelicts."""
    total, belts = systems * 3, round(systems * 0.75)
    rich = belts - len(homes)
    ores = [_BELTS[-1 - i % len(_BELTS)] for i in range(rich)]
    away = _remote_first(dice, lanes, homes, ores.count(BEST_ORE))
    ores.sort(key=lambda ore: ore != BEST_ORE)
    spots: list[tuple[int, PointKind, str, int]] = []
    for home in homes:
        spots += [(home, PointKind.STATION, "", 0), (home, PointKind.BELT, NEAREST_ORE, 0)]
    used: dict[int, int] = dict.fromkeys(homes, 0)

    def orbit(system: int) -> int:
        used[system] = used.get(system, -1) + 1
        return used[system]

    spots += [(here, PointKind.BELT, ore, orbit(here)) for here, ore in zip(_cycle(away, rich), ores, strict=True)]
    every = list(range(systems))
    dice.shuffle(every)
    for number, here in enumerate(_cycle(sorted(every, key=lambda i: used.get(i, -1)), total - len(spots))):
        kind = PointKind.GAS if number % 2 == 0 else PointKind.DERELICT
        spots.append((here, kind, "helium" if kind is PointKind.GAS else "", orbit(here)))
    spots.sort(key=lambda spot: (spot[0], spot[3], spot[1] is not PointKind.STATION))
    return [_point(dice, number + 1, *spot) for number, spot in enumerate(spots)]


def _remote_first(dice: random.Random, lanes: list[dict[int, int]], homes: list[int], few: int) -> list[int]:
    """Return the systems without a station, `few` remote ones first, the rest shuffled."""
    named = {str(i): tuple((str(to), ticks) for to, ticks in near.items()) for i, near in enumerate(lanes)}
    far = dict.fromkeys(range(len(lanes)), 1 << 30)
    for home in homes:
        for name, ticks in _dijkstra(named, str(home)).items():
            far[int(name)] = min(far[int(name)], ticks)
    away = sorted((i for i in far if i not in homes), key=lambda i: (far[i], i))
    remote = away[len(away) // 2 : len(away) * 9 // 10]
    chosen = dice.sample(remote, min(few, len(remote)))
    rest = [i for i in away if i not in chosen]
    dice.shuffle(rest)
    return chosen + rest


def _cycle(items: list[int], count: int) -> list[int]:
    return [items[i % len(items)] for i in range(count)]


def _point(dice: random.Random, number: int, system: int, kind: PointKind, ore: str, orbit: int) -> PointOfInterest:
    rich = ore not in (NEAREST_ORE, "") and ore not in GASES
    capacity = float(dice.randrange(500, 801) if rich else dice.randrange(800, 1201)) if ore else 0.0
    factors = {}
    if kind is PointKind.STATION:
        factors = {good: round(dice.uniform(0.9, 1.1), 3) for good in GOODS}
    return PointOfInterest(
        id=f"p{number}",
        name=f"{_word(dice)} {_TITLES[kind][dice.randrange(len(_TITLES[kind]))]}",
        kind=kind,
        system=f"s{system + 1}",
        orbit=orbit,
        ore=ore,
        capacity=capacity,
        regrow=round(capacity * 0.004, 3),
        salvage=dice.randrange(10, 31) if kind is PointKind.DERELICT else 0,
        factors=factors,
        note=_note(dice, kind),
    )


_TITLES: dict[PointKind, tuple[str, ...]] = {
    PointKind.STATION: ("Station", "Anchorage", "Depot", "Exchange"),
    PointKind.BELT: ("Belt", "Shoal", "Drift", "Scatter"),
    PointKind.GAS: ("Cloud", "Veil", "Plume"),
    PointKind.DERELICT: ("Wreck", "Hulk", "Relic"),
}
_HEADS = ("Ka", "Ve", "Or", "Tal", "Mi", "Sho", "Bre", "Lun", "Quo", "Fe", "Ara", "Ny", "Dro", "Is", "Pel", "Zo")
_TAILS = ("ra", "len", "mar", "dis", "thos", "na", "vek", "rim", "lo", "sta", "ion", "bel", "que", "dor", "wyn", "tis")
_NOTES: dict[PointKind, tuple[str, ...]] = {
    PointKind.STATION: (
        "Buys every ore and gas.",
        "Sells fuel, repairs and modules.",
        "Prices move with what is sold.",
    ),
    PointKind.BELT: ("What it holds shows to a scan.", "All who mine here share it.", "It regrows slowly once taken."),
    PointKind.GAS: ("A harvest for an idle ship.", "Thin but wide.", "Its gas is worth little."),
    PointKind.DERELICT: (
        "A scan may find salvage.",
        "The first to scan it takes all.",
        "Nobody has answered its beacon.",
    ),
}


def _word(dice: random.Random) -> str:
    return dice.choice(_HEADS) + dice.choice(_TAILS)


def _note(dice: random.Random, kind: PointKind) -> str:
    return dice.choice(_NOTES[kind])


def _names(dice: random.Random, count: int) -> list[str]:
    names: list[str] = []
    while len(names) < count:
        name = _word(dice) + (dice.choice(_TAILS) if len(names) >= 100 else "")
        names.append(name if name not in names else f"{name} {len(names) + 1}")
    return names
