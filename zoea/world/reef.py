"""Simulation of Reef: calls and ticks in, results out; no clock, randomness or I/O.

The same map and order of calls and ticks give the same results and state. An action starts at once if the ship is
free, else it is queued, and a notification tells its result.
"""

from __future__ import annotations

from typing import Any

from zoea.world import captain_actions, world_queries
from zoea.world.goods import QUEUE_LIMIT
from zoea.world.refusal import ReefRefusal
from zoea.world.state import Player, World
from zoea.world.world_map import PointOfInterest, WorldMap


class Reef:
    """Simulate a world.

    Args:
        world_map: The map.
        world: State to continue from; a new one if None.
    """

    def __init__(self, world_map: WorldMap, world: World | None = None) -> None:
        self.world_map = world_map
        self.world = world or World()
        self._names = {name.casefold(): name for name in self.world.players}
        self._busy = {name for name, player in self.world.players.items() if player.task or player.queue}

    @property
    def tick_now(self) -> int:
        return self.world.tick

    def register(self, name: str, secret: str) -> Player:
        """Register a captain, docked beside a belt.

        A name can be registered again until its first login, because the answer with the password may have been
        lost. `secret` is stored unchanged. Raises ReefRefusal (`name_taken`) if the name is taken; case is ignored.
        """
        captain = self.find(name)
        if captain is not None and not captain.claimed:
            captain.secret = secret
            return captain
        if captain is not None:
            raise ReefRefusal(
                "name_taken", f"The name {name} is taken. Log in with its password, or choose another name."
            )
        stations = self.world_map.stations
        home = self.world_map.points[stations[len(self.world.players) % len(stations)]]
        player = Player(name=name, secret=secret, system=home.system, orbit=home.orbit, docked=home.id)
        self._arrive(player)
        self.world.players[name] = player
        self._names[name.casefold()] = name
        return player

    def claim(self, name: str) -> None:
        """Mark a name as taken after its first login."""
        self.world.players[name].claimed = True

    def find(self, name: str) -> Player | None:
        """Return the captain with this name; case is ignored."""
        player = self._names.get(name.casefold())
        return self.world.players[player] if player is not None else None

    def call(self, name: str, tool: str, args: dict[str, Any]) -> dict[str, Any]:
        """Run a tool call of a captain. Returns a JSON object with `current_tick`. Raises ReefRefusal."""
        player = self.world.players[name]
        result = (
            self._act(player, tool, args)
            if tool in captain_actions.ACTIONS
            else world_queries.run_query(self, player, tool, args)
        )
        return {**result, "current_tick": self.world.tick}

    def tick(self) -> None:
        """Advance all tasks by one tick and start queued actions."""
        self.world.tick += 1
        for name in sorted(self._busy):
            player = self.world.players[name]
            self._advance(player)
            if not player.task and not player.queue:
                self._busy.discard(name)

    def is_waiting(self, name: str) -> bool:
        """Return whether a captain's ship is busy, has queued actions, or acted in this tick."""
        player = self.world.players.get(name)
        return player is not None and (name in self._busy or player.free_at > self.world.tick)

    def here(self, player: Player) -> list[PointOfInterest]:
        """Return the points at a ship's place."""
        points = (self.world_map.points[id_] for id_ in self.world_map.systems[player.system].points)
        return [point for point in points if point.orbit == player.orbit]

    def _act(self, player: Player, tool: str, args: dict[str, Any]) -> dict[str, Any]:
        if not player.task and not player.queue and player.free_at <= self.world.tick:
            return self._start(player, tool, args)
        if len(player.queue) >= QUEUE_LIMIT:
            done = captain_actions.forecast_queue(self, player).done
            raise ReefRefusal(
                "queue_full", f"{QUEUE_LIMIT} actions are queued already. Wait until tick {done} or less."
            )
        captain_actions.check_targets(self, tool, args)
        plan = captain_actions.forecast_queue(self, player)
        player.queue.append({"tool": tool, "args": args})
        self._busy.add(player.name)
        return {
            "queued": True,
            "action": tool,
            "position": len(player.queue),
            "arrival_tick": plan.after(tool, args).done,
        }

    def _start(self, player: Player, tool: str, args: dict[str, Any]) -> dict[str, Any]:
        result = captain_actions.ACTIONS[tool](self, player, args)
        if player.task:
            self._busy.add(player.name)
            return {"queued": True, "action": tool, **result, "arrival_tick": player.task["until"]}
        player.free_at = max(player.free_at, self.world.tick + 1)
        return {"action": tool, **result, "cooldown_ticks": player.free_at - self.world.tick}

    def _advance(self, player: Player) -> None:
        now = self.world.tick
        if player.task:
            done = captain_actions.continue_task(self, player, player.task)
            if done is None:
                return
            tool = player.task["tool"]
            player.task = None
            player.notice(now, "done", action=tool, result=done)
        if not player.queue or player.free_at > now:
            return
        entry = player.queue.pop(0)
        try:
            result = self._start(player, entry["tool"], entry["args"])
        except ReefRefusal as refused:
            dropped = len(player.queue)
            player.queue.clear()
            player.notice(now, "failed", action=entry["tool"], dropped=dropped, **refused.as_dict())
            return
        if not player.task:
            del result["cooldown_ticks"], result["action"]
            player.notice(now, "done", action=entry["tool"], result=result)

    def _arrive(self, player: Player) -> None:
        player.visited.setdefault(player.system, self.world.tick)
        for point in self.here(player):
            player.known.setdefault(point.id, self.world.tick)

    def arrive(self, player: Player, system: str, orbit: int) -> None:
        """Move a ship to a place; its captain then knows the points there."""
        player.system, player.orbit = system, orbit
        self._arrive(player)
