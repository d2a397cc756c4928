"""Budgets: backpressure, refusal, warning, and reservations that a stop releases."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.case_tables import walk_cases
from tests.fakes.llm_clock import HandClock
from tests.swarm.harness import Swarm, call, script, swarm
from zoea.llm.prices import PriceList
from zoea.llm.providers.scripted import ScriptedProvider
from zoea.model.enums import Activity, ApprovalAnswer, ErrorClass, MysisState
from zoea.model.errors import ProviderError, UsageError
from zoea.model.request import Answer, ModelRequest, StreamItem
from zoea.model.values import ApprovalView, Usage
from zoea.settings.schema import Settings
from zoea.swarm.budgets import backpressure, describe_excess, has_crossed_warning
from zoea.swarm.persistence.spend_ops import Reserved, day_of
from zoea.swarm.turn.budget_stage import BudgetStage
from zoea.swarm.turn.turn_types import BudgetVerdict


@walk_cases(
    ("used", "rest_ms"),
    [(0, 0), (79, 0), (80, 50), (84, 50), (85, 300), (90, 750), (95, 1500), (99, 1500), (100, 5000), (250, 5000)],
)
def test_backpressure_grows_with_the_used_share(used: int, rest_ms: int) -> None:
    assert backpressure(used, 100) == rest_ms * 1000


def test_a_refusal_names_the_numbers() -> None:
    assert describe_excess("turn", 201_300, 200_000) == "Task budget exceeded: 201,300/200,000 tokens"


def test_a_budget_of_nothing_is_used_up() -> None:
    assert backpressure(0, 0) == 5_000_000


@walk_cases(
    ("before", "after", "limit", "crossed"),
    [(0, 79, 100, False), (79, 80, 100, True), (0, 500, 100, True), (80, 90, 100, False), (0, 1, 0, False)],
)
def test_the_warning_is_crossed_once(before: int, after: int, limit: int, crossed: bool) -> None:
    assert has_crossed_warning(before, after, limit) is crossed


def spending(*tokens: int) -> Any:
    """Answers with calls that use so many tokens each; then one without calls."""
    answers = [
        Answer(calls=(call("act", f"n{place}"),), usage=Usage(input_tokens=used, output_tokens=0))
        for place, used in enumerate(tokens)
    ]
    return script(*answers, Answer(text="done", usage=Usage(input_tokens=10, output_tokens=0)))


LIMIT = {"budget": {"token_budget_per_agent": 5000, "token_budget_per_task": 10_000}}


async def test_the_used_budget_of_a_turn_is_shown_and_starts_at_zero_in_the_next(tmp_path: Path) -> None:
    async with swarm(tmp_path, spending(1000), settings=Settings.model_validate(LIMIT)) as s:
        await s.commander.create("alpha", start=False)
        for _ in range(2):
            await s.ask("alpha", "go")
            (view,) = (await s.commander.view()).myses
            used = await s.value("SELECT sum(input_tokens) FROM request WHERE turn_id = (SELECT max(id) FROM turn)")
            assert (view.turn_tokens, view.turn_limit) == (used, 10_000)


@pytest.mark.parametrize(("limits", "context"), [(LIMIT, ""), ({}, '{"token_budget_per_task": 10000}')])
async def test_one_warning_event_when_80_per_cent_of_the_turns_budget_are_crossed(
    tmp_path: Path, limits: dict[str, Any], context: str
) -> None:
    async with swarm(tmp_path, spending(4000, 3000, 1500, 100), settings=Settings.model_validate(limits)) as s:
        await s.commander.create("alpha", start=False)
        await s.commander.send("alpha", "go", limits=context)
        await s.settled_in_time()
        warnings = await s.rows("SELECT mysis_id, data FROM event WHERE kind = 'budget.warning'")
        assert warnings == [{"mysis_id": 1, "data": '{"scope": "turn", "used": 8500, "limit": 10000}'}]


async def test_a_stop_in_backpressure_releases_the_reservation_and_is_no_error(tmp_path: Path) -> None:
    async with swarm(tmp_path, spending(9600), settings=Settings.model_validate(LIMIT)) as s:
        await s.tell("alpha", "go")
        runner = s.commander.swarm.runner("alpha")
        await s.until(lambda: runner.driver is not None and runner.driver.phase == "resting")
        await s.commander.stop("alpha")
        assert [row["state"] for row in await s.rows("SELECT state FROM request ORDER BY id")] == [
            "settled",
            "released",
        ]
        spent = await s.rows("SELECT scope, reserved_tokens, used_tokens FROM spend ORDER BY scope")
        assert [(row["scope"], row["reserved_tokens"], row["used_tokens"]) for row in spent] == [
            ("mysis", 0, 9600),
            ("swarm", 0, 9600),
        ]
        assert (await s.commander.mysis("alpha")).errors == 0
        assert s.provider.calls == 1


async def test_a_mysis_that_a_spent_day_holds_can_be_stopped_at_once(tmp_path: Path) -> None:
    settings = Settings.model_validate({"budget": {"swarm_per_day": 100}, "swarm": {"active_turns": 1}})
    async with swarm(tmp_path, script(Answer(text="never")), settings=settings) as s:
        await s.tell("alpha", "go")
        await s.until(lambda: s.commander.swarm.hold_switch.swarm)
        runner = s.commander.swarm.runner("alpha")
        await s.until(lambda: runner.driver is not None and runner.driver.phase == "held")
        async with asyncio.timeout(30):  # the clock stands: what waits for it never ends
            view = await s.commander.stop("alpha")
        assert view.state is MysisState.STOPPED
        assert await s.value("SELECT outcome FROM turn") == "cancelled"
        assert s.provider.calls == 0


async def test_a_soft_day_of_the_swarm_warns_once_and_slows_down_but_holds_nothing(tmp_path: Path) -> None:
    settings = Settings.model_validate({"budget": {"swarm_per_day": 1000, "swarm_enforcement": "soft"}})
    used = Answer(text="costly", usage=Usage(input_tokens=900, output_tokens=0))
    async with swarm(tmp_path, script(used), settings=settings) as s:
        await s.ask("alpha", "one")
        await s.commander.send("alpha", "two")
        runner = s.commander.swarm.runner("alpha")
        await s.until(lambda: runner.driver is not None and runner.driver.phase == "resting")
        s.clock.by(0.75)
        await s.settled()
        await s.commander.send("alpha", "three")
        await s.until(lambda: runner.driver is not None and runner.driver.phase == "resting")
        s.clock.by(5)
        await s.settled()
        assert s.provider.calls == 3
        assert not s.commander.swarm.hold_switch.swarm
        warnings = await s.rows("SELECT data FROM event WHERE kind = 'budget.warning'")
        assert warnings == [{"data": '{"scope": "swarm", "used": 900, "limit": 1000}'}]


ASKING = {
    "budget": {
        "enforcement": "approve",
        "token_budget_per_agent": 5000,
        "token_budget_per_task": 9000,
        "max_output_tokens": 4096,
    }
}


def counting() -> Any:
    numbers = iter(range(1000))
    return lambda _: Answer(
        calls=(call("act", f"n{next(numbers)}"),), usage=Usage(input_tokens=4000, output_tokens=500)
    )


async def asked(s: Swarm, name: str = "alpha") -> ApprovalView:
    await s.until(lambda: s.commander.swarm.live_view.row(s.commander.swarm.runner(name).mysis.id).approvals)
    [question] = await s.commander.approvals()
    return question


@pytest.mark.parametrize(
    ("answer", "asks_again"), [(ApprovalAnswer.ONCE, True), (ApprovalAnswer.SESSION, False)], ids=["once", "session"]
)
async def test_a_spent_turn_asks_the_commander_and_goes_on_for_this_turn_or_until_it_stops(
    tmp_path: Path, answer: ApprovalAnswer, asks_again: bool
) -> None:
    settings = Settings.model_validate({**ASKING, "turn": {"max_iterations": 4}})
    async with swarm(tmp_path, counting(), settings=settings) as s:
        await s.tell("alpha", "go")
        question = await asked(s)
        assert (question.kind, question.mysis, question.tool) == ("budget", "alpha", "go on beyond the budget")
        about = json.loads(question.arguments)
        assert (about["budget"], about["limit"]) == ("turn", 9000)
        assert about["used"] > 9000
        assert s.provider.calls == 1
        view = await s.commander.mysis("alpha")
        assert view.activity is Activity.ASKING
        assert view.text.startswith("asks: go on? Task budget exceeded: ")
        s.clock.by(600)  # waiting for an answer counts for no deadline
        with pytest.raises(UsageError, match="cannot be exceeded for a whole template"):
            await s.commander.answer(question.id, ApprovalAnswer.TEMPLATE)
        await s.commander.answer(question.id, answer)
        await s.settled()
        assert s.provider.calls == 4
        assert await s.value("SELECT outcome FROM turn") == "iteration_limit"
        assert await s.value("SELECT count(*) FROM request WHERE state = 'refused'") == 0
        await s.commander.send("alpha", "again")
        if asks_again:
            assert (await asked(s)).id > question.id
        else:
            await s.settled()
            assert await s.value("SELECT count(*) FROM approval") == 1


@pytest.mark.parametrize("answer", [ApprovalAnswer.DENIED, ApprovalAnswer.EXPIRED])
async def test_denied_or_not_answered_in_time_a_spent_turn_ends(tmp_path: Path, answer: ApprovalAnswer) -> None:
    async with swarm(tmp_path, counting(), settings=Settings.model_validate(ASKING)) as s:
        await s.tell("alpha", "go")
        question = await asked(s)
        if answer is ApprovalAnswer.DENIED:
            await s.commander.answer(question.id, answer, sentence="it is enough")
        else:
            s.clock.by((question.expires_at - s.clock.now()) / 1e6)
        await s.settled()
        row = (await s.rows("SELECT outcome, failure FROM turn"))[0]
        assert row["outcome"] == "budget"
        assert "Task budget exceeded: " in row["failure"]
        assert await s.value("SELECT answer FROM approval") == answer
        assert s.state() is MysisState.RUNNING
        assert s.provider.calls == 1
        assert await s.commander.approvals() == ()


async def test_a_mysis_with_a_spent_budget_asks_and_is_stopped_when_denied(tmp_path: Path) -> None:
    settings = Settings.model_validate({"budget": {"enforcement": "approve", "mysis": 100}})
    async with swarm(tmp_path, script(Answer(text="done")), settings=settings) as s:
        await s.tell("alpha", "go")
        await s.commander.answer((await asked(s)).id, ApprovalAnswer.DENIED)
        await s.until(lambda: s.state() is MysisState.STOPPED)
        assert (await s.commander.mysis("alpha")).state_reason == "budget"
        assert await s.value("SELECT outcome FROM turn") == "budget"


async def test_a_spent_day_asks_holds_where_it_may_not_and_asks_again_once_lifted(tmp_path: Path) -> None:
    settings = Settings.model_validate({"budget": {"swarm_enforcement": "approve", "swarm_per_day": 100}})
    async with swarm(tmp_path, script(Answer(text="done")), settings=settings) as s:
        await s.tell("alpha", "go")
        first = await asked(s)
        await s.commander.answer(first.id, ApprovalAnswer.DENIED)
        await s.until(lambda: s.commander.swarm.hold_switch.swarm)
        assert "Swarm budget: 0/100 tokens used today" in s.commander.swarm.hold_switch.reason
        await s.commander.hold(False)
        second = await asked(s)
        assert second.id > first.id
        await s.commander.answer(second.id, ApprovalAnswer.ONCE)
        await s.settled()
        assert await s.value("SELECT outcome FROM turn") == "answered"


RAISED = [
    ({"enforcement": "approve", "mysis": 100}, {"budget.mysis": 100_000}, {}),
    ({**ASKING["budget"], "token_budget_per_task": 5000}, {"budget.token_budget_per_task": 50_000}, {}),
    ({"enforcement": "approve", "mysis": 100}, {"budget.mysis": "none"}, {}),
    ({"swarm_enforcement": "approve", "swarm_per_day": 100}, {}, {"swarm_per_day": 100_000}),
]


async def change(s: Swarm, of_mysis: dict[str, Any], of_swarm: dict[str, Any]) -> None:
    if of_mysis:
        await s.commander.configure("alpha", settings=of_mysis)
    budget = s.commander.swarm.settings.budget.model_copy(update=of_swarm)
    s.commander.swarm.adopt(s.commander.swarm.settings.model_copy(update={"budget": budget}))


@pytest.mark.parametrize(("budget", "of_mysis", "of_swarm"), RAISED, ids=["mysis", "turn", "no limit", "swarm"])
async def test_a_raised_budget_answers_the_question_that_waits_for_it(
    tmp_path: Path, budget: dict[str, Any], of_mysis: dict[str, Any], of_swarm: dict[str, Any]
) -> None:
    first = Answer(calls=(call("act", "a"),), usage=Usage(input_tokens=4000, output_tokens=500))
    settings = Settings.model_validate({"budget": budget if of_swarm else {"mysis": "none"}})
    async with swarm(tmp_path, script(first, Answer(text="done")), settings=settings) as s:
        await s.create("alpha")
        if not of_swarm:
            await s.commander.configure("alpha", settings={f"budget.{key}": value for key, value in budget.items()})
        await s.tell("alpha", "go")
        await asked(s)
        await change(s, of_mysis, of_swarm)
        await s.settled()
        assert await s.value("SELECT outcome FROM turn") == "answered"
        assert await s.commander.approvals() == ()
        assert await s.value("SELECT count(*) FROM approval WHERE answer IS NULL") == 0


async def test_a_budget_that_is_raised_too_little_is_asked_for_anew_with_its_numbers(tmp_path: Path) -> None:
    settings = Settings.model_validate({"budget": {"swarm_enforcement": "approve", "swarm_per_day": 100}})
    async with swarm(tmp_path, script(Answer(text="done")), settings=settings) as s:
        await s.tell("alpha", "go")
        first = await asked(s)
        await change(s, {}, {"swarm_per_day": 200})
        await s.until(lambda: s.commander.swarm.live_view.row(1).approvals == 1)
        second = await asked(s)
        assert second.id > first.id
        assert json.loads(second.arguments)["limit"] == 200
        await change(s, {"budget.mysis": 9**9}, {})
        assert (await asked(s)).id == second.id  # another budget was changed
        await s.commander.answer(second.id, ApprovalAnswer.ONCE)
        await s.settled()
        assert await s.value("SELECT outcome FROM turn") == "answered"


@pytest.mark.parametrize(
    "changes",
    [({"budget.mysis": "none"},), ({"budget.mysis": "none"}, {"budget.mysis": 100})],
    ids=["another budget asks", "back to the same limit"],
)
async def test_a_question_about_a_limit_that_is_gone_is_withdrawn(
    tmp_path: Path, changes: tuple[dict[str, Any], ...]
) -> None:
    settings = Settings.model_validate({"budget": {"swarm_enforcement": "approve"}, "turn": {"max_iterations": 3}})
    async with swarm(tmp_path, counting(), settings=settings) as s:
        await s.create("alpha")
        await s.commander.configure("alpha", settings={"budget.enforcement": "approve", "budget.mysis": 100})
        await s.tell("alpha", "go")
        first = await asked(s)
        await change(s, changes[0], {"swarm_per_day": 200})
        second = await asked(s)
        assert [json.loads(one.arguments)["budget"] for one in (first, second)] == ["mysis", "swarm"]
        for more in changes[1:]:
            await change(s, more, {})
            await s.until(lambda: s.commander.swarm.live_view.row(1).approvals)
            kept, third = await s.commander.approvals()
            assert (kept, json.loads(third.arguments)["limit"]) == (second, 100)
            await s.commander.answer(third.id, ApprovalAnswer.ONCE)
            await s.until(lambda: s.commander.swarm.live_view.row(1).approvals)
            ops = s.store.stats.ops
            for _ in range(2):
                await s.store.write(lambda conn: None)
            assert s.store.stats.ops == ops + 2, "it waits for the open question, not for the one answered later"
        await s.commander.answer((await asked(s)).id, ApprovalAnswer.ONCE)
        await s.settled()
        assert await s.value("SELECT outcome FROM turn") == "iteration_limit"


async def test_a_budget_changed_just_before_the_wait_answers_the_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.model_validate({"budget": {"enforcement": "approve", "mysis": 100}})
    async with swarm(tmp_path, script(Answer(text="done")), settings=settings) as s:
        decide = BudgetStage.verdict

        async def decide_and_change(stage: BudgetStage, reserved: Reserved) -> BudgetVerdict:
            verdict = await decide(stage, reserved)
            await change(s, {}, {"mysis": 100_000})
            return verdict

        monkeypatch.setattr(BudgetStage, "verdict", decide_and_change)
        await s.tell("alpha", "go")
        await s.settled()
        assert await s.value("SELECT outcome FROM turn") == "answered"


async def test_a_question_on_a_budget_outlives_a_restart_and_a_stop_takes_it_back(tmp_path: Path) -> None:
    settings = Settings.model_validate(ASKING)
    async with swarm(tmp_path, counting(), settings=settings) as s:
        await s.tell("alpha", "go")
        question = await asked(s)
    async with swarm(tmp_path, script(Answer(text="done")), settings=settings) as s:
        s.clock.by(29 * 60)
        await s.commander.start("alpha")
        again = await asked(s)
        # Of its half an hour a minute is left: it is asked again for five.
        assert (again.id, again.expires_at) == (question.id, s.clock.now() + 5 * 60 * 1_000_000)
        await s.commander.stop("alpha")
        assert await s.commander.approvals() == ()
        assert await s.value("SELECT answer FROM approval") == "expired"
        assert await s.value("SELECT outcome FROM turn") == "cancelled"
    async with swarm(tmp_path, counting(), settings=settings) as s:
        await s.commander.start("alpha")
        await s.commander.send("alpha", "go")
        question = await asked(s)
    async with swarm(tmp_path, script(Answer(text="done")), settings=settings) as s:
        await s.commander.answer(question.id, ApprovalAnswer.ONCE)  # nobody waits for it yet
        await s.start("alpha")
        assert await s.value("SELECT outcome FROM turn ORDER BY id DESC LIMIT 1") == "answered"


async def test_how_long_the_first_token_took_is_kept(tmp_path: Path) -> None:
    class Slow(ScriptedProvider):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
            clock.by(1.5)
            async for item in super().stream(request):
                yield item

    clock = HandClock(1_700_000_000_000_000)
    provider = Slow(script(Answer(text="a"), ProviderError("no", kind=ErrorClass.AUTH)), clock=clock, metered=True)
    async with swarm(tmp_path, provider=provider, clock=clock) as s:
        await s.ask("alpha", "one")
        await s.commander.send("alpha", "two")
        await s.until(lambda: s.state() is MysisState.ERRORED)
        rows = await s.rows("SELECT state, first_token_us FROM request ORDER BY id")
        assert [(row["state"], row["first_token_us"]) for row in rows] == [("settled", 1_500_000), ("released", None)]


SMALL = {"budget": {"swarm_per_day": 20_000, "token_budget_per_agent": 5000}, "swarm": {"max_myses": 16}}


async def test_those_who_do_not_fit_beside_what_others_reserved_wait_and_nothing_is_held(tmp_path: Path) -> None:
    """Ten myses under 20,000 tokens: each reserves thousands and uses 165."""
    answer = Answer(text="done", usage=Usage(input_tokens=150, output_tokens=15))
    gate = asyncio.Event()
    provider = GatedProvider(script(answer), gate)
    async with swarm(tmp_path, provider=provider, settings=Settings.model_validate(SMALL)) as s:
        names = [f"m{number}" for number in range(10)]
        for name in names:
            await s.commander.create(name, start=False)
            await s.commander.send(name, "go")
        await s.until(lambda: sum(view.queue_place > 0 for view in s.commander.swarm.live_view.whole().myses) >= 2)
        waiting = [view for view in s.commander.swarm.live_view.whole().myses if view.queue_place]
        assert sorted(view.queue_place for view in waiting) == list(range(1, len(waiting) + 1))
        assert {view.queue_name for view in waiting} == {"the budget of the day"}
        gate.set()
        for name in names:
            await s.settled(name)
        assert not s.commander.swarm.hold_switch.swarm
        assert await s.value("SELECT count(*) FROM turn WHERE outcome = 'answered'") == 10
        assert await s.value("SELECT used_tokens FROM spend WHERE scope = 'swarm'") == 1650
        assert not any(view.queue_place for view in s.commander.swarm.live_view.whole().myses)


async def test_the_swarm_is_held_when_its_budget_is_really_spent(tmp_path: Path) -> None:
    answer = Answer(text="done", usage=Usage(input_tokens=3000, output_tokens=500))
    async with swarm(tmp_path, script(answer), settings=Settings.model_validate(SMALL)) as s:
        for number in range(10):
            await s.commander.create(f"m{number}", start=False)
            await s.commander.send(f"m{number}", "go")
        await s.until(lambda: s.commander.swarm.hold_switch.swarm)
        spent = await s.rows("SELECT used_tokens, reserved_tokens FROM spend WHERE scope = 'swarm'")
        [row] = spent
        assert row["reserved_tokens"] == 0
        asked = 20_000 - row["used_tokens"]
        assert 0 <= asked < 7000, "no request fits into what is left"
        used = f"{row['used_tokens']:,}"
        assert s.commander.swarm.hold_switch.reason.startswith(f"Swarm budget: {used}/20,000 tokens used today")


async def test_a_stopped_mysis_leaves_the_queue_for_the_budget(tmp_path: Path) -> None:
    gate = asyncio.Event()
    provider = GatedProvider(script(Answer(text="done", usage=Usage(input_tokens=10, output_tokens=1))), gate)
    async with swarm(tmp_path, provider=provider, settings=Settings.model_validate(SMALL)) as s:
        for number in range(10):
            await s.commander.create(f"m{number}", start=False)
            await s.commander.send(f"m{number}", "go")
        await s.until(lambda: any(view.queue_place for view in s.commander.swarm.live_view.whole().myses))
        waits = next(view.name for view in s.commander.swarm.live_view.whole().myses if view.queue_place == 1)
        view = await s.commander.stop(waits)
        assert (view.state, view.queue_place) == (MysisState.STOPPED, 0)
        gate.set()
        await s.until(lambda: s.provider.calls == 9)


class GatedProvider(ScriptedProvider):
    """A scripted model that answers once the gate is open."""

    def __init__(self, rules: Any, gate: asyncio.Event) -> None:
        super().__init__(rules, metered=True)
        self._gate = gate

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        await self._gate.wait()
        async for item in super().stream(request):
            yield item


@pytest.mark.parametrize(
    ("budget", "short"),
    [
        ({"swarm_per_day": 100_000}, ()),
        ({"swarm_per_day": "none", "mysis": "none"}, ()),
        ({"swarm_per_day": 9_000}, ("the swarm today (budget.swarm_per_day)", "then the swarm goes on hold")),
        (
            {"swarm_per_day": 9_000, "swarm_enforcement": "soft"},
            ("the swarm today (budget.swarm_per_day)", "then its requests are delayed"),
        ),
        (
            {"swarm_per_day": 9_000, "swarm_enforcement": "approve"},
            ("the swarm today (budget.swarm_per_day)", "then you are asked"),
        ),
        ({"mysis": 4_500}, ("alpha (budget.mysis)", "then its requests are delayed")),
        ({"mysis": 4_500, "enforcement": "hard"}, ("alpha (budget.mysis)", "then it stops")),
        (
            {"swarm_money_per_day": 0.008},
            ("the swarm today (budget.swarm_money_per_day)", "then the swarm goes on hold"),
        ),
        ({"mysis_money": 0.0045, "enforcement": "hard"}, ("alpha (budget.mysis_money)", "then it stops")),
    ],
    ids=str,
)
async def test_a_broadcast_that_needs_more_than_a_budget_has_left_is_told_before_it_is_sent(
    tmp_path: Path, budget: dict[str, Any], short: tuple[str, ...]
) -> None:
    settings = Settings.model_validate({"budget": budget})
    used = Usage(input_tokens=2_300, output_tokens=50)
    (tmp_path / "prices.toml").write_text('[model."*"]\ninput = 1.0\noutput = 1.0\n')
    prices = PriceList(tmp_path / "prices.toml")
    async with swarm(tmp_path, script(Answer(text="ok", usage=used)), settings=settings, prices=prices) as s:
        await s.create("alpha", "beta", "gamma")
        await s.ask("alpha", "mine")
        told = await s.commander.find_short_budgets("sell the ore")
        assert all(word in told[0] for word in short) if short else told == ()
        assert await s.value("SELECT count(*) FROM message") == 1


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "Australia/Lord_Howe", "America/St_Johns"])
def test_the_day_of_a_time_is_the_local_date(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        for at in range(1_700_000_000, 1_700_000_000 + 370 * 86_400, 7_499):
            assert day_of(at * 1_000_000 + 999_999) == time.strftime("%Y-%m-%d", time.localtime(at))
    finally:
        monkeypatch.undo()
        time.tzset()
