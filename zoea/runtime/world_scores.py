"""The credits that myses earned in the sandbox world, and the tokens they spent.

Joins the world's file, the workspace's database and the credentials, which map each
captain of the world to its mysis.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping
from contextlib import closing

from msgspec import Struct
from msgspec.structs import asdict

from zoea.model.errors import SettingsError, StoreError, StoreMissing, WorldError
from zoea.model.values import MysisView
from zoea.queries.stored_swarm import MysisRecord, read_mysis_records
from zoea.runtime.accounts import account_reader
from zoea.runtime.run_options import WORLD
from zoea.settings.credentials import Credentials
from zoea.settings.paths import Places
from zoea.world.state import World
from zoea.world.world_log import connect_read_only, load_world

log = logging.getLogger(__name__)


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


def read_credits(places: Places, myses: tuple[MysisView, ...]) -> dict[str, int] | None:
    """Return the credits of each mysis by name; None without a world."""
    if not places.world.exists():
        return None
    try:
        accounts = _accounts(Credentials(places.credentials), read_mysis_records(places.database))
        with closing(connect_read_only(places.world)) as db:
            reef = load_world(db, whole=False)
    except (WorldError, SettingsError, StoreError, sqlite3.Error) as error:
        log.warning("the world's score cannot be read: %s", error)
        return None
    of_the_living = {mysis.name: account for account, mysis in accounts.items() if mysis.is_living}
    captains = {view.name: reef.find(of_the_living.get(view.name, "")) for view in myses}
    return {name: player.earned if player else 0 for name, player in captains.items()}


def read_scores(places: Places) -> list[CaptainScore]:
    """Return the scores of all captains, with the tokens that their myses spent.

    Raises:
        WorldError: if there is no world.
        SettingsError: if the credentials cannot be read.
        StoreError: if the database exists and cannot be read.
    """
    with closing(connect_read_only(places.world)) as db:
        world = load_world(db, whole=False).world
    try:
        records = read_mysis_records(places.database)
    except StoreMissing:
        records = ()
    accounts = _accounts(Credentials(places.credentials), records)
    return compute_scores(world, {name: one.tokens for name, one in accounts.items() if one.tokens is not None})


def _accounts(credentials: Credentials, myses: tuple[MysisRecord, ...]) -> dict[str, MysisRecord]:
    """Map each account of the world to its mysis.

    An account without stored credentials belongs to the living mysis of its name.
    """
    by_name = {mysis.name: mysis for mysis in myses if mysis.is_living}
    account_of = account_reader(credentials, WORLD)
    for mysis in myses:
        fields = account_of(mysis.uid, mysis.name if mysis.is_living else "")
        if fields is not None:
            if by_name.get(mysis.name) is mysis:
                del by_name[mysis.name]
            by_name[str(fields.get("account", mysis.name))] = mysis
    return by_name
