"""Knowledge of a captain, collected from results and log, and the plan made from it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from zoea.world.autopilot.belt_notes import BeltNote, HaulRoute, parse_notes, rank_routes
from zoea.world.autopilot.request_facts import ReefCall, RequestFacts
from zoea.world.goods import ORES

MOST_SCANS = 5
"""Systems to scan before the best known belt is used."""
GOOD_ENOUGH = 26.0
BEST_PRICE = max(ORES.values())
FEW_SCANS = 3
BARREN_TICKS = 150
CALM_TICKS = 150
"""Ticks for which a low price is remembered."""
PRESSED = 0.7
SPARE_FUEL = 12
NEAR_BEST = 0.8
SPREAD = 0.7
CALM = 0.9
CROWDED = 0.8
"""Expected share of the base price at a belt that others know too, so that captains use more outlets."""

_MOST = 1e12
"""A larger number in a result is not one of Reef's; JSON can hold infinity and numbers that no float holds."""

_PLACE = re.compile(r"p\d+ \w+")
_SCANNED = re.compile(r"Scanned (s\d+)")
_EMPTY = re.compile(r"Mined out: (p\d+) at tick (\d{1,12})\b")
_PRESSED = re.compile(r"Pressed: (\w+) at (p\d+) brings (\d{1,6}(?:\.\d{1,9})?) of its price, tick (\d{1,12})\b")
_WISH = re.compile(rf"\bmine\s+(?:\w+\s+){{0,2}}({'|'.join(ORES)})\b", re.IGNORECASE)


class PlannedCall(Struct, frozen=True):
    """Define one call to make."""

    tool: str
    args: dict[str, Any]


class ActionPlan(Struct, frozen=True):
    """Hold the next calls and the reason."""

    why: str
    orders: tuple[PlannedCall, ...]


class Knowledge(Struct, frozen=True):
    """Hold everything known; `written` are belts that are in the log."""

    status: dict[str, Any]
    system: dict[str, Any]
    findings: tuple[BeltNote, ...]
    written: frozenset[str]
    told: tuple[BeltNote, ...]
    heard: frozenset[str]
    logged_scans: frozenset[str]
    scans: tuple[dict[str, Any], ...]
    empty: frozenset[str]
    logged_empty: frozenset[str]
    pressed: dict[str, float]
    logged_pressed: frozenset[str]
    wish: str

    @classmethod
    def of(cls, facts: RequestFacts) -> Knowledge:
        """Collect knowledge from the results in a request."""
        status = facts.latest("get_status") or {}
        tick = _int(status, "current_tick")
        entries = [str(e.get("entry", "")) for e in _dicts(facts.latest("captains_log_list"), "entries")]
        log = "\n".join(entries)
        in_log = parse_notes(log)
        notices = _dicts(facts.latest("get_notifications"), "notifications")
        logged_empty = {belt for belt, when in _EMPTY.findall(log) if tick - int(when) < BARREN_TICKS}
        sales = read_low_prices(notices)
        logged_pressed = {
            f"{b} {a}": float(c) for a, b, c, when in reversed(_PRESSED.findall(log)) if tick - int(when) < CALM_TICKS
        }
        wish = _WISH.search(facts.order)
        known = {finding.belt: finding for finding in (*in_log, *facts.told)}
        return cls(
            status=status,
            system=facts.latest("get_system") or {},
            findings=tuple(known.values()),
            written=frozenset(finding.belt for finding in in_log),
            told=facts.told,
            heard=frozenset(
                f.belt for f in (*facts.told, *parse_notes("\n".join(e for e in entries if e.startswith("Heard:"))))
            ),
            logged_scans=frozenset(_SCANNED.findall(log)),
            scans=tuple(_scans(notices, (*facts.before, *facts.past_calls))),
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
        """Return the two best belts seen with unknown stations."""
        seen = {str(b.get("poi_id")): str(b.get("ore")) for scan in self.scans for b in _dicts(scan, "found")}
        seen |= {str(p.get("poi_id")): str(p.get("ore")) for p in _dicts(self.system, "points")}
        known = {finding.belt for finding in self.findings}
        new = [belt for belt, ore in seen.items() if ore in ORES and belt not in known]
        return tuple(sorted(new, key=lambda belt: (-ORES[seen[belt]], belt))[:2])

    def with_findings(self, more: Iterable[BeltNote]) -> Knowledge:
        by_belt = {finding.belt: finding for finding in (*self.findings, *more)}
        return replace(self, findings=tuple(by_belt.values()))

    def to_write_down(self) -> Iterator[PlannedCall]:
        """Yield log entries for everything new that must outlast the turn."""
        for finding in {f.belt: f for f in self.told}.values():
            if finding.belt not in self.written:
                yield PlannedCall("captains_log_add", {"entry": f"Heard: {finding.line()}"})
        for scan in {str(s["system_id"]): s for s in self.scans}.values():
            if str(scan["system_id"]) not in self.logged_scans:
                ores = ", ".join(str(b.get("ore")) for b in _dicts(scan, "found")) or "nothing"
                yield PlannedCall("captains_log_add", {"entry": f"Scanned {scan['system_id']}: {ores}."})
        for place, part in sorted(self.pressed.items()):
            station, good = place.split(" ")
            if place not in self.logged_pressed:
                tick = _int(self.status, "current_tick")
                entry = f"Pressed: {good} at {station} brings {part:.2f} of its price, tick {tick}."
                yield PlannedCall("captains_log_add", {"entry": entry})
        for belt in sorted(self.empty - self.logged_empty):
            tick = _int(self.status, "current_tick")
            yield PlannedCall("captains_log_add", {"entry": f"Mined out: {belt} at tick {tick}."})

    def wants_to_scout(self) -> bool:
        if self.wish:
            return False
        there = [finding for finding in self.findings if finding.belt not in self.empty]
        if any(f.price >= BEST_PRICE and f.belt not in self.heard for f in there):
            return False
        good = any(finding.price >= GOOD_ENOUGH for finding in there)
        return len(self.scanned) < (FEW_SCANS if good else MOST_SCANS)

    def _rate(self, haul: HaulRoute) -> float:
        usual = CROWDED if haul.finding.belt in self.heard else CALM
        return haul.rate * self.pressed.get(f"{haul.outlet.station} {haul.finding.ore}", usual)

    def choose(self) -> HaulRoute | None:
        """Choose a route near the best. The choice depends on the name, so that a swarm spreads."""
        wished = [f for f in self.findings if not self.wish or f.ore == self.wish]
        every = rank_routes(wished or self.findings, tuple(self.empty))
        best = max((self._rate(haul) for haul in every), default=0.0)
        near = [
            haul
            for haul in every
            if self._rate(haul) >= best * (SPREAD if haul.finding.belt in self.heard else NEAR_BEST)
        ]
        return near[crc32(str(self.status.get("name", "")).encode()) % len(near)] if near else None


def read_low_prices(notices: list[dict[str, Any]]) -> dict[str, float]:
    """Return the newest sale's low prices by `station good`, as shares of the base price."""
    for notice in reversed(notices):
        if notice.get("action") == "sell" and isinstance(notice.get("result"), dict):
            parts = {
                f"{notice['result'].get('station')} {line.get('item')}": _number(line, "price_before")
                / (_number(line, "base_price") or 1.0)
                for line in _dicts(notice["result"], "sold")
            }
            return {place: part for place, part in parts.items() if part < PRESSED and _PLACE.fullmatch(place)}
    return {}


def plan_actions(facts: RequestFacts, knowledge: Knowledge) -> ActionPlan:
    """The next trip: the first quick load, a scouting flight, or a haul."""
    status = knowledge.status
    docked, load = bool(status.get("docked")), _int(status, "cargo_used")
    if docked and not _int(status, "earned") and not load:
        digs = [PlannedCall("mine", {})] * 3
        why = "I begin with a quick load from the belt outside."
        return ActionPlan(why, (PlannedCall("undock", {}), *digs, PlannedCall("dock", {}), PlannedCall("sell", {})))
    ready = _prepare_departure(status) if docked else []
    fuel = _int(status, "fuel_capacity") if any(o.tool == "refuel" for o in ready) else _int(status, "fuel")
    if not docked and fuel <= SPARE_FUEL:
        return ActionPlan("Fuel is short, so I call a tanker.", (PlannedCall("refuel", {}),))
    if knowledge.wants_to_scout() and (goal := _scout_goal(knowledge, fuel)):
        return ActionPlan(
            f"I know no belt that is good enough; I scout {goal}.",
            (*ready, PlannedCall("jump", {"system_id": goal}), PlannedCall("scan", {})),
        )
    haul = knowledge.choose()
    if haul is None:
        return _plan_without_knowledge(knowledge, ready, load)
    way = f"from {haul.finding.belt} to {haul.outlet.station}"
    why = f"I haul {haul.finding.ore} {way}, about {haul.rate:.0f} credits a tick."
    return ActionPlan(why, (*ready, *_fly_route(knowledge, haul)))


def _prepare_departure(status: dict[str, Any]) -> list[PlannedCall]:
    """Return the calls before leaving a dock: sell, refuel, repair, undock."""
    orders = [PlannedCall("sell", {})] if _int(status, "cargo_used") else []
    if _int(status, "fuel") < _int(status, "fuel_capacity") * 0.7 and (_int(status, "credits") or orders):
        orders.append(PlannedCall("refuel", {}))
    if _int(status, "hull") < 40 and _int(status, "credits") > 150:
        orders.append(PlannedCall("repair", {}))
    return [*orders, PlannedCall("undock", {})]


def _scout_goal(knowledge: Knowledge, fuel: int) -> str:
    for near in _dicts(knowledge.system, "nearest_systems"):
        system = str(near.get("system_id"))
        if near.get("belts") and not near.get("scanned") and system not in knowledge.scanned:
            return system if _int(near, "ticks") + SPARE_FUEL <= fuel else ""
    return ""


def _fly_route(knowledge: Knowledge, haul: HaulRoute) -> Iterator[PlannedCall]:
    """Yield the calls of a haul: to the belt, mine, to the outlet, sell."""
    finding, outlet, status = haul.finding, haul.outlet, knowledge.status
    full = not status.get("docked") and _int(status, "cargo_used") >= 0.8 * _int(status, "cargo_capacity")
    here = str(status.get("system_id"))
    off = False
    if not full:
        if here != finding.system:
            yield PlannedCall("jump", {"system_id": finding.system})
        at_belt = here == finding.system and finding.belt in (status.get("place") or [])
        if not at_belt and (finding.orbit or here == finding.system):
            yield PlannedCall("travel", {"poi_id": finding.belt})
        yield PlannedCall("mine", {"times": 20})
        here, off = finding.system, bool(finding.orbit)
    if here != outlet.system:
        yield PlannedCall("jump", {"system_id": outlet.system})
    elif off or (full and outlet.station not in (status.get("place") or [])):
        yield PlannedCall("travel", {"poi_id": outlet.station})
    yield PlannedCall("dock", {})
    yield PlannedCall("sell", {})
    if outlet.ticks:
        yield PlannedCall("refuel", {})


def _plan_without_knowledge(knowledge: Knowledge, ready: list[PlannedCall], load: int) -> ActionPlan:
    """Mine at the present place, or fly to the nearest station."""
    status = knowledge.status
    for near in _dicts(knowledge.system, "nearest_systems"):
        if near.get("stations") and near.get("system_id") and not status.get("docked"):
            orders = (PlannedCall("jump", {"system_id": near["system_id"]}), PlannedCall("dock", {}))
            return ActionPlan(
                "I am lost, so I fly to the nearest station.", (*orders, *([PlannedCall("sell", {})] if load else []))
            )
    return ActionPlan(
        "I mine what is outside.",
        (*ready, PlannedCall("mine", {"times": 10}), PlannedCall("dock", {}), PlannedCall("sell", {})),
    )


def _scans(notices: list[dict[str, Any]], past_calls: Iterable[ReefCall]) -> Iterator[dict[str, Any]]:
    results = [notice.get("result") for notice in notices if notice.get("action") == "scan"]
    results += [past_call.result for past_call in past_calls if past_call.tool == "scan" and not past_call.is_error]
    for result in results:
        if isinstance(result, dict) and "system_id" in result and "found" in result:
            yield result


def _emptied(notices: list[dict[str, Any]], tick: int) -> set[str]:
    failed = [n for n in notices if n.get("code") == "belt_empty" and tick - _int(n, "tick") < BARREN_TICKS]
    return {str(n.get("message", "")).split(" ")[0] for n in failed}


def _dicts(value: dict[str, Any] | None, key: str) -> list[dict[str, Any]]:
    items = (value or {}).get(key)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _number(value: dict[str, Any], key: str) -> float:
    number = value.get(key)
    return float(number) if isinstance(number, int | float) and abs(number) <= _MOST else 0.0


def _int(value: dict[str, Any], key: str) -> int:
    return int(_number(value, key))
