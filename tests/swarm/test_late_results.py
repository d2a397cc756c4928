"""Calls that were sent when their turn was stopped: they go on, and what they return is told to the next turn."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.swarm.harness import Swarm, call, script, swarm
from zoea.model.enums import DeliveryMode, MysisState
from zoea.model.request import Answer
from zoea.queries.conversation import read_newest

_STATES = "SELECT name, state FROM tool_call ORDER BY id"
_LATE = "SELECT content, is_error, told_in_turn FROM late_result"


async def begin_call(s: Swarm, tool: str = "act") -> asyncio.Event:
    """Send a prompt to a new mysis, and wait until its call runs.

    Return the event that lets it end.
    """
    gate = s.peer.gates[tool] = asyncio.Event()
    await s.tell("alpha", "go")
    await s.until(lambda: s.peer.running)
    return gate


async def test_a_stopped_call_goes_on_and_the_next_turn_is_told_its_result(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("act"),)), Answer(text="I see"))) as s:
        gate = await begin_call(s)
        await s.commander.stop("alpha")
        assert s.peer.running == 1, "the call was not cancelled at the server"
        assert await s.rows(_STATES) == [{"name": "act", "state": "unknown"}]
        gate.set()
        await s.until(lambda: not s.peer.running)
        await wait_for_late(s)
        assert await s.rows(_LATE) == [{"content": "act did x", "is_error": 0, "told_in_turn": None}]
        assert s.state() is MysisState.STOPPED, "nothing wakes for a late result"
        assert len(s.provider.requests) == 1

        await s.commander.start("alpha")
        await s.ask("alpha", "and now?")
        (note, prompt) = s.sent()[-1][-2:]
        assert prompt == ("user", "and now?")
        assert note[0] == "user"
        assert note[1].startswith("[note from Zoea] Results that came after their turn was stopped:")
        assert note[1].endswith("of turn 1 was carried out:\nact did x")
        assert [row["told_in_turn"] for row in await s.rows(_LATE)] == [2]

        await s.ask("alpha", "again")
        assert not any("note from Zoea" in content for _, content in s.sent()[-1]), "it is told once"


async def wait_for_late(s: Swarm, count: int = 1) -> None:
    while await s.value("SELECT count(*) FROM late_result") < count:
        await s.run_due()


async def test_an_interrupted_call_goes_on_beside_the_new_turn(tmp_path: Path) -> None:
    replies = (Answer(calls=(call("act"),)), Answer(text="as you say"), Answer(text="fine"))
    async with swarm(tmp_path, script(*replies)) as s:
        gate = await begin_call(s)
        await s.commander.send("alpha", "no, this", mode=DeliveryMode.INTERRUPT)
        await s.settled()
        assert await s.rows(_STATES) == [{"name": "act", "state": "unknown"}]
        gate.set()
        await wait_for_late(s)
        await s.ask("alpha", "next")
        assert s.sent()[-1][-2][1].startswith("[note from Zoea]")


async def test_a_stopped_read_only_call_is_cancelled_at_the_server(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("look"),)))) as s:
        await begin_call(s, "look")
        await s.commander.stop("alpha")
        await s.until(lambda: not s.peer.running)
        assert await s.rows(_STATES) == [{"name": "look", "state": "unknown"}]
        assert await s.rows(_LATE) == []


async def test_a_call_that_waits_for_its_upstream_was_never_sent(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("act"), call("act", "y"))))) as s:
        gate = await begin_call(s)
        await s.commander.stop("alpha")
        results = await s.rows("SELECT content FROM memory WHERE role = 'tool' ORDER BY seq")
        assert results[1]["content"] == "cancelled: stopped before this ran"
        gate.set()
        await wait_for_late(s)
        assert s.peer.seen == [("act", "x")]


async def test_a_late_result_is_shown_beside_the_call(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("act"),)))) as s:
        gate = await begin_call(s)
        await s.commander.stop("alpha")
        gate.set()
        await wait_for_late(s)
        (turn,) = read_newest(s.path, 1).turns
        (note,) = turn.notes
        assert (note.kind, note.content) == (
            "late result",
            "act was carried out after the turn was stopped:\nact did x",
        )
        result = turn.entries[-1].memory
        assert (note.after_seq, result.content[:8]) == (result.seq, "unknown:")


async def test_a_late_result_outlasts_a_restart_until_it_is_told(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("act"),)))) as s:
        gate = await begin_call(s)
        await s.commander.stop("alpha")
        gate.set()
        await wait_for_late(s)
    async with swarm(tmp_path, script(Answer(text="I see"))) as s:
        await s.commander.start("alpha")
        await s.ask("alpha", "and now?")
        assert "act did x" in s.sent()[-1][-2][1]


@pytest.mark.parametrize("late", [0, 1])
async def test_closing_waits_for_no_late_call(tmp_path: Path, late: int) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("act"),)))) as s:
        await begin_call(s)
        if late:
            await s.commander.stop("alpha")
        await s.commander.close()
        assert not s.peer.running
        assert await s.rows(_LATE) == []
