"""What each mysis earned in the sandbox world, and what that cost, read from the files of both.

A captain's name in the world is its mysis's own unless that was taken; the
credentials say which account is whose.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing

from zoea.model.errors import SettingsError, StoreError, StoreMissing, WorldError
from zoea.model.values import MysisView
from zoea.queries.stored_swarm import MysisRecord, read_mysis_records
from zoea.runtime.accounts import account_reader
from zoea.runtime.upstream_set import WORLD
from zoea.settings import Credentials
from zoea.settings.paths import Places
from zoea.world.score import Score, scores
from zoea.world.world_log import load, read_only

log = logging.getLogger(__name__)


def read_credits(places: Places, myses: tuple[MysisView, ...]) -> dict[str, int] | None:
    """Credits by mysis name; None where the workspace has no world. Who never played earned 0."""
    if not places.world.exists():
        return None
    try:
        accounts = _accounts(Credentials(places.credentials), read_mysis_records(places.database))
        with closing(read_only(places.world)) as db:
            reef = load(db, whole=False)
    except (WorldError, SettingsError, StoreError, sqlite3.Error) as error:
        log.warning("the world's score cannot be read: %s", error)
        return None
    of_the_living = {known.name: account for account, known in accounts.items() if known.is_living}
    found = {view.name: reef.find(of_the_living.get(view.name, "")) for view in myses}
    return {name: player.earned if player else 0 for name, player in found.items()}


def read_scores(places: Places) -> list[Score]:
    """All captains of the workspace's world, running or not, with the tokens that their myses spent.

    Raises:
        WorldError: where there is no world.
        SettingsError: where the credentials cannot be read.
        StoreError: where there is a database that cannot be read.
    """
    with closing(read_only(places.world)) as db:
        world = load(db, whole=False).world
    try:
        known = read_mysis_records(places.database)
    except StoreMissing:
        known = ()
    accounts = _accounts(Credentials(places.credentials), known)
    return scores(world, {name: one.tokens for name, one in accounts.items() if one.tokens is not None})


def _accounts(credentials: Credentials, myses: tuple[MysisRecord, ...]) -> dict[str, MysisRecord]:
    """Whose each account of the world is. An account that nobody kept is the living mysis's of that name."""
    found = {known.name: known for known in myses if known.is_living}
    account_of = account_reader(credentials, WORLD)
    for known in myses:
        fields = account_of(known.uid, known.name if known.is_living else "")
        if fields is not None:
            if found.get(known.name) is known:
                del found[known.name]
            found[str(fields.get("account", known.name))] = known
    return found
