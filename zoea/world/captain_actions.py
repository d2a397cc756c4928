"""Actions that take time, one function each: `(reef, player, args) -> result`.

An action checks, then changes state, and sets `player.task` if it takes more than one tick. It raises `ReefRefusal`
before it changes anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from zoea.world.goods import (
    BUY_MARGIN,
    FUEL_PRICE,
    GOODS,
    HULL,
    MODULES,
    PATCH_HULL,
    PATCH_TICKS,
    REPAIR_PRICE,
    SCAN_FUEL,
    SLIP,
    TANKER_FUEL,
    TANKER_TICKS,
)
from zoea.world.refusal import ReefRefusal
from zoea.world.state import Player
from zoea.world.world_map import PointKind, PointOfInterest, count_travel_ticks

if TYPE_CHECKING:
    from zoea.world.reef import Reef

Action = Callable[["Reef", Player, dict[str, Any]], dict[str, Any]]


def find_point(reef: Reef, point_id: str) -> PointOfInterest:
    point = reef.world_map.points.get(point_id)
    if point is None:
        raise ReefRefusal(
            "unknown_poi", f"There is no point {point_id[:40]!r}. get_system lists the points of a system."
        )
    return point


def find_system(reef: Reef, system_id: str) -> str:
    if system_id not in reef.world_map.systems:
        raise ReefRefusal("unknown_system", f"There is no system {system_id[:40]!r}. get_map lists all systems.")
    return system_id


def find_good(good: str) -> str:
    if good not in GOODS:
        raise ReefRefusal("unknown_good", f"Nobody trades {good[:40]!r}. Goods are {', '.join(GOODS)}.")
    return good


def _require_undocked(player: Player) -> None:
    if player.docked:
        raise ReefRefusal("docked", "The ship is docked. Call undock first.")


def _require_dock(player: Player) -> str:
    if not player.docked:
        raise ReefRefusal("not_docked", "The ship is not docked. Travel to a station and call dock first.")
    return player.docked


def undock(reef: Reef, player: Player, args: dict[str, Any]) -> dict[str, Any]:
    _require_dock(player)
    player.docked = ""
    return {"place": [point.id for point in reef.here(player)]}


def dock(reef: Reef, player: Player, args: dict[str, Any]) -> dict[str, Any]:
    if player.docked:
        raise ReefRefusal("docked", f"The ship is docked at {player.docked} already.")
    station = next((point for point in reef.here(player) if point.kind is PointKind.STATION), None)
    if station is None:
        raise ReefRefusal("no_station", "There is no station here. Travel to one: get_poi names the nearest stations.")
    player.docked = station.id
    return {"docked": station.id, "station": station.name}


def compute_fuel(player: Player, ticks: int) -> int:
    """Return the fuel for a journey of `ticks`; piloting saves up to half."""
    return max(1, round(ticks * (1 - 0.05 * player.level("piloting"))))


def _start_journey(reef: Reef, player: Player, tool: str, ticks: int, goal: tuple[str, int]) -> dict[str, Any]:
    fuel = compute_fuel(player, ticks)
    if fuel > player.fuel:
        raise ReefRefusal(
            "no_fuel",
            f"This takes {fuel} fuel and {player.fuel} is left. Dock and call refuel; "
            f"in space refuel calls a tanker that brings {TANKER_FUEL} in {TANKER_TICKS} ticks.",
        )
    if tool == "jump" and player.hull <= 10:
        raise ReefRefusal("hull_weak", f"The hull is at {player.hull}; jumps need more than 10. Call repair first.")
    player.fuel -= fuel
    player.task = {"tool": tool, "until": reef.world.tick + ticks, "system": goal[0], "orbit": goal[1], "ticks": ticks}
    return {"ticks": ticks, "fuel_used": fuel, "fuel": player.fuel}


def travel(reef: Reef, player: Player, args: dict[str, Any]) -> dict[str, Any]:
    _require_undocked(player)
    point = find_point(reef, args["poi_id"])
    if point.system != player.system:
        raise ReefRefusal("other_system", f"{point.id} is in {point.system}. Call jump with {point.system} first.")
    ticks = count_travel_ticks(player.orbit, point.orbit)
    if not ticks:
        return {"poi_id": point.id, "arrived": True}
    return {"poi_id": point.id, **_start_journey(reef, player, "travel", ticks, (point.system, point.orbit))}


def jump(reef: Reef, player: Player, args: dict[str, Any]) -> dict[str, Any]:
    _require_undocked(player)
    goal = find_system(reef, args["system_id"])
    if goal == player.system:
        raise ReefRefusal("already_there", f"The ship is in {goal} already. Call travel for a point in it.")
    ticks = reef.world_map.ticks(player.system)[goal]
    return {"system_id": goal, **_start_journey(reef, player, "jump", ticks, (goal, 0))}


def _find_source(reef: Reef, player: Player) -> PointOfInterest:
    _require_undocked(player)
    source = next((point for point in reef.here(player) if point.ore), None)
    if source is None:
        raise ReefRefusal("nothing_here", "There is no belt or gas cloud here. get_system lists those of this system.")
    return source


def _mine_tick(reef: Reef, player: Player, source: PointOfInterest) -> int:
    """Mine for one tick; return the units that were loaded."""
    tenths = (1 + player.modules.get("mining_laser", 0)) * (10 + player.level("mining")) + player.spare
    there = reef.world.units(source.id, source.capacity, source.regrow)
    units = min(tenths // 10, player.room, int(there))
    player.spare = tenths % 10
    if units:
        reef.world.ore[source.id] = [there - units, reef.world.tick]
        player.cargo[source.ore] = player.cargo.get(source.ore, 0) + units
        player.mined += units
        player.xp["mining"] += units
    return units


def _mining_result(player: Player, source: PointOfInterest, units: int) -> dict[str, Any]:
    return {
        "poi_id": source.id,
        "ore": source.ore,
        "units": units,
        "cargo_used": player.load,
        "cargo_capacity": player.capacity,
    }


def mine(reef: Reef, player: Player, args: dict[str, Any]) -> dict[str, Any]:
    source = _find_source(reef, player)
    if not player.room:
        raise ReefRefusal("cargo_full", f"The hold is full ({player.load} of {player.capacity}). Dock and sell.")
    there = reef.world.units(source.id, source.capacity, source.regrow)
    if there < 1:
        ticks = round(20 / source.regrow)
        raise ReefRefusal("belt_empty", f"{source.id} is mined out; in {ticks} ticks 20 units regrow. Mine elsewhere.")
    times = args.get("times", 1)
    units = _mine_tick(reef, player, source)
    if times > 1 and player.room:
        player.task = {"tool": "mine", "until": reef.world.tick + times, "left": times - 1, "units": units}
    return _mining_result(player, source, units)


def sell(reef: Reef, player: Player, args: dict[str, Any]) -> dict[str, Any]:
    station = _require_dock(player)
    item = args.get("item")
    if item is not None:
        find_good(item)
    wanted = [item] if item is not None else sorted(player.cargo)
    held = [(good, player.cargo.get(good, 0)) for good in wanted]
    if not any(amount for _, amount in held):
        raise ReefRefusal(
            "nothing_to_sell", f"There is no {item or 'cargo'} in the hold. get_cargo lists what there is."
        )
    quantity = args.get("quantity")
    if quantity is not None and item is not None and quantity > held[0][1]:
        raise ReefRefusal("not_enough", f"There are {held[0][1]} units of {item} in the hold. Sell that many or fewer.")
    lines = [_sell_one(reef, player, station, good, quantity if item and quantity else have) for good, have in held]
    total = sum(line["credits"] for line in lines)
    player.credits += total
    player.earned += total
    return {"station": station, "sold": lines, "earned": total, "credits": player.credits}


def _sell_one(reef: Reef, player: Player, station: str, good: str, units: int) -> dict[str, Any]:
    key, base = f"{station} {good}", compute_base_price(reef, station, good)
    before = reef.world.price(key, base)
    after = before * SLIP**units
    bonus = 1 + 0.01 * player.level("trading")
    income = round((before - after) / (1 - SLIP) * bonus)
    reef.world.prices[key] = [after, reef.world.tick]
    player.cargo[good] -= units
    if not player.cargo[good]:
        del player.cargo[good]
    player.xp["trading"] += units
    return {
        "item": good,
        "units": units,
        "credits": income,
        "price_before": round(before, 2),
        "price_after": round(after, 2),
        "base_price": round(base, 2),
    }


def compute_base_price(reef: Reef, station: str, good: str) -> float:
    """Return the price per unit at a station without recent trade."""
    return GOODS[good] * reef.world_map.points[station].factors[good]


def _pay(player: Player, price: int, what: str) -> None:
    if price > player.credits:
        raise ReefRefusal("no_credits", f"{what} costs {price} credits and you have {player.credits}. Sell ore first.")
    player.credits -= price


def buy(reef: Reef, player: Player, args: dict[str, Any]) -> dict[str, Any]:
    station = _require_dock(player)
    item, quantity = args["item"], args.get("quantity", 1)
    if item in MODULES:
        if quantity != 1:
            raise ReefRefusal("one_at_a_time", "Modules are bought one at a time. Leave quantity out.")
        price = player.price_of(item)
        _pay(player, price, item)
        player.modules[item] = player.modules.get(item, 0) + 1
        return {"item": item, "units": 1, "paid": price, "credits": player.credits}
    find_good(item)
    if quantity > player.room:
        raise ReefRefusal("cargo_full", f"The hold has room for {player.room} units. Buy that many or fewer.")
    key = f"{station} {item}"
    before = reef.world.price(key, compute_base_price(reef, station, item))
    after = before / SLIP**quantity
    price = max(1, round((after - before) / (1 / SLIP - 1) * BUY_MARGIN))
    _pay(player, price, f"{quantity} {item}")
    reef.world.prices[key] = [after, reef.world.tick]
    player.cargo[item] = player.cargo.get(item, 0) + quantity
    return {"item": item, "units": quantity, "paid": price, "credits": player.credits}


def refuel(reef: Reef, player: Player, args: dict[str, Any]) -> dict[str, Any]:
    need = player.tank - player.fuel
    if not need:
        raise ReefRefusal("tank_full", f"The tank is full ({player.fuel}).")
    if not player.docked:
        player.task = {"tool": "refuel", "until": reef.world.tick + TANKER_TICKS, "units": min(TANKER_FUEL, need)}
        return {"tanker": True, "units": min(TANKER_FUEL, need)}
    units = min(need, args.get("quantity", need), player.credits // FUEL_PRICE)
    if not units:
        raise ReefRefusal("no_credits", f"Fuel costs {FUEL_PRICE} credit a unit and you have none. Sell ore first.")
    player.credits -= units * FUEL_PRICE
    player.fuel += units
    return {"units": units, "paid": units * FUEL_PRICE, "fuel": player.fuel, "credits": player.credits}


def repair(reef: Reef, player: Player, args: dict[str, Any]) -> dict[str, Any]:
    need = HULL - player.hull
    if not need:
        raise ReefRefusal("hull_whole", "The hull is whole.")
    if not player.docked:
        player.task = {"tool": "repair", "until": reef.world.tick + PATCH_TICKS, "units": min(PATCH_HULL, need)}
        return {"patch": True, "units": min(PATCH_HULL, need)}
    units = min(need, player.credits // REPAIR_PRICE)
    if not units:
        raise ReefRefusal(
            "no_credits", f"Repairs cost {REPAIR_PRICE} credits a point. Undock and call repair for a patch."
        )
    player.credits -= units * REPAIR_PRICE
    player.hull += units
    return {"units": units, "paid": units * REPAIR_PRICE, "hull": player.hull, "credits": player.credits}


def scan(reef: Reef, player: Player, args: dict[str, Any]) -> dict[str, Any]:
    _require_undocked(player)
    if player.fuel < SCAN_FUEL:
        raise ReefRefusal(
            "no_fuel", f"A scan takes {SCAN_FUEL} fuel. Call refuel: a tanker comes in {TANKER_TICKS} ticks."
        )
    player.fuel -= SCAN_FUEL
    findings = []
    for point_id in reef.world_map.systems[player.system].points:
        point = reef.world_map.points[point_id]
        player.known[point_id] = reef.world.tick
        if point.ore:
            units = int(reef.world.units(point.id, point.capacity, point.regrow))
            findings.append({"poi_id": point.id, "kind": point.kind, "ore": point.ore, "units": units})
    salvage = 0
    for point in reef.here(player):
        if point.salvage and point.id not in reef.world.salvaged:
            reef.world.salvaged[point.id] = player.name
            salvage += point.salvage
    player.credits += salvage
    player.earned += salvage
    return {"system_id": player.system, "found": findings, "salvage_credits": salvage, "fuel": player.fuel}


ACTIONS: dict[str, Action] = {
    "undock": undock,
    "dock": dock,
    "travel": travel,
    "jump": jump,
    "mine": mine,
    "sell": sell,
    "buy": buy,
    "refuel": refuel,
    "repair": repair,
    "scan": scan,
}


def check_targets(reef: Reef, tool: str, args: dict[str, Any]) -> None:
    """Check that the target of a queued action exists. Raises ReefRefusal."""
    match tool:
        case "travel":
            find_point(reef, args["poi_id"])
        case "jump":
            find_system(reef, args["system_id"])
        case "sell" if args.get("item") is not None:
            find_good(args["item"])
        case "buy" if args["item"] not in MODULES:
            find_good(args["item"])


def continue_task(reef: Reef, player: Player, task: dict[str, Any]) -> dict[str, Any] | None:
    """Run one more tick of a task. Return its result when it is done, else None."""
    now: int = reef.world.tick
    match task["tool"]:
        case "mine":
            source = _find_source(reef, player)
            units = _mine_tick(reef, player, source)
            task["units"] += units
            task["left"] -= 1
            if task["left"] > 0 and player.room and units:
                return None
            player.free_at = now + 1
            return _mining_result(player, source, task["units"])
        case _ if now < task["until"]:
            return None
        case "refuel":
            player.fuel += task["units"]
            return {"fuel": player.fuel}
        case "repair":
            player.hull += task["units"]
            return {"hull": player.hull}
        case moved:
            player.distance += task["ticks"]
            player.xp["piloting"] += task["ticks"]
            if moved == "jump":
                player.hull -= 1
            reef.arrive(player, task["system"], task["orbit"])
            return {"system_id": player.system, "place": [point.id for point in reef.here(player)]}


class QueueForecast(Struct, frozen=True):
    """Estimate place and time of a ship after its queued actions.

    Args:
        done: Tick from which the ship is free.
    """

    reef: Reef
    done: int
    system: str
    orbit: int
    docked: bool

    def after(self, tool: str, args: dict[str, Any]) -> QueueForecast:
        """Return the forecast after one more action."""
        world_map = self.reef.world_map
        match tool:
            case "jump":
                ticks = world_map.ticks(self.system)[args["system_id"]]
                return QueueForecast(self.reef, self.done + ticks, args["system_id"], 0, False)
            case "travel":
                point = world_map.points[args["poi_id"]]
                if point.system != self.system:
                    return QueueForecast(self.reef, self.done + 1, self.system, self.orbit, False)
                ticks = max(1, count_travel_ticks(self.orbit, point.orbit))
                return QueueForecast(self.reef, self.done + ticks, point.system, point.orbit, False)
            case "mine":
                return QueueForecast(self.reef, self.done + args.get("times", 1), self.system, self.orbit, False)
            case "refuel" if not self.docked:
                return QueueForecast(self.reef, self.done + TANKER_TICKS, self.system, self.orbit, False)
            case "repair" if not self.docked:
                return QueueForecast(self.reef, self.done + PATCH_TICKS, self.system, self.orbit, False)
            case _:
                docked = (self.docked or tool == "dock") and tool != "undock"
                return QueueForecast(self.reef, self.done + 1, self.system, self.orbit, docked)


def forecast_queue(reef: Reef, player: Player) -> QueueForecast:
    """Return the forecast of a ship after its task and queue."""
    task = player.task
    until = max(player.free_at, reef.world.tick, task["until"] if task else 0)
    system, orbit = (task["system"], task["orbit"]) if task and "system" in task else (player.system, player.orbit)
    future = QueueForecast(reef, until, system, orbit, bool(player.docked))
    for entry in player.queue:
        future = future.after(entry["tool"], entry["args"])
    return future
