"""State of a Reef: ships, captains, ore that is left, prices.

All values survive a round trip through JSON, for snapshots, replays and hashes. Ore and prices are stored with the
tick of their last change and computed forward when read.
"""

from __future__ import annotations

import json
from math import isqrt
from typing import Any

from blake3 import blake3
from msgspec import Struct, field

from zoea.world.goods import CARGO, FUEL, HULL, MAX_LEVEL, MODULES, NOTICES, RECOVERY, XP_STEP

SKILLS = ("mining", "piloting", "trading")


class Player(Struct):
    """Hold one captain and ship; all fields are JSON values.

    Args:
        task: Action in progress: `tool`, `until`, and its own fields.
        queue: Actions that follow.
        free_at: Tick from which the next action may start.
        spare: Tenths of a unit that the next mining adds.
        known: Tick of the scan, by point.
        visited: Tick of the visit, by system.
    """

    name: str
    secret: str
    system: str
    orbit: int
    docked: str
    claimed: bool = False
    credits: int = 0
    earned: int = 0
    mined: int = 0
    distance: int = 0
    fuel: int = FUEL
    hull: int = HULL
    cargo: dict[str, int] = field(default_factory=dict)
    modules: dict[str, int] = field(default_factory=dict)
    xp: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SKILLS, 0))
    spare: int = 0
    free_at: int = 0
    task: dict[str, Any] | None = None
    queue: list[dict[str, Any]] = field(default_factory=list)
    known: dict[str, int] = field(default_factory=dict)
    visited: dict[str, int] = field(default_factory=dict)
    notices: list[dict[str, Any]] = field(default_factory=list)
    noticed: int = 0
    log: list[dict[str, Any]] = field(default_factory=list)
    logged: int = 0

    @property
    def capacity(self) -> int:
        return CARGO + 10 * self.modules.get("cargo_pod", 0)

    @property
    def tank(self) -> int:
        return FUEL + 40 * self.modules.get("fuel_tank", 0)

    @property
    def load(self) -> int:
        return sum(self.cargo.values())

    @property
    def room(self) -> int:
        return self.capacity - self.load

    def level(self, skill: str) -> int:
        """Return the level of a skill, 0 to 10; each level needs more experience."""
        return min(MAX_LEVEL, isqrt(self.xp[skill] // XP_STEP))

    def price_of(self, module: str) -> int:
        price: int = MODULES[module].price * 2 ** self.modules.get(module, 0)
        return price

    def notice(self, tick: int, kind: str, **fields_: Any) -> None:
        """Add a notification; keep only the newest ones."""
        self.noticed += 1
        self.notices.append({"id": self.noticed, "tick": tick, "kind": kind, **fields_})
        if len(self.notices) > NOTICES:
            del self.notices[: len(self.notices) - NOTICES]


_FIELDS = Player.__struct_fields__


def digest(text: str) -> str:
    """Return the BLAKE3 hash of a text in hex."""
    return blake3(text.encode()).hexdigest()


class World(Struct):
    """Hold everything that a call or a tick can change.

    Args:
        ore: `[units, tick]` by changed belt or cloud.
        prices: `[price, tick]` by changed `station good`.
        salvaged: Captain who emptied a derelict, by point.
    """

    tick: int = 0
    players: dict[str, Player] = field(default_factory=dict)
    ore: dict[str, list[float]] = field(default_factory=dict)
    prices: dict[str, list[float]] = field(default_factory=dict)
    salvaged: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return canonical JSON: equal states give equal text."""
        return json.dumps(
            {
                "tick": self.tick,
                "players": {
                    key: {name: getattr(player, name) for name in _FIELDS} for key, player in self.players.items()
                },
                "ore": self.ore,
                "prices": self.prices,
                "salvaged": self.salvaged,
            },
            sort_keys=True,
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> World:
        data = json.loads(text)
        players = {key: Player(**value) for key, value in data.pop("players").items()}
        return cls(players=players, **data)

    def hash(self) -> str:
        """Return the BLAKE3 hash of the state."""
        return digest(self.to_json())

    def units(self, point: str, capacity: float, regrow: float) -> float:
        """Return the units of ore at a point now."""
        if point not in self.ore:
            return capacity
        left, then = self.ore[point]
        return min(capacity, left + regrow * (self.tick - then))

    def price(self, key: str, base: float) -> float:
        """Return the price per unit now, recovered towards its base."""
        if key not in self.prices:
            return base
        then_price, then = self.prices[key]
        return base + (then_price - base) * float((1 - RECOVERY) ** (self.tick - then))
