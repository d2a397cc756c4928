"""The live view: whole first, then what changed, at most twenty times a second."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace

from tests.fakes.llm_clock import HandClock
from tests.fakes.wire_server import Outgoing, Received, WireServer
from tests.swarm.harness import script, swarm
from tests.waiting import until
from zoea.ipc.protocol import REPLY_LIMIT, encode_frame
from zoea.model.enums import Activity, MysisState
from zoea.model.request import Answer
from zoea.model.values import Failure, Mysis, MysisView, SwarmView
from zoea.queries.status_phrases import describe_status
from zoea.swarm import live_view
from zoea.swarm.live_view import GOAL_CHARS, INTERVAL_S, STREAM_TAIL, TEXT_CHARS, LiveMysis, LiveView
from zoea.tools import UpstreamConfig


def mysis(number: int, state: MysisState = MysisState.RUNNING) -> Mysis:
    return Mysis(number, f"u{number}", f"m{number}", "default", b"h", "p", "m", state, "", 0)


def view() -> LiveView:
    def summary(myses: tuple[MysisView, ...], version: int) -> SwarmView:
        return SwarmView(version, False, "", myses)

    live = LiveView(summary, HandClock())
    for number in (1, 2, 3):
        live.add(LiveMysis(mysis(number)))
    return live


async def test_the_first_view_is_whole_and_the_next_has_changed_and_removed_rows() -> None:
    live = view()
    async with aclosing(live.changes()) as views:
        assert [one.id for one in (await anext(views)).myses] == [1, 2, 3]
        live.touch(2)
        live.remove(3)
        live.touch()
        changed = await anext(views)
    assert [one.id for one in changed.myses] == [2]
    assert changed.removed == (3,)
    assert changed.version > changed.myses[0].version


@pytest.mark.parametrize("count", [2, 2_000])
async def test_a_view_of_many_myses_that_stream_has_room_in_one_frame(count: int) -> None:
    live, goal, tail = view(), "🚀" * 100_000, "🚀" * STREAM_TAIL
    for number in range(1, count + 1):
        row = LiveMysis(replace(mysis(number), goal=goal))
        row.stream(tail)
        row.add_reasoning(tail)
        live.add(row)
    async with aclosing(live.changes()) as views:
        first = await anext(views)
        live.touch(1)
        for number in range(2, count + 1):
            live.touch(number)
        second = await anext(views)
    for told in (live.whole(), first, second):
        assert len(encode_frame(id=1, item=told)) < REPLY_LIMIT
        row_told = told.myses[0]
        assert row_told.goal == "🚀" * GOAL_CHARS
        assert len(row_told.streaming) == len(row_told.thinking) == (STREAM_TAIL if count == 2 else 1_000)
    assert len(live.freeze(1).goal) == 100_000


async def test_a_thousand_changes_are_told_at_most_twenty_times_a_second() -> None:
    live, told = view(), list[SwarmView]()

    async def listen() -> None:
        async for one in live.changes():
            told.append(one)

    listener = asyncio.create_task(listen())
    began = time.monotonic()
    for _ in range(1000):
        live.touch(1)
        await asyncio.sleep(0)

    def touch() -> bool:
        live.touch(1)
        return len(told) >= 3

    await until(touch)
    took = time.monotonic() - began
    listener.cancel()
    assert 3 <= len(told) <= 2 + took / INTERVAL_S


async def test_a_listener_that_left_is_forgotten() -> None:
    live = view()
    async with aclosing(live.changes()) as views:
        await anext(views)
        assert live._subscribers
    assert not live._subscribers


def test_a_row_shows_what_it_does_by_its_rank() -> None:
    row = LiveMysis(mysis(1), activity=Activity.LLM)
    assert row.freeze().activity is Activity.LLM
    row.waiting_until = 5
    assert row.freeze().activity is Activity.WAITING
    row.approvals = 1
    assert row.freeze().activity is Activity.ASKING
    row.mysis = mysis(1, MysisState.STOPPED)
    assert row.freeze().activity is Activity.IDLE


@pytest.mark.parametrize(
    ("what", "shown"), [("prepares_model", "preparing its model"), ("awaits_tools", "waiting for its tool servers")]
)
async def test_a_turn_that_waits_says_for_what(
    monkeypatch: pytest.MonkeyPatch, what: Literal["prepares_model", "awaits_tools"], shown: str
) -> None:
    monkeypatch.setattr(live_view, "PREPARING_S", 0.0)
    live = view()
    row = live.row(1)
    row.in_turn = True
    with live.show_preparing(1, what):
        await until(lambda: getattr(row, what))
        assert describe_status(live.freeze(1), 0) == f"working ({shown})"
    assert describe_status(live.freeze(1), 0) == "working"


class SilentServer(WireServer):
    """Takes requests, and answers none."""

    async def handle(self, request: Received, out: Outgoing) -> None:
        await request.gone.wait()


async def test_a_first_turn_that_waits_for_a_tool_server_says_so(tmp_path: Path) -> None:
    async with SilentServer() as server:
        slow = UpstreamConfig("slow", url=f"{server.url}/mcp")
        async with swarm(tmp_path, script(Answer(text="ok")), upstreams=[slow]) as s:
            await s.tell("alpha", "Go on.")

            async def is_shown() -> bool:
                status = describe_status((await s.commander.view()).myses[0], 0)
                return status == "working (waiting for its tool servers)"

            await s.until(is_shown)


def test_texts_are_kept_short() -> None:
    row = LiveMysis(mysis(1))
    row.say("x" * 1000, 7)
    row.stream("y" * 10_000)
    row.stream("z")
    assert (len(row.text), row.text_at) == (TEXT_CHARS, 7)
    assert (len(row.streaming), row.streaming[-1]) == (STREAM_TAIL, "z")
    row.add_reasoning("y" * 10_000)
    assert (len(row.freeze().thinking), row.freeze().streaming) == (STREAM_TAIL, row.streaming)
    row.clear_stream()
    assert row.streaming == row.thinking == ""


def test_a_cleared_failure_gives_its_place_back_to_the_text_before_it() -> None:
    row = LiveMysis(mysis(1))
    row.say("All is well.", 7)
    for at in (9, 10):
        row.set_failure(Failure("Loop", "Going round in circles"), at)
        assert (row.text, row.text_at) == ("Going round in circles", at)
    row.set_failure(None, 11)
    assert (row.text, row.text_at) == ("All is well.", 7)
    row.set_failure(Failure("Loop", "Going round in circles"), 12)
    row.say("I go on.", 13)
    row.set_failure(None, 14)
    assert (row.text, row.text_at) == ("I go on.", 13)
