"""Where a captain stands, folded from results and notes, and the course that follows from it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

from zoea.world.autopilot.belt_notes import Finding, Haul, hauls, parse
from zoea.world.autopilot.request_facts import Deed, Sight
from zoea.world.goods import ORES

MOST_SCANS = 5
"""Systems a captain scouts before settling for the best known; the same with and without others to tell."""
GOOD_ENOUGH = 26.0
BEST_PRICE = max(ORES.values())
FEW_SCANS = 3
BARREN_TICKS = 150
CALM_TICKS = 150
"""How long a pressed price is remembered."""
PRESSED = 0.7
SPARE_FUEL = 12
NEAR_BEST = 0.8
SPREAD = 0.7
CALM = 0.9
CROWDED = 0.8
"""What others know too is shared out over more outlets than what only I know."""

_PLACE = re.compile(r"p\d+ \w+")
_SCANNED = re.compile(r"Scanned (s\d+)")
_EMPTY = re.compile(r"Mined out: (p\d+) at tick (\d+)")
_PRESSED = re.compile(r"Pressed: (\w+) at (p\d+) brings ([\d.]+) of its price, tick (\d+)")
_WISH = re.compile(rf"\bmine\s+(?:\w+\s+){{0,2}}({'|'.join(ORES)})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Order:
    """One call to make."""

    tool: str
    args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Course:
    """What to do next, and why."""

    why: str
    orders: tuple[Order, ...]


@dataclass(frozen=True, slots=True)
class Charter:
    """What is known. `written` are belts that stand in the log already."""

    status: dict[str, Any]
    system: dict[str, Any]
    findings: tuple[Finding, ...]
    written: frozenset[str]
    told: tuple[Finding, ...]
    heard: frozenset[str]
    logged_scans: frozenset[str]
    scans: tuple[dict[str, Any], ...]
    empty: frozenset[str]
    logged_empty: frozenset[str]
    pressed: dict[str, float]
    logged_pressed: frozenset[str]
    wish: str

    @classmethod
    def of(cls, sight: Sight) -> Charter:
        """The charter that a request's results make."""
        status = sight.latest("get_status") or {}
        tick = _int(status, "current_tick")
        entries = [str(e.get("entry", "")) for e in _dicts(sight.latest("captains_log_list"), "entries")]
        log = "\n".join(entries)
        in_log = parse(log)
        notices = _dicts(sight.latest("get_notifications"), "notifications")
        logged_empty = {belt for belt, when in _EMPTY.findall(log) if tick - int(when) < BARREN_TICKS}
        sales = pressed_sales(notices)
        logged_pressed = {
            f"{b} {a}": float(c) for a, b, c, when in reversed(_PRESSED.findall(log)) if tick - int(when) < CALM_TICKS
        }
        wish = _WISH.search(sight.order)
        known = {finding.belt: finding for finding in (*in_log, *sight.told)}
        return cls(
            status=status,
            system=sight.latest("get_system") or {},
            findings=tuple(known.values()),
            written=frozenset(finding.belt for finding in in_log),
            told=sight.told,
            heard=frozenset(
                f.belt for f in (*sight.told, *parse("\n".join(e for e in entries if e.startswith("Heard:"))))
            ),
            logged_scans=frozenset(_SCANNED.findall(log)),
            scans=tuple(_scans(notices, (*sight.before, *sight.deeds))),
            empty=frozenset(logged_empty | _emptied(notices, tick)),
            logged_empty=frozenset(logged_empty),
            pressed=logged_pressed | sales,
            logged_pressed=frozenset(logged_pressed),
            wish=wish[1].lower() if wish else "",
        )

    @property
    def is_busy(self) -> bool:
        return bool(self.status.get("busy"))

    @property
    def scanned(self) -> frozenset[str]:
        return self.logged_scans | {str(scan["system_id"]) for scan in self.scans}

    @property
    def to_examine(self) -> tuple[str, ...]:
        """Belts seen but not yet known with their stations: the two best."""
        seen = {str(b.get("poi_id")): str(b.get("ore")) for scan in self.scans for b in _dicts(scan, "found")}
        seen |= {str(p.get("poi_id")): str(p.get("ore")) for p in _dicts(self.system, "points")}
        known = {finding.belt for finding in self.findings}
        new = [belt for belt, ore in seen.items() if ore in ORES and belt not in known]
        return tuple(sorted(new, key=lambda belt: (-ORES[seen[belt]], belt))[:2])

    def with_findings(self, more: Iterable[Finding]) -> Charter:
        known = {finding.belt: finding for finding in (*self.findings, *more)}
        return replace(self, findings=tuple(known.values()))

    def to_write_down(self) -> Iterator[Order]:
        """What must outlast this turn and does not stand in the log."""
        for finding in {f.belt: f for f in self.told}.values():
            if finding.belt not in self.written:
                yield Order("captains_log_add", {"entry": f"Heard: {finding.line()}"})
        for scan in {str(s["system_id"]): s for s in self.scans}.values():
            if str(scan["system_id"]) not in self.logged_scans:
                ores = ", ".join(str(b.get("ore")) for b in _dicts(scan, "found")) or "nothing"
                yield Order("captains_log_add", {"entry": f"Scanned {scan['system_id']}: {ores}."})
        for place, part in sorted(self.pressed.items()):
            station, good = place.split(" ")
            if place not in self.logged_pressed:
                tick = _int(self.status, "current_tick")
                entry = f"Pressed: {good} at {station} brings {part:.2f} of its price, tick {tick}."
                yield Order("captains_log_add", {"entry": entry})
        for belt in sorted(self.empty - self.logged_empty):
            tick = _int(self.status, "current_tick")
            yield Order("captains_log_add", {"entry": f"Mined out: {belt} at tick {tick}."})

    def wants_to_scout(self) -> bool:
        if self.wish:
            return False
        there = [finding for finding in self.findings if finding.belt not in self.empty]
        if any(f.price >= BEST_PRICE and f.belt not in self.heard for f in there):
            return False
        good = any(finding.price >= GOOD_ENOUGH for finding in there)
        return len(self.scanned) < (FEW_SCANS if good else MOST_SCANS)

    def _rate(self, haul: Haul) -> float:
        usual = CROWDED if haul.finding.belt in self.heard else CALM
        return haul.rate * self.pressed.get(f"{haul.outlet.station} {haul.finding.ore}", usual)

    def choose(self) -> Haul | None:
        """The haul to fly: one of those near the best, another for each name, so that a swarm spreads."""
        wished = [f for f in self.findings if not self.wish or f.ore == self.wish]
        every = hauls(wished or self.findings, tuple(self.empty))
        best = max((self._rate(haul) for haul in every), default=0.0)
        near = [
            haul
            for haul in every
            if self._rate(haul) >= best * (SPREAD if haul.finding.belt in self.heard else NEAR_BEST)
        ]
        return near[crc32(str(self.status.get("name", "")).encode()) % len(near)] if near else None


def pressed_sales(notices: list[dict[str, Any]]) -> dict[str, float]:
    """`station good` of the newest sale, with the part of its base price, where others had sold there before."""
    for notice in reversed(notices):
        if notice.get("action") == "sell" and isinstance(notice.get("result"), dict):
            parts = {
                f"{notice['result'].get('station')} {line.get('item')}": _number(line, "price_before")
                / (_number(line, "base_price") or 1.0)
                for line in _dicts(notice["result"], "sold")
            }
            return {place: part for place, part in parts.items() if part < PRESSED and _PLACE.fullmatch(place)}
    return {}


def chart_course(sight: Sight, charter: Charter) -> Course:
    """The next trip: the first quick load, a scouting flight, or a haul."""
    status = charter.status
    docked, load = bool(status.get("docked")), _int(status, "cargo_used")
    if docked and not _int(status, "earned") and not load:
        digs = [Order("mine", {})] * 3
        why = "I begin with a quick load from the belt outside."
        return Course(why, (Order("undock", {}), *digs, Order("dock", {}), Order("sell", {})))
    ready = _dockside(status) if docked else []
    fuel = _int(status, "fuel_capacity") if any(o.tool == "refuel" for o in ready) else _int(status, "fuel")
    if not docked and fuel <= SPARE_FUEL:
        return Course("Fuel is short, so I call a tanker.", (Order("refuel", {}),))
    if charter.wants_to_scout() and (goal := _scout_goal(charter, fuel)):
        return Course(
            f"I know no belt that is good enough; I scout {goal}.",
            (*ready, Order("jump", {"system_id": goal}), Order("scan", {})),
        )
    haul = charter.choose()
    if haul is None:
        return _grope(charter, ready, load)
    way = f"from {haul.finding.belt} to {haul.outlet.station}"
    why = f"I haul {haul.finding.ore} {way}, about {haul.rate:.0f} credits a tick."
    return Course(why, (*ready, *_haul(charter, haul)))


def _dockside(status: dict[str, Any]) -> list[Order]:
    """Before leaving a dock: sell what is aboard, fill the tank, cast off."""
    orders = [Order("sell", {})] if _int(status, "cargo_used") else []
    if _int(status, "fuel") < _int(status, "fuel_capacity") * 0.7 and (_int(status, "credits") or orders):
        orders.append(Order("refuel", {}))
    if _int(status, "hull") < 40 and _int(status, "credits") > 150:
        orders.append(Order("repair", {}))
    return [*orders, Order("undock", {})]


def _scout_goal(charter: Charter, fuel: int) -> str:
    for near in _dicts(charter.system, "nearest_systems"):
        system = str(near.get("system_id"))
        if near.get("belts") and not near.get("scanned") and system not in charter.scanned:
            return system if _int(near, "ticks") + SPARE_FUEL <= fuel else ""
    return ""


def _haul(charter: Charter, haul: Haul) -> Iterator[Order]:
    """From wherever the ship floats: to the belt, fill the hold, to the outlet, sell."""
    finding, outlet, status = haul.finding, haul.outlet, charter.status
    full = not status.get("docked") and _int(status, "cargo_used") >= 0.8 * _int(status, "cargo_capacity")
    here = str(status.get("system_id"))
    off = False
    if not full:
        if here != finding.system:
            yield Order("jump", {"system_id": finding.system})
        at_belt = here == finding.system and finding.belt in (status.get("place") or [])
        if not at_belt and (finding.orbit or here == finding.system):
            yield Order("travel", {"poi_id": finding.belt})
        yield Order("mine", {"times": 20})
        here, off = finding.system, bool(finding.orbit)
    if here != outlet.system:
        yield Order("jump", {"system_id": outlet.system})
    elif off or (full and outlet.station not in (status.get("place") or [])):
        yield Order("travel", {"poi_id": outlet.station})
    yield Order("dock", {})
    yield Order("sell", {})
    if outlet.ticks:
        yield Order("refuel", {})


def _grope(charter: Charter, ready: list[Order], load: int) -> Course:
    """With nothing known: mine where the ship is, or look for a station."""
    status = charter.status
    for near in _dicts(charter.system, "nearest_systems"):
        if near.get("stations") and near.get("system_id") and not status.get("docked"):
            orders = (Order("jump", {"system_id": near["system_id"]}), Order("dock", {}))
            return Course(
                "I am lost, so I fly to the nearest station.", (*orders, *([Order("sell", {})] if load else []))
            )
    return Course(
        "I mine what is outside.", (*ready, Order("mine", {"times": 10}), Order("dock", {}), Order("sell", {}))
    )


def _scans(notices: list[dict[str, Any]], deeds: Iterable[Deed]) -> Iterator[dict[str, Any]]:
    results = [notice.get("result") for notice in notices if notice.get("action") == "scan"]
    results += [deed.result for deed in deeds if deed.tool == "scan" and not deed.is_error]
    for result in results:
        if isinstance(result, dict) and "system_id" in result and "found" in result:
            yield result


def _emptied(notices: list[dict[str, Any]], tick: int) -> set[str]:
    failed = [n for n in notices if n.get("code") == "belt_empty" and tick - _int(n, "tick") < BARREN_TICKS]
    return {str(n.get("message", "")).split(" ")[0] for n in failed}


def _dicts(value: dict[str, Any] | None, key: str) -> list[dict[str, Any]]:
    found = (value or {}).get(key)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _number(value: dict[str, Any], key: str) -> float:
    found = value.get(key)
    return float(found) if isinstance(found, int | float) else 0.0


def _int(value: dict[str, Any], key: str) -> int:
    return int(_number(value, key))
