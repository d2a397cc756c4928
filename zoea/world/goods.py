"""Goods of Reef and the constants of its rules."""

from __future__ import annotations

from msgspec import Struct

ORES: dict[str, float] = {
    "iron": 10.0,
    "copper": 11.0,
    "nickel": 13.0,
    "titanium": 17.0,
    "palladium": 26.0,
    "iridium": 40.0,
}
"""Base price per unit in credits; the best ore costs four times the ore at every start."""

NEAREST_ORE = "iron"
BEST_ORE = "iridium"

GASES: dict[str, float] = {"helium": 8.0}

GOODS: dict[str, float] = ORES | GASES


class ShipModule(Struct, frozen=True):
    """Define a ship module, sold at every station; its price doubles with each one owned."""

    price: int
    what: str


MODULES: dict[str, ShipModule] = {
    "cargo_pod": ShipModule(400, "10 more units of cargo"),
    "mining_laser": ShipModule(900, "1 more unit from each mine action"),
    "fuel_tank": ShipModule(200, "40 more units of fuel"),
}

CARGO = 20
FUEL = 100
HULL = 100
SLIP = 0.98
"""Factor of the price for each unit sold."""
RECOVERY = 0.05
"""Part of the distance to its base price that a price recovers each tick."""
BUY_MARGIN = 1.10
FUEL_PRICE = 1
REPAIR_PRICE = 2
QUEUE_LIMIT = 12
MINE_LIMIT = 20
TANKER_TICKS = 15
TANKER_FUEL = 20
PATCH_TICKS = 10
PATCH_HULL = 15
SCAN_FUEL = 1
LOG_ENTRIES = 100
LOG_CHARS = 2_000
NOTICES = 40
CHAT_CHARS = 500
NAME_CHARS = 48
"""Longer than a mysis name, so that `NAME-2` fits if NAME is taken."""
XP_STEP = 50
MAX_LEVEL = 10
