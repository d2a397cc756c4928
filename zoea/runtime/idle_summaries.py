"""Has models write summaries of commits while the swarm rests; see the setting `chain.summarise_idle`."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from zoea.chain.commit import CommitType, ContextCommit
from zoea.chain.commit_rows import read_unsummarised
from zoea.model.errors import ZoeaError
from zoea.model.ports import Clock
from zoea.runtime.maintenance import running_task
from zoea.swarm.commander import Commander
from zoea.swarm.commit_commands import CommitCommands

log = logging.getLogger(__name__)

SECONDS = 30
"""Seconds between two checks whether the swarm rests."""
PAUSE_S = 600
"""Seconds without summaries after one that failed, such as for want of budget."""
_READ = 50


@asynccontextmanager
async def run_idle_summaries(commander: Commander, clock: Clock) -> AsyncIterator[None]:
    """Write summaries in the background until the block is left."""
    async with running_task(_write_summaries(commander, clock), "idle summaries"):
        yield


async def _write_summaries(commander: Commander, clock: Clock) -> None:
    commands, failed = CommitCommands(commander), set[str]()
    while True:
        await clock.sleep(SECONDS * 1_000_000)
        while (commit := await _find_next(commander, failed)) is not None:
            try:
                await commands.summarise(commit.id)
            except ZoeaError as problem:
                failed.add(commit.id)
                log.info("no summary of %s was written: %s", commit.id, problem)
                await clock.sleep(PAUSE_S * 1_000_000)


async def _find_next(commander: Commander, failed: Collection[str]) -> ContextCommit | None:
    """Return the newest commit to summarise; None where a mysis works or nothing is left."""
    runners = dict(commander.swarm.runners)
    wanted = {
        mysis_id
        for mysis_id, runner in runners.items()
        if commander.swarm.resolved_template(runner.mysis.template_hash).settings.chain.summarise_idle
        and not commander.swarm.services.hold.holds(mysis_id)
    }
    if not wanted or not all(runner.is_settled for runner in runners.values()):
        return None
    try:
        async with commander.swarm.services.store.search_reader() as reader:
            commits = await reader.run(lambda conn: read_unsummarised(conn, _READ + len(failed)))
    except ZoeaError as problem:
        log.warning("commits without a summary could not be read: %s", problem)
        return None
    chosen = (one for one in commits if one.kind is CommitType.DELTA and one.id not in failed)
    return next((one for one in chosen if one.provenance.mysis_id in wanted), None)
