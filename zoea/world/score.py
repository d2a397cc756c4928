"""How each captain did, and what it cost: credits per 1,000 tokens is what strategies are compared by.

Whose mysis a captain is, and what that spent, is for the caller to say: the world knows accounts alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zoea.world.state import World


@dataclass(frozen=True, slots=True)
class CaptainScore:
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


def compute_scores(world: World, tokens: Mapping[str, int]) -> list[CaptainScore]:
    """All captains, the richest first. `tokens` are by account, in any case."""
    spent = {name.casefold(): amount for name, amount in tokens.items()}
    found = [
        CaptainScore(p.name, p.credits, p.earned, p.mined, p.distance, spent.get(p.name.casefold()))
        for p in world.players.values()
    ]
    return sorted(found, key=lambda score: (-score.earned, score.name))
