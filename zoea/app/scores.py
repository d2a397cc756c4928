"""What each mysis earned in the sandbox world, read from the world's own file."""

from __future__ import annotations

import json
import logging
import sqlite3
from contextlib import closing

from zoea.app.accounts import account_name
from zoea.app.upstreams import WORLD
from zoea.model.errors import SettingsError, WorldError
from zoea.model.values import MysisView
from zoea.settings import Credentials
from zoea.settings.paths import Places
from zoea.world.record import load, read_only

log = logging.getLogger(__name__)


def credits_earned(places: Places, myses: tuple[MysisView, ...]) -> dict[str, int] | None:
    """Credits by mysis name; None where the workspace has no world. Who never played earned 0."""
    if not places.world.exists():
        return None
    try:
        credentials = Credentials(places.credentials)
        with closing(read_only(places.world)) as db:
            reef = load(db, whole=False)
        found = {view.name: reef.find(_account(credentials, view.name)) for view in myses}
    except (WorldError, SettingsError, sqlite3.Error) as error:
        log.warning("the world's score cannot be read: %s", error)
        return None
    return {name: player.earned if player else 0 for name, player in found.items()}


def _account(credentials: Credentials, mysis: str) -> str:
    """The account's name in the world, which is the mysis's own unless that was taken."""
    stored = credentials.get(account_name(WORLD, mysis))
    if stored is None:
        return mysis
    return str(json.loads(stored.get_secret_value()).get("account", mysis))
