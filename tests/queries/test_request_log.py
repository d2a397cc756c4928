"""The log can show what each request held and used. The words are those in which it was told live."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.swarm.harness import Swarm, call, script, swarm
from zoea.model.enums import DONE_TOOL
from zoea.model.request import Answer, AnswerCall
from zoea.model.values import Event, Usage
from zoea.queries.events import LogLine, read_full_text, read_line_ids, read_log_lines
from zoea.queries.phrases import event_sentence
from zoea.queries.request_log import find_line_id
from zoea.settings.schema import Settings

QUIET = Settings.model_validate({"nudge": {"enabled": False}})
CANARY = "canary-5151"
USED = Usage(input_tokens=6_000, output_tokens=200)


def read_lines(s: Swarm) -> list[LogLine]:
    """Return the lines of requests, in the order of the log."""
    shown = read_log_lines(s.path, read_line_ids(s.path, with_requests=True))
    assert [line.at for line in shown] == sorted(line.at for line in shown)
    return [line for line in shown if line.id < 0]


async def test_stored_requests_have_the_lines_that_were_told_live(tmp_path: Path) -> None:
    replies = script(Answer(calls=(call("look"),), usage=USED), Answer(text=CANARY, usage=USED))
    async with swarm(tmp_path, replies, settings=QUIET) as s:
        await s.commander.create("alpha", start=False)
        heard: list[Event] = []

        async def listen() -> None:
            async for item in s.commander.events(s.commander.swarm.services.events.last_id):
                assert isinstance(item, Event)
                heard.append(item)

        listener = asyncio.create_task(listen())
        await s.until(lambda: s.commander.swarm.services.events.is_heard)
        await s.commander.send("alpha", f"Where is the {CANARY}?")
        await s.until(lambda: any(event.kind == "turn.ended" for event in heard))
        listener.cancel()
        told = {find_line_id(event): event_sentence(event) for event in heard if not event.id}
        assert len(told) == 6
        lines = read_lines(s)
        assert {line.id: line.text for line in lines} == told
        assert {(line.who, line.mysis_id, line.is_trouble) for line in lines} == {("alpha", 1, False)}
        assert all(one > 0 for one in read_line_ids(s.path))
        whole = [read_full_text(s.path, line.id) for line in lines]
        assert CANARY not in str(whole)
        assert whole[-1] == "Budget used: 12.4k/200k\nTurn 1 so far used 12,400 of the 200,000 tokens that it may use."


async def test_a_turn_that_reports_a_task_ends_with_the_report_in_the_log(tmp_path: Path) -> None:
    done = AnswerCall(DONE_TOOL, '{"summary": "I counted 42 units."}')
    async with swarm(tmp_path, script(Answer(text="There.", calls=(done,))), settings=QUIET) as s:
        await s.commander.create("alpha", start=False)
        await s.commander.send("alpha", "Count.", is_task=True)
        await s.settled()
        lines = [line.text for line in read_log_lines(s.path, read_line_ids(s.path))]
    assert "I counted 42 units." in lines
    assert "There." not in lines


async def test_what_was_deleted_with_its_plan_is_left_out_of_the_lines_of_a_request(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="ok", usage=USED)), settings=QUIET) as s:
        await s.ask("alpha", "hello")
        await s.store.write(lambda conn: conn.execute("UPDATE request SET plan = NULL, estimated_tokens = 6210"))
        assert [line.text for line in read_lines(s)] == [
            "Preparing context (~6.2k tokens)",
            "Budget used: 6.2k",
            "Budget used: 6.2k",
        ]
