"""`zoea ctx fetch`: bring back missing texts of commits, and copy new ones to the mirror."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated

import typer

from zoea.chain.commit_rows import walk_chain
from zoea.chain.mirror import FetchedBlobs, fetch_blobs, remember_mirror
from zoea.cli.commands.context_access import find_commit, open_contexts
from zoea.cli.options import AsJson, Workspace, write_json
from zoea.model.errors import MissingBlob, UsageError
from zoea.runtime.mirroring import copy_now, mirror_folder
from zoea.settings import load
from zoea.settings.paths import places
from zoea.text.control_characters import strip
from zoea.transfer.held_workspace import held_workspace


def fetch(
    revision: Annotated[str, typer.Argument(metavar="COMMIT", help="Only this commit and all before it.")] = "",
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Bring back missing texts of commits from the mirror.

    The mirror is the folder that the setting `chain.mirror` names; texts that it lacks are then copied to it.
    No swarm may run. Exit code 4: a text is still missing.
    """
    where = places(workspace)
    folder = mirror_folder(load(where).settings)
    if folder is None:
        raise UsageError(
            "there is no mirror",
            hint="Set chain.mirror to a folder in config.toml; `zoea config path` says where that is.",
        )
    with open_contexts(workspace) as conn:
        seqs = [one.seq for one in walk_chain(conn, find_commit(conn, revision).seq)] if revision else None

    async def store() -> FetchedBlobs:
        async with held_workspace(where) as held:
            await held.store.write(partial(remember_mirror, folder=folder))
            return await held.store.write(partial(fetch_blobs, folder=folder, seqs=seqs))

    found = asyncio.run(store())
    _, copied = copy_now(where.database, folder)
    if as_json:
        write_json({"restored": found.restored, "copied": copied, "missing": found.missing})
    else:
        typer.echo(strip(f"{found.restored:,} texts came back from {folder}, {copied:,} were copied to it"))
    if found.missing:
        named = ", ".join(one[:16] for one in found.missing[:5])
        raise MissingBlob(
            f"{len(found.missing):,} texts are neither here nor in {folder}: {named}",
            hint="`zoea ctx fsck` says which commits need them.",
        )
