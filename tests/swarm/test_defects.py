"""Defects of Zoea Nova that must not come back: one test each.

Over the whole swarm, with its real store, toolbox and driver. What planning alone
decides has further tests in tests/context/test_turns.py, class TestDefects; the
wire forms in tests/llm; lost sessions in tests/tools/test_upstream_faults.py.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.fakes.toolboxes import Faulty
from tests.swarm.harness import Peer, call, script, swarm
from tests.swarm.invariants import is_whole
from zoea.llm.provider_config import ProviderConfig
from zoea.llm.registry import make
from zoea.model.enums import Activity, ErrorClass, MysisState, Role
from zoea.model.errors import ProviderError, SettingsError, StateRefused
from zoea.model.request import Answer, AnswerCall, ModelRequest
from zoea.settings.endpoints import LoginSettings
from zoea.settings.schema import Settings
from zoea.store.store import Store


def counted(total: int, tool: str = "act", text: str = "n{}") -> list[Answer]:
    """Answers that each call a tool with another argument, then one that ends the turn."""
    return [*(Answer(calls=(call(tool, text.format(number)),)) for number in range(total)), Answer(text="done")]


async def test_the_first_call_of_a_mysis_that_just_started_has_its_tools(tmp_path: Path) -> None:
    peer = Peer(opens_once=asyncio.Event())
    async with swarm(tmp_path, script(Answer(text="ok")), peer=peer) as s:
        await s.tell("alpha", "go")
        await s.until(lambda: s.commander.swarm.runner("alpha").has_turn)
        await s.run_due()
        assert s.provider.calls == 0
        assert peer.opens_once is not None
        peer.opens_once.set()
        await s.settled()
        assert {"look", "act"} <= {tool.name for tool in s.provider.requests[0].tools}


async def test_the_order_is_not_pushed_out_of_the_window_in_the_middle_of_its_turn(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*counted(16))) as s:
        await s.ask("alpha", "mine iron until I say stop")
        assert await s.value("SELECT count(*) FROM memory") == 34
        assert all(sent[0] == ("user", "mine iron until I say stop") for sent in s.sent())
        assert len(s.sent()[-1]) == 33


async def test_the_system_prompt_is_there_once_in_every_request_of_a_tool_loop(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*counted(6))) as s:
        await s.ask("alpha", "go")
        for request in s.provider.requests:
            assert [m.role for m in request.messages].count(Role.SYSTEM) == 1
            assert request.messages[0].role is Role.SYSTEM


async def test_compaction_leaves_no_orphan_results(tmp_path: Path) -> None:
    settings = Settings.model_validate({"budget": {"token_budget_per_agent": 4000}})
    async with swarm(tmp_path, script(*counted(12, text="n{}" + "x" * 2500)), settings=settings) as s:
        await s.ask("alpha", "go")
        assert s.provider.calls == 13
        for request in s.provider.requests:
            is_whole(request.messages)
        assert any("(earlier in this turn:" in text for _, text in s.sent()[-1])


async def test_bars_and_colons_in_arguments_stay_as_they_were(tmp_path: Path) -> None:
    odd = 'a|b:c|{"d": 1}|[TOOL_CALLS]7:x'
    async with swarm(tmp_path, script(Answer(calls=(call("act", odd),)), Answer(text="done"))) as s:
        await s.ask("alpha", "go")
        assert s.peer.seen == [("act", odd)]
        assert s.provider.requests[-1].messages[-2].calls[0].arguments == call("act", odd).arguments


async def test_a_stale_broadcast_is_not_in_the_prompt(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="ok"))) as s:
        await s.commander.create("alpha", start=False)
        await s.commander.broadcast("everybody to the north belt")
        await s.settled()
        await s.ask("alpha", "go south")
        assert "north belt" not in str(s.sent()[-1])


async def test_a_map_of_42_kb_does_not_become_a_prompt_of_106_kb(tmp_path: Path) -> None:
    settings = Settings.model_validate({"context": {"snapshot_tools": ["say_ticks"]}})
    galaxy = "[" + ", ".join(f'{{"system": "s{number}", "x": {number}}}' for number in range(1200)) + "]"
    assert len(galaxy) > 36_000
    look = Answer(calls=(call("say_ticks", ""),))
    async with swarm(tmp_path, script(look, look, Answer(text="seen")), settings=settings) as s:
        s.peer.pad = galaxy
        await s.ask("alpha", "look")
        sizes = [sum(len(text) for _, text in sent) for sent in s.sent()]
        assert max(sizes) < 60_000
        assert await s.value("SELECT max(length(content)) FROM memory WHERE role = 'tool'") == len(galaxy)


async def test_a_message_sent_in_the_middle_of_a_turn_is_answered_once(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="one"), Answer(text="two"), Answer(text="three"))) as s:
        block = await s.begin_call("alpha", "first")
        await s.commander.send("alpha", "second")
        block.release()
        await s.settled()
        assert s.provider.calls == 2
        assert await s.value("SELECT count(*) FROM memory WHERE content = 'second'") == 1


async def test_a_direct_message_to_a_stopped_mysis_is_rejected_to_any_sender(tmp_path: Path) -> None:
    tell = Answer(calls=(AnswerCall("zoea_send_message", '{"to": "beta", "text": "hi"}'),))
    async with swarm(tmp_path, script(tell, Answer(text="a pity"))) as s:
        await s.create("alpha", "beta")
        await s.commander.stop("beta")
        with pytest.raises(StateRefused, match="mysis stopped - press 'r' to relaunch"):
            await s.commander.send("beta", "hello")
        await s.ask("alpha", "greet beta")
        assert "mysis stopped - press 'r' to relaunch" in s.sent()[-1][-1][1]
        assert await s.value("SELECT count(*) FROM message") == 1


async def test_text_beside_tool_calls_is_kept(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="first I look", calls=(call("look"),)), Answer(text="done"))) as s:
        await s.ask("alpha", "go")
        assert s.sent()[-1][1] == ("assistant", "first I look")
        assert await s.value("SELECT content FROM memory WHERE role = 'assistant' ORDER BY id") == "first I look"


@pytest.mark.parametrize(
    "told", ['{"arrival_tick": 109, "current_tick": 100}', '{"cooldown_ticks": 9, "current_tick": 100}']
)
async def test_travel_and_cooldown_are_waited_for_without_a_call(tmp_path: Path, told: str) -> None:
    replies = script(Answer(calls=(call("say_ticks", told),)), Answer(text="I wait"), Answer(text="there"))
    async with swarm(tmp_path, replies) as s:
        await s.ask("alpha", "go")
        for _ in range(89):
            s.clock.by(1)
            await asyncio.sleep(0)
        assert s.provider.calls == 2
        s.clock.by(1)
        await s.until(lambda: s.provider.calls == 3)


async def test_a_lost_session_does_not_leave_a_mysis_without_tools(tmp_path: Path) -> None:
    replies = script(
        Answer(calls=(AnswerCall("die_writing", "{}"),)),
        Answer(text="it died"),
        Answer(calls=(AnswerCall("pid", "{}"),)),
        Answer(text="it lives"),
    )
    faulty = Faulty(tmp_path)
    async with swarm(tmp_path, replies, upstreams=[faulty.config()]) as s:
        await s.ask("alpha", "go")
        assert s.state() is MysisState.RUNNING
        await s.until(lambda: len(faulty.seen("start")) == 2)
        await s.ask("alpha", "again")
        assert "pid" in {tool.name for tool in s.provider.requests[-1].tools}
        assert await s.rows("SELECT name, state FROM tool_call ORDER BY id") == [
            {"name": "die_writing", "state": "unknown"},
            {"name": "pid", "state": "done"},
        ]


@pytest.mark.parametrize("ending", ["answer", "failure", "stop", "tool error"])
async def test_what_shows_a_call_in_flight_goes_out_however_the_call_ends(tmp_path: Path, ending: str) -> None:
    replies: dict[str, tuple[Answer | ProviderError, ...]] = {
        "answer": (Answer(text="ok"),),
        "failure": (ProviderError("refused", kind=ErrorClass.AUTH),),
        "stop": (Answer(text="never"),),
        "tool error": (Answer(calls=(call("fly"),)), Answer(text="ok")),
    }
    async with swarm(tmp_path, script(*replies[ending])) as s:
        block = s.provider.block(after=0)
        await s.tell("alpha", "go")
        await block.reached.wait()
        assert (await s.commander.mysis("alpha")).activity is Activity.LLM
        if ending == "stop":
            await s.commander.stop("alpha")
        block.release()
        await s.settled()
        view = await s.commander.mysis("alpha")
        assert (view.activity, view.streaming, s.provider.in_flight) == (Activity.IDLE, "", 0)


async def test_persisted_state_is_used_at_the_start(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="ok"))) as s:
        for name in ("works", "stopped"):
            await s.commander.create(name)
        await s.commander.stop("stopped")
    async with swarm(tmp_path, script(Answer(text="ok"))) as s:
        assert [s.state(name) for name in ("works", "stopped")] == [MysisState.IDLE, MysisState.STOPPED]
        await s.run_due(3600)
        assert s.provider.calls == 0
        assert await s.commander.start_all() == 1
        assert [s.state(name) for name in ("works", "stopped")] == [MysisState.RUNNING, MysisState.STOPPED]


async def test_a_mysis_without_its_provider_stays_in_the_list(tmp_path: Path) -> None:
    async with swarm(tmp_path) as s:
        await s.commander.create("alpha", start=False)
        await s.store.write(lambda conn: conn.execute("UPDATE mysis SET provider = 'missing'").rowcount)
    async with swarm(tmp_path) as s:
        assert [view.name for view in (await s.commander.view()).myses] == ["alpha"]
        await s.commander.send("alpha", "hello")
        await s.until(lambda: s.state() is MysisState.ERRORED)
        view = (await s.commander.view()).myses[0]
        assert view.failure is not None
        assert view.failure.title


class Accounts:
    """Keeps accounts where no database, prompt or log is."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, str]] = {}

    async def load(self, upstream: str, uid: str, name: str) -> Mapping[str, str] | None:
        return self.kept.get(uid)

    async def save(self, upstream: str, uid: str, fields: Mapping[str, str]) -> None:
        self.kept[uid] = dict(fields)


async def test_no_password_is_in_a_prompt_a_log_or_the_database(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    replies = script(
        Answer(calls=(AnswerCall("balance", "{}"), AnswerCall("spill", "{}"))), Answer(text="I have seven credits")
    )
    upstream = Faulty(tmp_path).config(inject={"session_id": "account"}, login=LoginSettings())
    accounts = Accounts()
    async with swarm(tmp_path, replies, upstreams=[upstream], accounts=accounts) as s:
        await s.ask("alpha", "what have you got?")
        assert "canary-password" in next(iter(accounts.kept.values()))["password"]
        assert "credits" in str(s.sent()[-1])
        prompts = str(list(s.provider.requests))
        dump = str([dict(row) for table in ("memory", "tool_call", "event") for row in await all_of(s.store, table)])
        await s.commander.delete("alpha")
        assert vars(s.commander.swarm.services.tools)["_accounts"][upstream.name]._accounts == {}
    for place in (prompts, dump, caplog.text, whole_database(tmp_path)):
        assert "canary" not in place


async def all_of(store: Store, table: str) -> list[sqlite3.Row]:
    return list(await store.read(f"SELECT * FROM {table}"))


def whole_database(folder: Path) -> str:
    """Every byte of it, with its log, as text."""
    return b"".join(file.read_bytes() for file in folder.glob("zoea.db*")).decode("utf-8", "replace")


def test_the_type_of_a_provider_is_never_guessed_from_its_address() -> None:
    clock = Peerless()
    for kind, address in (
        ("openai", "http://127.0.0.1:1/ollama/anthropic.com/v1"),
        ("ollama", "http://127.0.0.1:1/openai.com/"),
        ("anthropic", "http://127.0.0.1:1/ollama"),
    ):
        assert make("one", ProviderConfig(type=kind, base_url=address), clock=clock).kind == kind
    with pytest.raises(SettingsError, match="has the type 'scripted'"):
        make("one", ProviderConfig(type="scripted", base_url="https://api.openai.com/v1"), clock=clock)


class Peerless:
    """A clock that is never read."""

    def now(self) -> int:
        return 0

    def uptime(self) -> int:
        return 0

    @property
    def ahead(self) -> int:
        return self.now() - self.uptime()

    def follow(self) -> int:
        return 0

    def call_after(self, delay: int, callback: object) -> asyncio.TimerHandle:
        raise AssertionError("nothing is waited for")

    async def sleep(self, delay: int) -> None:
        raise AssertionError("nothing is waited for")


async def test_a_tool_call_of_30_s_is_a_result_and_no_error(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("act"),)), Answer(text="done"))) as s:
        s.peer.gates["act"] = gate = asyncio.Event()
        await s.tell("alpha", "go")
        await s.until(lambda: s.peer.running)
        await s.run_due(45)
        gate.set()
        await s.settled()
        assert s.state() is MysisState.RUNNING
        assert s.sent()[-1][-1] == ("tool", "act did x")


async def test_a_tool_that_gives_no_answer_is_an_error_result_and_the_mysis_goes_on(tmp_path: Path) -> None:
    settings = Settings.model_validate({"tool": {"timeout": 0.05}})
    async with swarm(tmp_path, script(Answer(calls=(call("act"),)), Answer(text="then not")), settings=settings) as s:
        s.peer.gates["act"] = asyncio.Event()
        await s.ask("alpha", "go")
        assert s.state() is MysisState.RUNNING
        assert await s.value("SELECT state FROM tool_call") in ("error", "unknown")


async def test_a_single_500_makes_no_mysis_errored(tmp_path: Path) -> None:
    failures = [ProviderError("500", kind=ErrorClass.TRANSIENT, status=500, retry_after=0)]

    def once(_: ModelRequest) -> Answer | ProviderError:
        return failures.pop() if failures else Answer(text="ok")

    async with swarm(tmp_path, once) as s:
        await s.ask("alpha", "go")
        assert s.state() is MysisState.RUNNING
        assert await s.value("SELECT outcome FROM turn") == "answered"
        assert await s.value("SELECT count(*) FROM event WHERE data LIKE '%errored%'") == 0
