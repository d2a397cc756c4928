"""The runner of one mysis where things fail before, around and inside a turn."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.case_tables import walk_cases
from tests.fakes.toolboxes import Faulty
from tests.swarm.harness import Swarm, call, script, swarm
from zoea.llm.providers.scripted import ScriptedProvider
from zoea.model.enums import DeliveryMode, ErrorClass, MysisState
from zoea.model.errors import ProviderError, StoreError, ToolError
from zoea.model.request import Answer, ModelInfo, ModelRequest
from zoea.model.values import COMMANDER
from zoea.settings.schema import Settings
from zoea.swarm.life import SetState
from zoea.swarm.persistence import memory_ops, message_ops, mysis_ops
from zoea.swarm.resolved_template import output_limit
from zoea.swarm.runner import MysisRunner
from zoea.swarm.turn.model_turns import ModelTurns
from zoea.swarm.turn.turn_runner import TurnClosing
from zoea.tools.toolbox import ToolboxSession


class Moody(ScriptedProvider):
    """A provider whose `info` fails or waits as a test says. Nothing can be opened before it answers."""

    trouble: Exception | None = None
    gate: asyncio.Event | None = None
    asked = 0

    async def info(self, model: str) -> ModelInfo:
        self.asked += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.trouble is not None:
            raise self.trouble
        return await super().info(model)


async def errored(s: Swarm) -> str:
    """The title of the error that alpha ended with; its message waits on."""
    await s.until(lambda: s.state() is MysisState.ERRORED)
    view = await s.commander.mysis("alpha")
    assert view.failure is not None
    return view.failure.title


async def relaunched(s: Swarm) -> None:
    await s.start("alpha")
    assert await s.rows("SELECT outcome FROM turn") == [{"outcome": "answered"}]
    assert s.sent()[-1] == [("user", "go")]


@pytest.mark.parametrize(
    ("trouble", "title"),
    [
        (RuntimeError("a bug"), "Zoea failed"),
        (ToolError("something of Zoea's own"), "A tool failed"),
        (ProviderError("no such model", kind=ErrorClass.MODEL_MISSING), "The model's provider failed"),
    ],
)
async def test_what_fails_before_a_turn_is_there_makes_it_errored_and_the_prompt_waits(
    tmp_path: Path, trouble: Exception, title: str
) -> None:
    provider = Moody(script(Answer(text="ok")))
    async with swarm(tmp_path, provider=provider) as s:
        provider.trouble = trouble
        await s.tell("alpha", "go")
        assert await errored(s) == title
        assert await s.value("SELECT state FROM delivery") == "pending"
        provider.trouble = None
        await relaunched(s)


async def test_a_message_is_shown_as_waiting_until_its_turn_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = Moody(script(Answer(text="ok")))
    async with swarm(tmp_path, provider=provider) as s:
        provider.gate = asyncio.Event()
        await s.commander.create("alpha", start=False)
        stored, set_state, is_storing = asyncio.Event(), MysisRunner._set_state, asyncio.Event()

        async def slow(runner: MysisRunner, effect: SetState) -> None:
            is_storing.set()
            await stored.wait()
            await set_state(runner, effect)

        monkeypatch.setattr(MysisRunner, "_set_state", slow)
        await s.commander.send("alpha", "go")
        await is_storing.wait()
        assert (await s.commander.mysis("alpha")).pending == 1
        stored.set()
        await s.until(lambda: provider.asked)
        view = await s.commander.mysis("alpha")
        assert (view.pending, view.in_turn) == (0, True)
        provider.gate.set()
        await s.settled()
        assert (await s.commander.mysis("alpha")).pending == 0


async def test_a_stop_before_the_turn_is_there_leaves_its_prompts_pending(tmp_path: Path) -> None:
    provider = Moody(script(Answer(text="ok")))
    async with swarm(tmp_path, provider=provider) as s:
        provider.gate = asyncio.Event()
        await s.tell("alpha", "go")
        await s.until(lambda: provider.asked)
        assert (await s.commander.stop("alpha")).state is MysisState.STOPPED
        assert await s.value("SELECT count(*) FROM turn") == 0
        provider.gate.set()
        await relaunched(s)


async def test_an_interrupt_before_the_turn_is_there_opens_one_turn_with_both(tmp_path: Path) -> None:
    provider = Moody(script(Answer(text="ok")))
    async with swarm(tmp_path, provider=provider) as s:
        provider.gate = asyncio.Event()
        await s.tell("alpha", "go")
        await s.until(lambda: provider.asked)
        await s.commander.send("alpha", "no, this", mode=DeliveryMode.INTERRUPT)
        await s.until(lambda: provider.asked == 2)
        provider.gate.set()
        await s.settled()
        assert s.sent() == [[("user", "go"), ("user", "no, this")]]


async def test_a_steer_that_comes_in_the_moment_a_turn_opens_joins_its_first_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = Moody(script(Answer(text="ok")))
    async with swarm(tmp_path, provider=provider) as s:
        provider.gate = asyncio.Event()
        await s.tell("alpha", "go")
        await s.until(lambda: provider.asked)
        saying = message_ops.OutgoingMessage("hurry", COMMANDER, DeliveryMode.STEER)
        [delivery] = (await s.store.write(lambda c: message_ops.send(c, 1, saying, 3, 0))).deliveries
        runner, drive = s.commander.swarm.runner("alpha"), ModelTurns._drive

        async def late(turns: ModelTurns, *opened: Any) -> TurnClosing:
            # The turn is stored, its driver not there yet, and nothing hears of the message before that is.
            runner.arrived(delivery)
            runner.steer(delivery)
            return await drive(turns, *opened)

        monkeypatch.setattr(ModelTurns, "_drive", late)
        provider.gate.set()
        await s.settled()
        assert s.sent() == [[("user", "go"), ("user", "hurry")]]
        assert runner.life.pending == ()
        assert await s.rows("SELECT state, turn_id FROM delivery") == [{"state": "taken", "turn_id": 1}] * 2


async def test_an_interrupt_while_a_turn_is_being_resumed_ends_it_and_opens_the_next(tmp_path: Path) -> None:
    answers = script(ProviderError("refused", kind=ErrorClass.AUTH), Answer(text="ok"))
    provider = Moody(answers)
    async with swarm(tmp_path, provider=provider) as s:
        await s.tell("alpha", "go")
        await errored(s)
        provider.gate = asyncio.Event()
        asked = provider.asked
        await s.commander.start("alpha")
        await s.until(lambda: provider.asked > asked)
        await s.commander.send("alpha", "no, this", mode=DeliveryMode.INTERRUPT)
        provider.gate.set()
        await s.settled()
        assert [row["outcome"] for row in await s.rows("SELECT outcome FROM turn")] == ["interrupted", "answered"]
        assert s.sent()[-1][-1] == ("user", "no, this")


async def test_a_prompt_that_is_withdrawn_before_the_turn_is_there_opens_none(tmp_path: Path) -> None:
    provider = Moody(script(Answer(text="ok")))
    async with swarm(tmp_path, provider=provider) as s:
        provider.gate = asyncio.Event()
        receipt = await s.tell("alpha", "go")
        await s.until(lambda: provider.asked)
        assert receipt.lines[0].delivery_id is not None
        await s.commander.withdraw(receipt.lines[0].delivery_id)
        provider.gate.set()
        await s.settled()
        assert await s.value("SELECT count(*) FROM turn") == 0
        assert s.state() is MysisState.RUNNING
        assert provider.calls == 0


async def test_a_required_upstream_that_stays_lost_makes_it_errored_for_a_while(tmp_path: Path) -> None:
    upstream = Faulty(tmp_path).config(mode="deny", required=True, retries=0)
    async with swarm(tmp_path, script(Answer(text="ok")), upstreams=[upstream]) as s:
        await s.tell("alpha", "go")
        await s.until(lambda: s.state() is MysisState.ERRORED)
        view = await s.commander.mysis("alpha")
        assert view.retry_at is not None
        assert await s.value("SELECT state FROM delivery") == "pending"


async def test_a_bug_inside_a_turn_leaves_it_open_and_nothing_reserved(tmp_path: Path) -> None:
    bugs = [RuntimeError("a bug")]

    def once(_: ModelRequest) -> Answer:
        if bugs:
            raise bugs.pop()
        return Answer(text="ok")

    async with swarm(tmp_path, once) as s:
        receipt = await s.tell("alpha", "go")
        assert await errored(s) == "Zoea failed"
        assert [row["state"] for row in await s.rows("SELECT state FROM request")] != ["reserved"]
        assert await s.value("SELECT sum(reserved_tokens) FROM spend") == 0
        assert (await s.commander.receipt(receipt.message_id)).lines[0].status == "taken"
        await s.start("alpha")
        assert await s.rows("SELECT outcome, attempt FROM turn") == [{"outcome": "answered", "attempt": 2}]


async def test_a_bug_in_carrying_out_what_its_life_wants_makes_it_errored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with swarm(tmp_path, script(Answer(text="ok"))) as s:
        await s.commander.create("alpha", start=False)

        def broken(delay: int, callback: object) -> None:
            raise RuntimeError("a clock that fails")

        with monkeypatch.context() as patched:
            patched.setattr(s.clock, "call_after", broken)
            view = await s.commander.start("alpha")
        assert view.state is MysisState.ERRORED
        assert view.failure is not None
        assert view.failure.title == "Zoea failed"
        assert await s.value("SELECT state FROM mysis") == "errored"
        await s.commander.start("alpha")
        assert s.state() is MysisState.RUNNING


async def test_an_error_that_cannot_be_stored_either_is_shown_and_stays_with_its_mysis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with swarm(tmp_path, script(Answer(text="ok"))) as s:
        await s.create("alpha", "beta")

        def refuse(*_: object) -> None:
            raise StoreError("the table is odd")

        with monkeypatch.context() as patched:
            patched.setattr(mysis_ops, "set_state", refuse)
            view = await s.commander.start("alpha")
        assert view.state is MysisState.ERRORED
        assert view.failure is not None
        assert view.failure.what == "the table is odd"
        assert await s.value("SELECT state FROM mysis WHERE name = 'alpha'") == "idle"
        await s.ask("beta", "go")
        await s.commander.start("alpha")
        assert s.state() is MysisState.RUNNING


async def test_an_error_of_the_toolbox_itself_is_an_error_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with swarm(tmp_path, script(Answer(text="hello"), Answer(calls=(call("act"),)), Answer(text="ok"))) as s:
        await s.ask("alpha", "go")

        async def refuse(*_: object, **__: object) -> None:
            raise ToolError("its shelf is empty")

        monkeypatch.setattr(ToolboxSession, "call", refuse)
        await s.ask("alpha", "act")
        assert s.sent()[-1][-1] == ("tool", "A tool failed: its shelf is empty")
        assert await s.value("SELECT state FROM tool_call") == "error"


async def test_a_very_long_turn_is_planned_beside_the_loop(tmp_path: Path) -> None:
    settings = Settings.model_validate(
        {"budget": {"token_budget_per_agent": 200_000}, "tool": {"max_result_chars": 10**6}}
    )
    look = Answer(calls=(call("look", "x" * 450_000),))
    async with swarm(
        tmp_path,
        provider=ScriptedProvider(script(look, Answer(text="seen")), context_window=300_000, metered=True),
        settings=settings,
    ) as s:
        await s.ask("alpha", "go")
        assert await s.value("SELECT outcome FROM turn") == "answered"


@pytest.mark.parametrize(("given", "sent"), [(300, 300), (2000, 1000), (None, 1000)])
async def test_the_lower_limit_of_provider_and_budget_bounds_an_answer(
    tmp_path: Path, given: int | None, sent: int
) -> None:
    settings = Settings.model_validate(
        {
            "budget": {"max_output_tokens": 1000},
            "provider": {"scripted": {"type": "scripted", "max_output_tokens": given}},
        }
    )
    async with swarm(tmp_path, script(Answer(text="done")), settings=settings) as s:
        await s.ask("alpha", "go")
        assert s.provider.requests[-1].max_output_tokens == sent


@walk_cases(("window", "free"), [(8_192, 1_024), (4_096, 512), (2_048, 512), (131_072, 4_096), (512, 256)])
def test_an_answer_reserves_an_eighth_of_the_window_and_never_more_than_half(window: int, free: int) -> None:
    assert output_limit(Settings(), None, None, window) == free
    assert output_limit(Settings(), 300, None, window) == min(300, window // 2)
    assert output_limit(Settings(), None, 200, window) == 200


@pytest.mark.parametrize(
    ("began", "uptime_s"),
    [(False, None), (True, None), (True, -100.0)],
    ids=["first token", "between tokens", "between tokens of a machine that has just started"],
)
async def test_a_model_that_is_silent_too_long_has_failed_for_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, began: bool, uptime_s: float | None
) -> None:
    if uptime_s is not None:
        loop = asyncio.get_running_loop()
        read_time, ahead_s = loop.time, loop.time() - uptime_s
        monkeypatch.setattr(loop, "time", lambda: read_time() - ahead_s)
    limits = {"timeout": 30, "between_tokens": 0.05} if began else {"timeout": 0.05}
    llm = Settings().llm.model_copy(update={**limits, "retries": 0})  # shorter than a person may set
    settings = Settings().model_copy(update={"llm": llm})
    async with swarm(tmp_path, script(Answer(text="a long answer that stops")), settings=settings) as s:
        s.provider.block(after=int(began))
        await s.tell("alpha", "go")
        await s.until(lambda: s.state() is MysisState.ERRORED)
        view = await s.commander.mysis("alpha")
        assert view.failure is not None
        said = "fell silent in the middle of its answer" if began else "gave no first token"
        assert view.failure.what == f"scripted (no model) {said} within 0.05 s"
        assert view.failure.hint == f"look at the provider, or raise llm.{'between_tokens' if began else 'timeout'}"
        assert view.retry_at is not None
        assert await s.value("SELECT content FROM memory WHERE partial = 1") == ("a long answer th" if began else None)


async def test_a_turn_without_progress_ends_with_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    settings = Settings.model_validate({"recovery": {"delays": []}})
    async with swarm(tmp_path, script(Answer(text="never")), settings=settings) as s:
        await s.begin_call("alpha", "go")
        began = s.clock.now()
        await s.run_due(299)
        assert s.state() is MysisState.RUNNING

        def later() -> bool:
            s.clock.by(1)
            return s.state() is MysisState.ERRORED

        await s.until(later)
        assert s.clock.now() - began >= 300_000_000
        view = await s.commander.mysis("alpha")
        assert view.failure is not None
        assert (view.failure.title, view.failure.hint) == (
            "Its turn made no progress",
            "look at its provider and its tools, or raise turn.timeout",
        )
        assert await s.value("SELECT broke_off FROM turn") == "timeout"


async def test_an_interrupt_right_behind_the_message_that_opens_a_turn_is_answered(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="ok"))) as s:
        await s.commander.create("alpha", start=False)
        await asyncio.gather(
            s.commander.send("alpha", "go"), s.commander.send("alpha", "now", mode=DeliveryMode.INTERRUPT)
        )
        await s.settled()
        assert await s.value("SELECT count(*) FROM delivery WHERE state = 'taken'") == 2


async def test_an_answer_that_cannot_be_stored_leaves_nothing_reserved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with swarm(tmp_path, script(Answer(text="ok"))) as s:
        await s.commander.create("alpha", start=False)

        def refuse(*_: object, **__: object) -> None:
            raise StoreError("the table is odd")

        with monkeypatch.context() as patched:
            patched.setattr(memory_ops, "insert_answer", refuse)
            await s.commander.send("alpha", "go")
            await s.until(lambda: s.state() is MysisState.ERRORED)
        assert await s.value("SELECT state FROM request") == "estimated"
        assert await s.value("SELECT sum(reserved_tokens) FROM spend") == 0
        await s.start("alpha")
        assert await s.value("SELECT outcome FROM turn") == "answered"
