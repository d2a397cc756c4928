"""Toasts cover no prompt and name the recipient."""

from __future__ import annotations

import time
from itertools import chain, repeat
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual import notifications
from textual.widgets._toast import Toast

from tests.tui.cockpit import answering, asks_when_told, cockpit
from tests.tui.test_approvals import ask
from zoea.model.errors import StoreError
from zoea.model.values import Event, Receipt, ReceiptLine
from zoea.tui.commands.swarm_commands import show_receipt
from zoea.tui.dialogs.approvals import ApprovalDialog
from zoea.tui.screens.focus import FocusScreen
from zoea.tui.state.timed_notice import LEAST_S, TimedNotice
from zoea.tui.swarm_list.broadcasts_panel import format_receipt
from zoea.tui.widgets.message_prompt import MessagePrompt


async def test_a_toast_covers_no_open_prompt(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(80, 24)) as stage:
        await stage.press("m")
        prompt = stage.one(MessagePrompt)
        await stage.until(lambda: prompt.is_open and stage.screen.has_class("-toasts-above"))
        stage.app.notify("A long text.\nWith a second line.", title="A title", timeout=60)
        await stage.until(lambda: list(stage.screen.query(Toast)))
        toast = stage.screen.query_one(Toast)
        await stage.until(lambda: toast.region.height)
        assert not toast.region.overlaps(prompt.region)
        await stage.press("escape", until=lambda: not stage.screen.has_class("-toasts-above"))


async def test_a_toast_on_a_low_screen_covers_the_header_only(tmp_path: Path) -> None:
    async with cockpit(tmp_path, asks_when_told, size=(80, 24)) as stage:
        await ask(stage, "gamma")
        await stage.pilot.resize_terminal(60, 16)
        await stage.press("o", until=lambda: stage.shows(ApprovalDialog) and "y allow once" in stage.text())
        for number in range(3):
            stage.app.notify(f"A long text {number}.\nWith a second line.", title="A title", timeout=60)
        await stage.until(lambda: "A title" in stage.text())
        await stage.until(lambda: stage.screen.has_class("-toasts-brief"))
        await stage.until(lambda: "A title" in stage.text().partition("\n")[0])
        assert "gamma asks" in stage.text()
        assert "burn it" in stage.text()
        assert "A title" not in "".join(stage.text().splitlines()[1:])


async def test_a_toast_on_a_low_screen_says_why_behind_its_title(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(60, 16)) as stage:
        await stage.press("r", "o")
        await stage.until(lambda: "approvals: Nothing waits for your answer" in stage.text().partition("\n")[0])
        assert "SWARM" in stage.text().splitlines()[1]


async def test_a_failure_told_again_while_it_is_shown_stands_there_once(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        for _ in range(3):
            stage.app.show_error(StoreError("the database is gone", hint="Start Zoea again."))
        stage.app.show_error(StoreError("the disk is full"))
        await stage.until(lambda: "the disk is full" in stage.text())
        await stage.until(lambda: len(stage.screen.query(Toast)) == 2)
        assert stage.text().count("the database is gone") == 1
        assert len(stage.notices) == 4


async def test_a_toast_that_ends_while_it_is_made_does_not_freeze_the_cockpit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cockpit(tmp_path) as stage:
        times = chain(repeat(time.time(), 3), repeat(time.time() + 60))
        monkeypatch.setattr(notifications, "time", lambda: next(times))
        stage.app.notify("It is late.", timeout=0.2)
        await stage.until(lambda: list(stage.screen.query(Toast)))
        await stage.until(lambda: not stage.screen.query(Toast))


def test_a_notice_that_has_ended_has_a_moment_left_for_its_toast() -> None:
    ended = TimedNotice("late", timeout=-1)
    assert (ended.has_expired, ended.time_left) == (True, LEAST_S)


async def test_the_first_summary_without_a_model_for_want_of_budget_is_shown_once(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        refused = Event(7, "budget.refused", 1, {"scope": "background", "used": 5, "limit": 50, "needed": 900})
        for event in (replace(refused, data={"scope": "turn", "used": 5, "limit": 4, "needed": 9}), refused, refused):
            stage.app.feed_event(event)
        shown = [notice for notice in stage.notices if "budget.background = 900, which is 50" in notice]
        assert len(shown) == 1
        assert "alpha: its summary has chosen lines" in shown[0]


async def test_the_toast_of_a_message_names_its_recipient_where_nothing_else_shows_it(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.press("enter")
        await stage.press("colon")
        await stage.enter("send beta hello")
        await stage.until(lambda: stage.notices == ["Delivered to beta · working"])
        stage.notices.clear()
        stage.app.push_screen(FocusScreen(stage.view("beta").id))
        show_receipt(stage.app, Receipt(3, (ReceiptLine("beta", "started"),)))  # before the screen has its widgets
        assert stage.notices == ["Delivered to beta · working"]


async def test_a_toast_tells_of_a_message_where_its_row_may_move_or_leave(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering()) as stage:
        await stage.press("slash")
        await stage.enter("idle")
        await stage.press("colon")
        await stage.enter("send alpha hello")
        await stage.until(lambda: stage.notices == ["Delivered to alpha · working"])
        await stage.press("escape", "greater_than_sign", "colon")
        await stage.enter("send beta hello")
        await stage.until(lambda: stage.notices[1:] == ["Delivered to beta · working"])


async def test_a_message_that_a_pause_or_a_hold_keeps_is_told_as_queued(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering()) as stage:
        await stage.press("p", until=lambda: stage.view("alpha").held)
        await stage.press("m")
        await stage.enter("hello")
        await stage.until(lambda: stage.notices[-1:] == ["Delivered to alpha · queued"])
        await stage.press("x", until=lambda: stage.view("beta").swarm_held)
        await stage.press("j", "m")
        await stage.enter("hello")
        await stage.until(lambda: stage.notices[-1:] == ["Delivered to beta · queued"])


async def test_no_toast_follows_a_message_that_the_row_or_the_conversation_shows(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering(), size=(80, 24)) as stage:
        await stage.press("j", "m")
        await stage.enter("hello there")
        await stage.until(lambda: stage.view("beta").turns == 1)
        await stage.press("enter", "m")
        await stage.enter("once more")
        await stage.until(lambda: "once more" in stage.text() and stage.view("beta").turns == 2)
        await stage.until(lambda: not stage.one(MessagePrompt).is_open)
        assert (stage.notices, list(stage.screen.query(Toast))) == ([], [])
        await stage.press("escape")
        one = (ReceiptLine("beta", "delivered"),)
        show_receipt(stage.app, Receipt(3, one))
        await stage.until(lambda: stage.notices == ["Delivered to beta"])


async def test_no_toast_follows_a_message_to_a_mysis_in_a_turn_whose_detail_lists_it(tmp_path: Path) -> None:
    async with cockpit(tmp_path, asks_when_told) as stage:
        await ask(stage, "alpha")
        await stage.until(lambda: "asking · turn 1" in stage.text() and "from you  burn" in stage.text())
        await stage.press("m")
        await stage.enter("for later")
        await stage.until(lambda: "from you  for later" in stage.text() and not stage.one(MessagePrompt).is_open)
        assert (stage.notices, list(stage.screen.query(Toast))) == ([], [])
        await stage.press("j", "colon")
        await stage.enter("send alpha and this")  # the detail is that of another mysis
        await stage.until(lambda: stage.notices == ["Delivered to alpha"])


async def test_no_toast_covers_the_panel_that_counts_the_replies_of_a_broadcast(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering(), size=(80, 24)) as stage:
        await stage.press("b")
        await stage.enter("Where are you?")
        await stage.until(lambda: "3 answered" in stage.text())
        assert (stage.notices, list(stage.screen.query(Toast))) == ([], [])


async def test_a_broadcast_is_told_in_a_toast_where_no_panel_counts_it_or_one_did_not_receive_it(
    tmp_path: Path,
) -> None:
    async with cockpit(tmp_path, answering(), size=(60, 16)) as stage:
        await stage.press("b")
        await stage.enter("Where are you?")
        await stage.until(lambda: stage.notices == ["Delivered to alpha, beta, gamma · 3 working"])
        stage.notices.clear()
        await stage.pilot.resize_terminal(80, 24)
        await stage.until(lambda: "3 answered" in stage.text())
        lines = (ReceiptLine("alpha", "started"), ReceiptLine("beta", "skipped", "stopped"))
        show_receipt(stage.app, Receipt(2, lines))
        await stage.until(lambda: stage.notices == ["Delivered to alpha · working · not delivered to beta: stopped"])


def test_a_receipt_says_who_did_not_get_the_message_and_why() -> None:
    def receipt(*lines: tuple[str, str, str]) -> str:
        return format_receipt(Receipt(1, tuple(ReceiptLine(*line) for line in lines)))

    assert receipt(("alpha", "started", "")) == "Delivered to alpha · working"
    assert receipt(("alpha", "delivered", ""), ("beta", "skipped", "stopped")) == (
        "Delivered to alpha · not delivered to beta: stopped"
    )
    many = receipt(*((name, "delivered", "") for name in "abcde"), ("f", "skipped", "errored"))
    assert many == "Delivered to a, b, c and 2 more · not delivered to f: errored"
    assert receipt(("a", "skipped", "stopped"), ("b", "skipped", "stopped")) == "Not delivered to a, b: stopped"
