"""Sessions outlast processes: a kill of the agent or of Zoea, idle processes that are ended, templates that change."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.agents.agent_harness import PROGRAM, agent_swarm, conversation, last_outcome, received, say, work
from tests.fakes.processes import find_processes
from tests.swarm.harness import script
from tests.waiting import until
from zoea.agents import agent_pool
from zoea.agents.agent_launch import build_launch, known_agents
from zoea.agents.agent_pool import AgentPool
from zoea.agents.agent_session import AgentSession
from zoea.model.enums import MysisState
from zoea.model.errors import AgentError
from zoea.model.ports import GatewayAccess
from zoea.model.request import Answer
from zoea.queries.status_phrases import describe_status
from zoea.runtime.mysis_options import NamedOption, read_options
from zoea.settings.schema import Settings
from zoea.settings.template import AgentSettings, Template
from zoea.swarm.services import most_agents

ACCESS = GatewayAccess("http://127.0.0.1:1/m/1/tok/v1", "http://127.0.0.1:1/m/1/tok", "tok")


def methods(folder: Path) -> list[str]:
    return [one["method"] for one in received(folder) if "method" in one]


@pytest.mark.parametrize("way", ["resume", "load", ""])
async def test_after_a_restart_the_session_goes_on_without_its_replay(tmp_path: Path, way: str) -> None:
    behaviour = {way: True} if way else {}
    async with agent_swarm(tmp_path, behaviour) as s:
        await work(s, ["say", "first answer"])
    async with agent_swarm(tmp_path, behaviour) as s:
        await work(s, ["say", "second answer"])
        assert [text for _, text in await conversation(s)] == ["first answer", "second answer"]
        begun = methods(tmp_path)[3:]
        assert (f"session/{way}" if way else "session/new") in begun
        prompts = [one["params"]["prompt"] for one in received(tmp_path) if one.get("method") == "session/prompt"]
        told = "\n".join(block["text"] for block in prompts[1][:-1])
        assert ("first answer" in told) is (not way)
        notes = await s.rows("SELECT content FROM turn_note")
        assert bool(notes) is (not way)


@pytest.mark.parametrize("way", ["late", "twice", "refused", "elsewhere"])
async def test_a_session_that_goes_on_in_another_way_brings_its_answers_and_nothing_old(
    tmp_path: Path, way: str
) -> None:
    async with agent_swarm(tmp_path, {"load": way}) as s:
        await work(s, ["say", "first answer"])
    async with agent_swarm(tmp_path, {"load": way}) as s:
        for text in ("second answer", "third answer"):
            await work(s, ["say", text])
        assert [text for _, text in await conversation(s)] == ["first answer", "second answer", "third answer"]


async def test_a_kill_of_zoea_in_the_middle_of_a_turn_leaves_its_calls_unknown(tmp_path: Path) -> None:
    run = {"toolCallId": "b", "title": "run", "kind": "execute", "rawInput": {"command": "x"}}
    async with agent_swarm(tmp_path, {"resume": True}) as s:
        await say(
            s,
            ["say", "I begin"],
            ["call", "a", "execute", {"command": "make"}, "in_progress"],
            ["ask_open", run],
            ["hang"],
        )
        await s.until(lambda: s.commander.swarm.live_view.row(1).approvals)
    async with agent_swarm(tmp_path, {"resume": True}) as s:
        await s.start("alpha")
        states = await s.rows("SELECT name, state FROM tool_call ORDER BY id")
        assert [row["state"] for row in states] == ["unknown", "cancelled"]
        assert await s.commander.approvals() == ()
        assert await s.value("SELECT count(*) FROM turn") == 1
        assert await last_outcome(s) == "answered"


async def test_a_turn_whose_prompt_never_reached_the_agent_is_prompted_whole(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, {"fails_once": str(tmp_path / "mark")}) as s:
        await work(s, ["say", "at last"])
        assert s.state() is MysisState.ERRORED
        await s.start("alpha")
        assert await conversation(s) == [("assistant", "at last")]
        assert await s.value("SELECT count(*) FROM turn") == 1


async def test_idle_agents_are_ended_for_others_and_go_on_later(tmp_path: Path) -> None:
    settings = Settings.model_validate({"acp": {"max_processes": 1}})
    async with agent_swarm(tmp_path, {"resume": True}, settings=settings) as s:
        for name in ("alpha", "beta", "alpha"):
            await say(s, ["say", name], name=name)
            await s.settled(name)
            assert s.commander.swarm.services.agents.running == 1
        assert methods(tmp_path).count("initialize") == 3
        assert methods(tmp_path).count("session/resume") == 1
        assert [text for _, text in await conversation(s)].count("alpha") == 2


async def test_a_prompt_for_an_agent_whose_process_is_being_ended_begins_another_one(tmp_path: Path) -> None:
    settings = Settings.model_validate({"acp": {"max_processes": 1}})
    behaviour = {"close": True, "keeps_session": True, "resume": True}
    async with agent_swarm(tmp_path, behaviour, settings=settings) as s:
        await work(s, ["say", "one"])
        await say(s, ["say", "other"], name="beta")
        await until(lambda: "session/close" in methods(tmp_path))
        await say(s, ["await_file", str(tmp_path / "go")], ["say", "two"])
        await s.until(lambda: methods(tmp_path).count("initialize") == 2)
        (tmp_path / "go").touch()
        await s.settled()
        await s.settled("beta")
        assert {text for _, text in await conversation(s)} == {"one", "two", "other"}


async def test_a_mysis_that_waits_for_a_place_says_so_and_the_first_goes_first(tmp_path: Path) -> None:
    settings = Settings.model_validate({"acp": {"max_processes": 1}})
    async with agent_swarm(tmp_path, {}, settings=settings) as s:
        await say(s, ["say", "alpha"], ["await_file", str(tmp_path / "go")])
        row = s.commander.swarm.live_view.row
        await s.until(lambda: row(1).streaming)
        await say(s, ["say", "beta"], name="beta")
        await s.until(lambda: row(2).queue_place == 1)
        await say(s, ["say", "gamma"], name="gamma")
        await s.until(lambda: row(3).queue_place == 2)
        view = await s.commander.mysis("gamma")
        assert describe_status(view, 0) == (
            "queued (2nd for an agent's process: acp.max_processes and the memory let 1 run at once)"
        )
        await s.commander.stop("beta")
        await s.until(lambda: row(3).queue_place == 1)
        (tmp_path / "go").touch()
        await s.settled("gamma")
        assert [text for _, text in await conversation(s)] == ["alpha", "gamma"]
        assert s.commander.swarm.live_view.row(2).queue_place == 0


async def test_no_more_agents_start_at_once_than_there_are_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, counts, starting = AgentSession.open, list[int](), 0

    async def start_and_count(*given: Any, **named: Any) -> Any:
        nonlocal starting
        starting += 1
        counts.append(starting)
        try:
            return await start(*given, **named)
        finally:
            starting -= 1

    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # two are the least
    monkeypatch.setattr(AgentSession, "open", start_and_count)
    names = ("alpha", "beta", "gamma", "delta")
    async with agent_swarm(tmp_path) as s:
        for name in names:
            await say(s, ["say", name], name=name)
        for name in names:
            await s.settled(name)
        assert (len(counts), max(counts)) == (4, 2)
        assert sorted(text for _, text in await conversation(s)) == sorted(names)


async def test_agents_that_hang_at_their_start_hold_up_the_next_ones_for_a_short_time_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setattr(agent_pool, "START_S", 0.01)
    pool = AgentPool(lambda: 9)
    async with AsyncExitStack() as hanging:
        for _ in range(5):
            await hanging.enter_async_context(pool.starting())
    monkeypatch.setattr(agent_pool, "START_S", 60.0)
    async with pool.starting(), pool.starting():
        with pytest.raises(TimeoutError):  # as many as before: no place was given back twice
            async with asyncio.timeout(0.01), pool.starting():
                pass


async def test_a_place_whose_process_could_not_be_ended_is_still_taken() -> None:
    class Failing(_Holder):
        async def release(self) -> None:
            raise OSError("it cannot be ended")

    pool, stuck = AgentPool(lambda: 1), Failing()
    await pool.take(stuck)
    with pytest.raises(OSError, match="cannot be ended"):
        await pool.take(_Holder())
    assert pool.running == 1


async def test_a_process_that_was_killed_between_turns_is_replaced(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, {"resume": True}) as s:
        await work(s, ["say", "one"])
        [pid] = find_processes((str(tmp_path / "agent.log"),))
        os.kill(pid, signal.SIGKILL)
        await work(s, ["say", "two"])
        assert [text for _, text in await conversation(s)] == ["one", "two"]
        assert s.state() is MysisState.IDLE


class _Holder:
    def __init__(self) -> None:
        self.is_idle = True
        self.released = 0
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def release(self) -> None:
        self.released += 1
        await self.may_end.wait()


async def test_the_pool_ends_the_longest_idle_first_and_never_a_busy_one() -> None:
    pool, (a, b, c) = AgentPool(lambda: 2), (_Holder(), _Holder(), _Holder())
    await pool.take(a)
    await pool.take(b)
    b.is_idle = False
    pool.touch(a)
    await pool.take(c)
    assert (a.released, b.released, pool.running) == (1, 0, 2)


@pytest.mark.parametrize(("gib", "most"), [(0.5, 1), (1.25, 1), (4, 3), (16, 12), (64, 20)])
def test_no_more_agents_run_than_fit_into_half_of_the_memory(
    monkeypatch: pytest.MonkeyPatch, gib: float, most: int
) -> None:
    sizes = {"SC_PAGE_SIZE": 4_096, "SC_PHYS_PAGES": int(gib * 2**30 / 4_096)}
    monkeypatch.setattr(os, "sysconf", sizes.get)
    assert most_agents(20) == most


async def test_a_place_that_is_being_made_free_is_given_once() -> None:
    pool, first, (a, b) = AgentPool(lambda: 1), _Holder(), (_Holder(), _Holder())
    first.may_end.clear()
    await pool.take(first)
    a.is_idle = b.is_idle = False
    takes = [asyncio.create_task(pool.take(one)) for one in (a, b)]
    await until(lambda: first.released)
    first.may_end.set()
    await takes[0]
    assert (pool.running, takes[1].done()) == (1, False)
    pool.leave(a)
    await takes[1]


async def test_a_template_that_is_changed_starts_the_agent_again(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, {"modes": ["auto", "ask"]}) as s:
        await work(s, ["say", "a"])
        runner = s.commander.swarm.runner("alpha")
        changed = runner.known.template.model_copy(
            update={"acp": runner.known.template.acp.model_copy(update={"mode": "ask"})}
        )
        runner.configure(runner.mysis, changed.text, type(runner.known)(changed, runner.known.settings))
        await work(s, ["say", "b"])
        assert methods(tmp_path).count("initialize") == 2
        assert "session/set_mode" in methods(tmp_path)


@pytest.mark.parametrize("name", sorted(known_agents()))
def test_data_files_make_a_launch_with_and_without_the_gateway(tmp_path: Path, name: str) -> None:
    agent = known_agents()[name]
    settings = AgentSettings(agent=agent.name)
    plain = build_launch(settings, tmp_path, None)
    assert plain.command == (agent.command, *agent.args)
    assert not plain.uses_gateway
    launch = build_launch(settings, tmp_path, ACCESS, 'a"model\\')
    assert launch.uses_gateway is (agent.gateway is not None)
    for text in (*launch.env.values(), *launch.command):
        if text.startswith("{"):
            json.loads(text)
        assert "{token}" not in text
        assert "{home}" not in text
    if agent.gateway is not None:
        told = json.dumps([launch.env, launch.command, launch.provider and launch.provider.base_url])
        assert "http://127.0.0.1:1/m/1/tok" in told


def test_fast_agent_keeps_its_sessions_and_log_out_of_the_worktree(tmp_path: Path) -> None:
    launch = build_launch(AgentSettings(agent="fast-agent"), tmp_path, None, environ={"HOME": "/home/me"})
    assert launch.env == {"FAST_AGENT_HOME": "/home/me/.fast-agent"}


def test_the_environment_of_a_template_may_name_variables(tmp_path: Path) -> None:
    settings = AgentSettings(command="x", env={"KEY": "env:MINE", "PLAIN": "1"})
    assert build_launch(settings, tmp_path, None, environ={"MINE": "secret"}).env == {"KEY": "secret", "PLAIN": "1"}
    with pytest.raises(AgentError, match="MINE is not set"):
        build_launch(settings, tmp_path, None, environ={})


@pytest.mark.parametrize("acp", [{}, {"agent": "nobody"}])
def test_a_template_has_to_name_an_agent_or_a_command(tmp_path: Path, acp: dict[str, Any]) -> None:
    with pytest.raises(AgentError):
        build_launch(AgentSettings(**acp), tmp_path, None)


def test_a_template_without_an_agent_keeps_its_hash() -> None:
    assert '"acp"' not in Template(name="x").text
    assert '"runtime"' not in Template(name="x").text


async def test_a_conversation_goes_from_an_agent_to_zoea_and_back(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, rules=script(Answer(text="I know of iron."))) as s:
        await say(
            s, ["call", "a", "read", {"path": "x"}, "in_progress"], ["told", "a", "completed", "iron"], ["say", "ok"]
        )
        await s.settled()
        (tmp_path / "templates" / "own.toml").write_text('run = "once"\nprompt = "own"\n')
        await s.commander.create("beta", commit="@alpha", template="own", start=False)
        await s.ask("beta", "what do you know?")
        assert ("tool", "iron") in s.sent()[0]
        await s.commander.create("gamma", commit="@beta", template="outer", start=False)
        await s.ask("gamma", "and you?")
        prompts = [one["params"]["prompt"] for one in received(tmp_path) if one.get("method") == "session/prompt"]
        told = "\n".join(block["text"] for block in prompts[-1])
        assert "I know of iron." in told
        assert "and you?" in told


async def test_a_mysis_may_change_from_an_agent_to_zoea_and_back(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, {"resume": True}, rules=script(Answer(text="from a model"))) as s:
        (tmp_path / "templates" / "own.toml").write_text('run = "once"\n')
        await work(s, ["say", "from the agent"])
        await s.commander.configure("alpha", template="own")
        await s.ask("alpha", "hello")
        assert s.commander.swarm.services.agents.running == 0
        await s.commander.configure("alpha", template="outer")
        await work(s, ["say", "from the agent again"])
        texts = [text for _, text in await conversation(s)]
        assert texts == ["from the agent", "from a model", "from the agent again"]


async def test_an_agent_may_be_named_in_place_of_a_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "qwen"
    program.parent.mkdir()
    behaviour = json.dumps({"modes": ["default"]})
    program.write_text(f"#!/bin/sh\nexec {shlex.join([sys.executable, *PROGRAM, behaviour])}\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    offered = read_options(None, tmp_path / "none.db", 0).providers
    assert NamedOption("agent:qwen", "Qwen Code (your own agent)") in offered
    async with agent_swarm(tmp_path) as s:
        (tmp_path / "templates" / "own.toml").write_text('run = "once"\n')
        await s.commander.create("alpha", template="own", provider="agent:qwen", start=False)
        await work(s, ["say", "by qwen"])
        assert await conversation(s) == [("assistant", "by qwen")]
        with pytest.raises(AgentError, match="there is no agent 'nobody'"):
            await s.commander.create("beta", provider="agent:nobody")
