"""Message prompt: recipients, history, drafts, modes, external editor, large pastes, ctrl+c."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from textual import events
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Input, Static, TextArea

from tests.fakes.swarm import FakeSwarm
from tests.tui.cockpit import Stage, cockpit, cockpit_over, take_steps
from zoea.model.enums import DeliveryMode, MysisState
from zoea.model.errors import SettingsError
from zoea.model.values import MysisView, Receipt
from zoea.runtime.unsent_texts import read_unsent
from zoea.swarm.commander import Commander
from zoea.tui.app import CockpitApp
from zoea.tui.commands.actions import BY_ID
from zoea.tui.dialogs.quit import QuitDialog
from zoea.tui.screens.dashboard import DashboardScreen
from zoea.tui.screens.focus import FocusScreen
from zoea.tui.screens.search import SearchScreen
from zoea.tui.state.drafts import Drafts
from zoea.tui.swarm_list.message_targets import MessageTarget, RoundCost
from zoea.tui.terminal.external_editor import edit_text, read_command
from zoea.tui.widgets.long_text import FOLD_OVER, FoldedTexts
from zoea.tui.widgets.message_prompt import LimitsInput, MessagePrompt


async def messages(stage: Stage) -> list[str]:
    """Return what was sent to the myses that are there."""
    sent = "SELECT message_id FROM delivery JOIN mysis ON mysis.id = mysis_id WHERE deleted_at IS NULL"
    rows = await stage.swarm.rows(f"SELECT content FROM message WHERE id IN ({sent}) ORDER BY id")
    return [row["content"] for row in rows]


async def test_m_and_enter_send_to_the_mysis_under_the_cursor(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.press("j", "m")
        assert "MESSAGE to beta · queue: read when its turn ends" in stage.text()
        assert "sending starts it" in stage.text()
        await stage.enter("hello there")
        await stage.until(lambda: stage.view("beta").turns == 1)
        assert await messages(stage) == ["hello there"]
        assert not stage.one(MessagePrompt).is_open


async def test_b_names_skipped_myses_and_the_feed_shows_the_receipt(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.api.stop("gamma")
        await stage.until(lambda: stage.view("gamma").state is MysisState.STOPPED)
        await stage.press("b")
        assert "BROADCAST to 2 of 3 myses · queue: each reads it when its turn ends" in stage.text()
        assert "gamma cannot receive it (stopped) · 2 will be started" in stage.text()
        await stage.write("mine")
        await stage.press("enter", shows="2 answered · 1 not delivered")


async def test_b_sends_to_the_marked_myses(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.press("space", "space", "b")
        assert "BROADCAST to 2 (marked: alpha, beta)" in stage.text()
        await stage.enter("you two")
        await stage.until(lambda: stage.view("alpha").turns == 1 and stage.view("beta").turns == 1)
        assert stage.view("gamma").turns == 0


async def test_a_text_for_deleted_marked_myses_is_sent_to_none(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.press("space", "b")
        await stage.write("only you")
        await stage.api.delete("alpha")
        await stage.until(lambda: not stage.has("alpha"))
        await stage.press("enter", shows="No such mysis")
        assert await messages(stage) == []


async def test_limits_of_the_turn_are_sent_with_the_message(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.press("m")
        await stage.write("look into it")
        await stage.press("ctrl+l")
        await stage.write("history_window_sizes=100")
        await stage.press("enter", shows="Did you mean history_window_size?")
        assert await messages(stage) == []
        await stage.press("escape", "m", "ctrl+l")  # a draft keeps them
        assert stage.one(LimitsInput).value == "history_window_sizes=100"
        stage.one(LimitsInput).value = "history_window_size=100 token_budget_total=30000"
        await stage.press("tab")
        await stage.enter(" today")
        await stage.until(lambda: stage.view("alpha").turns == 1)
        [sent] = await stage.swarm.rows("SELECT content, context FROM message")
        assert sent["content"] == "look into it today"
        assert json.loads(sent["context"]) == {"history_window_size": 100, "token_budget_total": 30_000}
        await stage.press("m")
        assert not stage.one(LimitsInput).display, "the next message has none"


async def test_limits_go_with_a_message_whose_screen_was_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, send = asyncio.Event(), Commander.send

    async def send_late(self: Commander, *args: Any, **more: Any) -> Receipt:
        await gate.wait()
        return await send(self, *args, **more)

    monkeypatch.setattr(Commander, "send", send_late)
    async with cockpit(tmp_path) as stage:
        await stage.press("enter", "m")
        await stage.write("look")
        await stage.press("ctrl+l")
        await stage.write("history_window_size=100")
        target = stage.one(MessagePrompt).target
        assert target is not None
        await stage.press("enter")
        stage.app.pop_screen()
        await stage.until(lambda: isinstance(stage.app.screen, DashboardScreen))
        gate.set()
        await stage.until(lambda: stage.view("alpha").turns == 1)
        await stage.until(lambda: not stage.app.drafts.of(target.key))
        assert not stage.app.drafts.limits_of(target.key)


async def test_limits_count_for_each_turn_of_a_broadcast_and_may_be_json(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.press("b")
        await stage.write("go")
        await stage.press("ctrl+l")
        stage.one(LimitsInput).value = '{"context": {"token_budget_per_agent": 30000, "force_p2p": true}}'
        await stage.press("enter", until=lambda: stage.view("alpha").turns == 1)
        assert "force_p2p is ignored: myses always write to each other directly." in stage.notices
        found = await stage.swarm.rows("SELECT context FROM message")
        assert [json.loads(row["context"]) for row in found] == [{"token_budget_per_agent": 30_000}]


async def test_after_a_first_round_the_note_estimates_the_next_one(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.api.broadcast("go")
        await stage.until(lambda: all(v.turns == 1 and v.context_used for v in stage.app.feed.myses.values()))
        await stage.press("b", shows="tokens in all, if each answers once")


async def test_a_message_relaunches_a_stopped_mysis(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.api.stop("alpha")
        await stage.until(lambda: stage.view().state is MysisState.STOPPED)
        await stage.press("m")
        assert "RELAUNCH and send to alpha" in stage.text()
        await stage.enter("wake up")
        await stage.until(lambda: stage.view().turns == 1)


async def test_a_refusal_is_shown_and_the_text_is_kept(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.press("m")
        await stage.write("nobody hears")
        stage.one(MessagePrompt).target = MessageTarget("gone", "message to gone", mysis_id=99)
        await stage.press("enter", shows="No such mysis")
        assert stage.one(MessagePrompt).text == "nobody hears"
        await stage.write(" again")
        assert stage.one(MessagePrompt).text == "nobody hears again"


async def test_enter_pressed_twice_sends_once(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.press("m")
        await stage.write("once")
        writing = stage.one(MessagePrompt)._writing
        writing.action_send()
        writing.action_send()
        await stage.until(lambda: stage.view().turns == 1)
        assert await messages(stage) == ["once"]


async def tab_changes_the_delivery_mode(stage: Stage) -> None:
    await stage.press("m", "tab")
    assert "MESSAGE to alpha · steer: read at its next step, its work goes on" in stage.text()
    await stage.press("tab")
    assert stage.one(MessagePrompt).mode is DeliveryMode.INTERRUPT
    await stage.press("tab")
    assert stage.one(MessagePrompt).mode is DeliveryMode.QUEUE


async def ctrl_j_begins_a_new_line(stage: Stage) -> None:
    await stage.press("m", "a", "ctrl+j", "b")
    assert stage.one(MessagePrompt).text == "a\nb"


async def test_escape_keeps_the_draft_of_its_mysis(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.press("m")
        await stage.write("for alpha")
        await stage.press("escape", "j", "m")
        assert stage.one(MessagePrompt).text == ""
        await stage.press("escape", "k", "m")
        assert stage.one(MessagePrompt).text == "for alpha"


async def test_draft_and_history_survive_their_screen(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.press("m")
        await stage.write("from the list")
        await stage.press("escape", "enter", shows=FocusScreen)
        await stage.press("m")
        assert stage.one(MessagePrompt).text == "from the list"
        await stage.press("ctrl+c")
        await stage.write("hello")
        await stage.press("escape", "escape", shows=DashboardScreen)
        await stage.press("enter", shows=FocusScreen)
        await stage.press("m")
        prompt = stage.one(MessagePrompt)
        assert prompt.text == "hello"
        await stage.press("up")
        assert prompt.text == "from the list"


async def test_a_draft_sent_on_another_screen_is_removed(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.press("m")
        await stage.write("hello")
        below = stage.one(MessagePrompt)
        await stage.app.push_screen(FocusScreen(stage.view().id))
        await stage.press("m")
        assert stage.one(MessagePrompt).text == "hello"
        await stage.press("enter", until=lambda: stage.view().turns == 1)
        await stage.press("escape", shows=DashboardScreen)
        assert below.is_open
        assert below.text == ""


async def test_the_history_has_messages_of_earlier_sessions(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        for text in ("first", "second"):
            await stage.api.send("alpha", text)
        await stage.press("m")
        prompt = stage.one(MessagePrompt)
        await stage.until(lambda: len(stage.app.drafts.history) == 2)
        await stage.write("new")
        await stage.press("up")
        assert prompt.text == "second"
        await stage.press("up", "up")
        assert prompt.text == "first"
        await stage.press("down", "down")
        assert prompt.text == "new"


async def a_screen_opens_without_the_inputs_that_it_hides(stage: Stage) -> None:
    await stage.press("enter", shows=FocusScreen)
    assert not stage.screen.query("Input, TextArea, Markdown")
    await stage.press("m")
    assert stage.one(TextArea).has_focus


async def a_letter_does_not_lay_the_screen_out_again(stage: Stage) -> None:
    await stage.press("m", "a")
    laid_out: list[Screen[Any]] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Screen, "_refresh_layout", lambda screen, *given, **more: laid_out.append(screen))
        await stage.press("b")
    assert stage.one(MessagePrompt).text == "ab"
    assert laid_out == []


async def a_pasted_megabyte_is_folded_and_sent_in_full(stage: Stage) -> None:
    text = "line of text ünicode\n" * 50_000
    await stage.press("m")
    stage.one(TextArea).post_message(events.Paste(text))
    await stage.until(lambda: stage.one(MessagePrompt).text == text)
    assert "‹text 1: 1.1 MB, 50,001 lines›" in stage.text()
    await stage.write(" end")
    assert stage.one(MessagePrompt).text == text + " end"


async def a_small_paste_is_not_folded(stage: Stage) -> None:
    await stage.press("m")
    stage.one(TextArea).post_message(events.Paste("[/] list[int]\nsecond"))
    await stage.until(lambda: stage.one(MessagePrompt).text == "[/] list[int]\nsecond")
    assert "[/] list[int]" in stage.text()


def test_a_folded_text_comes_back_and_the_same_text_folds_once() -> None:
    folds, large = FoldedTexts(), "x" * (FOLD_OVER + 1)
    mark = folds.fold(large)
    assert folds.fold(large) == mark
    assert folds.unfold(f"a {mark} b") == f"a {large} b"
    assert folds.fold("short") == "short"


# The outside editor.


def fake_editor(folder: Path, body: str) -> str:
    script = folder / "my editor"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(stat.S_IRWXU)
    return str(script)


@contextmanager
def lend(self: CockpitApp) -> Iterator[None]:
    yield


async def test_ctrl_o_opens_an_external_editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adds = fake_editor(tmp_path, 'printf " and more\\n" >> "$1"')
    monkeypatch.setenv("VISUAL", f"'{adds}'")
    monkeypatch.setattr(CockpitApp, "suspend", lend)
    async with cockpit(tmp_path) as stage:
        await stage.press("m")
        await stage.write("some")
        await stage.press("ctrl+o", until=lambda: stage.one(MessagePrompt).text == "some and more")


async def test_an_editor_that_fails_leaves_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", f"'{fake_editor(tmp_path, 'exit 3')}'")
    monkeypatch.setattr(CockpitApp, "suspend", lend)
    async with cockpit(tmp_path) as stage:
        await stage.press("m")
        await stage.write("kept")
        await stage.press("ctrl+o", shows="ended with 3")
        assert stage.one(MessagePrompt).text == "kept"


async def a_terminal_that_cannot_run_an_editor_says_so(stage: Stage) -> None:
    await stage.press("m", "a", "ctrl+o", shows="cannot run an editor")


async def test_a_missing_editor_is_an_os_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "/nowhere/editor")
    with pytest.raises(OSError, match="nowhere"):
        await edit_text("text")


def test_the_editor_is_visual_then_editor_then_vi() -> None:
    assert read_command({"VISUAL": "code --wait", "EDITOR": "nano"}) == ["code", "--wait"]
    assert read_command({"EDITOR": "nano"}) == ["nano"]
    assert read_command({"VISUAL": "  "}) == ["vi"]
    with pytest.raises(OSError, match="EDITOR"):
        read_command({"EDITOR": "a 'b"})


# ctrl+c.


async def ctrl_c_copies_a_selection_first(stage: Stage) -> None:
    await stage.press("m")
    await stage.write("words")
    stage.one(TextArea).select_all()
    await stage.press("ctrl+c")
    assert stage.app.clipboard == "words"
    assert stage.one(MessagePrompt).text == "words"


async def ctrl_c_clears_an_input_into_its_history(stage: Stage) -> None:
    await stage.press("m")
    await stage.write("never mind")
    await stage.press("ctrl+c")
    assert stage.one(MessagePrompt).text == ""
    await stage.press("up")
    assert stage.one(MessagePrompt).text == "never mind"


async def ctrl_c_twice_quits_and_once_only_says_so(stage: Stage) -> None:
    await stage.press("ctrl+c")
    assert "press ^c again to quit" in stage.text()
    assert stage.shows(DashboardScreen)
    await stage.press("ctrl+c")
    assert stage.shows(QuitDialog)
    await stage.press("escape")
    assert stage.shows(DashboardScreen)


async def test_the_cost_of_a_round_is_estimated_from_earlier_ones() -> None:
    api = FakeSwarm()
    fresh = await api.create("fresh")
    used = replace(fresh, context_used=10_000, tokens=100_000, cost_micros=400_000)

    def cost(*views: MysisView) -> str:
        return RoundCost.of(views).describe()

    assert cost() == ""
    assert cost(fresh) == "the cost of a turn is not known yet"
    assert cost(used) == "~10k tokens, ~$0.04 if it answers once"
    assert cost(replace(used, cost_micros=40)) == "~10k tokens, under $0.01 if it answers once"
    assert cost(replace(used, cost_micros=0)) == "~10k tokens if it answers once"
    assert cost(replace(used, cost_micros=None)) == "~10k tokens if it answers once"
    assert cost(used, replace(used, cost_micros=None)) == "~20k tokens, $? in all, if each answers once"
    assert cost(used, fresh) == "~10k tokens, ~$0.04 in all, if each answers once, 1 not known yet"


async def test_the_cost_of_a_round_includes_the_text_for_each_recipient() -> None:
    api = FakeSwarm()
    used = replace(await api.create("used"), context_used=10_000, tokens=100_000, cost_micros=400_000)
    text = "ore " * 1_000
    assert RoundCost.of([used]).describe(text) == "~11k tokens, ~$0.044 if it answers once"
    assert RoundCost.of([used, used, used]).count(text) == 33_000
    assert RoundCost.of([await api.create("fresh")]).describe(text).startswith("~1k tokens for the text; ")


async def the_search_key_works_in_every_input(stage: Stage) -> None:
    await stage.press("m")
    await stage.write("half a thought")
    await stage.press("home", "ctrl+f")
    assert stage.shows(SearchScreen)
    assert stage.app.screen_stack[-2].query_one(MessagePrompt).text == "half a thought"


async def test_keys_and_pastes_in_the_prompt_do_what_they_say(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await take_steps(
            stage,
            tab_changes_the_delivery_mode,
            ctrl_j_begins_a_new_line,
            a_screen_opens_without_the_inputs_that_it_hides,
            a_letter_does_not_lay_the_screen_out_again,
            a_pasted_megabyte_is_folded_and_sent_in_full,
            a_small_paste_is_not_folded,
            a_terminal_that_cannot_run_an_editor_says_so,
            ctrl_c_copies_a_selection_first,
            the_search_key_works_in_every_input,
            ctrl_c_clears_an_input_into_its_history,
            ctrl_c_twice_quits_and_once_only_says_so,
        )


def test_no_kind_of_input_takes_the_key_of_the_search() -> None:
    taken = {one.key for kind in (Input, TextArea) for one in Binding.make_bindings(kind.BINDINGS)}
    assert BY_ID["screen.search"].key not in taken


async def test_a_draft_is_saved_soon_after_it_was_typed(tmp_path: Path) -> None:
    file = tmp_path / "drafts.json"
    async with cockpit(tmp_path, drafts=file) as stage:
        await stage.press("m")
        await stage.write("half a thought")
        target = stage.one(MessagePrompt).target
        assert target is not None
        await stage.until(lambda: read_unsent(file).get(target.key) == "half a thought")
        await stage.press("enter", until=lambda: read_unsent(file) == {})


OF_SEVERAL = (
    ("m", "dig at\nthe belt "),
    ("j m", "see \x1b[31m \u202e\r\nthere"),
    ("t", "ore " * 2_000),
    ("b", "to all"),
)
"""Keys that open a prompt at the first row, and what is written in it."""


@pytest.mark.parametrize("drafts", [OF_SEVERAL, (("space b", "to the marked"),)], ids=["of several", "of the marked"])
async def test_a_draft_that_outlives_a_kill_after_its_message_was_stored_is_sent_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drafts: tuple[tuple[str, str], ...]
) -> None:
    file, at_the_kill, say = tmp_path / "drafts.json", tmp_path / "kept.json", Commander.say
    kept: dict[str, str] = {}

    async def say_and_copy(self: Commander, *args: Any) -> Receipt:
        receipt = await say(self, *args)
        if not at_the_kill.exists():
            kept.update(json.loads(file.read_bytes()))
        return receipt

    async def send(stage: Stage, keys: str, typed: str = "") -> None:
        await stage.press("escape", "home", *keys.split())
        prompt = stage.one(MessagePrompt)
        if typed:
            prompt.query_one(TextArea).post_message(events.Paste(typed))
        await stage.until(lambda: prompt.text.strip())
        await stage.press("enter", until=lambda: not prompt.is_open)

    monkeypatch.setattr(Commander, "say", say_and_copy)
    async with cockpit(tmp_path, drafts=file) as first:
        for at, (keys, text) in enumerate(drafts, 1):
            await send(first, keys, text)
            assert len(await messages(first)) == at
        at_the_kill.write_text(json.dumps(kept))
        sent, swarm = await messages(first), first.swarm
        async with (
            cockpit_over(first.api, swarm.path, drafts=at_the_kill, inner=swarm) as second,
            cockpit_over(first.api, swarm.path, drafts=at_the_kill, inner=swarm) as third,
        ):
            for keys, text in drafts:
                await send(second, keys)
                await send(third, keys)
                assert await messages(first) == sent, text
            await third.until(lambda: read_unsent(at_the_kill) == {})
            for keys, text in drafts:
                await send(third, keys, text)
            assert await messages(first) == [*sent, *sent], "typed again it is another message"


def test_a_changed_draft_is_another_message() -> None:
    drafts = Drafts()
    drafts.keep_message("broadcast", "dig", "")
    parts = [("dig", "", "alpha"), ("dig", "", "alpha", "beta"), ("dig", "", ""), ("dig ", "", ""), ("dig", "a=1", "")]
    assert len({drafts.idempotency_key("broadcast", *part) for part in parts}) == len(parts)
    sent = drafts.idempotency_key("broadcast", "dig")
    drafts.keep_message("broadcast", "dig and sell", "")
    drafts.keep_message("broadcast", "dig", "")
    assert drafts.idempotency_key("broadcast", "dig") == sent
    drafts.keep_message("broadcast", "dig and sell", "a=1")
    drafts.end("broadcast", "dig")
    assert (drafts.of("broadcast"), drafts.limits_of("broadcast")) == ("dig and sell", "a=1")
    assert drafts.idempotency_key("broadcast", "dig") != sent
    drafts.end("broadcast", "dig and sell")
    assert not any(drafts.of(key) for key in ("broadcast", "limits of broadcast", "id of broadcast"))


def test_a_saved_draft_that_another_cockpit_sent_does_not_come_back(tmp_path: Path) -> None:
    file = tmp_path / "drafts.json"
    first, second = Drafts(file), Drafts(file)
    first.keep("mysis 1", "dig")
    first.store()
    second.load()
    second.keep("mysis 1", "")
    second.store()
    first.keep("mysis 2", "sell")
    first.store()
    assert read_unsent(file) == {"mysis 2": "sell"}


def test_a_draft_that_could_not_be_saved_is_saved_the_next_time(tmp_path: Path) -> None:
    file = tmp_path / "missing" / "drafts.json"
    drafts = Drafts(file)
    drafts.keep("mysis 1", "dig")
    file.parent.write_text("no folder")
    with pytest.raises(SettingsError):
        drafts.store()
    file.parent.unlink()
    file.parent.mkdir()
    drafts.store()
    assert read_unsent(file) == {"mysis 1": "dig"}


def test_drafts_of_several_cockpits_are_kept_beside_each_other(tmp_path: Path) -> None:
    file = tmp_path / "drafts.json"
    first, second = Drafts(file), Drafts(file)
    first.keep("mysis 1", "dig")
    first.store()
    second.keep("broadcast", "to all \ud800")
    second.store()
    third = Drafts(file)
    third.load()
    assert (third.of("mysis 1"), third.of("broadcast")) == ("dig", "to all \ufffd")
    third.keep("mysis 1", " ")
    third.store()
    assert json.loads(file.read_text()) == {"broadcast": "to all \ufffd"}
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damaged", ["{", "[1]", '{"mysis 1": 5}'])
def test_a_damaged_file_of_drafts_holds_none(tmp_path: Path, damaged: str) -> None:
    file = tmp_path / "drafts.json"
    file.write_text(damaged)
    drafts = Drafts(file)
    drafts.load()
    assert drafts.of("mysis 1") == ""
    drafts.keep("mysis 1", "dig")
    drafts.store()
    assert json.loads(file.read_text()) == {"mysis 1": "dig"}


@pytest.mark.parametrize("code", [*range(9), *range(11, 32), *range(127, 160), 0x202E, 0x2028])
def test_a_hand_edited_draft_reaches_no_terminal_raw(tmp_path: Path, code: int) -> None:
    file = tmp_path / "drafts.json"
    file.write_text(json.dumps({"mysis 1": f"one{chr(code)}]0;two"}))
    drafts = Drafts(file)
    drafts.load()
    drafts.remember([f"sent{chr(code)}[31m"])
    for text in (drafts.of("mysis 1"), *drafts.history):
        assert chr(code) not in text
        assert text


async def test_unsent_texts_that_cannot_be_read_are_reported_and_stay(tmp_path: Path) -> None:
    file = tmp_path / "drafts.json"
    file.symlink_to("/proc/self/mem")  # reading its first byte fails with EIO
    async with cockpit(tmp_path, drafts=file) as stage:
        await stage.until(lambda: [one for one in stage.notices if f"{file} cannot be read" in one])
        assert not stage.app.reported_defects
        await stage.press("m")
        await stage.write("half a thought")
    assert file.is_symlink()


async def test_the_note_of_a_narrow_prompt_has_one_line_and_f2_shows_all_of_it(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(80, 24)) as stage:
        for name in ("beta", "gamma"):
            await stage.api.stop(name)
        await stage.until(lambda: all(stage.view(name).state is MysisState.STOPPED for name in ("beta", "gamma")))
        await stage.press("b")
        note = stage.one(Static, "#prompt-note")
        await stage.until(lambda: "f2 whole text" in stage.text() and note.size.height == 1)
        assert "the cost of a turn is not known yet" in stage.text()
        await stage.press("f2", until=lambda: "again" in stage.text() and note.size.height > 1)
        await stage.press("f2", until=lambda: note.size.height == 1)
        await stage.pilot.resize_terminal(120, 40)
        await stage.until(lambda: "b again" in stage.text() and "f2" not in stage.text())
