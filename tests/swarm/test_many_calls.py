"""Answers with many calls: how many are run, what the others get, and what is run once for several."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import ANY

import pytest

from tests.fakes.llm_clock import HandClock
from tests.fakes.processes import count_descriptors
from tests.swarm.harness import call, script, swarm
from zoea.llm.providers.scripted import ScriptedProvider
from zoea.model.request import Answer, AnswerCall
from zoea.model.values import Usage
from zoea.settings.schema import Settings
from zoea.swarm.turn import call_bounds
from zoea.swarm.turn.call_bounds import MOST_KEPT

_RESULTS = "SELECT content FROM memory WHERE role = 'tool' ORDER BY seq"
_STATES = "SELECT state, count(*) AS calls FROM tool_call GROUP BY state ORDER BY state"


def looks(count: int) -> Answer:
    return Answer(calls=tuple(call("look", str(number)) for number in range(count)))


def model(*answers: Answer, window: int | None = None) -> ScriptedProvider:
    """Make a model with a window. Without one only the calls that it has room for are stored."""
    return ScriptedProvider(script(*answers), clock=HandClock(1), metered=True, context_window=window)


async def test_at_most_64_calls_of_an_answer_are_run_and_the_others_say_so(tmp_path: Path) -> None:
    provider = model(looks(500), Answer(text="enough"), window=100_000)
    async with swarm(tmp_path, provider=provider) as s:
        await s.ask("alpha", "look everywhere")
        assert sorted(int(text) for _, text in s.peer.seen) == list(range(64))
        assert await s.rows(_STATES) == [{"state": "cancelled", "calls": 436}, {"state": "done", "calls": 64}]
        results = [row["content"] for row in await s.rows(_RESULTS)]
        assert results[:2] == ["look did 0", "look did 1"]
        assert set(results[64:]) == {"cancelled: only the first 64 calls of an answer are run; call it again if needed"}
        assert await s.value("SELECT outcome FROM turn") == "answered"


async def test_calls_leave_no_descriptor_open(tmp_path: Path) -> None:
    provider = model(*(answer for _ in range(3) for answer in (looks(64), Answer(text="enough"))))
    async with swarm(tmp_path, provider=provider) as s:
        await s.commander.create("alpha", start=False)
        counts = []
        for text in ("look", "look again", "and again"):
            await s.ask("alpha", text)
            counts.append(count_descriptors())
        assert len(s.peer.seen) >= 64
        assert counts[2] < counts[0] + 16


async def test_a_limit_says_how_many_calls_are_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_bounds, "MOST_RUN", 2)
    async with swarm(tmp_path, script(looks(3), Answer(text="enough"))) as s:
        await s.ask("alpha", "look")
        assert len(s.peer.seen) == 2


async def test_an_answer_with_thousands_of_calls_is_stored_in_part_and_says_how_many_were_left_out(
    tmp_path: Path,
) -> None:
    provider = model(looks(10_000), Answer(text="enough"), window=200_000)
    settings = Settings.model_validate({"budget": {"token_budget_per_agent": 150_000}})
    async with swarm(tmp_path, provider=provider, settings=settings) as s:
        await s.ask("alpha", "look everywhere")
        assert await s.value("SELECT count(*) FROM tool_call") == MOST_KEPT
        results = [row["content"] for row in await s.rows(_RESULTS)]
        assert results[-1].endswith("call it again if needed. 9,488 more calls of that answer were left out")
        assert len(s.peer.seen) == 64
        assert await s.value("SELECT outcome FROM turn") == "answered"


async def test_many_calls_do_not_end_the_turn_of_a_model_with_a_small_window(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(looks(500), Answer(text="enough"))) as s:
        await s.ask("alpha", "look everywhere")
        assert len(s.peer.seen) == 64
        results = [row["content"] for row in await s.rows(_RESULTS)]
        assert results[-1].endswith("more calls of that answer were left out")
        assert await s.value("SELECT outcome FROM turn") == "answered"


async def test_identical_read_only_calls_of_an_answer_are_run_once(tmp_path: Path) -> None:
    twice = (call("look"), call("look", "y"), call("look"), call("look"))
    async with swarm(tmp_path, script(Answer(calls=twice), Answer(text="seen"))) as s:
        await s.ask("alpha", "look")
        assert sorted(s.peer.seen) == [("look", "x"), ("look", "y")]
        same = "the same result as the identical call before it: read-only calls of one answer run once"
        assert [row["content"] for row in await s.rows(_RESULTS)] == ["look did x", "look did y", same, same]
        assert await s.rows(_STATES) == [{"state": "done", "calls": 4}]


async def test_identical_calls_that_change_something_are_all_run(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("act"), call("act"))), Answer(text="done"))) as s:
        await s.ask("alpha", "act")
        assert s.peer.seen == [("act", "x"), ("act", "x")]


async def test_identical_calls_of_one_answer_count_for_the_loop_guard_at_once(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("look"),) * 3), Answer(text="I stop"))) as s:
        await s.ask("alpha", "look")
        assert "the same call 3 times, with the same result: look" in s.sent()[1][-1][1]


HUGE = 400_000
TOO_LARGE = {
    "arguments": Answer(calls=(call("act", "a" * HUGE),)),
    "arguments that are no JSON": Answer(calls=(AnswerCall("act", "{" + "a" * HUGE, "c1", broken="no JSON"),)),
    "arguments of an unknown tool": Answer(calls=(AnswerCall("fly", json.dumps({"to": "a" * HUGE}), "c1"),)),
    "a name": Answer(calls=(AnswerCall("a" * HUGE, "{}", "c1"),)),
    "text beside a call": Answer(text="a" * HUGE, calls=(call("look"),)),
    "reasoning before a call": Answer(reasoning="a" * HUGE, calls=(call("look"),)),
}


@pytest.mark.parametrize("part", TOO_LARGE)
async def test_an_answer_with_calls_that_is_larger_than_a_request_does_not_end_its_turn(
    tmp_path: Path, part: str
) -> None:
    async with swarm(tmp_path, script(TOO_LARGE[part], Answer(text="I see"))) as s:
        await s.ask("alpha", "look")
        assert await s.value("SELECT outcome FROM turn") == "answered"
        assert not [text for _, text in s.peer.seen if len(text) > 100]


@pytest.mark.parametrize("size", [HUGE, 5_000_000])
async def test_a_call_with_too_long_arguments_is_refused_and_the_others_run(tmp_path: Path, size: int) -> None:
    calls = (call("act", "one"), call("act", "a" * size), call("act", "three"))
    cheap = Usage(100, 100)  # else the turn rests, because it has used its budget
    async with swarm(tmp_path, script(Answer(calls=calls, usage=cheap), Answer(text="I see"))) as s:
        await s.ask("alpha", "act")
        assert s.peer.seen == [("act", "one"), ("act", "three")]
        first, refused, third = [row["content"] for row in await s.rows(_RESULTS)]
        assert (first, third) == ("act did one", "act did three")
        assert refused.startswith(
            "cancelled: this was not run and its arguments were not kept,"
            f" because they have {size + 12:,} characters and the next request has room for "
        )
        assert refused.endswith("; call it again with less, in several parts")
        assert await s.value("SELECT max(length(arguments)) FROM tool_call") < 100


async def test_of_many_too_long_calls_few_are_kept_and_those_that_fit_run(tmp_path: Path) -> None:
    long = [call("act", f"{number} " + "a" * 4_000) for number in range(40)]
    calls = (call("act", "b" * 12_000), long[0], call("act", "small"), *long[1:])
    async with swarm(tmp_path, script(Answer(calls=calls), Answer(text="I see"))) as s:
        await s.ask("alpha", "act")
        assert [text for _, text in s.peer.seen] == ["b" * 12_000, "small"]
        assert await s.rows(_STATES) == [{"state": "cancelled", "calls": ANY}, {"state": "done", "calls": 2}]
        assert "more calls of that answer were left out" in (await s.rows(_RESULTS))[-1]["content"]
        assert await s.value("SELECT outcome FROM turn") == "answered"


async def test_many_long_results_do_not_end_the_turn_of_a_model_with_a_small_window(tmp_path: Path) -> None:
    ticks = Answer(calls=tuple(call("say_ticks", str(number)) for number in range(64)))
    async with swarm(tmp_path, script(ticks, Answer(text="enough"))) as s:
        s.peer.pad = "long " * 1_000
        await s.ask("alpha", "look everywhere")
        assert len(s.peer.seen) == 64
        assert await s.value("SELECT outcome FROM turn") == "answered"


async def test_long_results_of_kept_tools_do_not_end_a_turn(tmp_path: Path) -> None:
    settings = Settings.model_validate({"context": {"keep_tools": ["say_ticks"]}})
    answers = [Answer(calls=(call("say_ticks", str(number)),)) for number in range(6)]
    async with swarm(tmp_path, script(*answers, Answer(text="enough")), settings=settings) as s:
        s.peer.pad = "long " * 4_000
        await s.ask("alpha", "log in")
        assert len(s.peer.seen) == 6
        assert await s.value("SELECT outcome FROM turn") == "answered"
