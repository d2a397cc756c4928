"""The history of a mysis over a real swarm: its commits as a graph, and what each holds."""

from __future__ import annotations

import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from textual.widgets import Input

from tests.queries.test_request_inspection import send_prompts
from tests.swarm.harness import call, plain
from tests.tui.cockpit import QUIET, Stage, answering, cockpit, take_steps
from tests.tui.hostile_texts import HOSTILE, is_harmless
from zoea.model.errors import NoRunningSwarm
from zoea.model.request import Answer, ModelRequest
from zoea.runtime.first_request_estimate import FirstRequestEstimate, estimate_from_commit
from zoea.settings.schema import Settings
from zoea.tui.dialogs import commit_forms
from zoea.tui.dialogs.commit_forms import (
    AnswerDialog,
    AskDialog,
    CommitForm,
    CommitNameDialog,
    ForkDialog,
    ResumeDialog,
)
from zoea.tui.screens import history
from zoea.tui.screens.comparison import ComparisonScreen
from zoea.tui.screens.focus import FocusScreen
from zoea.tui.screens.history import HistoryScreen
from zoea.tui.widgets.folding_list import FoldingList
from zoea.tui.widgets.inline_choice import InlineChoice
from zoea.tui.widgets.line_list import LineList, TextLines

Form = TypeVar("Form", bound=CommitForm)


async def open_history(stage: Stage) -> HistoryScreen:
    await stage.press("h")
    screen = stage.screen
    assert isinstance(screen, HistoryScreen)
    await stage.until(lambda: screen.details is not None)
    return screen


@asynccontextmanager
async def history_of_alpha(tmp_path: Path) -> AsyncIterator[Stage]:
    """The history of alpha, which has answered one message."""
    async with cockpit(tmp_path, answering("yes"), names=("alpha",), size=(120, 40)) as stage:
        await send_prompts(stage.swarm, "Mine the belt")
        await open_history(stage)
        yield stage


async def in_the_history(stage: Stage, step: Callable[[Stage], Awaitable[None]]) -> None:
    """Take a step in the history of the first mysis."""
    await open_history(stage)
    await step(stage)


async def open_form(stage: Stage, kind: type[Form], *keys: str) -> Form:
    await stage.press(*keys)
    assert isinstance(stage.screen, kind)
    return stage.screen


def rows(screen: HistoryScreen) -> list[str]:
    return screen.listed.plain.splitlines()


async def every_commit_is_one_row_with_its_summary_newest_first(stage: Stage) -> None:
    await stage.pilot.resize_terminal(160, 40)
    screen = stage.top(HistoryScreen)
    assert "HISTORY OF alpha" in stage.text()
    lines = [line for line in rows(screen) if "live" not in line]
    assert "Sell the ore" in lines[0]
    assert "@alpha" in lines[0]
    assert "Mine the belt" in lines[-1]
    for words in ("Summary", "What it knew", "template", "session", "parent", "● after a request"):
        assert words in stage.text(), words


async def enter_opens_the_commit_and_tab_shows_its_messages_and_all_that_it_knew(stage: Stage) -> None:
    await stage.pilot.resize_terminal(80, 24)
    screen = stage.top(HistoryScreen)
    await stage.press("g", until=lambda: screen.details is not None and screen.chosen == screen.details.commit)
    await stage.press("enter")
    assert screen.part == "about"
    await stage.until(lambda: "Where it comes from" in stage.text())
    await stage.press("tab")
    delta = stage.one(FoldingList, "#delta")
    assert "Sell the ore" in delta.plain
    assert "Mine the belt" not in delta.plain
    await stage.press("tab")
    saw = stage.one(FoldingList, "#saw")
    await stage.until(lambda: "Mine the belt" in saw.plain)
    assert "Sell the ore" in saw.plain
    await stage.until(lambda: "as it was stored" in stage.text())
    await stage.press("escape")
    assert screen.part == "commits"
    await stage.press("escape")
    assert not isinstance(stage.screen, HistoryScreen)


async def test_a_fork_is_a_lane_of_its_own(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering("yes"), names=("alpha",), size=(160, 40)) as stage:
        await send_prompts(stage.swarm, "one", "two")
        fork = await stage.swarm.commander.create("", commit="@alpha~1", start=True)
        await stage.swarm.commander.send(fork.name, "another way")
        await stage.swarm.settled(fork.name)
        await send_prompts(stage.swarm, "three")
        screen = await open_history(stage)
        await stage.until(lambda: any("another way" in line for line in rows(screen)))
        assert {row.column for row in screen.history.rows} == {0, 1}
        assert any("●─╯" in line for line in rows(screen))
        assert f"@{fork.name}" in stage.text()


async def test_new_commits_appear_and_the_cursor_stays_on_its_commit(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering("yes"), names=("alpha",)) as stage:
        await send_prompts(stage.swarm, "one", "two")
        screen = await open_history(stage)
        await stage.press("down")
        chosen = screen.chosen
        assert chosen is not None
        before = len(screen.history.commits)
        await send_prompts(stage.swarm, "three")
        await stage.until(lambda: screen.is_outdated or len(screen.history.commits) > before)
        screen.tick()
        await stage.until(lambda: len(screen.history.commits) > before)
        assert screen.chosen == chosen


async def the_filter_shows_the_commits_with_the_words(stage: Stage) -> None:
    await stage.pilot.resize_terminal(120, 40)
    screen = stage.top(HistoryScreen)
    await stage.press("slash")
    await stage.write("belt")
    await stage.until(lambda: all("Mine the belt" in line for line in rows(screen)))
    await stage.press("enter", "escape", until=lambda: any("Sell the ore" in line for line in rows(screen)))
    assert isinstance(stage.screen, HistoryScreen)


async def test_the_last_key_goes_to_the_oldest_commit_that_is_not_read_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "PAGE", 1)
    monkeypatch.setattr(history, "MORE", 1)
    monkeypatch.setattr(history, "NEAR", -100)  # nothing is read because the end is near
    async with cockpit(tmp_path, answering("yes"), names=("alpha",), size=(160, 40)) as stage:
        await send_prompts(stage.swarm, "Mine the belt", "Sell the ore", "Buy fuel")
        screen = await open_history(stage)
        assert screen.history.has_older
        await stage.press("G", until=lambda: not screen.history.has_older)
        await stage.until(lambda: "Mine the belt" in rows(screen)[screen.listed.place])


async def test_a_mysis_without_commits_says_so(tmp_path: Path) -> None:
    async with cockpit(tmp_path, names=("alpha",)) as stage:
        await stage.press("h", shows="No commit yet")
        await stage.press("enter", "tab", "tab", "y", "v", "G", "g", "escape", "escape")
        assert not isinstance(stage.screen, HistoryScreen)


async def test_work_that_no_commit_holds_yet_is_a_row_that_cannot_be_forked(tmp_path: Path) -> None:
    coarse = Settings.model_validate(QUIET.model_dump() | {"chain": {"capture": "every:9"}})
    async with cockpit(tmp_path, answering("yes"), names=("alpha",), settings=coarse) as stage:
        await send_prompts(stage.swarm, "one")
        await stage.press("h")
        screen = stage.screen
        assert isinstance(screen, HistoryScreen)
        await stage.until(lambda: any("2 messages not committed yet" in line for line in rows(screen)))
        await stage.press("f")
        assert screen.chosen is None
        assert stage.screen is screen


async def test_the_history_opens_from_a_conversation_too(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering("yes"), names=("alpha",)) as stage:
        await send_prompts(stage.swarm, "one")
        await stage.press("enter", shows=FocusScreen)
        await open_history(stage)


async def test_hostile_texts_in_summaries_and_messages_are_shown_as_they_are(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering("yes"), names=("alpha",), size=(140, 50)) as stage:
        await send_prompts(stage.swarm, *HOSTILE)
        screen = await open_history(stage)
        await stage.press("v")
        for _ in HOSTILE:
            await stage.press("down")
            await stage.until(lambda: screen.details is not None and screen.details.commit == screen.chosen)
            assert is_harmless(stage.text())
        await stage.press("tab", "tab", "tab", until=lambda: screen.context is not None)
        assert is_harmless(stage.text())
        assert stage.one(LineList, "#about").count


async def test_f_says_the_cost_then_makes_forks_that_z_removes(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering("yes"), names=("alpha",), size=(80, 24)) as stage:
        await send_prompts(stage.swarm, "Mine the belt", "Sell the ore")
        await open_history(stage)
        dialog = await open_form(stage, ForkDialog, "f")
        stage.one(Input, "#count").value = "3"
        await stage.write("Try it differently")
        await stage.until(lambda: dialog.is_counted)
        await stage.until(lambda: "4 messages. First request: about" in stage.text())
        said = dialog.plan
        assert said is not None
        await stage.press("enter", until=lambda: stage.has("alpha-2", "alpha-3", "alpha-4"))
        asked = stage.swarm.provider.requests
        await stage.until(lambda: sum(plain(one.messages[-1].content) == "Try it differently" for one in asked) == 3)
        await stage.swarm.settled()
        forks = [one for one in asked if plain(one.messages[-1].content) == "Try it differently"]
        assert all("Mine the belt" in str(request.messages) for request in forks)
        rows = await stage.swarm.rows("SELECT estimated_tokens AS tokens FROM request ORDER BY id DESC LIMIT 3")
        assert abs(sum(row["tokens"] for row in rows) - said.cost.tokens * 3) <= said.cost.tokens * 3 * 0.05
        assert isinstance(stage.screen, HistoryScreen)
        await stage.press("z", until=lambda: [one.name for one in stage.app.feed.myses.values()] == ["alpha"])
        assert any("removed" in notice for notice in stage.notices)


async def a_number_behind_the_message_of_a_fork_gives_the_typed_one_back_when_it_goes(stage: Stage) -> None:
    dialog = await open_form(stage, ForkDialog, "f")
    count, message = dialog.query_one("#count", Input), dialog.query_one("#message", Input)
    count.value = "5"

    def shows(number: str) -> bool:
        return (count.value, count.disabled) == (number, number != "5")

    for text, shown in (("Dig x2", "2"), ("Dig x23", "23"), ("Dig", "5"), ("Dig x3", "3"), ("", "5")):
        message.value = text
        await stage.until(partial(shows, shown))


async def test_a_second_try_after_a_lost_answer_makes_no_more_forks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cockpit(tmp_path, answering("yes"), names=("alpha",), size=(80, 24)) as stage:
        await send_prompts(stage.swarm, "Mine the belt")
        await open_history(stage)
        dialog = await open_form(stage, ForkDialog, "f")
        await stage.write("Dig x2")
        await stage.until(lambda: dialog.is_counted and "for 2" in stage.text())
        count = dialog.query_one("#count", Input)
        assert (count.value, count.disabled) == ("2", True)
        create, calls = stage.swarm.commander.create, list[str]()

        async def lose_the_second(*args: Any, **more: Any) -> Any:
            made = await create(*args, **more)
            calls.append(made.name)
            if len(calls) == 2:
                raise NoRunningSwarm("the connection broke")
            return made

        monkeypatch.setattr(stage.swarm.commander, "create", lose_the_second)
        await stage.press("enter", until=lambda: len(calls) == 2 and "the connection broke" in stage.text())
        dialog._count()  # as a late choice of templates does, for the same basis
        await stage.pilot.pause()
        assert "the connection broke" in stage.text()
        await stage.press("enter", until=lambda: len(calls) == 4 and stage.screen is not dialog)
        assert calls == ["alpha-2", "alpha-3"] * 2
        await stage.swarm.settled()
        assert await stage.swarm.value("SELECT count(*) FROM message WHERE content = 'Dig'") == 2


async def test_a_number_at_the_end_of_the_message_makes_that_many_forks(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering("yes"), names=("alpha",), size=(80, 24)) as stage:
        await send_prompts(stage.swarm, "Mine the belt")
        await open_history(stage)
        dialog = await open_form(stage, ForkDialog, "f")
        await stage.write("1. Dig 2. Look x2")
        await stage.until(lambda: dialog.is_counted and "for 2" in stage.text())
        await stage.press("enter", until=lambda: stage.has("alpha-2", "alpha-3"))
        asked = stage.swarm.provider.requests
        await stage.until(lambda: sum(plain(one.messages[-1].content) == "1. Dig 2. Look" for one in asked) == 2)


async def the_fork_form_starts_in_its_first_field_and_text_chooses_no_template(stage: Stage) -> None:
    await open_form(stage, ForkDialog, "f")
    assert stage.screen.focused is stage.screen.query("FormDialog Input, FormDialog InlineChoice").first()
    template = stage.one(InlineChoice, "#template")
    await stage.until(lambda: len(template._options) > 1)
    template.focus()
    await stage.write("try it another way")
    assert template.value == ""
    await stage.press("right")
    assert template.value != ""


async def the_cost_of_a_fork_is_that_of_the_chosen_template(stage: Stage) -> None:
    dialog = await open_form(stage, ForkDialog, "f")
    await stage.until(lambda: dialog.is_counted)
    own = dialog.plan
    template = stage.one(InlineChoice, "#template")
    counted_at_once: list[bool] = []

    def is_chosen() -> bool:
        template.choose("coder")  # once the templates were read
        if template.value != "coder":
            return False
        counted_at_once.append(dialog.is_counted)  # before the cockpit comes to rest, which may be after the count
        return True

    await stage.until(is_chosen)
    assert counted_at_once == [False], "enter does nothing before the cost is shown"
    await stage.until(lambda: dialog.is_counted)
    chosen = dialog.plan
    assert own is not None
    assert chosen is not None
    assert chosen.cost.tokens != own.cost.tokens
    assert not chosen.cost.has_own_tools


async def the_fork_form_warns_of_a_goal_and_of_other_tools(stage: Stage) -> None:
    await stage.press("f")
    template = stage.one(InlineChoice, "#template")
    await stage.until(lambda: len(template._options) > 1)
    template.choose("watcher")
    await stage.until(lambda: "watcher has a goal: they are nudged" in stage.text())
    assert "watcher allows other tools than default" in stage.text()
    template.choose("")
    await stage.until(lambda: "watcher has a goal" not in stage.text())


async def test_a_fork_that_is_refused_says_what_to_do_and_keeps_what_was_written(tmp_path: Path) -> None:
    few = Settings.model_validate(QUIET.model_dump() | {"swarm": {"max_myses": 2}})
    async with cockpit(tmp_path, answering("yes"), names=("alpha",), settings=few) as stage:
        await send_prompts(stage.swarm, "Mine the belt")
        await open_history(stage)
        dialog = await open_form(stage, ForkDialog, "f")
        stage.one(Input, "#count").value = "many"
        await stage.until(lambda: "how many: 'many' is no number of forks" in stage.text())
        await stage.until(lambda: "Give 1 to 50" in stage.text())
        await stage.press("enter")
        assert dialog.is_current
        stage.one(Input, "#count").value = "2"
        await stage.until(lambda: dialog.is_counted)
        await stage.press("enter", shows="swarm.max_myses")
        assert dialog.is_current
        await stage.until(lambda: any("alpha-2: made from" in notice for notice in stage.notices))
        assert len(stage.app.undo) == 1


async def test_c_marks_one_commit_and_compares_another_with_it(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering("yes"), names=("alpha",), size=(120, 40)) as stage:
        await send_prompts(stage.swarm, "one", "two")
        fork = await stage.swarm.commander.create("", commit="@alpha~1", start=True)
        await stage.swarm.commander.send(fork.name, "another way")
        await stage.swarm.settled(fork.name)
        screen = await open_history(stage)
        await stage.until(lambda: "another way" in screen.listed.plain)
        await stage.press("g", "c")
        assert "▌" in screen.listed.plain
        await stage.press("escape")
        assert "▌" not in screen.listed.plain
        await stage.press("c", "down", "c")
        compared = stage.screen
        assert isinstance(compared, ComparisonScreen)
        await stage.until(lambda: compared.compared is not None)
        one, other = stage.one(FoldingList, "#one"), stage.one(FoldingList, "#other")
        assert "another way" in one.plain
        assert "two" not in one.plain
        assert "two" in other.plain
        assert "another way" not in other.plain
        assert "one" in stage.text()
        await stage.press("v", "enter", "tab", "escape")
        assert stage.screen is screen


async def test_the_comparison_marks_what_differs_and_shows_calls(tmp_path: Path) -> None:
    def model(request: ModelRequest) -> Answer:
        last = plain(request.messages[-1].content)
        return (
            Answer(calls=(call("look", "belt-2"),), text="I look.\nAt it.\nWell.")
            if last == "look"
            else Answer(text="ok")
        )

    async with cockpit(tmp_path, model, names=("alpha",), size=(160, 40)) as stage:
        await send_prompts(stage.swarm, "one", "same", "look")
        fork = await stage.swarm.commander.create("", commit="@alpha~3", start=True)
        for text in ("same", "another way"):
            await stage.swarm.commander.send(fork.name, text)
            await stage.swarm.settled(fork.name)
        tips = await stage.swarm.rows("SELECT max(seq) AS seq FROM ctx_commit GROUP BY principal ORDER BY seq")
        stage.app.push_screen(ComparisonScreen(*(row["seq"] for row in tips)))
        await stage.until(
            lambda: stage.shows(ComparisonScreen) and "another way" in stage.one(FoldingList, "#other").plain
        )
        text = stage.text()
        assert "6 messages after it, 3 (*) only here" in text
        assert "4 messages after it, 1 (*) only here" in text
        assert len(re.findall(r"\*\s+\d (?:direct|answer|result)", text)) == 4
        assert '⚙ look({"text": "belt-2"})' in text


async def test_texts_in_calls_are_read_as_texts_in_the_history_and_in_a_comparison(tmp_path: Path) -> None:
    def model(request: ModelRequest) -> Answer:
        is_told = plain(request.messages[-1].content) == "report"
        return Answer(calls=(call("look", "# Done\n- one"),)) if is_told else Answer(text="ok")

    async with cockpit(tmp_path, model, names=("alpha",), size=(120, 40)) as stage:
        await send_prompts(stage.swarm, "one", "report")
        fork = await stage.swarm.commander.create("", commit="@alpha~2", start=True)
        await stage.swarm.commander.send(fork.name, "go on")
        await stage.swarm.settled(fork.name)
        await open_history(stage)
        await stage.press("down", "down", "tab", "tab")
        await stage.until(lambda: re.search(r"⚙ look +.*\n.* text: +.*\n.* │ # Done .*\n.* │ - one ", stage.text()))
        tips = await stage.swarm.rows("SELECT max(seq) AS seq FROM ctx_commit GROUP BY principal ORDER BY seq")
        stage.app.push_screen(ComparisonScreen(*(row["seq"] for row in tips)))
        await stage.until(lambda: stage.shows(ComparisonScreen) and " │ - one " in stage.text())
        assert "\\n" not in stage.text()


async def test_the_timeline_shows_what_each_mysis_knew_and_leads_to_its_history(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering("yes"), names=("alpha", "beta")) as stage:
        for name, text in (("alpha", "first"), ("beta", "second"), ("alpha", "third")):
            await stage.swarm.commander.send(name, text)
            await stage.swarm.settled(name)
            stage.clock.by(3600)
        await stage.press("g")
        await open_history(stage)
        await stage.press("t")
        screen = stage.screen
        assert isinstance(screen, HistoryScreen)
        known = screen.listed
        await stage.until(lambda: "third" in known.plain and "second" in known.plain)
        await stage.pilot.resize_terminal(60, 16)
        await stage.until(lambda: "2 commits · ● after a request" in stage.text())
        keys, parts = (part for part in (stage.text().splitlines()[-1], stage.text().splitlines()[1]))
        assert keys.startswith(" esc back  left earlier  right later "), "time is what a timeline is moved through"
        assert "ALL IT KNEW   tab" in parts
        await stage.pilot.resize_terminal(80, 24)
        await stage.until(lambda: " left earlier  right later " in stage.text() and " / choose a time " in stage.text())
        await stage.pilot.resize_terminal(120, 40)
        await stage.press("left", until=lambda: "first" in known.plain and "second" in known.plain)
        await stage.press("left", until=lambda: "second" not in known.plain)
        await stage.press("left", until=lambda: any("No commit is older" in notice for notice in stage.notices))
        await stage.press("right", until=lambda: "second" in known.plain)
        await stage.press("slash")
        await stage.enter("soon")
        await stage.until(lambda: any("'soon' is no time" in notice for notice in stage.notices))
        stage.one(Input, "#filter-text").value = "10m"
        await stage.press("enter", until=lambda: "third" in known.plain)
        await stage.press("G", "enter")
        history = stage.screen
        assert isinstance(history, HistoryScreen)
        assert history is not screen
        await stage.until(lambda: history.details is not None)
        assert "HISTORY OF beta" in stage.text()
        assert history.chosen is not None
        assert "second" in history.chosen.note.summary
        await stage.press("escape", "escape")
        await stage.until(lambda: "HISTORY OF alpha" in stage.text() and screen.moment is None)


async def a_asks_what_the_mysis_knew_at_the_commit(stage: Stage) -> None:
    await stage.pilot.resize_terminal(120, 40)
    screen = stage.top(HistoryScreen)
    dialog = await open_form(stage, AskDialog, "G", "a")
    await stage.until(lambda: dialog.is_counted)
    await stage.press("enter", shows="there is no question")
    await stage.write("Why this belt?")
    await stage.until(lambda: dialog.is_counted)
    assert "2 messages. First request: about" in stage.text()
    await stage.press("enter", until=lambda: any("answers in thread" in notice for notice in stage.notices))
    await stage.until(lambda: len(stage.app.feed.myses) == 2)
    (other,) = [view for view in stage.app.feed.myses.values() if view.name != "alpha"]
    await stage.until(lambda: stage.shows(AnswerDialog) and stage.one(TextLines, "#answer").plain == "yes")
    assert all(words in stage.text() for words in ("Why this belt?", "yes", "ANSWER OF ctx-"))
    await stage.swarm.settled(other.name)
    await stage.press("enter")
    await stage.until(lambda: isinstance(stage.screen, FocusScreen) and stage.screen.mysis_id == other.id)
    await stage.press("escape")
    assert stage.screen is screen
    (request,) = [one for one in stage.swarm.provider.requests if plain(one.messages[-1].content) == "Why this belt?"]
    assert "Mine the belt" in str(request.messages)
    assert "Sell the ore" not in str(request.messages)
    await stage.until(lambda: screen.is_outdated or "Why this belt?" in stage.text())
    screen.tick()
    await stage.until(lambda: "Why this belt?" in stage.text())
    assert any(ref.startswith("thread/") for names in screen.history.refs.values() for ref in names)


async def test_an_answer_that_is_there_before_its_dialog_is_shown(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering("yes"), names=("alpha",)) as stage:
        await send_prompts(stage.swarm, "Mine the belt")
        (alpha,) = stage.app.feed.myses
        dialog = AnswerDialog(alpha, "ctx-1 alpha", "Why this belt?")
        stage.app.push_screen(dialog)
        dialog.feed_changed(frozenset({alpha}))  # what it would put is overwritten when it is mounted
        assert not [worker for worker in stage.app.workers if worker.node is dialog]
        await stage.until(lambda: stage.shows(AnswerDialog) and stage.one(TextLines, "#answer").plain == "yes")


async def test_enter_before_the_cost_is_counted_is_told_until_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, count = threading.Event(), estimate_from_commit

    def count_late(*args: Any, **named: Any) -> FirstRequestEstimate:
        if "Why" in args[3]:
            assert go_on.wait(30)
        return count(*args, **named)

    monkeypatch.setattr(commit_forms, "estimate_from_commit", count_late)
    async with history_of_alpha(tmp_path) as stage:
        dialog = await open_form(stage, AskDialog, "a")
        await stage.until(lambda: dialog.is_counted)
        try:
            stage.one(Input, "#message").value = "Why?"
            await dialog.carry_out()
            await stage.until(lambda: "The cost is being counted" in stage.text())
        finally:
            go_on.set()
        await stage.until(lambda: dialog.is_counted)
        await stage.until(lambda: "The cost is shown now: press enter again" in stage.text())
        await stage.press("enter", shows=AnswerDialog)


async def test_r_starts_the_mysis_again_with_its_whole_conversation(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering("yes"), names=("alpha",), size=(120, 40)) as stage:
        await send_prompts(stage.swarm, "Mine the belt", "Sell the ore")
        screen = await open_history(stage)
        await stage.press("G", until=lambda: screen.chosen == screen.history.commits[-1])
        dialog = await open_form(stage, ResumeDialog, "r")
        await stage.write("Where were we?")
        await stage.until(lambda: dialog.is_counted)
        assert "4 messages. First request" in stage.text()
        await stage.press("enter", until=lambda: any("goes on from" in notice for notice in stage.notices))
        await stage.swarm.settled()
        (request,) = [
            one for one in stage.swarm.provider.requests if plain(one.messages[-1].content) == "Where were we?"
        ]
        assert "Mine the belt" in str(request.messages)


async def n_gives_the_commit_a_name_that_is_shown(stage: Stage) -> None:
    screen = stage.top(HistoryScreen)
    await stage.press("n")
    assert stage.shows(CommitNameDialog)
    await stage.press("enter", shows="there is no name")
    await stage.write("a b")
    await stage.press("enter", shows="cannot be the name")
    stage.one(Input, "#name").value = "before-the-storm"
    await stage.press("enter", shows=HistoryScreen)
    screen.tick()
    await stage.until(lambda: "tag/before-the-storm" in stage.text())


async def test_forms_of_a_history_say_what_they_do(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering("yes"), names=("alpha",)) as stage:
        await send_prompts(stage.swarm, "Mine the belt")
        await take_steps(
            stage,
            partial(in_the_history, step=a_number_behind_the_message_of_a_fork_gives_the_typed_one_back_when_it_goes),
            partial(in_the_history, step=the_cost_of_a_fork_is_that_of_the_chosen_template),
            partial(in_the_history, step=the_fork_form_warns_of_a_goal_and_of_other_tools),
            partial(in_the_history, step=the_fork_form_starts_in_its_first_field_and_text_chooses_no_template),
            partial(in_the_history, step=n_gives_the_commit_a_name_that_is_shown),
        )


async def test_commits_are_listed_opened_filtered_and_asked(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering("yes"), names=("alpha",)) as stage:
        await send_prompts(stage.swarm, "Mine the belt", "Sell the ore")
        await take_steps(
            stage,
            partial(in_the_history, step=every_commit_is_one_row_with_its_summary_newest_first),
            partial(in_the_history, step=enter_opens_the_commit_and_tab_shows_its_messages_and_all_that_it_knew),
            partial(in_the_history, step=the_filter_shows_the_commits_with_the_words),
            partial(in_the_history, step=a_asks_what_the_mysis_knew_at_the_commit),
        )
