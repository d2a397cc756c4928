"""The conversation screen, key by key, over a real swarm."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from textual.timer import Timer
from textual.widget import Widget

from tests.swarm.harness import call, script
from tests.tui.cockpit import QUIET, SIZE, Stage, cockpit, patched, take_steps, take_steps_anew
from tests.tui.sample_turns import HOSTILE
from zoea.llm.providers.scripted import Rule
from zoea.model.enums import DONE_TOOL, ErrorClass, MysisState, Role
from zoea.model.errors import ProviderError, StoreError
from zoea.model.request import Answer, AnswerCall, Delta, ModelRequest, StreamItem
from zoea.queries import conversation
from zoea.settings.schema import Settings
from zoea.text.amounts import short_count
from zoea.tui.conversation.blocks import BlockKind
from zoea.tui.dialogs.export import ExportDialog
from zoea.tui.screens.dashboard import DashboardScreen
from zoea.tui.screens.find import FindController
from zoea.tui.screens.focus import FocusScreen
from zoea.tui.widgets.clickable_text import TextBlock
from zoea.tui.widgets.conversation_view import ConversationView
from zoea.tui.widgets.live_answer import LiveAnswer
from zoea.tui.widgets.message_prompt import MessagePrompt
from zoea.tui.widgets.search_inputs import FindBar
from zoea.tui.widgets.status_bars import PieceLine

LONG = "\n\n".join(f"paragraph {number}" for number in range(12))


async def focus(
    stage: Stage,
    *answers: Answer | ProviderError,
    prompts: int = 1,
    rules: Rule | None = None,
    size: tuple[int, int] = SIZE,
) -> None:
    """Open the Focus of alpha, which was told `prompts` things before and gave these answers."""
    stage.swarm.provider._rules = (rules or script(*(answers or (Answer(text="done"),))),)
    if stage.app.size != size:
        await stage.resize(*size)
    for number in range(1, prompts + 1):
        await stage.swarm.commander.send("alpha", f"prompt {number}")
        await stage.swarm.settled()
    await stage.press("g", "enter")
    await opens(stage)
    if prompts:
        await shows(stage, f"prompt {prompts}")


@asynccontextmanager
async def focused(
    folder: Path,
    *answers: Answer | ProviderError,
    prompts: int = 1,
    rules: Rule | None = None,
    size: tuple[int, int] = SIZE,
    settings: Settings | None = None,
) -> AsyncIterator[Stage]:
    """The Focus of alpha in a cockpit of its own."""
    async with cockpit(folder, start=True, size=size, settings=settings) as stage:
        await focus(stage, *answers, prompts=prompts, rules=rules, size=size)
        yield stage


async def focus_long(stage: Stage, size: tuple[int, int] = (100, 24)) -> None:
    """Open the Focus of alpha at its end, as for the first time.

    Alpha was told 15 things before.
    """
    stage.app.bookmarks.clear()
    await focus(stage, prompts=0, size=size)
    await shows(stage, "prompt 15")


SHORT_PAGE = 8
"""Turns that are read at a time, so that a conversation of fifteen has several pages."""


def view(stage: Stage) -> ConversationView:
    return stage.one(ConversationView)


async def opens(stage: Stage) -> None:
    """Wait until Focus stands there."""
    await stage.until(lambda: isinstance(stage.screen, FocusScreen) and stage.screen.query(ConversationView))


async def shows(stage: Stage, *words: str) -> None:
    """Wait until all of these stand in the conversation, loaded and laid out."""
    await stage.until(lambda: all(word in view(stage).plain for word in words))
    await stage.pilot.pause()


async def settles(stage: Stage, found: Callable[[], Any]) -> None:
    await stage.until(found)
    await stage.pilot.pause()


async def a_message_is_kept_and_released_by_a_key_and_says_so(stage: Stage) -> None:
    await focus(stage, Answer(text="done"))
    await stage.press("G", "K")
    await shows(stage, "kept")
    ids = await stage.swarm.rows("SELECT role FROM memory WHERE preserved = 1")
    assert [row["role"] for row in ids] == ["assistant"]
    await stage.press("K")
    await settles(stage, lambda: "kept" not in view(stage).plain)
    assert await stage.swarm.value("SELECT count(*) FROM memory WHERE preserved = 1") == 0


async def test_a_conversation_that_cannot_be_read_says_so_until_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse = Mock(side_effect=StoreError("database disk image is malformed"))
    with monkeypatch.context() as broken:
        broken.setattr("zoea.queries.conversation.read_newest", refuse)
        broken.setattr("zoea.queries.conversation.read_newer", refuse)
        async with focused(tmp_path, prompts=0) as stage:
            border = view(stage).parent
            assert isinstance(border, Widget)
            await stage.until(lambda: "Cannot be read: zoea doctor" in str(border.border_subtitle))
            broken.undo()
            await stage.swarm.commander.send("alpha", "dig")
            await shows(stage, "dig")
            assert "Cannot be read" not in str(border.border_subtitle)


async def enter_opens_the_conversation_and_escape_leaves_it(stage: Stage) -> None:
    asked = Answer(text="**I look**", reasoning="hm", calls=(call("look", "ore"),))
    await focus(stage, asked, Answer(text="found it"))
    await shows(stage, "from you", "prompt 1", "reasoning", "I look", '⚙ look(text="ore")', "found it")
    assert "alpha" in stage.text()
    assert "1 of 3" in stage.text()
    assert view(stage).follows
    await stage.press("escape")
    assert not isinstance(stage.screen, FocusScreen)


async def an_empty_conversation_names_the_next_step(stage: Stage) -> None:
    await focus(stage, prompts=0)
    await settles(stage, lambda: "No message yet: press m" in stage.text())


async def new_blocks_appear_at_the_end(stage: Stage) -> None:
    await focus(stage)
    await stage.swarm.commander.send("alpha", "and now this")
    await shows(stage, "and now this")
    await stage.swarm.settled()
    await settles(stage, lambda: view(stage).plain.count("done") == 2)
    assert view(stage).scroll_offset.y == view(stage).max_scroll_y


async def nothing_moves_under_a_reader_and_the_border_counts_new_blocks(stage: Stage) -> None:
    await focus(stage, Answer(text=LONG), prompts=3, size=(100, 24))
    await stage.press("pageup", "pageup")
    offset, lines = view(stage).scroll_offset.y, _lines(stage)
    await stage.swarm.commander.send("alpha", "news")
    await shows(stage, "news")
    await stage.swarm.settled()
    # The streamed answer covers the last lines until the feed has told that it ended.
    await settles(stage, lambda: "↓ 2 new" in stage.text() and not stage.one(LiveAnswer).display)
    assert view(stage).scroll_offset.y == offset
    assert "\n".join(_lines(stage)) == "\n".join(lines)
    await stage.press("G")
    await settles(stage, lambda: "follows new lines" in stage.text())
    assert view(stage).unseen == 0


@patched
async def older_turns_load_while_scrolling_up_and_the_place_is_kept(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "PAGE_TURNS", SHORT_PAGE)
    await focus_long(stage)
    assert "prompt 1\n" not in view(stage).plain
    for _ in range(40):
        line = _lines(stage)[5]
        await stage.press("pageup")
        if line.strip():
            await settles(stage, lambda: bool(_lines(stage)))
        if "turn 1 " in view(stage).plain:
            break
    await shows(stage, "turn 1 ")
    await stage.press("g")
    await settles(stage, lambda: "turn 1 " in stage.text())


@patched
async def home_and_end_load_the_first_and_last_turn(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "PAGE_TURNS", SHORT_PAGE)
    await focus_long(stage)
    await stage.press("g")
    await settles(stage, lambda: "turn 1 " in stage.text())
    assert not view(stage).follows
    await stage.press("G")
    await settles(stage, lambda: "turn 15 " in stage.text() and view(stage).follows)


async def brackets_go_from_turn_to_turn(stage: Stage) -> None:
    await focus(stage, Answer(text=LONG), prompts=3, size=(100, 24))
    for number in (3, 2, 1):
        await stage.press("left_square_bracket")
        assert _cursor(stage) == ("turn", number)
        assert f"turn {number} " in stage.text()
    await stage.press("right_square_bracket")
    assert _cursor(stage) == ("turn", 2)


async def angle_brackets_change_the_mysis_and_keep_each_place(stage: Stage) -> None:
    await focus(stage, Answer(text=LONG), prompts=3, size=(100, 24))
    await stage.press("pageup")
    before = (view(stage).scroll_offset.y, _lines(stage))
    await stage.press("greater_than_sign")
    await settles(stage, lambda: "2 of 3" in stage.text() and "No message yet" in stage.text())
    await stage.press("less_than_sign")
    await shows(stage, "prompt 3")
    await settles(stage, lambda: _lines(stage) == before[1])
    await stage.press("escape", "enter")
    await opens(stage)
    await settles(stage, lambda: _lines(stage) == before[1])


async def waiting_prompts_are_shown_at_the_end(stage: Stage) -> None:
    await focus(stage)
    await stage.swarm.commander.hold(True)
    await stage.swarm.commander.send("alpha", "for later")
    await shows(stage, "queued", "for later")


async def test_an_errored_turn_shows_its_cause(tmp_path: Path) -> None:
    fails = ProviderError("there is no model x", kind=ErrorClass.MODEL_MISSING)
    async with cockpit(tmp_path, script(fails), start=True) as stage:
        await stage.swarm.commander.send("alpha", "go")
        await stage.until(lambda: stage.swarm.state() == "errored")
        await stage.press("enter")
        await opens(stage)
        await shows(stage, "failed", "there is no model x", "a relaunch continues this turn")


def _lines(stage: Stage) -> list[str]:
    """Return the lines inside the frame of the conversation."""
    return [line[:-3] for line in stage.text().split("\n")[2:-3]]


def _cursor(stage: Stage) -> tuple[str, int]:
    block = view(stage).cursor
    return (str(block.kind), block.turn) if block is not None else ("", 0)


ANSWERS = (
    Answer(text="", reasoning="deep\nthought", calls=(call("look", "ore"),)),
    Answer(text="found"),
)


async def enter_folds_and_unfolds_the_block_under_the_cursor(stage: Stage) -> None:
    await focus(stage, *ANSWERS)
    await stage.press("k")
    assert _cursor(stage)[0] == BlockKind.CALL
    await stage.press("enter")
    await shows(stage, "look did ore")
    await stage.press("enter")
    assert "look did ore" not in view(stage).plain
    await stage.press("k", "enter")
    await shows(stage, "deep\n")


SMALL = ((60, 16), (61, 17), (70, 20))


async def a_result_opened_at_the_lower_edge_comes_into_view(stage: Stage, size: tuple[int, int]) -> None:
    asked = [Answer(text="", calls=(call("look", f"ore {number} " * 40),)) for number in range(9)]
    await focus(stage, *asked, Answer(text="found"), size=size)
    await shows(stage, "found")
    await stage.press("k", "enter")
    await settles(stage, lambda: "look did ore 8" in stage.text())
    assert 'look(text="ore 8' in stage.text()
    await stage.press("enter", "k", "enter")
    await settles(stage, lambda: "look did ore 7" in stage.text())


async def test_the_settings_open_reasoning_also_while_the_conversation_is_shown(tmp_path: Path) -> None:
    async with focused(tmp_path, *ANSWERS) as stage:
        assert "deep" not in view(stage).plain
        stage.app.use_settings(Settings.model_validate({"tui": {"show_reasoning": True}}))
        await stage.press("escape", "enter")
        await shows(stage, "deep\n")
        await stage.press("k", "k", "enter", until=lambda: "deep" not in view(stage).plain)


async def test_a_result_carries_its_tick_by_the_names_in_the_settings(tmp_path: Path) -> None:
    told = (call("say_ticks", '{"result": {"tick": 41708, "turn": 9}}'), call("look", "ore"))
    async with focused(tmp_path, Answer(text="", calls=told), Answer(text="done")) as stage:
        await shows(stage, "tick 41708  ✓")
        assert view(stage).plain.count("tick 41708  ") == 1
        stage.app.use_settings(Settings.model_validate({"wait": {"tick_fields": ["turn"]}}))
        await stage.press("escape", "enter")
        await shows(stage, "tick 9  ✓")


async def a_click_on_a_head_folds_and_on_a_body_does_not(stage: Stage) -> None:
    await focus(stage, *ANSWERS)
    line = next(at for at, text in enumerate(view(stage).plain.split("\n")) if "⚙ look" in text)
    await stage.pilot.click(ConversationView, offset=(10, line))
    await shows(stage, "look did ore")
    await stage.pilot.click(ConversationView, offset=(10, line + 1))
    assert "look did ore" in view(stage).plain


async def a_folded_turn_is_one_line(stage: Stage) -> None:
    await focus(stage, prompts=2)
    await stage.press("left_square_bracket", "enter")
    await stage.pilot.pause()
    assert view(stage).plain.count("done") == 1
    assert "prompt 2" in view(stage).plain


async def verbose_unfolds_and_folds_all_blocks(stage: Stage) -> None:
    await focus(stage, *ANSWERS)
    await stage.press("v")
    await shows(stage, "deep\n", "look did ore")
    await stage.until(lambda: "verbose" in stage.text())
    await stage.press("v")
    assert "look did ore" not in view(stage).plain


async def a_cut_text_is_read_in_full_when_opened(stage: Stage) -> None:
    long = "word " * 6000
    asked = Answer(text="", calls=(call("say_ticks", "begin "),))
    await focus(stage, asked, Answer(text="done"), prompts=0)
    stage.swarm.peer.pad = long + "END"
    await stage.swarm.commander.send("alpha", "look")
    await shows(stage, "say_ticks", "done")
    await stage.press("k", "enter")
    await stage.press("v")
    await shows(stage, "END")


async def typing_finds_and_enter_goes_to_the_newest(stage: Stage) -> None:
    await focus(stage, Answer(text=LONG), prompts=3, size=(100, 24))
    await stage.press("slash")
    await stage.write("paragraph 3")
    await settles(stage, lambda: stage.one(FindBar).count == "3 of 3")
    await stage.press("enter")
    await settles(stage, lambda: "paragraph 3" in "\n".join(_lines(stage)))
    assert _cursor(stage) == ("answer", 3)
    await stage.press("N")
    await settles(stage, lambda: stage.one(FindBar).count == "2 of 3")
    assert _cursor(stage) == ("answer", 2)
    await stage.press("n", "n")
    await settles(stage, lambda: stage.one(FindBar).count == "1 of 3")
    await stage.press("escape")
    assert not stage.one(FindBar).display
    assert isinstance(stage.screen, FocusScreen)


@patched
async def a_match_that_is_not_loaded_is_loaded(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "PAGE_TURNS", SHORT_PAGE)
    await focus_long(stage)
    await stage.press("slash")
    await stage.write("prompt 2")
    await settles(stage, lambda: stage.one(FindBar).count == "1 of 1")
    assert "prompt 2\n" not in view(stage).plain
    await stage.press("enter")
    await settles(stage, lambda: _cursor(stage) == ("prompt", 2) and "prompt 2" in "\n".join(_lines(stage)))


async def a_folded_result_with_a_match_is_opened(stage: Stage) -> None:
    await focus(stage, Answer(text="", calls=(call("look", "ore"),)), Answer(text="ok"))
    await stage.press("slash")
    await stage.enter("did ore")
    await shows(stage, "look did ore")


async def test_a_late_search_result_does_not_undo_enter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[Callable[[], None]] = []
    wanted: list[str] = []

    def set_timer(bar: FindBar, wait: float, look: Callable[[], None]) -> Timer:
        late.append(look)
        return Mock(spec=Timer)

    monkeypatch.setattr(FindBar, "set_timer", set_timer)
    find = FindController.search

    def search(finder: FindController, words: str, go: bool) -> None:
        if go:
            find(finder, words, go)
        else:
            wanted.append(words)

    monkeypatch.setattr(FindController, "search", search)
    async with focused(tmp_path, Answer(text="", calls=(call("look", "ore"),)), Answer(text="ok")) as stage:
        await stage.press("slash", "o", "r")
        late[-1]()
        await stage.until(lambda: wanted == ["or"])
        await stage.press("e", "enter")
        late[-1]()
        await shows(stage, "look did ore")
        assert wanted == ["or"]


async def a_search_without_matches_says_so(stage: Stage) -> None:
    await focus(stage)
    await stage.press("n")
    assert any("Press / and type" in notice for notice in stage.notices)
    await stage.press("slash")
    await stage.write("unobtainium")
    await settles(stage, lambda: stage.one(FindBar).count == "none")


@patched
async def a_swarm_search_opens_the_conversation_at_its_match(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "PAGE_TURNS", SHORT_PAGE)
    await focus_long(stage)
    await stage.press("escape")
    memory = await stage.swarm.value("SELECT max(id) FROM memory WHERE role = 'user' AND content LIKE '%prompt 4'")
    stage.app.push_screen(FocusScreen(stage.view().id, turn=4, key=f"memory {memory}", words="prompt 4"))
    await opens(stage)
    await settles(stage, lambda: _cursor(stage) == ("prompt", 4) and "prompt 4" in stage.text())


@patched
async def what_a_request_holds_stands_there_until_its_answer_begins(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    speak, end = asyncio.Event(), asyncio.Event()

    async def slow(request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        await speak.wait()
        yield Delta(text="The belt ")
        await end.wait()
        yield Answer(text="The belt is rich.")

    await focus(stage)
    monkeypatch.setattr(stage.swarm.provider, "stream", slow)
    await stage.swarm.commander.send("alpha", "again")
    await settles(stage, lambda: "Preparing context (" in stage.text())
    view = stage.view()
    sent = f"Preparing context ({view.context_messages} msgs, ~{short_count(view.context_used)} tokens)"
    assert sent in stage.text()
    speak.set()
    await settles(stage, lambda: "The belt" in stage.text() and "Preparing context" not in stage.text())
    end.set()
    await shows(stage, "The belt is rich.")
    await settles(stage, lambda: not stage.one(LiveAnswer).display)


async def an_answer_without_text_leaves_nothing_of_its_preparation(stage: Stage) -> None:
    look = Answer(text="", calls=(call("look", "ore"),))
    await focus(stage, look, Answer(text="It is ore."), prompts=0)
    await stage.swarm.commander.send("alpha", "look")
    await shows(stage, "It is ore.")
    await settles(stage, lambda: "Preparing context" not in stage.text() and not stage.one(LiveAnswer).display)


@patched
async def a_streamed_answer_becomes_a_block(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    speak, go_on, end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    class Slow:
        """Thinks, then streams two pieces, each when the test says so."""

        name, kind, label, metered = "slow", "scripted", "slow", False

        async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
            yield Delta(reasoning="Where is **iron** [/]")
            await speak.wait()
            yield Delta(text="The **belt** ")
            await go_on.wait()
            yield Delta(text="is rich [/] \x1b[31m")
            await end.wait()
            yield Answer(text="The **belt** is rich [/]")

    await focus_long(stage, SIZE)
    monkeypatch.setattr(stage.swarm.provider, "stream", Slow().stream)
    await stage.swarm.commander.send("alpha", "again")
    live, transcript = stage.one(LiveAnswer), stage.one(ConversationView)
    width = transcript.size.width
    await settles(stage, lambda: "reasoning…" in stage.text() and "Where is **iron** [/]" in stage.text())
    assert live.text == ""
    speak.set()
    await settles(stage, lambda: live.display and live.text == "The **belt** ")
    assert "The belt" in stage.text()
    assert transcript.size.width == width, "what is finished is not wrapped anew for what is being written"
    assert "Where is" not in stage.text()
    go_on.set()
    await settles(stage, lambda: "is rich [/]" in stage.text())
    end.set()
    await shows(stage, "The belt is rich [/]")
    await settles(stage, lambda: not live.display)


async def refused(request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
    yield Delta(text="")
    raise ProviderError("the key is wrong [/]" + " so it says" * 9, kind=ErrorClass.AUTH)


class TestTop:
    async def test_in_a_narrow_header_costs_are_dropped_before_the_activity(self, tmp_path: Path) -> None:
        async with cockpit(tmp_path, size=(80, 24)) as stage:
            await stage.api.create("a" * 40, start=False)
            await stage.until(lambda: len(stage.app.feed.myses) == 4)
            await stage.press("enter")
            await opens(stage)
            assert "today" in stage.one(PieceLine, "#top").text
            await stage.press("escape", "G", "enter")
            await opens(stage)
            await stage.until(lambda: "today" not in stage.one(PieceLine, "#top").text)
            assert stage.one(PieceLine, "#top").text.rstrip().endswith(f"{'a' * 40}  4 of 4  idle")
            await stage.resize(120, 40)
            await stage.until(lambda: "today" in stage.one(PieceLine, "#top").text)


@patched
async def a_failure_and_its_hint_are_shown_until_the_mysis_runs_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await focus(stage, Answer(text="fine"), prompts=1)
    assert "r relaunch" not in stage.one(TextBlock, "#wrong").plain
    monkeypatch.setattr(stage.swarm.provider, "stream", refused)  # a key that is taken back
    await stage.api.send("alpha", "again")
    await stage.until(lambda: stage.view("alpha").state is MysisState.ERRORED)
    wrong = stage.one(TextBlock, "#wrong")
    await settles(stage, lambda: wrong.display and wrong.plain.startswith("✖ since "))
    assert wrong.plain.endswith("r relaunch")
    # The conversation ends with cause, title and advice, so they are not said twice.
    assert "the key is wrong [/]" in stage.text()
    assert len(wrong.plain.splitlines()) == 1
    await stage.resize(80, 24)
    await stage.until(lambda: stage.one(PieceLine, "#top").size.width == 80)
    assert "alpha" in stage.text().partition("\n")[0]
    await stage.press("greater_than_sign")
    await settles(stage, lambda: not wrong.display)


async def copying_gives_the_block_under_the_cursor(stage: Stage) -> None:
    await focus(stage, Answer(text="**bold** [/]"))
    await stage.press("y")
    assert stage.app.clipboard == "**bold** [/]"
    assert any("answer copied" in notice for notice in stage.notices)


async def a_copied_text_holds_escapes_for_hidden_characters(stage: Stage, length: int) -> None:
    hidden, shown = "\x1b[201~\u202e\u200b", "\\u001b[201~\\u202e\\u200b"
    await focus(stage, Answer(text="y" * length + hidden))
    await stage.press("y")
    await settles(stage, lambda: stage.app.clipboard == "y" * length + shown)


async def copying_a_cut_block_gives_its_full_text(stage: Stage) -> None:
    await focus(stage, Answer(text="y" * 30_000))
    await stage.press("y")
    await settles(stage, lambda: len(stage.app.clipboard) == 30_000)


async def text_is_selected_across_blocks(stage: Stage) -> None:
    await focus(stage, Answer(text="done"))
    first = next(at for at, text in enumerate(view(stage).plain.split("\n")) if "prompt 1" in text)
    await stage.pilot.mouse_down(ConversationView, offset=(4, first))
    await stage.pilot.hover(ConversationView, offset=(8, first + 2))
    await stage.pilot.mouse_up(ConversationView, offset=(8, first + 2))
    assert stage.screen.get_selected_text() == "prompt 1\n\ndone"


async def a_message_from_focus_goes_to_its_mysis(stage: Stage) -> None:
    await focus(stage)
    await stage.press("m")
    await stage.enter("mine iron")
    await shows(stage, "mine iron")
    assert not stage.one(MessagePrompt).is_open


async def a_message_from_focus_relaunches_a_stopped_mysis(stage: Stage) -> None:
    await focus(stage)
    await stage.press("s")
    await settles(stage, lambda: stage.view().state == "stopped")
    await stage.press("m")
    assert "relaunches it and sends" in stage.text()
    await stage.enter("go on")
    await shows(stage, "go on")


async def a_mysis_is_stopped_and_relaunched_from_focus(stage: Stage) -> None:
    await focus(stage)
    await stage.press("s")
    await settles(stage, lambda: stage.view().state == "stopped")
    await stage.press("s")
    assert any("stopped already" in notice for notice in stage.notices)
    await stage.press("r")
    await settles(stage, lambda: stage.view().state == "running")


async def a_broadcast_can_be_sent_from_focus(stage: Stage) -> None:
    await focus(stage)
    await stage.press("b")
    await stage.enter("all hands")
    await shows(stage, "broadcast from you", "all hands")


async def a_deleted_mysis_stays_readable(stage: Stage) -> None:
    await focus(stage)
    await stage.swarm.commander.delete("alpha")
    # It is stopped first, and says that it is stopped to be deleted.
    await settles(stage, lambda: not stage.has("alpha"))
    assert "deleted" in stage.text()
    await stage.press("m", until=lambda: stage.notices)
    assert "prompt 1" in view(stage).plain


async def test_the_side_panel_shows_the_context(tmp_path: Path) -> None:
    settings = Settings.model_validate({**QUIET.model_dump(), "context": {"snapshot_tools": ["look"]}})
    looks = Answer(text="", calls=(call("look", "ore"),))
    async with focused(tmp_path, looks, Answer(text="ok"), settings=settings, size=(160, 44)) as stage:
        sees, state = stage.one(TextBlock, "#sees"), stage.one(TextBlock, "#state")
        await settles(stage, lambda: "this turn" in sees.plain and "look did ore" in state.plain)
        assert "of 4.1k tokens" in sees.plain


async def focus_fits_every_size_and_theme(stage: Stage) -> None:
    """Each size in another theme, and back. At full strength, each size in each theme."""
    themes = ("tide", "high-contrast", "nova")
    await focus(stage, Answer(text=LONG), size=(80, 24))
    for number, size in enumerate(((80, 24), (120, 40), (200, 60))):
        await stage.resize(*size)
        await shows(stage, "paragraph 11")
        for name in themes if os.environ.get("ZOEA_SOAK") else (themes[number],):
            stage.app.use_theme(name)
            await stage.pilot.pause()
        await stage.resize(90, 30)
        await shows(stage, "paragraph 11")


async def each_export_format_is_written_to_the_given_path(stage: Stage) -> None:
    formats = ((0, "md", "# alpha"), (1, "html", "<!DOCTYPE"), (2, "jsonl", "{"))
    await focus(stage)
    for tabs, ending, begins in formats:
        await stage.press("e", shows=ExportDialog)
        await stage.press(*["tab"] * tabs, "enter")
        await settles(stage, lambda: isinstance(stage.screen, FocusScreen))
        (name,) = (name for name in _written() if name.endswith(f".{ending}"))
        assert _content(name).startswith(begins), ending
    assert len(_written()) == len(formats)


async def overwriting_a_file_needs_a_second_enter(stage: Stage) -> None:
    await focus(stage)
    await stage.press("e", shows=ExportDialog)
    screen = stage.screen
    assert isinstance(screen, ExportDialog)
    name = screen.path
    _put(name, "mine")
    await stage.press("enter")
    assert "press enter again to replace it" in stage.text()
    assert _content(name) == "mine"
    await stage.press("enter")
    await settles(stage, lambda: isinstance(stage.screen, FocusScreen))
    assert _content(name).startswith("# alpha")
    _remove(name)


async def the_redaction_of_an_export_is_shown_and_can_be_changed(stage: Stage) -> None:
    await focus(stage)
    await stage.press("e", shows=ExportDialog)
    assert "are removed" in stage.text()
    await stage.press("ctrl+r")
    assert "Secrets are kept" in stage.text()
    await stage.press("escape")
    await settles(stage, lambda: isinstance(stage.screen, FocusScreen))


async def an_invalid_export_path_is_reported(stage: Stage) -> None:
    await focus(stage)
    await stage.press("e", shows=ExportDialog)
    await stage.press("home")
    await stage.enter("none/")
    await settles(stage, lambda: "cannot be written" in stage.text())


def _written() -> list[str]:
    return [file.name for file in Path().glob("alpha-*")]


def _content(name: str) -> str:
    return Path(name).read_text(encoding="utf-8")


def _remove(name: str) -> None:
    Path(name).unlink()


def _put(name: str, text: str) -> None:
    Path(name).write_text(text, encoding="utf-8")


@pytest.mark.timeout(240)
async def test_hostile_text_in_a_conversation_is_harmless(tmp_path: Path) -> None:
    text = ""

    def says(request: ModelRequest) -> Answer:
        if request.messages[-1].role is not Role.USER:
            return Answer(text=text or "end")
        return Answer(text=text, reasoning=text, calls=(call("look", text), call(text[:30] or "x", text)))

    async with focused(tmp_path, prompts=0, rules=says, size=(160, 44)) as stage:
        await stage.press("v")
        for number, text in enumerate(HOSTILE):  # noqa: B007  the model says it
            await stage.swarm.commander.send("alpha", f"prompt {number}")
            await stage.swarm.settled()
            await shows(stage, f"prompt {number}\n")
            await stage.until(lambda: view(stage).follows)
            assert "\x1b" not in stage.text()
            assert stage.app._exception is None
            if stage.swarm.state() is MysisState.ERRORED:  # what does not fit, or says nothing twice
                await stage.swarm.commander.start("alpha")
        await stage.press("slash")
        await stage.write("x")
        await stage.press("enter")
        await stage.until(lambda: " of " in stage.one(FindBar).count)
        for _ in range(int(stage.one(FindBar).count.split()[-1])):
            assert "\x1b" not in stage.text()
            await stage.press("n")
        await stage.press("escape", "G")
        assert isinstance(stage.screen, FocusScreen)
        assert stage.app._exception is None


async def k_keeps_a_message_word_for_word_and_releases_it(stage: Stage) -> None:
    async def kept(stage: Stage) -> int:
        return len(await stage.swarm.rows("SELECT id FROM memory WHERE preserved = 1"))

    def is_kept(stage: Stage, wanted: bool) -> bool:
        block = view(stage).cursor
        return block is not None and block.is_kept is wanted

    await focus(stage)
    for count in (1, 0):
        await stage.press("K", until=partial(is_kept, stage, bool(count)))
        assert await kept(stage) == count


@patched
async def the_end_is_kept_although_a_jump_asked_for_before_arrives_late(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "PAGE_TURNS", SHORT_PAGE)
    may_read = threading.Event()
    read_around = conversation.read_around

    def read_late(*of: Any) -> Any:
        may_read.wait(20)
        return read_around(*of)

    await focus_long(stage, SIZE)
    await stage.until(lambda: view(stage).follows and view(stage).height)
    monkeypatch.setattr(conversation, "read_around", read_late)
    screen = stage.screen
    assert isinstance(screen, FocusScreen)
    screen.load_around(2)
    view(stage).action_edge(1)
    may_read.set()
    await stage.swarm.commander.send("alpha", "the newest prompt")
    await stage.swarm.settled()
    await shows(stage, "the newest prompt")
    assert view(stage).follows


class TestResult:
    DIFF = "--- a/shop.py\n+++ b/shop.py\n@@ -1 +1,2 @@\n-old\n+new\n+more"
    REPORT = "Prices are **decimal** now.\n\n- `make test` passed"

    @asynccontextmanager
    async def done(self, folder: Path, **more: Any) -> AsyncIterator[Stage]:
        """A dashboard on alpha, which made two calls and reported its task as done."""
        patch = call("look", self.DIFF)
        report = AnswerCall(DONE_TOOL, json.dumps({"summary": self.REPORT}))
        rules = script(Answer(calls=(patch,)), Answer(text="I test", calls=(call("look"),)), Answer(calls=(report,)))
        async with cockpit(folder, rules, names=("beta",), **more) as stage:
            await stage.swarm.commander.create("alpha", task="Make prices decimal")
            await stage.until(lambda: stage.has("alpha") and stage.view().status == "done")
            await stage.press("G")
            yield stage

    async def test_a_finished_mysis_opens_as_its_report_with_changes_and_calls_below(self, tmp_path: Path) -> None:
        async with self.done(tmp_path) as stage:
            await stage.press("enter")
            await opens(stage)
            await shows(stage, "reports its task as done")
            words = [
                "Make prices decimal",
                "reports its task",
                "Prices are decimal now",
                "1 changed file",
                "shop.py  +2 -1",
                "2 calls",
                "look",
            ]
            places = [view(stage).plain.index(word) for word in words]
            assert places == sorted(places)
            assert "RESULT" in stage.text()
            await stage.press("d")
            await shows(stage, "I test")
            assert "CONVERSATION" in stage.text()
            await stage.press("d")
            await settles(stage, lambda: "I test" not in view(stage).plain)

    async def test_its_calls_open_with_their_arguments_as_text(self, tmp_path: Path) -> None:
        async with self.done(tmp_path) as stage:
            await stage.press("d")
            await opens(stage)
            await shows(stage, "2 calls")
            await stage.press("G", "k", "enter")
            await shows(stage, "│ -old")
            assert [line.strip() for line in view(stage).plain.splitlines() if "│" in line][-1] == "│ +more"

    async def test_a_result_becomes_the_conversation_when_the_mysis_works_on(self, tmp_path: Path) -> None:
        async with self.done(tmp_path) as stage:
            await stage.press("enter")
            await opens(stage)
            await shows(stage, "reports its task")
            await stage.swarm.commander.send("alpha", "and the tests")
            await shows(stage, "and the tests")
            assert "CONVERSATION" in stage.text()


async def test_reports_are_reviewed_one_after_the_other_without_leaving(tmp_path: Path) -> None:
    report = AnswerCall(DONE_TOOL, json.dumps({"summary": "Done."}))
    async with cockpit(tmp_path, script(Answer(calls=(report,))), names=()) as stage:
        for name in ("alpha", "beta"):
            await stage.swarm.commander.create(name, task="Make prices decimal")
        await stage.until(lambda: len(stage.app.feed.roster.in_need) == 2)
        await stage.until(lambda: stage.shows(DashboardScreen))
        await stage.press("enter")
        await opens(stage)
        await shows(stage, "no other calls")
        await stage.press("full_stop", shows="done · reviewed")
        await stage.press("w", until=lambda: "beta" in stage.text() and "review its result" in stage.text())
        await stage.press("full_stop", until=lambda: not stage.app.feed.roster.in_need)
        assert isinstance(stage.screen, FocusScreen)
        await stage.press("w")
        assert "No other mysis needs you" in stage.notices[-1]


async def test_a_conversation_is_shown_as_it_goes_on(tmp_path: Path) -> None:
    await take_steps_anew(
        tmp_path,
        enter_opens_the_conversation_and_escape_leaves_it,
        an_empty_conversation_names_the_next_step,
        new_blocks_appear_at_the_end,
        nothing_moves_under_a_reader_and_the_border_counts_new_blocks,
        brackets_go_from_turn_to_turn,
        angle_brackets_change_the_mysis_and_keep_each_place,
        waiting_prompts_are_shown_at_the_end,
        what_a_request_holds_stands_there_until_its_answer_begins,
        an_answer_without_text_leaves_nothing_of_its_preparation,
        a_failure_and_its_hint_are_shown_until_the_mysis_runs_again,
        a_deleted_mysis_stays_readable,
        focus_fits_every_size_and_theme,
        start=True,
    )


async def test_a_long_conversation_is_read_in_pages(tmp_path: Path) -> None:
    async with cockpit(tmp_path, start=True) as stage:
        for number in range(1, 16):
            await stage.swarm.commander.send("alpha", f"prompt {number}")
            await stage.swarm.settled()
        await take_steps(
            stage,
            older_turns_load_while_scrolling_up_and_the_place_is_kept,
            home_and_end_load_the_first_and_last_turn,
            a_match_that_is_not_loaded_is_loaded,
            a_swarm_search_opens_the_conversation_at_its_match,
            # The last ones: they add turns.
            a_streamed_answer_becomes_a_block,
            the_end_is_kept_although_a_jump_asked_for_before_arrives_late,
        )


async def test_blocks_are_folded_found_kept_and_copied(tmp_path: Path) -> None:
    await take_steps_anew(
        tmp_path,
        a_message_is_kept_and_released_by_a_key_and_says_so,
        k_keeps_a_message_word_for_word_and_releases_it,
        enter_folds_and_unfolds_the_block_under_the_cursor,
        *(partial(a_result_opened_at_the_lower_edge_comes_into_view, size=size) for size in SMALL),
        a_click_on_a_head_folds_and_on_a_body_does_not,
        a_folded_turn_is_one_line,
        verbose_unfolds_and_folds_all_blocks,
        a_cut_text_is_read_in_full_when_opened,
        typing_finds_and_enter_goes_to_the_newest,
        a_folded_result_with_a_match_is_opened,
        a_search_without_matches_says_so,
        copying_gives_the_block_under_the_cursor,
        *(partial(a_copied_text_holds_escapes_for_hidden_characters, length=length) for length in (1, 30_000)),
        copying_a_cut_block_gives_its_full_text,
        text_is_selected_across_blocks,
        start=True,
    )


async def test_a_mysis_is_told_stopped_and_exported_from_its_conversation(tmp_path: Path) -> None:
    await take_steps_anew(
        tmp_path,
        a_message_from_focus_goes_to_its_mysis,
        a_message_from_focus_relaunches_a_stopped_mysis,
        a_mysis_is_stopped_and_relaunched_from_focus,
        a_broadcast_can_be_sent_from_focus,
        overwriting_a_file_needs_a_second_enter,
        the_redaction_of_an_export_is_shown_and_can_be_changed,
        an_invalid_export_path_is_reported,
        each_export_format_is_written_to_the_given_path,  # the last one: the format stays chosen
        start=True,
    )
