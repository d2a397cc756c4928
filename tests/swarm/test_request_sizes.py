"""A reopened swarm shows the context of each mysis before its next request."""

from __future__ import annotations

from pathlib import Path

from tests.swarm.harness import swarm
from tests.tui.cockpit import QUIET, answering
from zoea.store.writer_connection import WriterConnection


async def test_the_context_is_shown_as_soon_as_the_swarm_is_open_again(tmp_path: Path) -> None:
    async with swarm(tmp_path, answering(), settings=QUIET) as inner:
        await inner.commander.create("alpha")
        await inner.commander.send("alpha", "hello")
        await inner.settled("alpha")
        before = await inner.commander.mysis("alpha")
        assert before.context_limit
    async with swarm(tmp_path, answering(), settings=QUIET) as inner:
        after = await inner.commander.mysis("alpha")
        assert (after.context_used, after.context_limit) == (before.context_used, before.context_limit)


def damage(conn: WriterConnection) -> None:
    conn.execute("UPDATE request SET plan = x'00'")


async def test_a_damaged_plan_does_not_keep_the_swarm_from_opening(tmp_path: Path) -> None:
    async with swarm(tmp_path, answering(), settings=QUIET) as inner:
        await inner.commander.create("alpha")
        await inner.commander.send("alpha", "hello")
        await inner.settled("alpha")
        await inner.store.write(damage)
    async with swarm(tmp_path, answering(), settings=QUIET) as inner:
        assert (await inner.commander.mysis("alpha")).context_limit == 0
