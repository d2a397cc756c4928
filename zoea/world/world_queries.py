"""Tools that take no time, one function each: look up, chat, write the log.

`chat` and `captains_log_add` change state, the others do not.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from zoea.world.captain_actions import compute_base_price, find_point, find_system, forecast_queue
from zoea.world.goods import GOODS, HULL, LOG_ENTRIES, MAX_LEVEL, MODULES, XP_STEP
from zoea.world.refusal import ReefRefusal
from zoea.world.state import SKILLS, Player
from zoea.world.world_map import PointKind, PointOfInterest, WorldMap

if TYPE_CHECKING:
    from zoea.world.reef import Reef

Query = Callable[["Reef", Player, dict[str, Any]], dict[str, Any]]

WRITES = frozenset({"chat", "captains_log_add"})


def get_status(reef: Reef, player: Player, args: dict[str, Any]) -> dict[str, Any]:
    busy = _busy(reef, player)
    return {
        "name": player.name,
        "credits": player.credits,
        "earned": player.earned,
        "system_id": player.system,
        "place": [point.id for point in reef.here(player)],
        "docked": player.docked or None,
        "fuel": player.fuel,
        "fuel_capacity": player.tank,
        "hull": player.hull,
        "cargo": dict(player.cargo),
        "cargo_used": player.load,
        "cargo_capacity": player.capacity,
        "mined": player.mined,
        "distance": player.distance,
        **busy,
    }


def _busy(reef: Reef, player: Player) -> dict[str, Any]:
    if not player.task and not player.queue:
        return {"busy": False}
    doing = player.task["tool"] if player.task else player.queue[0]["tool"]
    return {
        "busy": True,
        "doing": doing,
        "queue": [entry["tool"] for entry in player.queue],
        "arrival_tick": max(forecast_queue(reef, player).done, reef.world.tick + 1),
    }


def get_ship(reef: Reef, player: Player, args: dict[str, Any]) -> dict[str, Any]:
    return {
        "hull": player.hull,
        "hull_capacity": HULL,
        "fuel": player.fuel,
        "fuel_capacity": player.tank,
        "cargo_capacity": player.capacity,
        "mining_rate": round((1 + player.modules.get("mining_laser", 0)) * (1 + 0.1 * player.level("mining")), 2),
        "modules": dict(player.modules),
    }


def get_cargo(reef: Reef, player: Player, args: dict[str, Any]) -> dict[str, Any]:
    return {"cargo": dict(player.cargo), "cargo_used": player.load, "cargo_capacity": player.capacity}


def get_skills(reef: Reef, player: Player, args: dict[str, Any]) -> dict[str, Any]:
    skills = {}
    for skill in SKILLS:
        level = player.level(skill)
        goal = XP_STEP * (level + 1) ** 2 if level < MAX_LEVEL else None
        skills[skill] = {"level": level, "experience": player.xp[skill], "next_level_at": goal}
    return {"skills": skills}


def get_system(reef: Reef, player: Player, args: dict[str, Any]) -> dict[str, Any]:
    """Return a system with its points, lanes and nearest systems."""
    here = find_system(reef, args.get("system_id") or player.system)
    system = reef.world_map.systems[here]
    ticks = reef.world_map.ticks(here)
    nearest = sorted((far, id_) for id_, far in ticks.items() if id_ != here)[:12]
    return {
        "system_id": here,
        "name": system.name,
        "you_are_here": here == player.system,
        "visited": here in player.visited,
        "points": [_point(reef, player, reef.world_map.points[id_]) for id_ in system.points],
        "lanes": [{"system_id": id_, "ticks": far} for id_, far in system.lanes],
        "nearest_systems": [
            {
                "system_id": id_,
                "ticks": far,
                "belts": _count(reef.world_map, id_, PointKind.BELT),
                "stations": _count(reef.world_map, id_, PointKind.STATION),
                "scanned": all(point in player.known for point in reef.world_map.systems[id_].points),
            }
            for far, id_ in nearest
        ],
    }


def _count(world_map: WorldMap, system: str, kind: PointKind) -> int:
    return sum(1 for id_ in world_map.systems[system].points if world_map.points[id_].kind is kind)


def _point(reef: Reef, player: Player, point: PointOfInterest) -> dict[str, Any]:
    line: dict[str, Any] = {"poi_id": point.id, "name": point.name, "kind": point.kind, "orbit": point.orbit}
    if point.ore:
        line["ore"] = point.ore if point.id in player.known else "unknown: travel there or scan in its system"
    return line


def get_poi(reef: Reef, player: Player, args: dict[str, Any]) -> dict[str, Any]:
    point = find_point(reef, args["poi_id"])
    here = point.system == player.system
    line = {**_point(reef, player, point), "system_id": point.system, "note": point.note}
    if point.ore and point.id in player.known:
        line["price"] = GOODS[point.ore]
        line["units"] = (
            int(reef.world.units(point.id, point.capacity, point.regrow)) if here else "unknown: go to its system"
        )
        line["capacity"] = int(point.capacity)
    ticks = reef.world_map.ticks(point.system)
    stations = sorted((ticks[reef.world_map.points[id_].system], id_) for id_ in reef.world_map.stations)[:5]
    line["nearest_stations"] = [
        {"poi_id": id_, "system_id": reef.world_map.points[id_].system, "ticks": far} for far, id_ in stations
    ]
    line["ticks_from_you"] = reef.world_map.ticks(player.system)[point.system]
    return line


def get_map(reef: Reef, player: Player, args: dict[str, Any]) -> dict[str, Any]:
    return {"map": build_map(reef.world_map)}


def build_map(world_map: WorldMap) -> dict[str, Any]:
    """Return everything that never changes: systems, lanes, points."""
    return {
        "systems": [
            {
                "system_id": system.id,
                "name": system.name,
                "x": system.x,
                "y": system.y,
                "lanes": [{"system_id": id_, "ticks": far} for id_, far in system.lanes],
                "points": [
                    {
                        "poi_id": point.id,
                        "name": point.name,
                        "kind": point.kind,
                        "orbit": point.orbit,
                        "note": point.note,
                    }
                    for point in (world_map.points[id_] for id_ in system.points)
                ],
            }
            for system in world_map.systems.values()
        ]
    }


def build_map_json(world_map: WorldMap) -> str:
    """Return the map as JSON text, cached by the server because it is large."""
    return json.dumps(build_map(world_map), separators=(",", ":"), ensure_ascii=False)


def get_nearby(reef: Reef, player: Player, args: dict[str, Any]) -> dict[str, Any]:
    others = [
        {"name": other.name, "docked": other.docked or None, "same_place": other.orbit == player.orbit}
        for other in reef.world.players.values()
        if other.system == player.system and other is not player
    ]
    return {
        "system_id": player.system,
        "players": others[:20],
        "more_players": max(0, len(others) - 20),
        "points": [_point(reef, player, point) for point in reef.here(player)],
    }


def get_market(reef: Reef, player: Player, args: dict[str, Any]) -> dict[str, Any]:
    here = [
        id_
        for id_ in reef.world_map.systems[player.system].points
        if reef.world_map.points[id_].kind is PointKind.STATION
    ]
    station = args.get("station_id") or player.docked or (here[0] if here else "")
    if not station:
        raise ReefRefusal("no_station", "There is no station in this system. get_poi names the nearest stations.")
    if find_point(reef, station).kind is not PointKind.STATION:
        raise ReefRefusal("no_station", f"{station} is no station. Leave station_id out for the one in this system.")
    if station not in here:
        system = reef.world_map.points[station].system
        raise ReefRefusal("no_signal", f"Prices are heard only within a system. Jump to {system} first.")
    prices = []
    for good in GOODS:
        base = compute_base_price(reef, station, good)
        now = round(reef.world.price(f"{station} {good}", base), 2)
        prices.append({"item": good, "price": now, "base_price": round(base, 2)})
    modules = [{"item": item, "price": player.price_of(item), "what": MODULES[item].what} for item in MODULES]
    return {"station_id": station, "prices": prices, "modules": modules, "fuel_price": 1, "repair_price": 2}


def get_notifications(reef: Reef, player: Player, args: dict[str, Any]) -> dict[str, Any]:
    after, limit = args.get("after_id", 0), args.get("limit", 10)
    notices = [notice for notice in player.notices if notice["id"] > after]
    return {"notifications": [dict(notice) for notice in notices[-limit:]], "newest_id": player.noticed}


def chat(reef: Reef, player: Player, args: dict[str, Any]) -> dict[str, Any]:
    text = args["text"].strip()
    if not text:
        raise ReefRefusal("empty_text", "There is nothing to say. Give text.")
    to = args.get("to")
    if to is not None:
        hearer = reef.find(to)
        if hearer is None:
            raise ReefRefusal(
                "unknown_player", f"There is no captain {to[:40]!r}. get_nearby lists those of this system."
            )
        hearers = [hearer]
    else:
        hearers = [
            other for other in reef.world.players.values() if other.system == player.system and other is not player
        ]
    for other in hearers:
        other.notice(reef.world.tick, "chat", sender=player.name, text=text, private=to is not None)
    return {"heard_by": len(hearers)}


def captains_log_add(reef: Reef, player: Player, args: dict[str, Any]) -> dict[str, Any]:
    entry = args["entry"].strip()
    if not entry:
        raise ReefRefusal("empty_entry", "The entry is empty. Write down what must last.")
    player.logged += 1
    player.log.append({"id": player.logged, "tick": reef.world.tick, "entry": entry})
    del player.log[:-LOG_ENTRIES]
    return {"entry_id": player.logged, "entries": len(player.log)}


def captains_log_list(reef: Reef, player: Player, args: dict[str, Any]) -> dict[str, Any]:
    before, limit = args.get("before_id"), args.get("limit", 20)
    entries = [entry for entry in player.log if before is None or entry["id"] < before]
    newest = entries[-limit:]
    return {"entries": [dict(entry) for entry in reversed(newest)], "older": len(entries) - len(newest)}


QUERIES: dict[str, Query] = {
    "get_status": get_status,
    "get_ship": get_ship,
    "get_cargo": get_cargo,
    "get_system": get_system,
    "get_poi": get_poi,
    "get_map": get_map,
    "get_nearby": get_nearby,
    "get_market": get_market,
    "get_notifications": get_notifications,
    "get_skills": get_skills,
    "chat": chat,
    "captains_log_add": captains_log_add,
    "captains_log_list": captains_log_list,
}


def run_query(reef: Reef, player: Player, tool: str, args: dict[str, Any]) -> dict[str, Any]:
    """Run a tool that takes no time."""
    return QUERIES[tool](reef, player, args)
