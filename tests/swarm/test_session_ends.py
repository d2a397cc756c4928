"""How a session ended: closed with Zoea, or crashed because Zoea was killed."""

from __future__ import annotations

from pathlib import Path

from tests.swarm.harness import swarm
from tests.tui.cockpit import QUIET, answering
from zoea.model.status import KILLED
from zoea.store import WriterConnection
from zoea.swarm.persistence import mysis_ops

OUTCOME = "SELECT outcome FROM session ORDER BY id DESC LIMIT 1"


async def test_a_clean_end_of_zoea_is_no_crash(tmp_path: Path) -> None:
    async with swarm(tmp_path, answering(), settings=QUIET) as inner:
        await inner.commander.create("alpha")
    async with swarm(tmp_path, answering(), settings=QUIET) as inner:
        assert await inner.value(OUTCOME) == "closed"


async def test_a_kill_of_zoea_is_a_crash(tmp_path: Path) -> None:
    def kill(conn: WriterConnection) -> None:
        mysis_ops.recover_states(conn, KILLED)

    async with swarm(tmp_path, answering(), settings=QUIET) as inner:
        await inner.commander.create("alpha")
        await inner.store.write(kill)
        assert await inner.value(OUTCOME) == "crashed"
