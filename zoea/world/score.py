"""Score of each captain; credits per 1,000 tokens compare strategies.

The caller maps myses and their tokens to accounts, because the world knows accounts only.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import asdict

from zoea.world.state import World


class CaptainScore(Struct, frozen=True):
    """Hold the totals of one captain.

    Args:
        credits: Credits left.
        earned: Credits ever earned.
        ore: Units ever mined.
        distance: Ticks ever flown.
        tokens: Tokens used; None if unknown.
    """

    name: str
    credits: int
    earned: int
    ore: int
    distance: int
    tokens: int | None = None

    @property
    def per_thousand(self) -> float | None:
        """Return credits earned per 1,000 tokens; None without tokens."""
        return round(self.earned * 1000 / self.tokens, 2) if self.tokens else None

    def as_dict(self) -> dict[str, str | int | float | None]:
        return {**asdict(self), "credits_per_1000_tokens": self.per_thousand}


def compute_scores(world: World, tokens: Mapping[str, int]) -> list[CaptainScore]:
    """Return all captains, the highest earned first.

    Args:
        tokens: Tokens by account; case is ignored.
    """
    spent = {name.casefold(): amount for name, amount in tokens.items()}
    scores = [
        CaptainScore(p.name, p.credits, p.earned, p.mined, p.distance, spent.get(p.name.casefold()))
        for p in world.players.values()
    ]
    return sorted(scores, key=lambda score: (-score.earned, score.name))
