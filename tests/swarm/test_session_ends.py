"""How a session ended: closed with Zoea, or crashed because Zoea was killed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.fakes.llm_clock import HandClock
from tests.swarm.harness import Peer, call, script, swarm
from tests.tui.cockpit import QUIET, answering
from zoea.model.request import Answer
from zoea.model.status import KILLED
from zoea.model.values import Event
from zoea.queries.phrases import event_sentence
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence import mysis_ops
from zoea.swarm.persistence.stat_ops import store_minute

OUTCOME = "SELECT outcome FROM session ORDER BY id DESC LIMIT 1"


async def test_a_clean_end_of_zoea_is_no_crash(tmp_path: Path) -> None:
    async with swarm(tmp_path, answering(), settings=QUIET) as inner:
        await inner.commander.create("alpha")
    async with swarm(tmp_path, answering(), settings=QUIET) as inner:
        assert await inner.value(OUTCOME) == "closed"


async def test_a_turn_that_a_clean_end_cuts_off_is_told_as_such_and_counted_once_it_ends(tmp_path: Path) -> None:
    peer = Peer(gates={"look": asyncio.Event()})
    clock = HandClock()
    answers = [Answer(calls=(call("look"),)), Answer(text="done")]
    async with swarm(tmp_path, script(*answers), peer=peer, clock=clock, settings=QUIET) as inner:
        await inner.store.write(lambda conn: store_minute(conn, {}))
        await inner.commander.create("alpha")
        receipt = await inner.commander.send("alpha", "Look around.")
        await inner.until(lambda: peer.running)
    async with swarm(tmp_path, script(answers[1]), clock=clock, settings=QUIET) as inner:
        (event,) = await inner.rows("SELECT * FROM event WHERE kind = 'turn.broke_off'")
        told = Event(event["id"], event["kind"], event["mysis_id"], json.loads(event["data"]))
        assert event_sentence(told) == "turn cut off: Zoea was closed"
        (line,) = (await inner.commander.receipt(receipt.message_id)).lines
        assert (line.status, line.reason) == ("taken", "Zoea ended during its turn")
        await inner.store.write(lambda conn: store_minute(conn, {}))
        assert await inner.value("SELECT outcomes FROM minute_stat ORDER BY minute DESC") == "{}"
        await inner.commander.start("alpha")
        await inner.settled("alpha")
        await inner.store.write(lambda conn: store_minute(conn, {}))
        assert await inner.value("SELECT outcomes FROM minute_stat ORDER BY minute DESC") == '{"answered": 1}'


@pytest.mark.parametrize("state", ["new", "done"])
async def test_a_message_that_was_stored_in_the_moment_of_a_kill_is_answered_after_the_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    async with swarm(tmp_path, answering("first"), settings=QUIET) as inner:
        await inner.commander.create("alpha", start=False)
        if state == "done":
            await inner.commander.send("alpha", "Say something.")
            await inner.settled("alpha")
        with monkeypatch.context() as killed:
            killed.setattr(inner.commander.swarm, "hand_over", lambda deliveries: None)
            receipt = await inner.commander.send("alpha", "Are you there?")
    async with swarm(tmp_path, answering("second"), settings=QUIET) as inner:
        assert await inner.commander.start_all(again=True) == 1
        await inner.settled("alpha")
        (line,) = (await inner.commander.receipt(receipt.message_id)).lines
        assert line.status == "answered"


async def test_a_kill_of_zoea_is_a_crash(tmp_path: Path) -> None:
    def kill(conn: WriterConnection) -> None:
        mysis_ops.recover_states(conn, KILLED, inner.commander.swarm.settings.swarm.max_hops)

    async with swarm(tmp_path, answering(), settings=QUIET) as inner:
        await inner.commander.create("alpha")
        await inner.store.write(kill)
        assert await inner.value(OUTCOME) == "crashed"
