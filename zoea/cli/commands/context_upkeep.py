"""`zoea ctx gc`, `fetch` and `fsck`: remove, bring back and check commits."""

from __future__ import annotations

import asyncio
from functools import partial

from zoea.chain import blob_policies, collection
from zoea.chain.commit_rows import count_commits, count_redacted, walk_chain
from zoea.chain.mirror import FetchedBlobs, fetch_blobs, remember_mirror
from zoea.chain.verification import verify_chains
from zoea.cli import output
from zoea.cli.commands.context_access import find_commit, open_contexts
from zoea.cli.output import Output
from zoea.model.errors import MissingBlob, StoreError, UsageError
from zoea.process.clock import SystemClock
from zoea.process.command_line import argument, flag, option, whole_number
from zoea.runtime.periodic_tasks import copy_now, mirror_folder, release_now
from zoea.settings.layers import load
from zoea.settings.paths import Places
from zoea.text.sentences import count_of
from zoea.transfer.held_workspace import held_workspace


def gc(
    where: Places,
    dry_run: bool = flag("--dry-run", "Only say what would be removed."),
    days: int = option(
        "--days N", "Keep commits that had a name in the last N days.", collection.REFLOG_DAYS, whole_number(0, 36500)
    ),
) -> Output:
    """Remove the commits that no mysis and no name needs.

    Texts are removed too when the days that `zoea ctx note --days` gave them are over. No swarm may run.
    """
    now = SystemClock().now()
    since = now - days * collection.DAY

    async def run() -> tuple[collection.CollectedChains, blob_policies.ReleasedBlobs]:
        async with held_workspace(where) as held:
            done = await held.store.write(lambda conn: collection.collect(conn, since))
            return done, await release_now(held.store)

    if dry_run:
        with open_contexts(where) as conn:
            done = collection.estimate_collection(conn, since)
            released = blob_policies.estimate_release(conn, now)
    else:
        done, released = asyncio.run(run())
    what = f"{count_of(done.commits, 'commit')} and {count_of(done.blobs, 'text')} ({count_of(done.bytes, 'byte')})"
    over = f"{count_of(released.blobs, 'text')} of ephemeral commits ({count_of(released.bytes, 'byte')})"
    lines = [f"{what} would be removed" if dry_run else f"Removed {what}"]
    if released.blobs:
        lines.append(f"{over} would be let go" if dry_run else f"Let go of {over}")
    value = {
        "commits": done.commits,
        "blobs": done.blobs,
        "bytes": done.bytes,
        "released": released.blobs,
        "released_bytes": released.bytes,
        "dry_run": dry_run,
    }
    return Output(value, lines)


def fetch(where: Places, revision: str = argument("COMMIT", "Only this commit and all before it.", "")) -> Output:
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

    fetched = asyncio.run(store())
    _, copied = copy_now(where.database, folder)
    result = Output(
        {"restored": fetched.restored, "copied": copied, "missing": fetched.missing},
        f"{fetched.restored:,} texts came back from {folder}, {copied:,} were copied to it",
    )
    if fetched.missing:
        output.write(result)
        named = ", ".join(one[:16] for one in fetched.missing[:5])
        raise MissingBlob(
            f"{len(fetched.missing):,} texts are neither here nor in {folder}: {named}",
            hint="`zoea ctx fsck` says which commits need them.",
        )
    return result


def fsck(where: Places) -> Output:
    """Check every commit: its id, bytes, long texts and format. Exit code 4 if something is wrong."""
    with open_contexts(where) as conn:
        defects = list(verify_chains(conn))
        count, redacted = count_commits(conn), count_redacted(conn)
    rows = [{"commit": d.commit, "blob": d.blob, "what": d.what} for d in defects]
    lines = [f"{one.commit[:20]}  {f'blob {one.blob[:16]}  ' if one.blob else ''}{one.what}" for one in defects]
    note = f"; {count_of(redacted, 'part')} {'was' if redacted == 1 else 'were'} redacted" if redacted else ""
    value = {"commits": count, "redacted": redacted, "defects": rows}
    result = Output(value, lines or f"{count_of(count, 'commit')}, all good{note}")
    if defects:
        output.write(result)
        raise StoreError(
            f"{count_of(len(defects), 'defect')} in {count_of(count, 'commit')}",
            hint="`zoea ctx fetch` brings back what chain.mirror holds, a bundle what it holds; else restore a backup.",
        )
    return result
