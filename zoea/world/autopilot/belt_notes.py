"""What is worth knowing of a belt, as one line of text that captains write down and tell.

The line is read by people, models and the autopilot alike; `parse_notes` finds it in a log
entry or in a message, whatever stands around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from zoea.world.goods import ORES

MINING_TICKS = 20
DOCKSIDE_TICKS = 4


@dataclass(frozen=True, slots=True)
class BeltOutlet:
    """A station that buys, and the ticks of the way to it from the belt's system."""

    station: str
    system: str
    ticks: int


@dataclass(frozen=True, slots=True)
class BeltNote:
    """A belt with its ore and the stations near it."""

    belt: str
    system: str
    orbit: int
    ore: str
    outlets: tuple[BeltOutlet, ...]

    @property
    def price(self) -> float:
        return ORES.get(self.ore, 0.0)

    def line(self) -> str:
        """The finding as a sentence."""
        outlets = " or ".join(f"{o.station} in {o.system} ({o.ticks} ticks)" for o in self.outlets)
        return (
            f"{self.ore.capitalize()} worth {self.price:g} credits at {self.belt} in {self.system}, "
            f"orbit {self.orbit}; sell at {outlets}."
        )


@dataclass(frozen=True, slots=True)
class HaulRoute:
    """One way to earn: a belt and one of its outlets. `rate` is credits a tick, roughly."""

    finding: BeltNote
    outlet: BeltOutlet

    @property
    def rate(self) -> float:
        return self.finding.price * MINING_TICKS / (2 * self.outlet.ticks + MINING_TICKS + DOCKSIDE_TICKS)


_LINE = re.compile(
    r"(?P<ore>[A-Za-z]+) worth [\d.]+ credits at (?P<belt>p\d+) in (?P<system>s\d+), orbit (?P<orbit>\d+); "
    r"sell at (?P<outlets>p\d+ in s\d+ \(\d+ ticks\)(?: or p\d+ in s\d+ \(\d+ ticks\))*)"
)
_OUTLET = re.compile(r"(p\d+) in (s\d+) \((\d+) ticks\)")


def parse_notes(text: str) -> list[BeltNote]:
    """Every finding that a text holds; ores that do not exist are passed over."""
    found = []
    for match in _LINE.finditer(text[:20_000]):
        ore = match["ore"].lower()
        if ore in ORES:
            outlets = tuple(BeltOutlet(a, b, int(c)) for a, b, c in _OUTLET.findall(match["outlets"]))
            found.append(BeltNote(match["belt"], match["system"], int(match["orbit"]), ore, outlets))
    return found


def build_note(poi: dict[str, Any]) -> BeltNote | None:
    """The finding that a `get_poi` result makes; None where it is no known belt, or not in the shape of one."""
    try:
        if poi["kind"] != "belt" or poi["ore"] not in ORES:
            return None
        stations = [(near["poi_id"], near["system_id"], int(near["ticks"])) for near in poi["nearest_stations"]]
        outlets = tuple(BeltOutlet(str(place), str(system), ticks) for place, system, ticks in stations)
        found = BeltNote(str(poi["poi_id"]), str(poi["system_id"]), int(poi.get("orbit", 0)), str(poi["ore"]), outlets)
    except (KeyError, TypeError, ValueError):
        return None
    return found if outlets else None


def rank_routes(findings: Iterable[BeltNote], without: Sequence[str] = ()) -> list[HaulRoute]:
    """All ways to earn, the best first; `without` are belts that are mined out."""
    every = [HaulRoute(f, outlet) for f in findings if f.belt not in without for outlet in f.outlets]
    return sorted(every, key=lambda haul: (-haul.rate, haul.finding.belt, haul.outlet.station))
