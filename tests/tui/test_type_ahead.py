"""Type-ahead: keys that arrive in one burst reach the input that the first of them opens."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from textual import events
from textual.widgets import Input

from tests.fakes.slow_mount import delay_mounts, delayed
from tests.tui.cockpit import Stage, cockpit, take_steps, take_steps_anew
from tests.tui.idle_pilot import key_event
from tests.tui.test_prompt import messages
from zoea.model.values import ProviderView
from zoea.runtime import mysis_options
from zoea.tui.dialogs.command_line import CommandPromptDialog
from zoea.tui.dialogs.modal import ConfirmDialog
from zoea.tui.dialogs.new_mysis import NewMysisDialog
from zoea.tui.screens.dashboard import DashboardScreen
from zoea.tui.screens.search import SearchScreen
from zoea.tui.screens.settings import SettingsScreen
from zoea.tui.state import type_ahead
from zoea.tui.state.type_ahead import PUMP_S, OpeningWait, TypeAhead
from zoea.tui.widgets.message_prompt import MessagePrompt
from zoea.tui.widgets.model_field import ModelField
from zoea.tui.widgets.search_inputs import FilterLine

NAMES = {" ": "space", "\n": "enter", ":": "colon", "/": "slash", "\t": "tab"}


def burst(stage: Stage, text: str) -> None:
    """Post all keys of a text at once, as one read of the terminal does."""
    for character in text:
        stage.app.post_message(key_event(NAMES.get(character, character)))


def has_goal(stage: Stage, goal: str) -> bool:
    return any(view.goal == goal for view in stage.app.feed.myses.values())


@pytest.fixture(params=[False, True], ids=["quick", "slow"])
def slow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Let every dialog take a while to mount, in half of the runs. Return whether it does."""
    if request.param:
        delay_mounts(monkeypatch, CommandPromptDialog, NewMysisDialog, ConfirmDialog, SearchScreen, MessagePrompt)
    return bool(request.param)


async def a_broadcast_is_written_and_sent_in_one_burst(stage: Stage) -> None:
    burst(stage, "bdig xx and sell\n")
    await stage.until(lambda: all(view.turns == 1 for view in stage.app.feed.myses.values()))
    assert await messages(stage) == ["dig xx and sell"]
    assert not stage.app.feed.view or not stage.app.feed.view.held
    assert not stage.one(MessagePrompt).is_open


async def two_messages_in_one_burst_are_both_sent(stage: Stage) -> None:
    burst(stage, "mfirst\njmsecond\n")
    await stage.until(lambda: stage.view("beta").turns == 1 and stage.view("alpha").turns == 1)
    assert await messages(stage) == ["first", "second"]


async def a_command_line_is_run_in_one_burst(stage: Stage) -> None:
    burst(stage, ":theme abyss\n")
    await stage.until(lambda: stage.app.theme_spec.name == "abyss")
    burst(stage, ":send beta hello\n")
    await stage.until(lambda: stage.view("beta").turns == 1)
    assert await messages(stage) == ["hello"]


async def a_prompt_opened_by_a_command_takes_the_text_after_it(stage: Stage) -> None:
    burst(stage, ":broadcast\nxxdz\n")
    await stage.until(lambda: all(view.turns == 1 for view in stage.app.feed.myses.values()))
    assert await messages(stage) == ["xxdz"]


async def a_mysis_is_created_in_one_burst(stage: Stage) -> None:
    burst(stage, "ndexter\n")
    await stage.until(lambda: has_goal(stage, "dexter"))


async def a_question_takes_its_answer_from_the_burst(stage: Stage) -> None:
    burst(stage, "Dy")
    await stage.until(lambda: not stage.has("alpha"))
    assert stage.has("beta", "gamma")


UNSEEN = "The last key does not count"


async def nothing_unseen_is_submitted(stage: Stage, line: str, key: str, is_done: Callable[[], bool]) -> None:
    await stage.read_at_once(line)
    await stage.until(lambda: any(UNSEEN in notice for notice in stage.notices))
    assert not is_done()
    await stage.read_at_once(key)
    await stage.until(is_done)


@pytest.mark.usefixtures("slow")
async def test_a_line_that_is_read_at_once_submits_nothing_that_was_not_seen(tmp_path: Path) -> None:
    await take_steps_anew(
        tmp_path,
        lambda stage: nothing_unseen_is_submitted(stage, "ndexter\r", "\r", lambda: has_goal(stage, "dexter")),
        lambda stage: nothing_unseen_is_submitted(stage, "Dy", "y", lambda: not stage.has("alpha")),
    )


async def a_text_that_is_pasted_where_nothing_takes_it_is_said(stage: Stage) -> None:
    stage.app.post_message(events.Paste("xd and X"))
    await stage.until(lambda: "Nothing here takes a pasted text: m writes a message" in stage.notices)
    assert await messages(stage) == []


async def a_pasted_text_follows_the_key_that_opens_the_prompt(stage: Stage) -> None:
    stage.app.post_message(key_event("m"))
    stage.app.post_message(events.Paste("x and X\nd y"))
    stage.app.post_message(key_event("enter"))
    await stage.until(lambda: stage.view("alpha").turns == 1)
    assert await messages(stage) == ["x and X\nd y"]


async def a_filter_and_the_key_after_it_arrive_in_one_burst(stage: Stage) -> None:
    burst(stage, "/beta\ns")
    await stage.until(lambda: stage.view("beta").state == "stopped")
    assert stage.one(FilterLine).text == "beta"
    assert stage.view("alpha").state == "idle"


async def a_search_takes_its_words_from_the_burst(stage: Stage) -> None:
    stage.app.post_message(key_event("ctrl+f"))
    burst(stage, "ore xd")
    await stage.until(lambda: stage.shows(SearchScreen) and stage.one(Input, "#words").value == "ore xd")


async def test_text_typed_slowly_for_a_prompt_that_is_not_on_this_screen_runs_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.press("comma", shows=SettingsScreen)
        monkeypatch.setattr(type_ahead, "PAUSE_S", 60)
        monkeypatch.setattr(type_ahead, "BURST_S", 0)  # each key is typed by itself
        for key in ("b", "q", "X", "X", "enter", "colon"):
            await stage.pilot.press(key)
        assert stage.shows(SettingsScreen)
        assert not stage.app.feed.view or not stage.app.feed.view.held
        await stage.pilot.press("escape")
        await stage.until(lambda: stage.shows(DashboardScreen))


async def a_key_typed_before_its_input_was_refused_runs_no_command_however_late_it_comes(stage: Stage) -> None:
    with pytest.MonkeyPatch.context() as patched:
        await stage.press("comma", shows=SettingsScreen)
        patched.setattr(type_ahead, "PAUSE_S", 0)
        patched.setattr(type_ahead, "BURST_S", 0)
        late = [key_event(key) for key in ("x", "down", "l", "q")]
        await stage.pilot.press("b")
        for event in late:
            stage.app.post_message(event)
        await stage.pilot.pause()
        assert stage.shows(SettingsScreen)
        assert not (await stage.api.view()).held


async def test_text_for_a_prompt_that_cannot_open_runs_no_command(tmp_path: Path) -> None:
    async with cockpit(tmp_path, names=()) as stage:
        await stage.press("escape")
        burst(stage, "bxqx\n")
        await stage.until(lambda: "no mysis yet: press n" in str(stage.notices))
        await stage.pilot.pause()
        assert stage.app.feed.view is not None
        assert not stage.app.feed.view.held
        assert len(stage.app.screen_stack) == 2


async def a_long_burst_in_an_input_keeps_its_order(stage: Stage) -> None:
    words = "the quick brown fox jumps over the lazy dog " * 5
    burst(stage, f"m{words}")
    await stage.until(lambda: stage.one(MessagePrompt).text == words)


async def each_tab_of_a_burst_leads_to_the_next_field_of_a_form(stage: Stage) -> None:
    with pytest.MonkeyPatch.context() as patched:

        async def listed() -> tuple[ProviderView, ...]:
            return (ProviderView("scripted", "ollama", "scripted", models=("qwen3:8b", "echo"), is_default=True),)

        patched.setattr(stage.api, "providers", listed, raising=False)
        await stage.press("n", until=lambda: stage.one(ModelField).models == ("qwen3:8b", "echo"))
        burst(stage, "Count to three.\tdexter\t\t\techo\tdeep south\n")
        await stage.until(lambda: stage.has("dexter"))
        made = stage.view("dexter")
        assert (made.goal, made.model, made.tags) == ("Count to three.", "echo", ("deep", "south"))


@pytest.mark.usefixtures("slow")
async def test_text_typed_before_a_form_is_filled_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mysis_options, "read_configuration", delayed(mysis_options.read_configuration))
    async with cockpit(tmp_path) as stage:
        burst(stage, "c\t\tother\tdeep south\n")
        await stage.until(lambda: stage.shows(DashboardScreen) and stage.view().model == "other")
        assert set(stage.view().tags) == {"deep", "south"}


async def test_widgets_that_handle_no_message_hold_a_key_up_once_and_not_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class StuckWidget:
        is_running = True
        is_mounted = True

        def call_later(self, *_: object) -> bool:
            return True

    passed = 0.0

    def read_clock() -> float:
        nonlocal passed
        passed += 0.1
        return passed

    screen = SimpleNamespace(is_mounted=True)
    focused = SimpleNamespace(ancestors_with_self=[StuckWidget() for _ in range(6)])
    posted = asyncio.get_running_loop().create_future()
    app: Any = SimpleNamespace(
        is_running=True,
        focused=focused,
        screen=screen,
        call_later=StuckWidget().call_later,
        post_message=posted.set_result,
    )
    monkeypatch.setattr(type_ahead, "time", SimpleNamespace(monotonic=read_clock))
    monkeypatch.setattr(type_ahead, "_LOOK_S", 0.001)
    keys = TypeAhead(app, OpeningWait(bool, lambda: None))
    keys.watch_click()
    assert not keys.admit(key_event("q"))
    await posted
    assert passed < 2 * PUMP_S


async def test_a_widget_that_ends_before_it_answers_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[Callable[[], object]] = []
    seen: list[str] = []

    class Widget:
        def __init__(self, name: str) -> None:
            self.name, self.is_running = name, name != "ended"

        def call_later(self, go_on: Callable[..., object], *more: object) -> bool:
            seen.append(f"ask {self.name}")
            if self.is_running:
                asyncio.get_running_loop().call_soon(self.answer, partial(go_on, *more))
            else:
                late.append(partial(go_on, *more))
            return True

        def answer(self, go_on: Callable[[], object]) -> None:
            seen.append(f"{self.name} answers")
            go_on()

    posted = asyncio.get_running_loop().create_future()
    app: Any = SimpleNamespace(
        is_running=True,
        focused=SimpleNamespace(ancestors_with_self=[Widget(name) for name in ("ended", "inner", "outer")]),
        screen=SimpleNamespace(is_mounted=True),
        call_later=Widget("app").call_later,
        post_message=posted.set_result,
    )
    monkeypatch.setattr(type_ahead, "_LOOK_S", 0.001)
    keys = TypeAhead(app, OpeningWait(bool, lambda: None))
    keys.watch_click()
    assert not keys.admit(key_event("q"))
    while not posted.done():
        await asyncio.sleep(0)
        while late and seen[-1] == "ask inner":
            late.pop()()  # an answer that comes when the next one is asked lets nothing go on a second time
    assert seen[:7] == [
        "ask app",
        "app answers",
        "ask ended",
        "ask inner",
        "inner answers",
        "ask outer",
        "outer answers",
    ]


async def test_a_second_is_drawn_after_the_effects_of_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with cockpit(tmp_path) as stage:
        busy, ticks = True, list[bool]()
        monkeypatch.setattr(TypeAhead, "is_busy", lambda self: busy)
        monkeypatch.setattr(stage.app, "tick", lambda: ticks.append(busy))
        stage.app.tick_after_keys()
        assert not ticks
        stage.app.tick_after_keys(0)
        assert ticks == [True]
        busy = False
        await stage.until(lambda: False in ticks)


async def test_what_a_burst_opens_takes_the_rest_of_it_however_late_it_is_mounted(tmp_path: Path, slow: bool) -> None:
    """Each is opened late. In the quick run, a prompt of one line, a question and a screen are opened at once too."""
    steps = (
        a_command_line_is_run_in_one_burst,
        a_question_takes_its_answer_from_the_burst,
        a_search_takes_its_words_from_the_burst,
        a_prompt_opened_by_a_command_takes_the_text_after_it,
        a_mysis_is_created_in_one_burst,
    )
    async with cockpit(tmp_path) as stage:
        taken = steps if slow or os.environ.get("ZOEA_SOAK") else steps[:3]
        await take_steps(stage, *taken, after=Stage.start_anew)


async def test_a_burst_does_what_its_keys_do_one_by_one(tmp_path: Path) -> None:
    await take_steps_anew(
        tmp_path,
        a_broadcast_is_written_and_sent_in_one_burst,
        two_messages_in_one_burst_are_both_sent,
        a_text_that_is_pasted_where_nothing_takes_it_is_said,
        a_pasted_text_follows_the_key_that_opens_the_prompt,
        a_filter_and_the_key_after_it_arrive_in_one_burst,
        a_long_burst_in_an_input_keeps_its_order,
        a_key_typed_before_its_input_was_refused_runs_no_command_however_late_it_comes,
        each_tab_of_a_burst_leads_to_the_next_field_of_a_form,
    )
