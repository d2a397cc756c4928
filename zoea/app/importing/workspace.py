"""The workspace that is written to while no swarm runs in it: its lock is held from first to last."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from zoea.app.clock import SystemClock
from zoea.app.lock import OwnerLock
from zoea.model.errors import WorkspaceHeld
from zoea.settings import Loaded, load
from zoea.settings.paths import Places
from zoea.store import Store


@dataclass(frozen=True, slots=True)
class Workspace:
    """A database to write to, and the settings that hold there."""

    store: Store
    loaded: Loaded


@asynccontextmanager
async def held_workspace(places: Places) -> AsyncIterator[Workspace]:
    """Take the workspace for as long as the block lasts.

    Raises:
        WorkspaceHeld: a swarm runs in it, naming its process.
        SettingsError, StoreError: it cannot be opened.
    """
    loaded = load(places)
    places.make_data()
    clock = SystemClock()
    lock = OwnerLock(places.data, places.socket, since=clock.now())
    try:
        lock.acquire()
    except WorkspaceHeld as held:
        raise WorkspaceHeld(
            held.what, hint="End it with `zoea stop --swarm`, import, then start it again with `zoea run`."
        ) from None
    try:
        store = await Store.open(places.database, clock_now=clock.now)
        try:
            yield Workspace(store, loaded)
        finally:
            await store.close()
    finally:
        lock.release()
