"""Agents that misbehave: each trap that was met with a real one, and each way to be gone."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from acp import schema

from tests.agents.agent_harness import agent_swarm, conversation, last_outcome, received, say, work, work_anew
from tests.case_tables import walk_cases
from tests.swarm.harness import Swarm
from tests.waiting import until, until_true
from zoea.agents import agent_connection, agent_process, agent_session, updates
from zoea.model.enums import DeliveryMode, MysisState
from zoea.process.group_guard import MARK, make_mark
from zoea.settings.schema import Settings
from zoea.swarm.turn import agent_turn
from zoea.swarm.turn.agent_calls import TurnCall


def failure(s: Swarm, name: str = "alpha") -> str:
    found = s.commander.swarm.runner(name).mysis.failure
    assert found is not None
    return f"{found.title}: {found.what} {found.hint}"


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        ({"version": 2}, "speaks version 2"),
        ({"wants_login": True, "auth_methods": [{"id": "k", "name": "API key"}]}, "API key"),
        ({"modes": ["auto", "ask"], "keeps_mode": True}, "is in the mode 'auto'"),
        ({"modes": ["auto"]}, "has no mode 'ask'"),
    ],
)
async def test_an_agent_that_cannot_begin_makes_its_mysis_errored(
    tmp_path: Path, behaviour: dict[str, Any], said: str
) -> None:
    async with agent_swarm(tmp_path, behaviour, acp='mode = "ask"') as s:
        await work(s, ["say", "never"])
        assert s.state() is MysisState.ERRORED
        assert said in failure(s)
        assert s.commander.swarm.services.agents.running == 0


async def test_a_mode_is_set_before_the_first_prompt(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, {"modes": ["auto", "ask"]}, acp='mode = "ask"') as s:
        await work(s, ["say", "a"])
        methods = [one.get("method") for one in received(tmp_path)]
        assert methods == ["initialize", "session/new", "session/set_mode", "session/prompt"]


async def test_the_version_that_every_agent_knows_is_asked_for(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, {"newest": 1}) as s:
        await work(s, ["say", "a"])
        assert await conversation(s) == [("assistant", "a")]


async def test_a_session_that_waits_for_a_login_has_a_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_connection, "REQUEST_S", 0.3)
    behaviour = {"never_begins": True, "auth_methods": [{"id": "k", "name": "Browser login"}]}
    async with agent_swarm(tmp_path, behaviour) as s:
        await work(s, ["say", "never"])
        assert "did not answer session/new within 0.3 s" in failure(s)
        assert "Browser login" in failure(s)


@pytest.mark.parametrize("begins_after", [3, 0])
async def test_an_agent_that_still_works_on_its_start_is_given_more_time_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begins_after: int
) -> None:
    looks = itertools.count(1)

    def read_processor_time(_mark: str) -> float:
        if (number := next(looks)) == begins_after:
            (tmp_path / "begin").touch()
        return float(number)

    monkeypatch.setattr(agent_connection, "read_processor_time", read_processor_time)
    monkeypatch.setattr(agent_connection, "REQUEST_S", 1.0)
    async with agent_swarm(tmp_path, {"begins_with": str(tmp_path / "begin")}) as s:
        await say(s, ["say", "late"])
        await s.settled()
        if begins_after:
            assert await conversation(s) == [("assistant", "late")]
        else:
            assert "did not answer session/new within 5 s" in failure(s)


def test_the_work_of_an_agent_is_the_processor_time_of_its_processes() -> None:
    mark = make_mark()
    worker = subprocess.Popen([sys.executable, "-c", "while True: pass"], env={MARK: mark})
    try:
        assert until_true(lambda: agent_process.read_processor_time(mark) > 0)
        assert agent_process.read_processor_time(make_mark()) == 0
    finally:
        worker.kill()
        worker.wait()


async def test_a_command_that_is_not_there_says_so(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path) as s:
        template = tmp_path / "templates" / "outer.toml"
        template.write_text(template.read_text().replace(sys.executable, "/nowhere/agent"))
        await work(s, ["say", "never"])
        assert "the program /nowhere/agent cannot be started" in failure(s)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (["exit", 3], "ended with exit code 3"),
        (["raw", '{"jsonrpc": "2.0", "id"'], "a line that is no message"),
        (["raw", "[" * 100_000], "Traceback"),
    ],
)
async def test_a_dead_agent_and_garbage_are_errors_with_the_last_lines_of_stderr(
    tmp_path: Path, step: list[Any], said: str
) -> None:
    async with agent_swarm(tmp_path) as s:
        await work(s, ["stderr", "Traceback of the agent"], ["say", "I begin"], step, ["exit", 1])
        assert s.state() is MysisState.ERRORED
        assert said in failure(s)
        assert "Traceback of the agent" in failure(s)
        assert ("assistant", "I begin") in await conversation(s)


async def test_a_relaunch_after_a_death_goes_on_with_the_same_turn(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, {"resume": True}) as s:
        await work(s, ["call", "a", "execute", {"command": "make"}, "in_progress"], ["exit", 3])
        assert await s.value("SELECT state FROM tool_call") == "sent"
        await s.start("alpha")
        assert await s.value("SELECT state FROM tool_call") == "unknown"
        assert await s.value("SELECT count(*) FROM turn") == 1
        assert await last_outcome(s) == "answered"
        methods = [one.get("method") for one in received(tmp_path)]
        assert methods.count("session/resume") == 1
        assert "You were interrupted" in (await conversation(s))[-1][1]


async def test_log_lines_on_stdout_and_levels_on_stderr_are_no_errors(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, {"noise": ["DEBUG starting", "npm warn old", ""]}) as s:
        await work(s, ["stderr", "ERROR nothing bad"], ["say", "a"])
        await work(s, ["say", "b"])
        assert await conversation(s) == [("assistant", "a"), ("assistant", "b")]
        begun = [one for one in received(tmp_path) if one.get("method") == "initialize"]
        assert len(begun) == 1, "the same process went on"


async def test_log_lines_among_messages_are_no_errors_however_many_they_become(tmp_path: Path) -> None:
    few: list[Any] = [["raw", "DEBUG a line of a log"]] * agent_process.MOST_NOISE
    async with agent_swarm(tmp_path) as s:
        await work(s, ["say", "a"], *few, ["say", "b"], *few, ["say", "c"])
        assert await conversation(s) == [("assistant", "abc")]
        await work(s, ["say", "d"], *few, ["raw", "one more"], ["say", "e"])
        assert "51 lines in a row that are no messages" in failure(s)


async def test_long_lines_are_taken_and_endless_ones_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with agent_swarm(tmp_path) as s:
        await work(s, ["long_line", 70_000])
        await work(s, ["long_line", 400_000])
        assert [len(text) for _, text in await conversation(s)] == [70_000, 400_000]
        monkeypatch.setattr(agent_process, "MAX_LINE_BYTES", 500_000)
        await work(s, ["long_line", 2_000_000])
        assert "a line of over 500,000 bytes" in failure(s)


@walk_cases("method", ["fs/delete_everything", "terminal/create", "elicitation/create", "_vendor/thing"])
async def test_unknown_requests_are_answered(one_swarm: Swarm, method: str) -> None:
    assert "-32601" in (await work_anew(one_swarm, ["request", method, {"sessionId": "s"}]))[-1][1]


async def test_an_answer_that_never_ends_counts_once_its_text_came(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, settings=Settings.model_validate({"turn": {"timeout": 60}})) as s:
        await say(s, ["say", "the answer"], ["hang"])
        row = s.commander.swarm.live_view.row(1)
        await s.until(lambda: row.streaming == "the answer")
        for _ in range(15):
            await s.run_due(6)
        await s.settled()
        assert await last_outcome(s) == "answered"
        assert await conversation(s) == [("assistant", "the answer")]
        assert "told no end" in await s.value("SELECT content FROM turn_note")


async def test_silence_without_a_word_times_out_and_a_deaf_agent_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_session, "CANCEL_S", 0.2)
    async with agent_swarm(tmp_path, {"deaf": True}, settings=Settings.model_validate({"turn": {"timeout": 60}})) as s:
        await say(s, ["think", "hm"], ["never_end"])
        row = s.commander.swarm.live_view.row(1)
        await s.until(lambda: row.thinking == "hm")
        for _ in range(15):
            await s.run_due(6)
        await s.settled()
        assert s.state() is MysisState.ERRORED
        assert await s.value("SELECT broke_off FROM turn") == "timeout"
        assert "its process was ended" in await s.value("SELECT content FROM turn_note")
        assert s.commander.swarm.services.agents.running == 0


async def test_an_agent_that_is_deaf_to_an_interruption_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_session, "CANCEL_S", 0.2)
    async with agent_swarm(tmp_path, {"deaf": True}) as s:
        await say(s, ["think", "hm"], ["never_end"])
        row = s.commander.swarm.live_view.row(1)
        await s.until(lambda: row.thinking == "hm")
        await s.commander.send("alpha", json.dumps([["say", "another"]]), mode=DeliveryMode.INTERRUPT)
        await s.settled()
        assert (await conversation(s))[-1] == ("assistant", "another")
        assert len([one for one in received(tmp_path) if one.get("method") == "initialize"]) == 2


async def test_a_silent_agent_whose_requests_wait_at_the_gateway_goes_on(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, settings=Settings.model_validate({"turn": {"timeout": 60}})) as s:
        await say(s, ["think", "hm"], ["never_end"])
        row = s.commander.swarm.live_view.row(1)
        await s.until(lambda: row.thinking == "hm")
        row.asks_waiting = 1
        for _ in range(15):
            await s.run_due(6)
        row.asks_waiting = 0
        row.asked_at = s.clock.uptime() + 30_000_000
        for _ in range(13):
            await s.run_due(6)
        assert s.commander.swarm.runner("alpha").has_turn
        await s.settled_in_time(step_s=6)
        assert await s.value("SELECT broke_off FROM turn") == "timeout"


async def test_an_agent_that_reads_no_more_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_session, "CANCEL_S", 0.2)
    settings = Settings.model_validate({"turn": {"timeout": 60}})
    async with agent_swarm(tmp_path, {"stops_reading": True}, settings=settings) as s:
        await say(s, ["say", "x" * 180_000])
        pool = s.commander.swarm.services.agents
        await s.until(lambda: pool.running == 1)
        await s.settled_in_time(step_s=6)
        assert s.state() is MysisState.ERRORED
        assert await s.value("SELECT broke_off FROM turn") == "timeout"
        assert pool.running == 0


async def test_a_stop_ends_an_agent_that_reads_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_session, "CANCEL_S", 0.2)
    async with agent_swarm(tmp_path, {"stops_reading": True}) as s:
        await say(s, ["say", "x" * 180_000])
        pool = s.commander.swarm.services.agents
        await s.until(lambda: pool.running == 1)
        await s.commander.stop("alpha")
        await s.until(lambda: pool.running == 0)
        assert s.state() is MysisState.STOPPED


async def test_an_agent_that_closes_its_output_and_stays_is_gone(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path) as s:
        await work(s, ["say", "I begin"], ["close_output"])
        assert "it closed its output" in failure(s)
        assert s.commander.swarm.services.agents.running == 0


async def test_a_permission_that_an_agent_does_not_wait_for_is_answered_as_cancelled(tmp_path: Path) -> None:
    run = {"toolCallId": "a", "title": "run", "kind": "execute", "rawInput": {"command": "x"}}
    async with agent_swarm(tmp_path) as s:
        await work(s, ["say", "a"], ["ask_after", run])
        await work(s, ["await_answers"])
        never_ran = "cancelled: stopped before this ran"
        assert [text for _, text in await conversation(s)] == ["a", never_ran, "[cancelled]"]
        assert await s.value("SELECT count(*) FROM approval WHERE answer IS NULL") == 0


BELONGS_TO_NOTHING: list[dict[str, Any]] = [
    {"id": 9_999, "result": {}},
    {"id": "x", "error": {"code": 1}},
    {"id": None, "error": {"code": -32700, "message": "Parse error"}},
    {"id": 1, "result": {"protocolVersion": 9}},
    {
        "method": "session/update",
        "params": {"sessionId": "other", "update": {"sessionUpdate": "plan", "entries": []}},
    },
    {"method": "session/update", "params": {"sessionId": 7, "update": []}},
    {"method": "session/update"},
    {"method": "$/cancel_request", "params": {"requestId": 1}},
    {"id": 77, "method": "session/request_permission", "params": {"sessionId": "other"}},
    {"id": 78, "method": "fs/read_text_file", "params": {"sessionId": "other", "path": "/etc/passwd"}},
]


async def test_messages_that_belong_to_nothing_change_nothing(tmp_path: Path) -> None:
    answered = 0
    async with agent_swarm(tmp_path) as s:
        for number, line in enumerate(BELONGS_TO_NOTHING, 1):
            await work(s, ["raw", json.dumps({"jsonrpc": "2.0", **line})], ["say", "a"])
            assert await conversation(s) == [("assistant", "a")] * number, line
            answers = [one for one in received(tmp_path) if one.get("id") in (77, 78) and "method" not in one]
            answered += "method" in line and "id" in line
            assert ["error" in one for one in answers] == [True] * answered, line


async def test_an_answer_told_twice_counts_once(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path) as s:
        await work(s, ["say", "a"], ["end", "end_turn"], ["end", "refusal"])
        await work(s, ["say", "b"])
        assert await conversation(s) == [("assistant", "a"), ("assistant", "b")]


async def test_an_end_of_another_name_loses_nothing_of_a_turn(tmp_path: Path) -> None:
    results: list[Any] = [
        *({"stopReason": reason} for reason in ("stop", None, 3, "a\0\ud800")), {}, [], "end",
    ]  # fmt: skip
    async with agent_swarm(tmp_path) as s:
        for number, result in enumerate(results, 1):
            name = f"m{number}"
            await work(s, ["say", "a"], ["answer", result], name=name)
            assert await conversation(s) == [("assistant", "a")] * number, result
            assert await last_outcome(s) == "answered", result
            note = await s.value("SELECT content FROM turn_note ORDER BY turn_id DESC LIMIT 1")
            assert "which the protocol does not have" in note, result
            await work(s, ["answer", result], name=name)
            assert "and nothing else" in failure(s, name), result


async def test_a_question_is_no_silence(tmp_path: Path) -> None:
    run = {"toolCallId": "a", "title": "run", "kind": "execute", "rawInput": {"command": "x"}}
    async with agent_swarm(tmp_path, settings=Settings.model_validate({"turn": {"timeout": 60}})) as s:
        await say(s, ["ask", run])
        row = s.commander.swarm.live_view.row(1)
        await s.until(lambda: row.approvals)
        for _ in range(15):
            await s.run_due(60)
        assert row.approvals == 1


@pytest.mark.parametrize("is_detached", [False, True], ids=["in its group", "with a session of its own"])
async def test_children_that_outlive_the_agent_are_ended(tmp_path: Path, is_detached: bool) -> None:
    pid_file = tmp_path / "pid"
    async with agent_swarm(tmp_path) as s:
        await work(s, ["child", str(pid_file), is_detached], ["exit", 1])
        child = int(pid_file.read_text())
        await until(lambda: not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text())


async def test_a_flood_is_stored_whole(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path) as s:
        await work(s, ["flood", 2_000])
        assert (await conversation(s))[0][1] == "".join(f"{number} " for number in range(2_000))


async def test_an_error_for_the_prompt_is_the_failure_of_the_mysis(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path) as s:
        await work(s, ["say", "I begin"], ["error", -32603, "model not found"])
        assert "refused session/prompt: model not found" in failure(s)
        assert await conversation(s) == [("assistant", "I begin")]


@walk_cases(
    "update",
    [
        {"sessionUpdate": "from_the_future", "x": 1},
        {"sessionUpdate": "tool_call_update"},
        {"sessionUpdate": "usage_update", "used": -1, "size": "?"},
        {"sessionUpdate": "usage_update", "used": 10**30, "size": 10**30},
        {"sessionUpdate": "usage_update", "used": -5, "size": -5},
    ],
)
async def test_strange_updates_are_skipped(one_swarm: Swarm, update: dict[str, Any]) -> None:
    assert (await work_anew(one_swarm, ["update", update], ["say", "a"]))[-1][1].endswith("a")
    assert await last_outcome(one_swarm) == "answered"


async def test_an_agent_is_started_with_the_listed_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    async with agent_swarm(tmp_path) as s:
        await work(s, ["env", "OPENAI_API_KEY"], ["env", "HOME"])
        assert (await conversation(s))[-1][1] == f"OPENAI_API_KEY=NoneHOME={os.environ['HOME']}"


@walk_cases(
    "name",
    ["OPENAI_API_KEY", "LC_GITHUB_TOKEN", "XDG_TOKEN", "SSL_CERT_PASSWORD", "HOME_TOKEN", "PATH\n", "HTTPS_PROXY"],
)
def test_no_key_of_a_vendor_reaches_an_agent(name: str) -> None:
    places = {"XDG_CONFIG_HOME": "/x", "LC_ALL": "C.UTF-8", "PATH": "/bin"}
    assert agent_process.base_environment({**places, name: "sk-secret"}) == places


@pytest.mark.parametrize(
    ("update", "told"),
    [
        ({"sessionUpdate": "current_mode_update", "currentModeId": "x\ud800\0"}, "changed its mode to x\ufffd\u2400."),
        (
            {
                "sessionUpdate": "plan",
                "entries": [{"content": "x\ud800\0", "priority": "low", "status": "pending"}],
            },
            "- [pending] x\ufffd\u2400",
        ),
    ],
)
async def test_notes_hold_no_character_that_the_database_refuses(
    tmp_path: Path, update: dict[str, Any], told: str
) -> None:
    async with agent_swarm(tmp_path) as s:
        await work(s, ["update", update], ["say", "fine"])
        assert s.state() is MysisState.IDLE
        assert told in await s.value("SELECT content FROM turn_note")


@walk_cases("tokens", [(10**30, 1), (2**63 - 1, 1), (1, -5), (-5, 1)])
async def test_impossible_counts_of_tokens_are_none(one_swarm: Swarm, tokens: tuple[int, int]) -> None:
    usage = {"totalTokens": 1, "inputTokens": tokens[0], "outputTokens": tokens[1]}
    before = await one_swarm.value("SELECT count(*) FROM request")
    await work(one_swarm, ["say", "fine"], ["end_with", usage])
    assert one_swarm.state() is MysisState.IDLE
    *earlier, row = await one_swarm.rows("SELECT input_tokens, estimated_tokens FROM request ORDER BY id")
    assert len(earlier) == before
    assert row["input_tokens"] in (None, row["estimated_tokens"])


async def test_every_change_of_the_mode_is_noted_once_and_not_without_end(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path) as s:
        modes = ["ask", "ask", "auto", *(f"m{number}" for number in range(150))]
        await work(s, *(["update", {"sessionUpdate": "current_mode_update", "currentModeId": mode}] for mode in modes))
        notes = [row["content"] for row in await s.rows("SELECT content FROM turn_note ORDER BY kind")]
        assert [note.split()[-1] for note in notes[:3]] == ["ask.", "auto.", "m0."]
        assert len(notes) == agent_turn.MOST_MODES


async def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path) as s:
        (tmp_path / "work").rmdir()
        await work(s, ["say", "never"])
        assert f"the folder {tmp_path / 'work'} of python is gone" in failure(s)


async def test_a_large_output_is_cut_when_it_comes_and_a_call_that_is_over_keeps_no_texts() -> None:
    size = updates.MOST_RESULT_CHARS
    told = updates.read_call(
        schema.ToolCallStart(session_update="tool_call", tool_call_id="a", title="t", raw_output={"x": "y" * 2 * size})
    )
    assert len(told.output) < size + 100
    call = TurnCall(updates.MergedCall(told))
    call.close()
    assert call.agent.told == updates.CallTold("a")


async def test_a_call_too_long_to_be_looked_through_is_denied_and_one_that_is_told_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updates, "MOST_ARGUMENT_CHARS", 1_000)
    monkeypatch.setattr(updates, "MOST_RESULT_CHARS", 500)
    long = {"command": "x" * 2_000}
    async with agent_swarm(tmp_path) as s:
        ask = {"toolCallId": "b", "title": "run", "kind": "execute", "rawInput": long}
        await work(s, ["call", "a", "execute", long, "completed"], ["ask", ask])
        texts = [text for _, text in await conversation(s)]
        assert texts[-1] == "[no]"
        assert "nobody can look through a call" in texts[-2]
        first = await s.value("SELECT arguments FROM tool_call ORDER BY id LIMIT 1")
        assert "1,515 characters left out" in first
