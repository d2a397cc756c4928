"""How each captain did, and what it cost: credits per 1,000 tokens is what strategies are compared by."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from zoea.world.record import load, read_only
from zoea.world.state import World


@dataclass(frozen=True, slots=True)
class Score:
    """One captain. `tokens` is None where nobody counted any; `ore` is units ever mined,
    `distance` ticks ever flown, `earned` credits ever made, `credits` those left."""

    name: str
    credits: int
    earned: int
    ore: int
    distance: int
    tokens: int | None = None

    @property
    def per_thousand(self) -> float | None:
        """Credits earned per 1,000 tokens; None without tokens."""
        return round(self.earned * 1000 / self.tokens, 2) if self.tokens else None

    def as_dict(self) -> dict[str, str | int | float | None]:
        return {
            "name": self.name,
            "credits": self.credits,
            "earned": self.earned,
            "ore": self.ore,
            "distance": self.distance,
            "tokens": self.tokens,
            "credits_per_1000_tokens": self.per_thousand,
        }


def scores(world: World, tokens: Mapping[str, int]) -> list[Score]:
    """All captains, the richest first. `tokens` are by mysis name, in any case."""
    spent = {name.casefold(): amount for name, amount in tokens.items()}
    found = [
        Score(p.name, p.credits, p.earned, p.mined, p.distance, spent.get(p.name.casefold()))
        for p in world.players.values()
    ]
    return sorted(found, key=lambda score: (-score.earned, score.name))


def read_scores(world_file: Path, database: Path) -> list[Score]:
    """The scores of a world, running or not, with the tokens that Zoea's database knows of.

    Raises WorldError where there is no world.
    """
    with closing(read_only(world_file)) as db:
        world = load(db, whole=False).world
    return scores(world, tokens_spent(database))


def tokens_spent(database: Path) -> dict[str, int]:
    """Tokens of all time by mysis name, read from Zoea's database; empty where there is none."""
    if not database.exists():
        return {}
    query = (
        "SELECT mysis.name, used_tokens FROM spend JOIN mysis ON mysis.id = scope_id "
        "WHERE scope = 'mysis' AND day = '' AND deleted_at IS NULL"
    )
    with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)) as db:
        return {str(name): int(used) for name, used in db.execute(query)}
