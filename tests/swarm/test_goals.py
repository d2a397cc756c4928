"""A mysis has a task and an end: nudges follow its goal, and it reports when it is done."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.case_tables import walk_cases
from tests.swarm.harness import Swarm, call, script, swarm
from zoea.model.enums import MysisState
from zoea.model.request import Answer, AnswerCall, Catalogue, ToolSpec
from zoea.model.status import StatusWord, wants_review
from zoea.queries.stored_swarm import read_swarm_view
from zoea.settings.schema import Settings
from zoea.swarm.resolved_template import drop_told_goal, nudge_text
from zoea.tools import OwnTools, ToolPolicy

FOLLOWS_GOALS = Settings.model_validate({"nudge": {"without_goal": False}})
SUMMARY = "The ore is sold for 40 credits."
DONE = Answer(calls=(AnswerCall("zoea_done", json.dumps({"summary": SUMMARY})),))
TASK = "Sell the ore."


async def goal(s: Swarm, name: str = "alpha") -> dict[str, object]:
    [row] = await s.rows("SELECT goal, goal_reached_at, nothing_new FROM mysis WHERE name = ?", name)
    return dict(row)


async def nudges(s: Swarm) -> int:
    return int(await s.value("SELECT count(*) FROM turn WHERE opened_by = 'nudge'"))


async def test_a_mysis_without_a_task_waits_for_its_first_message_and_is_not_nudged(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="Hello.")), settings=FOLLOWS_GOALS) as s:
        await s.commander.create("alpha")
        await s.run_due(3600)
        assert s.sent() == []
        await s.ask("alpha", "Who are you?")
        await s.run_due(3600)
        assert (len(s.sent()), await nudges(s)) == (1, 0)
        assert s.state() is MysisState.RUNNING


async def test_a_task_is_the_first_message_and_nudges_follow_it_until_it_is_reported_as_done(tmp_path: Path) -> None:
    answers = script(Answer(text="I am on my way to the market."), DONE)
    async with swarm(tmp_path, answers, settings=FOLLOWS_GOALS) as s:
        await s.commander.create("alpha", task=TASK)
        await s.settled()
        assert s.sent()[0][-1] == ("user", TASK)
        s.clock.by(30)
        await s.until(lambda: s.state() is MysisState.IDLE)
        view = await s.commander.mysis("alpha")
        assert (view.state_reason, view.goal, view.goal_reached_at) == ("done", TASK, s.clock.now())
        assert "If your standing order is carried out, call zoea_done." in s.sent()[1][-1][1]
        assert view.text == "The ore is sold for 40 credits."
        arguments = await s.value("SELECT arguments FROM tool_call WHERE name = 'zoea_done'")
        assert json.loads(arguments)["summary"] == "The ore is sold for 40 credits."
        await s.run_due(3600)
        assert len(s.sent()) == 2


async def test_only_a_mysis_with_a_goal_is_offered_the_tool_that_reports_the_end(tmp_path: Path) -> None:
    answers = script(Answer(text="Hello."), DONE, DONE)
    async with swarm(tmp_path, answers, settings=FOLLOWS_GOALS, policy=ToolPolicy(own=OwnTools.SLIM)) as s:
        await s.commander.create("alpha", start=False)
        for text in ("Who are you?", "Report the end all the same."):
            await s.ask("alpha", text)
        assert await s.value("SELECT state FROM tool_call WHERE name = 'zoea_done'") == "done"
        await s.commander.send("alpha", TASK, is_task=True)
        await s.settled()

        offered = [{tool.name for tool in request.tools} for request in s.provider.requests]
        assert ["zoea_done" in tools for tools in offered] == [False, False, True]
        assert await s.value("SELECT count(DISTINCT catalogue_hash) FROM request") == 2
        assert s.state() is MysisState.IDLE


async def test_a_message_to_a_done_mysis_is_answered_and_a_new_task_sends_it_on(tmp_path: Path) -> None:
    answers = script(DONE, Answer(text="Forty."), Answer(text="I fly to the next belt."), DONE)
    async with swarm(tmp_path, answers, settings=FOLLOWS_GOALS) as s:
        await s.commander.create("alpha", task=TASK)
        await s.settled()
        await s.ask("alpha", "How many credits?")
        assert (s.state(), (await s.commander.mysis("alpha")).state_reason) == (MysisState.IDLE, "done")
        await s.commander.send("alpha", "Mine the next belt.", is_task=True)
        await s.settled()
        assert (await goal(s))["goal"] == "Mine the next belt."
        assert (await goal(s))["goal_reached_at"] is None
        assert s.state() is MysisState.RUNNING
        s.clock.by(30)
        await s.until(lambda: s.state() is MysisState.IDLE)
        assert (await goal(s))["goal_reached_at"] is not None


async def test_after_a_restart_a_done_mysis_shows_its_summary_until_it_says_something_newer(tmp_path: Path) -> None:
    answers = script(replace(DONE, text="I report."), Answer(text="Forty."))
    async with swarm(tmp_path, answers, settings=FOLLOWS_GOALS) as s:
        await s.commander.create("alpha", task=TASK)
        await s.settled()
        before = await s.commander.mysis("alpha")
        assert (before.text, before.status) == (SUMMARY, StatusWord.DONE)
    async with swarm(tmp_path, script(Answer(text="Forty.")), settings=FOLLOWS_GOALS) as s:
        again = await s.commander.mysis("alpha")
        assert (again.text, again.status) == (SUMMARY, StatusWord.DONE)
        [stored] = read_swarm_view(tmp_path / "zoea.db").myses
        assert (stored.text, stored.status, stored.goal) == (SUMMARY, StatusWord.DONE, TASK)
        assert stored.goal_reached_at == again.goal_reached_at
        await s.ask("alpha", "How many credits?")
    async with swarm(tmp_path, settings=FOLLOWS_GOALS) as s:
        assert (await s.commander.mysis("alpha")).text == "Forty."
        assert read_swarm_view(tmp_path / "zoea.db").myses[0].text == "Forty."


async def test_a_mysis_that_is_restored_shows_what_it_said_last(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(DONE), settings=FOLLOWS_GOALS) as s:
        made = await s.commander.create("alpha", task=TASK)
        await s.settled()
        await s.commander.delete("alpha")
        assert (await s.commander.undelete(made.id)).text == SUMMARY


async def test_three_nudged_turns_that_say_nothing_new_make_it_rest(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="Understood.")), settings=FOLLOWS_GOALS) as s:
        await s.commander.create("alpha", task=TASK)
        await s.settled()
        for _ in range(3):
            assert s.state() is MysisState.RUNNING
            await s.run_due(30)
            await s.settled()
        await s.until(lambda: s.state() is MysisState.IDLE)
        assert (await s.commander.mysis("alpha")).state_reason == "nothing new"
        assert (len(s.sent()), (await goal(s))["goal_reached_at"]) == (4, None)
        await s.run_due(3600)
        assert len(s.sent()) == 4


@pytest.mark.parametrize(
    "progress",
    [
        (Answer(calls=(call("look"),)), Answer(text="Understood.")),
        (Answer(text="Iron costs nine credits at station four, copper eleven at station two, so I leave."),),
    ],
    ids=["a tool call", "something new"],
)
async def test_a_nudged_turn_that_did_something_sets_the_count_back(
    tmp_path: Path, progress: tuple[Answer, ...]
) -> None:
    quiet = Answer(text="Understood.")
    async with swarm(tmp_path, script(quiet, quiet, quiet, *progress, quiet), settings=FOLLOWS_GOALS) as s:
        await s.commander.create("alpha", task=TASK)
        await s.settled()
        for expected in (1, 2, 0, 1, 2):
            await s.run_due(30)
            await s.settled()
            assert (await goal(s))["nothing_new"] == expected
        assert s.state() is MysisState.RUNNING


async def test_the_count_and_a_reached_goal_outlast_a_restart(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="Understood.")), settings=FOLLOWS_GOALS) as s:
        await s.commander.create("alpha", task=TASK)
        await s.settled()
        for _ in range(2):
            await s.run_due(30)
            await s.settled()
    async with swarm(tmp_path, script(Answer(text="Understood."), DONE), settings=FOLLOWS_GOALS) as s:
        await s.commander.start_all(left_running=True)
        s.clock.by(30)
        await s.until(lambda: s.state() is MysisState.IDLE)
        assert (await s.commander.mysis("alpha")).state_reason == "nothing new"
        await s.ask("alpha", "Go on.")
    async with swarm(tmp_path, settings=FOLLOWS_GOALS) as s:
        assert s.commander.swarm.runner("alpha").life.done
        assert await s.commander.start_all(left_running=True) == 0


async def test_a_withdrawn_task_is_no_goal(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="Hello.")), settings=FOLLOWS_GOALS) as s:
        await s.commander.create("alpha", start=False, task=TASK)
        await s.commander.hold(True)
        receipt = await s.commander.send("alpha", "Mine instead.", is_task=True)
        await s.commander.withdraw(receipt.lines[0].delivery_id or 0)
        assert (await s.commander.mysis("alpha")).goal == TASK


async def test_the_goal_of_a_template_is_nudged_for_from_the_start(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="Aye.")), settings=FOLLOWS_GOALS) as s:
        view = await s.commander.create("alpha", template="nova")
        assert view.goal
        s.clock.by(30)
        await s.until(lambda: s.sent())
        assert s.sent()[0][-1][1].startswith("Continue your mission.")
        assert "Your task" not in s.sent()[0][-1][1]


async def test_a_reviewed_result_asks_for_no_review_until_the_next_run(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(DONE), settings=FOLLOWS_GOALS) as s:
        await s.commander.create("alpha", task=TASK)
        await s.until(lambda: s.state() is MysisState.IDLE)
        assert wants_review(await s.commander.mysis("alpha"))
        assert not wants_review(await s.commander.dismiss("alpha"))
        await s.ask("alpha", "And again.")
        assert wants_review(await s.commander.mysis("alpha"))


async def test_an_arrival_waits_by_the_tick_that_an_earlier_turn_was_told(tmp_path: Path) -> None:
    answers = script(
        Answer(calls=(call("say_ticks", '{"status": {"tick": 41700}}'),)),
        Answer(text="Docked."),
        Answer(calls=(call("say_ticks", '{"queued": true, "ticks": 1, "arrival_tick": 41708}'),)),
        Answer(text="On my way."),
    )
    async with swarm(tmp_path, answers, settings=FOLLOWS_GOALS) as s:
        await s.commander.create("alpha")
        await s.ask("alpha", "Where are you?")
        told = s.clock.now()
        s.clock.by(20)
        await s.ask("alpha", "Fly to the belt.")
        view = await s.commander.mysis("alpha")
        assert (view.waiting_until, view.waiting_for) == (told + 80_000_000, "arrival_tick 41708")


async def test_nudges_that_are_switched_off_end_at_once_and_begin_again_at_once(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="I fly.")), settings=FOLLOWS_GOALS) as s:
        await s.commander.create("alpha", task=TASK)
        await s.settled()
        s.clock.by(29)
        s.commander.swarm.adopt(Settings.model_validate({"nudge": {"enabled": False}}))
        await s.run_due(3600)
        await s.settled()
        assert len(s.sent()) == 1
        s.commander.swarm.adopt(FOLLOWS_GOALS)
        await s.until(lambda: len(s.sent()) == 2)


async def test_the_event_of_a_configuration_says_what_changed(tmp_path: Path) -> None:
    async with swarm(tmp_path, settings=FOLLOWS_GOALS) as s:
        await s.commander.create("alpha", start=False)
        await s.commander.configure("alpha", model="small", settings={"budget.mysis": 5000})
        await s.commander.configure("alpha", model="small")
        found = await s.rows("SELECT data FROM event WHERE kind = 'mysis.configured' ORDER BY id")
        assert [json.loads(row["data"])["changed"] for row in found] == ["model, budget.mysis", ""]


def test_a_nudge_tells_the_goal_in_one_line_and_how_to_report_it() -> None:
    tools = Catalogue((ToolSpec("zoea_recall", "", {}), ToolSpec("zoea_done", "", {})))
    lines = nudge_text(1, tools, "Sell\nthe ore.").splitlines()
    assert lines[0] == "Continue your mission. Check notifications and coordinate with the swarm."
    assert "zoea_recall" in lines[1]
    assert lines[2:] == ["Your goal: Sell the ore.", "If it is reached, call zoea_done."]
    assert nudge_text(1, Catalogue(), "Sell the ore.").splitlines()[1:] == ["Your goal: Sell the ore."]


@walk_cases(
    ("order", "told"),
    [
        ("Sell the ore.", "If your standing order is carried out, call zoea_done."),
        ("Please:\n\nSell the\n ore. Today.", "If your standing order is carried out, call zoea_done."),
        ("Look around.", "Your goal: Sell the ore.\nIf it is reached, call zoea_done."),
        ("", "Your goal: Sell the ore.\nIf it is reached, call zoea_done."),
    ],
)
def test_a_goal_that_the_standing_order_says_is_not_told_twice(order: str, told: str) -> None:
    nudge = nudge_text(2, Catalogue((ToolSpec("zoea_done", "", {}),)), "Sell the ore.")
    assert drop_told_goal(nudge, order).partition("\n")[2] == told
    bare = nudge_text(2, Catalogue(), "Sell the ore.")
    assert ("Sell" in drop_told_goal(bare, order)) is told.startswith("Your goal")


async def test_a_task_stands_once_in_a_nudged_request(tmp_path: Path) -> None:
    named = Settings.model_validate({"nudge": {"without_goal": False}})
    async with swarm(tmp_path, script(Answer("I wait.")), settings=named) as s:
        await s.commander.create("alpha", task="Watch the port.")
        await s.settled()
        s.clock.by(3600)
        await s.until(lambda: len(s.sent()) > 1)
        said = "\n".join(text for _, text in s.sent()[-1])
    assert said.count("Watch the port.") == 1
    assert "If your standing order is carried out, call zoea_done." in said


async def test_the_goal_of_a_template_is_told_with_the_nudge(tmp_path: Path) -> None:
    named = Settings.model_validate({"nudge": {"without_goal": False}})
    async with swarm(tmp_path, script(Answer("I wait.")), settings=named) as s:
        await s.commander.create("alpha", template="watcher")
        await s.ask("alpha", "Watch the port.")
        s.clock.by(3600)
        await s.until(lambda: len(s.sent()) > 1)
        said = [text for _, text in s.sent()[-1]]
    assert any("Your goal: Look at what you were told to watch" in text for text in said)
