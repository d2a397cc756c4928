"""Notes on belts: one line of text each, which captains log and broadcast.

People, models and the autopilot read the same line; `parse_notes` finds it inside any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from zoea.world.goods import ORES

MINING_TICKS = 20
DOCKSIDE_TICKS = 4


class BeltOutlet(Struct, frozen=True):
    """Define a station that buys, and the ticks from the belt's system to it."""

    station: str
    system: str
    ticks: int


class BeltNote(Struct, frozen=True):
    """Describe a belt: ore, place and nearby stations."""

    belt: str
    system: str
    orbit: int
    ore: str
    outlets: tuple[BeltOutlet, ...]

    @property
    def price(self) -> float:
        return ORES.get(self.ore, 0.0)

    def line(self) -> str:
        """Return the note as a sentence."""
        outlets = " or ".join(f"{o.station} in {o.system} ({o.ticks} ticks)" for o in self.outlets)
        return (
            f"{self.ore.capitalize()} worth {self.price:g} credits at {self.belt} in {self.system}, "
            f"orbit {self.orbit}; sell at {outlets}."
        )


class HaulRoute(Struct, frozen=True):
    """Join a belt and one of its outlets. `rate` is an estimate in credits per tick."""

    finding: BeltNote
    outlet: BeltOutlet

    @property
    def rate(self) -> float:
        return self.finding.price * MINING_TICKS / (2 * self.outlet.ticks + MINING_TICKS + DOCKSIDE_TICKS)


# Without the first part each letter of a long word would be tried as a start: seconds in which no mysis advances.
_LINE = re.compile(
    r"(?<![A-Za-z])(?P<ore>[A-Za-z]+) worth [\d.]+ credits at "
    r"(?P<belt>p\d+) in (?P<system>s\d+), orbit (?P<orbit>\d{1,9}); "
    r"sell at (?P<outlets>p\d+ in s\d+ \(\d{1,9} ticks\)(?: or p\d+ in s\d+ \(\d{1,9} ticks\))*)"
)
_OUTLET = re.compile(r"(p\d+) in (s\d+) \((\d{1,9}) ticks\)")


def parse_notes(text: str) -> list[BeltNote]:
    """Return every note in a text; skip unknown ores."""
    notes = []
    for match in _LINE.finditer(text[:20_000]):
        ore = match["ore"].lower()
        if ore in ORES:
            outlets = tuple(BeltOutlet(a, b, int(c)) for a, b, c in _OUTLET.findall(match["outlets"]))
            notes.append(BeltNote(match["belt"], match["system"], int(match["orbit"]), ore, outlets))
    return notes


def build_note(poi: dict[str, Any]) -> BeltNote | None:
    """Build a note from a `get_poi` result. None if it is not a known belt or malformed."""
    try:
        if poi["kind"] != "belt" or poi["ore"] not in ORES:
            return None
        stations = [(near["poi_id"], near["system_id"], int(near["ticks"])) for near in poi["nearest_stations"]]
        outlets = tuple(BeltOutlet(str(place), str(system), ticks) for place, system, ticks in stations)
        note = BeltNote(str(poi["poi_id"]), str(poi["system_id"]), int(poi.get("orbit", 0)), str(poi["ore"]), outlets)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return note if outlets else None


def rank_routes(findings: Iterable[BeltNote], without: Sequence[str] = ()) -> list[HaulRoute]:
    """Return all routes, the best first, without the belts in `without`."""
    every = [HaulRoute(f, outlet) for f in findings if f.belt not in without for outlet in f.outlets]
    return sorted(every, key=lambda haul: (-haul.rate, haul.finding.belt, haul.outlet.station))
