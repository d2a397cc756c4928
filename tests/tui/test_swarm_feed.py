"""The cockpit continues after errors of a screen, worker or the swarm, and reports them."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from tests.fakes.swarm import FakeSwarm
from tests.tui.cockpit import cockpit
from tests.waiting import until
from zoea.model.errors import StoreError
from zoea.model.values import ApprovalView, Event
from zoea.tui.screens.dashboard import DashboardScreen
from zoea.tui.screens.focus import FocusScreen
from zoea.tui.screens.help import HelpScreen
from zoea.tui.screens.log import LogScreen
from zoea.tui.state import swarm_feed
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.state.open_approvals import OpenApprovals
from zoea.tui.state.swarm_feed import SwarmFeed
from zoea.tui.widgets.swarm_table import SwarmTable


async def test_an_error_in_a_screen_is_shown_once_and_logged_and_the_feed_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cockpit(tmp_path) as stage:
        real = stage.top(DashboardScreen).feed_changed
        before = len(stage.notices)

        def fails(ids: frozenset[int]) -> None:
            real(ids)
            raise LookupError("no such column [/]")

        monkeypatch.setattr(stage.screen, "feed_changed", fails)
        await stage.api.create("delta", start=False)
        await stage.until(lambda: stage.has("delta"))
        await stage.api.create("eta", start=False)
        await stage.until(lambda: stage.has("eta"))
        said = [notice for notice in stage.notices[before:] if "LookupError: no such column [/]" in notice]
        assert len(said) == 1
        assert "no such column" in caplog.text
        stage.app.reported_defects.clear()


async def _fail(text: str) -> None:
    raise LookupError(text)


async def test_an_error_in_a_worker_of_app_screen_or_widget_is_shown_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cockpit(tmp_path) as stage:
        starters = (stage.app, stage.screen, stage.one(SwarmTable))
        texts = [f"LookupError: no column for {type(one).__name__}" for one in starters]
        for starter, text in zip(starters, texts, strict=True):
            starter.run_worker(DeferredWork(partial(_fail, text.removeprefix("LookupError: "))), exit_on_error=False)
        await stage.until(lambda: len(stage.app.reported_defects) == len(texts))
        assert stage.app.reported_defects == texts
        for text in texts:
            assert any(text in notice for notice in stage.notices)
            assert text in caplog.text
        stage.app.reported_defects.clear()


async def test_an_error_in_a_worker_of_a_screen_that_is_left_is_shown_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails_when_left(*_: object, **more: object) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise LookupError("no column left") from None

    async with cockpit(tmp_path) as stage:
        monkeypatch.setattr(LogScreen, "read", fails_when_left)
        await stage.press("l")
        assert isinstance(stage.screen, LogScreen)
        await stage.press("escape")
        await stage.until(lambda: bool(stage.app.reported_defects))
        assert stage.app.reported_defects == ["LookupError: no column left"]
        assert any("LookupError: no column left" in notice for notice in stage.notices)
        assert "no column left" in caplog.text
        stage.app.reported_defects.clear()


async def test_a_swarm_that_fails_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swarm_feed, "AGAIN_S", 0.0)
    swarm, seen, failures = FakeSwarm(), asyncio.Event(), list[Exception]()
    real = swarm.view

    async def view() -> object:
        if not failures:
            raise StoreError("the disk is slow")
        seen.set()
        return await real()

    monkeypatch.setattr(swarm, "view", view)
    following = asyncio.create_task(SwarmFeed(lambda ids: None, lambda event: None, failures.append).follow(swarm))
    async with asyncio.timeout(10):
        await seen.wait()
    following.cancel()
    assert [str(one) for one in failures] == ["the disk is slow"]


@pytest.mark.parametrize(("looks", "used"), [(0, 1), (3, 4), (1_000, round(swarm_feed.KEYS_S / swarm_feed.LOOK_S))])
async def test_changed_rows_wait_for_the_effects_of_keys_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch, looks: int, used: int
) -> None:
    done, asked, taken = asyncio.Event(), 0, list[int]()

    def has_keys() -> bool:
        nonlocal asked
        asked += 1
        return asked <= looks

    def take(ids: frozenset[int]) -> None:
        taken.append(asked)
        done.set()

    feed = SwarmFeed(take, lambda event: None, lambda error: None, has_keys=has_keys)
    following = asyncio.create_task(feed.follow(FakeSwarm()))
    async with asyncio.timeout(10):
        await done.wait()
    following.cancel()
    assert taken[0] == used


async def test_a_question_that_ends_before_a_view_has_told_of_it_is_open_no_longer() -> None:
    """Views come less often than events: a mysis can ask and be deleted in between."""
    waiting = [ApprovalView(1, 1, "alpha", "burn", "peer", "{}", 0, 1)]

    async def read() -> tuple[ApprovalView, ...]:
        return tuple(waiting)

    approvals = OpenApprovals(read, lambda: None)
    approvals.take_event(Event(1, "approval.asked", 1, {}, 0))
    await until(lambda: approvals.open)
    waiting.clear()
    approvals.take_views(())
    await until(lambda: not approvals.open)


async def test_an_action_on_a_mysis_that_came_or_went_behind_another_screen_meets_no_other(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.press("question_mark", shows=HelpScreen)
        await stage.api.create("delta", start=False)
        await stage.until(lambda: stage.has("delta"))
        delta = stage.view("delta").id
        stage.app.call_later(stage.app.act_on_mysis, "mysis.focus", delta)
        await stage.until(lambda: stage.shows(FocusScreen))
        assert stage.top(FocusScreen).mysis_id == delta
        await stage.api.delete("delta")
        await stage.until(lambda: not stage.has("delta"))
        await stage.go_home()
        stage.app.call_later(stage.app.act_on_mysis, "mysis.focus", delta)
        await stage.until(lambda: "That mysis was deleted meanwhile" in stage.notices)
        assert stage.shows(DashboardScreen)
