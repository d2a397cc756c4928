"""`zoea ctx fetch`: bring back missing texts of commits, and copy new ones to the mirror."""

from __future__ import annotations

import asyncio
from functools import partial

from zoea.chain.commit_rows import walk_chain
from zoea.chain.mirror import FetchedBlobs, fetch_blobs, remember_mirror
from zoea.cli import output
from zoea.cli.commands.context_access import find_commit, open_contexts
from zoea.cli.output import Output
from zoea.model.errors import MissingBlob, UsageError
from zoea.process.command_line import argument
from zoea.runtime.mirroring import copy_now, mirror_folder
from zoea.settings import load
from zoea.settings.paths import Places
from zoea.transfer.held_workspace import held_workspace


def fetch(
    where: Places,
    revision: str = argument("COMMIT", "Only this commit and all before it.", ""),
) -> Output:
    """Bring back missing texts of commits from the mirror.

    The mirror is the folder that the setting `chain.mirror` names; texts that it lacks are then copied to it.
    No swarm may run. Exit code 4: a text is still missing.
    """
    folder = mirror_folder(load(where).settings)
    if folder is None:
        raise UsageError(
            "there is no mirror",
            hint="Set chain.mirror to a folder in config.toml; `zoea config path` says where that is.",
        )
    with open_contexts(where) as conn:
        seqs = [one.seq for one in walk_chain(conn, find_commit(conn, revision).seq)] if revision else None

    async def store() -> FetchedBlobs:
        async with held_workspace(where) as held:
            await held.store.write(partial(remember_mirror, folder=folder))
            return await held.store.write(partial(fetch_blobs, folder=folder, seqs=seqs))

    found = asyncio.run(store())
    _, copied = copy_now(where.database, folder)
    result = Output(
        {"restored": found.restored, "copied": copied, "missing": found.missing},
        f"{found.restored:,} texts came back from {folder}, {copied:,} were copied to it",
    )
    if found.missing:
        output.write(result)
        named = ", ".join(one[:16] for one in found.missing[:5])
        raise MissingBlob(
            f"{len(found.missing):,} texts are neither here nor in {folder}: {named}",
            hint="`zoea ctx fsck` says which commits need them.",
        )
    return result
