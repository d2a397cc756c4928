"""`zoea ctx keep` and `gc`: how long commits and their texts stay."""

from __future__ import annotations

import asyncio

from zoea.chain import blob_policies, collection
from zoea.chain.context_edits import keep_commit
from zoea.cli.commands.context_access import COMMIT, find_commit, locate_commit, open_contexts
from zoea.cli.output import Output, moment
from zoea.cli.swarm_access import edit
from zoea.model.errors import UsageError
from zoea.process.clock import SystemClock
from zoea.process.command_line import flag, number, option, whole_number
from zoea.runtime.blob_release import release_now
from zoea.settings.paths import Places
from zoea.text.sentences import count_of
from zoea.transfer.held_workspace import held_workspace


def keep(
    where: Places,
    revision: str = COMMIT,
    pin: bool = flag("--pin", "Keep it, all before it, and their texts."),
    days: float | None = option("--days N", "Remove its texts N days from now.", None, number()),
    default: bool = flag("--default", "Keep it while a name stands for it or for a later commit."),
    whole: bool = flag("--whole", "The same for all commits before it."),
) -> Output:
    """Set how long the texts of a commit are kept; without options, show it.

    Its summary, size and origin stay in any case. A text that another commit or a memory needs stays too.

    Example: zoea ctx keep import/shop --days 7 --whole
    """
    found = locate_commit(where, revision)
    if pin + default + (days is not None) > 1:
        raise UsageError("--pin, --days and --default exclude each other", hint="Give one of them.")
    count = 0
    if pin or default or days is not None:
        policy = "pin" if pin else "default" if default else "ephemeral"
        count = edit(
            where,
            lambda swarm: swarm.keep_commit(found.id, policy, days=days or 0.0, whole=whole),
            lambda store: keep_commit(store, found.id, policy, days or 0.0, whole=whole),
        )
    with open_contexts(where) as conn:
        policy, until = blob_policies.read_policy(conn, find_commit(conn, found.id).seq)
    kept = {"pin": "is pinned, with all before it", "": "stays while a name stands for it or for a later commit"}
    until_text = "" if until is None else f"keeps its texts until {moment(until)}"
    more = f"; so do {count_of(count - 1, 'commit')} before it" if whole and count > 1 else ""
    return Output(
        {"context": found.id, "policy": policy or "default", "until": until, "commits": count},
        f"{revision} {kept.get(policy, until_text)}{more}",
    )


def gc(
    where: Places,
    dry_run: bool = flag("--dry-run", "Only say what would be removed."),
    days: int = option(
        "--days N", "Keep commits that had a name in the last N days.", collection.REFLOG_DAYS, whole_number(0, 36500)
    ),
) -> Output:
    """Remove the commits that no mysis and no name needs.

    Texts are removed too when the days that `zoea ctx keep` gave them are over. No swarm may run.
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
