"""Opens the database of a workspace in which no swarm runs, for writing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct

from zoea.model.errors import WorkspaceHeld
from zoea.process.clock import SystemClock
from zoea.process.lock import OwnerLock
from zoea.settings.layers import LoadedSettings, load
from zoea.settings.paths import Places
from zoea.store.store import Store


class Workspace(Struct, frozen=True):
    """The open database of a workspace and its settings."""

    store: Store
    loaded: LoadedSettings


@asynccontextmanager
async def held_workspace(places: Places) -> AsyncIterator[Workspace]:
    """Lock and open the workspace while the block runs.

    Raises:
        WorkspaceHeld: if a swarm runs in it, naming its process.
        SettingsError, StoreError: if it cannot be opened.
    """
    loaded = load(places)
    places.make_data()
    clock = SystemClock()
    lock = OwnerLock(places.data, places.socket, since=clock.now())
    try:
        lock.acquire()
    except WorkspaceHeld as held:
        raise WorkspaceHeld(
            held.what, hint="End it with `zoea stop --swarm`, give the command again, then start it with `zoea run`."
        ) from None
    try:
        store = await Store.open(places.database, clock_now=clock.now)
        try:
            yield Workspace(store, loaded)
        finally:
            await store.close()
    finally:
        lock.release()
