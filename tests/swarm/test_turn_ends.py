"""How a turn ends: answers, limits, loops, failures, retries, budgets, approvals."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.swarm.harness import call, script, swarm
from zoea.llm.providers.scripted import ScriptedProvider
from zoea.model.enums import Activity, ApprovalAnswer, ErrorClass, MysisState
from zoea.model.errors import ProviderError
from zoea.model.request import Answer, AnswerCall, ModelRequest
from zoea.model.values import Usage
from zoea.settings.schema import Settings
from zoea.swarm.turn import loop_guard


def transient(retry_after: float | None = None) -> ProviderError:
    return ProviderError("503 from the test", kind=ErrorClass.TRANSIENT, retry_after=retry_after)


async def test_an_empty_answer_is_retried_once_and_then_recorded(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text=""))) as s:
        await s.ask("alpha", "hello")
        assert s.provider.calls == 2
        assert await s.value("SELECT content FROM memory WHERE role = 'assistant'") == "(no response)"
        assert await s.value("SELECT outcome FROM turn") == "answered"


async def test_a_turn_ends_visibly_at_its_iteration_limit(tmp_path: Path) -> None:
    counting = iter(range(100))
    settings = Settings.model_validate({"turn": {"max_iterations": 4}})
    async with swarm(tmp_path, lambda _: Answer(calls=(call("act", f"n{next(counting)}"),)), settings=settings) as s:
        await s.ask("alpha", "go on")
        assert await s.value("SELECT outcome FROM turn") == "iteration_limit"
        assert s.provider.calls == 4
        assert await s.value("SELECT count(*) FROM memory WHERE role = 'tool'") == 4
        assert s.state() is MysisState.RUNNING


async def test_going_in_circles_gets_a_note_first_and_then_ends_the_turn(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("act", "same"),)))) as s:
        await s.tell("alpha", "go")
        await s.until(lambda: s.state() is MysisState.STOPPED)
        assert await s.value("SELECT outcome FROM turn") == "loop"
        assert s.provider.calls == 4
        assert "You are repeating yourself" in s.sent()[3][-1][1]
        assert await s.value("SELECT count(*) FROM turn_note") == 1
        assert (await s.commander.mysis("alpha")).state_reason == "loop"


async def test_the_loop_guard_looks_as_far_into_the_turn_before_as_its_limit_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("COMPARED_CALLS", 30), ("SAME_RESULT", 13), ("SAME_CALL", 13)):
        monkeypatch.setattr(loop_guard, name, value)
    same = call("look", "same")
    replies = script(Answer(calls=(same,) * 12), Answer(text="seen"), Answer(calls=(same,)), Answer(text="again"))
    async with swarm(tmp_path, replies) as s:
        await s.commander.create("alpha", start=False)
        for text in ("look", "look again"):
            await s.ask("alpha", text)
        assert await s.rows("SELECT number FROM turn_note JOIN turn ON turn.id = turn_id") == [{"number": 2}]


async def test_transient_failures_are_retried_with_backoff_inside_the_turn(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(transient(), transient(), Answer(text="at last"))) as s:
        await s.tell("alpha", "hello")
        await s.settled_in_time()
        assert await s.value("SELECT outcome FROM turn") == "answered"
        attempts = await s.rows("SELECT attempt, state, error_class FROM request ORDER BY id")
        assert [(a["attempt"], a["state"], a["error_class"]) for a in attempts] == [
            (1, "released", "transient"),
            (2, "released", "transient"),
            (3, "settled", None),
        ]


async def test_retry_after_is_honoured(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(transient(retry_after=7), Answer(text="now"))) as s:
        await s.tell("alpha", "hello")
        runner = s.commander.swarm.runner("alpha")
        await s.until(lambda: runner.driver is not None and runner.driver.phase == "resting")
        s.clock.by(6.5)
        await asyncio.sleep(0)
        assert s.provider.calls == 1
        s.clock.by(1)
        await s.until(lambda: s.provider.calls == 2)


async def test_a_failure_that_retries_cannot_mend_leaves_the_turn_open_and_recovers_by_itself(tmp_path: Path) -> None:
    settings = Settings.model_validate({"llm": {"retries": 0}})
    async with swarm(tmp_path, script(transient(), Answer(text="back")), settings=settings) as s:
        await s.tell("alpha", "hello")
        await s.until(lambda: s.state() is MysisState.ERRORED)
        view = await s.commander.mysis("alpha")
        assert view.failure is not None
        assert view.retry_at == s.clock.now() + 15_000_000
        assert await s.value("SELECT broke_off FROM turn") == "failed"
        s.clock.by(16)
        await s.until(lambda: s.state() is MysisState.RUNNING)
        await s.settled()
        turns = await s.rows("SELECT outcome, attempt FROM turn")
        assert turns == [{"outcome": "answered", "attempt": 2}]
        assert s.sent()[0] == s.sent()[1] == [("user", "hello")]


async def test_a_wrong_key_stays_errored_until_a_person_relaunches_the_same_turn(tmp_path: Path) -> None:
    wrong = ProviderError("the key was refused", kind=ErrorClass.AUTH, hint="set the key")
    async with swarm(tmp_path, script(wrong, Answer(text="fine"))) as s:
        await s.tell("alpha", "hello")
        await s.until(lambda: s.state() is MysisState.ERRORED)
        view = await s.commander.mysis("alpha")
        assert view.retry_at is None
        assert view.failure is not None
        assert view.failure.hint == "set the key"
        s.clock.by(3600)
        assert s.provider.calls == 1
        await s.start("alpha")
        assert await s.rows("SELECT outcome, attempt FROM turn") == [{"outcome": "answered", "attempt": 2}]


async def test_a_bad_request_ends_the_turn_for_good_and_the_receipt_says_so(tmp_path: Path) -> None:
    bad = ProviderError("tools are not supported", kind=ErrorClass.BAD_REQUEST, title="The request was refused")
    async with swarm(tmp_path, script(bad)) as s:
        receipt = await s.tell("alpha", "hello")
        await s.until(lambda: s.state() is MysisState.ERRORED)
        assert await s.value("SELECT outcome FROM turn") == "failed"
        line = (await s.commander.receipt(receipt.message_id)).lines[0]
        assert (line.status, line.reason) == ("not answered", "not answered: The request was refused")


async def test_a_context_length_error_plans_once_more_with_less(tmp_path: Path) -> None:
    long = ProviderError("too long", kind=ErrorClass.CONTEXT_LENGTH)
    async with swarm(tmp_path, script(long, Answer(text="fits"))) as s:
        await s.ask("alpha", "hello")
        assert s.provider.calls == 2
        assert await s.value("SELECT outcome FROM turn") == "answered"


async def test_a_missing_provider_keeps_the_mysis_in_the_list_with_its_error(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="ok"))) as s:
        await s.commander.create("alpha", start=False)
        await s.store.write(lambda conn: conn.execute("UPDATE mysis SET provider = 'missing'").rowcount)
    async with swarm(tmp_path, script(Answer(text="ok"))) as s:
        await s.commander.send("alpha", "hello")
        await s.until(lambda: s.state() is MysisState.ERRORED)
        views = (await s.commander.view()).myses
        assert [view.name for view in views] == ["alpha"]
        assert views[0].failure is not None
        assert "missing" in views[0].failure.what
        assert await s.value("SELECT state FROM delivery") == "pending"


async def test_a_spent_budget_of_its_own_stops_the_mysis(tmp_path: Path) -> None:
    settings = Settings.model_validate({"budget": {"enforcement": "hard", "mysis": 10_000}})
    used = Answer(text="costly", usage=Usage(input_tokens=9_000, output_tokens=500))
    async with swarm(tmp_path, script(used), settings=settings) as s:
        await s.ask("alpha", "one")
        await s.commander.send("alpha", "two")
        await s.until(lambda: s.state() is MysisState.STOPPED)
        view = await s.commander.mysis("alpha")
        assert view.state_reason == "budget"
        assert s.provider.calls == 1
        assert view.tokens == 9_500
        assert [row["state"] for row in await s.rows("SELECT state FROM request ORDER BY id")] == ["settled", "refused"]


async def test_a_spent_day_of_the_swarm_holds_it_and_goes_on_when_lifted(tmp_path: Path) -> None:
    settings = Settings.model_validate({"budget": {"swarm_per_day": 6_000}})
    used = Answer(text="costly", usage=Usage(input_tokens=5_000, output_tokens=500))
    async with swarm(tmp_path, script(used), settings=settings) as s:
        await s.ask("alpha", "one")
        await s.commander.send("alpha", "two")
        await s.until(lambda: s.commander.swarm.hold_switch.swarm)
        assert "Swarm budget: " in (await s.commander.view()).hold_reason
        assert s.provider.calls == 1
        await s.store.write(lambda conn: conn.execute("UPDATE spend SET used_tokens = 0").rowcount)
        await s.commander.hold(False)
        await s.settled()
        assert s.provider.calls == 2


async def test_a_hard_task_budget_ends_the_turn_with_its_numbers(tmp_path: Path) -> None:
    settings = Settings.model_validate(
        {"budget": {"enforcement": "hard", "token_budget_per_agent": 5000, "token_budget_per_task": 9000}}
    )
    counting = iter(range(100))

    def costly(_: object) -> Answer:
        return Answer(calls=(call("act", f"{next(counting)}"),), usage=Usage(input_tokens=4_000, output_tokens=500))

    async with swarm(tmp_path, costly, settings=settings) as s:
        await s.ask("alpha", "go")
        row = (await s.rows("SELECT outcome, failure FROM turn"))[0]
        assert row["outcome"] == "budget"
        assert "Task budget exceeded: " in row["failure"]
        assert "/9,000 tokens" in row["failure"]
        assert s.state() is MysisState.RUNNING


async def test_broken_arguments_are_answered_with_the_reason(tmp_path: Path) -> None:
    broken = AnswerCall("act", '{"text": ', broken="it ends in the middle of a value (line 1, column 10)")
    async with swarm(tmp_path, script(Answer(calls=(broken,)), Answer(text="sorry"))) as s:
        await s.ask("alpha", "go")
        assert "line 1, column 10" in s.sent()[1][-1][1]
        assert s.peer.seen == []
        assert await s.value("SELECT state FROM tool_call") == "error"


async def test_a_tool_that_is_not_in_the_toolbox_is_an_error_result(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("fly"),)), Answer(text="ok"))) as s:
        await s.ask("alpha", "go")
        assert "no tool 'fly'" in s.sent()[1][-1][1]


async def test_an_approval_waits_and_the_other_calls_of_the_message_run(tmp_path: Path) -> None:
    replies = script(Answer(calls=(call("burn", "it"), call("act", "meanwhile"))), Answer(text="done"))
    async with swarm(tmp_path, replies) as s:
        await s.tell("alpha", "go")
        await s.until(lambda: s.peer.seen == [("act", "meanwhile")])
        await s.until(lambda: s.commander.swarm.live_view.row(1).approvals == 1)
        waiting = await s.commander.approvals()
        assert [(one.tool, one.arguments) for one in waiting] == [("burn", '{"text": "it"}')]
        assert (await s.commander.mysis("alpha")).activity is Activity.ASKING
        await s.commander.answer(waiting[0].id, ApprovalAnswer.SESSION)
        await s.settled()
        assert s.peer.seen[-1] == ("burn", "it")
        await s.ask("alpha", "again")
        assert [m for m in s.sent()[1] if m[0] == "tool"] == [("tool", "burn did it"), ("tool", "act did meanwhile")]


async def test_a_grant_for_the_session_is_not_asked_again_until_the_mysis_stops(tmp_path: Path) -> None:
    burn = Answer(calls=(call("burn"),))
    replies = script(burn, Answer(text="1"), burn, Answer(text="2"), burn, Answer(text="3"))
    async with swarm(tmp_path, replies) as s:
        await s.tell("alpha", "go")
        await s.until(lambda: s.commander.swarm.live_view.row(1).approvals)
        await s.commander.answer((await s.commander.approvals())[0].id, ApprovalAnswer.SESSION)
        await s.settled()
        await s.ask("alpha", "go")
        assert len(s.peer.seen) == 2
        await s.commander.stop("alpha")
        await s.commander.start("alpha")
        await s.commander.send("alpha", "go")
        await s.until(lambda: s.commander.swarm.live_view.row(1).approvals)


async def test_a_denial_shows_the_model_the_sentence(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("burn"),)), Answer(text="fine"))) as s:
        await s.tell("alpha", "go")
        await s.until(lambda: s.commander.swarm.live_view.row(1).approvals)
        await s.commander.answer((await s.commander.approvals())[0].id, ApprovalAnswer.DENIED, sentence="too dear")
        await s.settled()
        assert s.sent()[1][-1] == ("tool", "denied: too dear")
        assert s.peer.seen == []


async def test_an_approval_expires_after_half_an_hour(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("burn"),)), Answer(text="fine"))) as s:
        await s.tell("alpha", "go")
        await s.until(lambda: s.commander.swarm.live_view.row(1).approvals)
        s.clock.by(31 * 60)
        await s.settled()
        assert s.sent()[1][-1][1].startswith("expired: ")
        assert await s.value("SELECT answer FROM approval") == "expired"


async def test_a_provider_that_answers_empty_is_nudged_three_times_and_then_left(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text=""))) as s:
        await s.commander.create("alpha")
        began = s.clock.now()
        seen = []
        for number in (1, 2, 3):
            await s.run_due(29)
            assert await s.value("SELECT count(*) FROM turn") == number - 1
            s.clock.by(1)
            await s.until(lambda: s.provider.calls == 2 * number)  # noqa: B023  awaited within the same round
            await s.settled()
            seen.append(s.sent()[-1][-1][1].split("\n")[0])
        assert [text[:20] for text in seen] == ["Continue your missio", "You need to respond.", "URGENT: Respond imme"]
        await s.until(lambda: s.state() is MysisState.IDLE)
        assert s.clock.now() - began == 90_000_000
        view = await s.commander.mysis("alpha")
        assert view.failure is not None
        assert view.failure.title == "Failed to respond after 3 encouragements"


async def test_nudges_are_never_stored_as_memories(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="on it"))) as s:
        await s.commander.create("alpha")
        s.clock.by(30)
        await s.until(lambda: s.provider.calls == 1)
        await s.settled()
        assert await s.value("SELECT count(*) FROM memory WHERE role = 'user'") == 0
        assert await s.value("SELECT opened_by FROM turn") == "nudge"


async def test_the_order_is_in_a_nudged_turn_however_long_ago_it_was_given(tmp_path: Path) -> None:
    counting = iter(range(1000))

    def busy(request: object) -> Answer:
        number = next(counting)
        return Answer(text="pause") if number % 13 == 12 else Answer(calls=(call("act", f"{number}"),))

    async with swarm(tmp_path, busy) as s:
        await s.tell("alpha", "mine iron until I say stop")
        for turn in range(1, 5):
            await s.settled()
            s.clock.by(31)
            await s.until(lambda: s.commander.swarm.live_view.row(1).turn_number > turn)  # noqa: B023  awaited within the same round
        await s.settled()
        assert await s.value("SELECT count(*) FROM memory") > 40
        first = next(m for m in s.provider.requests[-1].messages if "mine iron until I say stop" in m.content)
        assert first.source == "system"


async def test_zoea_wait_ends_the_turn_and_its_end_nudges_at_once(tmp_path: Path) -> None:
    wait = AnswerCall("zoea_wait", '{"seconds": 50, "reason": "the kiln cools"}')
    async with swarm(tmp_path, script(Answer(calls=(wait,)), Answer(text="awake"))) as s:
        await s.ask("alpha", "go")
        view = await s.commander.mysis("alpha")
        assert (view.waiting_for, view.waiting_until) == ("the kiln cools", s.clock.now() + 50_000_000)
        await s.run_due(40)
        assert s.provider.calls == 1
        s.clock.by(10)
        await s.until(lambda: s.provider.calls == 2)


async def test_travel_time_in_a_result_is_waited_for(tmp_path: Path) -> None:
    travel = call("say_ticks", '{"queued": true, "arrival_tick": 106, "current_tick": 100}')
    replies = script(Answer(calls=(travel,)), Answer(text="on my way"), Answer(text="there"))
    async with swarm(tmp_path, replies) as s:
        await s.ask("alpha", "go")
        assert (await s.commander.mysis("alpha")).waiting_until == s.clock.now() + 60_000_000
        await s.run_due(59)
        assert s.provider.calls == 2
        s.clock.by(1)
        await s.until(lambda: s.provider.calls == 3)


async def test_a_reactive_mysis_is_never_nudged(tmp_path: Path) -> None:
    settings = Settings.model_validate({"nudge": {"enabled": False}})
    async with swarm(tmp_path, script(Answer(text="ok")), settings=settings) as s:
        await s.commander.create("alpha")
        await s.run_due(7200)
        assert s.provider.calls == 0


async def test_one_myses_bug_stays_there(tmp_path: Path) -> None:
    def explode(request: ModelRequest) -> Answer:
        if request.mysis == "alpha":
            raise RuntimeError("a bug")
        return Answer(text="fine")

    async with swarm(tmp_path, explode, provider=ScriptedProvider(explode)) as s:
        await s.create("alpha", "beta")
        await s.commander.broadcast("go")
        await s.until(lambda: s.state("alpha") is MysisState.ERRORED)
        await s.settled("beta")
        assert s.state("beta") is MysisState.RUNNING
        assert await s.value("SELECT count(*) FROM turn WHERE outcome = 'answered'") == 1
