"""The credits that myses earned in the sandbox world, and the tokens they spent.

Joins the world's file, the workspace's database and the credentials, which map each
captain of the world to its mysis.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing

from zoea.model.errors import SettingsError, StoreError, StoreMissing, WorldError
from zoea.model.values import MysisView
from zoea.queries.stored_swarm import MysisRecord, read_mysis_records
from zoea.runtime.accounts import account_reader
from zoea.runtime.run_options import WORLD
from zoea.settings.credentials import Credentials
from zoea.settings.paths import Places
from zoea.world.score import CaptainScore, compute_scores
from zoea.world.world_log import connect_read_only, load_world

log = logging.getLogger(__name__)


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
    of_the_living = {known.name: account for account, known in accounts.items() if known.is_living}
    found = {view.name: reef.find(of_the_living.get(view.name, "")) for view in myses}
    return {name: player.earned if player else 0 for name, player in found.items()}


def read_scores(places: Places) -> list[CaptainScore]:
    """Return the scores of all captains of the workspace's world, with the tokens their myses spent.

    Raises:
        WorldError: if there is no world.
        SettingsError: if the credentials cannot be read.
        StoreError: if the database exists and cannot be read.
    """
    with closing(connect_read_only(places.world)) as db:
        world = load_world(db, whole=False).world
    try:
        known = read_mysis_records(places.database)
    except StoreMissing:
        known = ()
    accounts = _accounts(Credentials(places.credentials), known)
    return compute_scores(world, {name: one.tokens for name, one in accounts.items() if one.tokens is not None})


def _accounts(credentials: Credentials, myses: tuple[MysisRecord, ...]) -> dict[str, MysisRecord]:
    """Map each account of the world to its mysis.

    An account without stored credentials belongs to the living mysis of its name.
    """
    found = {known.name: known for known in myses if known.is_living}
    account_of = account_reader(credentials, WORLD)
    for known in myses:
        fields = account_of(known.uid, known.name if known.is_living else "")
        if fields is not None:
            if found.get(known.name) is known:
                del found[known.name]
            found[str(fields.get("account", known.name))] = known
    return found
