"""The first and the last line of every screen: what they say however little room there is."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.tui.cockpit import Stage, cockpit
from zoea.model.enums import Activity, MysisState
from zoea.model.values import Failure, SwarmView
from zoea.settings.schema import Settings
from zoea.swarm.budgets import describe_spent_day
from zoea.tui.screens.base import LAG_SHOWN_US
from zoea.tui.screens.focus import FocusScreen
from zoea.tui.widgets.status_bars import FooterKey, KeyFooter, PieceLine, fit_pieces

DISK_FULL = "disk full or failing: nothing can be stored"


def top(stage: Stage) -> str:
    return stage.text().partition("\n")[0]


def keys(stage: Stage) -> str:
    return stage.one(KeyFooter).text.strip()


async def hold(stage: Stage, reason: str, errored: int = 0) -> None:
    """The swarm on hold, with so many of its myses errored."""
    views = list(stage.app.feed.in_order())
    fault = Failure("auth", "The key fails", "401")
    views[:errored] = [replace(view, state=MysisState.ERRORED, failure=fault) for view in views[:errored]]
    stage.app.feed.take(SwarmView(9, bool(reason), reason, tuple(views), tokens_today=12_000, cost_today_micros=30_000))
    await stage.pilot.pause()


def test_urgent_pieces_are_cut_last() -> None:
    line = [("brand ", "title"), ("HOLD ", "asking"), ("a long sentence", "quiet"), (" over", "errored")]
    assert fit_pieces(line, 40) == line
    assert fit_pieces(line, 26) == [*line[:2], ("a long se…", "quiet"), line[3]]
    assert fit_pieces(line, 20) == [*line[:2], ("", "quiet"), line[3]]
    assert fit_pieces(line, 12) == [("", "title"), line[1], ("", "quiet"), line[3]]
    assert fit_pieces(line, 5) == [("", "title"), line[1], ("", "quiet"), ("", "errored")]
    assert fit_pieces([("x" * 40, "asking")], 12) == [("x" * 11 + "…", "asking")]


async def test_the_badge_never_cuts_a_key_title(tmp_path: Path) -> None:
    typed = [FooterKey((("question_mark", ""),), "help"), FooterKey((("q", ""),), "quit")]
    badge = "attached "
    async with cockpit(tmp_path, size=(80, 24)) as stage:
        line = stage.one(KeyFooter)

        def is_wide(width: int) -> bool:
            return line.size.width == width

        for width in range(len(" ? help  q quit ") + len(badge) - 1, 30):
            line.styles.width = width
            await stage.until(partial(is_wide, width))
            line.show(typed, badge)
            drawn = line.render_line(0).text
            assert drawn.startswith(" ? help ")
            assert ("q quit" in drawn) == ("q" in drawn)
            assert drawn.endswith(f" {badge}")


async def test_at_eighty_columns_the_footer_keeps_hold_help_and_approvals(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(80, 24)) as stage:
        await hold(stage, DISK_FULL)
        assert "ON HOLD  disk full or failing: nothing can be stored   3 myses" in top(stage)
        await hold(stage, "by you", errored=1)
        assert "ON HOLD  by you   3 myses, 1 needs you: alpha" in top(stage)
        stage.app.push_screen(FocusScreen(stage.view("beta").id))
        await stage.until(lambda: stage.shows(FocusScreen) and "beta" in stage.text())
        assert "ON HOLD" in top(stage)
        assert " · 1 needs you: alpha" in top(stage)
        assert "x resume" in keys(stage)
        await stage.pilot.resize_terminal(60, 16)
        await stage.until(lambda: "ON HOLD  ⬡ beta  idle · 1 needs you: alpha" in top(stage))
        await stage.pilot.resize_terminal(80, 24)
        stage.app.push_screen(FocusScreen(stage.view("alpha").id))
        await stage.until(lambda: stage.shows(FocusScreen) and "errored" in top(stage))
        assert "needs you" not in top(stage) + keys(stage)  # what is wrong with it is shown already
        stage.app.pop_screen()
        assert "? help" in keys(stage)
        stage.app.feed.lost = "it went"
        await hold(stage, "", errored=2)
        assert "the swarm has ended" in top(stage)
        assert "1 needs you: alpha" in top(stage)
        assert "beta" in top(stage)


async def test_in_an_input_the_footer_shows_only_keys_that_work_there(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.press("ctrl+f")
        assert keys(stage) == "enter open  esc back  ^p palette"
        await stage.press("escape", "question_mark")
        assert keys(stage) == "enter do it  esc back  ^p palette"
        await stage.press("escape", "slash")
        assert keys(stage) == "enter keep it  esc clear  ^p palette"
        await stage.press("escape")
        assert "i inspect" in keys(stage)
        await stage.press("m")
        assert keys(stage) == "enter send  ^j new line  tab delivery mode  esc back  ^o editor  ^p palette"
        await stage.press("escape", "l", "slash")
        assert keys(stage) == "enter to the lines  esc back  ^p palette"
        await stage.pilot.click(KeyFooter, offset=(keys(stage).index("esc"), 0))
        await stage.until(lambda: ": cmd" in keys(stage))


async def test_a_cut_left_side_keeps_a_blank_before_the_right_side(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(80, 24)) as stage:
        line = PieceLine()
        await stage.app.screen.mount(line)
        for right, said in ((), "x…"), ([("$1", "quiet")], "x… $1"), ([("  $1", "quiet")], "x…  $1"):
            line.put([("x" * 200, "quiet")], right)
            await stage.pilot.pause()
            drawn = line.render_line(0).text
            assert (drawn.endswith(said), len(drawn)) == (True, 80), drawn


async def test_the_header_tells_for_a_minute_that_the_event_loop_was_held_up(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(120, 24)) as stage:

        async def show(ago_us: int) -> None:
            views = tuple(stage.app.feed.in_order())
            at = stage.app.now() - ago_us
            stage.app.feed.take(SwarmView(9, False, "", views, lag_ms=1_240, lagged_at=at))
            await stage.pilot.pause()

        await show(LAG_SHOWN_US // 2)
        assert "Zoea stalled 1.2 s" in top(stage)
        await show(LAG_SHOWN_US + 1)
        assert "stalled" not in top(stage)
        await show(-86_400_000_000)
        assert "stalled" not in top(stage), "the clock was set back since"


@pytest.mark.parametrize("width", [60, 80, 99, 120])
async def test_a_stall_leaves_the_number_of_myses_in_the_header(
    width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cockpit(tmp_path, size=(width, 24)) as stage:
        monkeypatch.setattr(stage.app.feed, "rate", lambda *_: 1_700)
        views = tuple(stage.app.feed.in_order())
        at = stage.app.now()
        view = SwarmView(9, False, "", views, lag_ms=300, lagged_at=at, tokens_today=9_800, budget_today=2_000_000)
        stage.app.feed.take(view)
        await stage.pilot.pause()
        assert "3 myses" in top(stage)
        assert ("Zoea stalled 0.3 s" in top(stage)) is (width >= 80)
        assert "9.8k" in top(stage)


async def test_the_header_shows_money_only_where_some_was_spent(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(80, 24)) as stage:
        views = tuple(stage.app.feed.in_order())
        stage.app.feed.take(SwarmView(9, False, "", views, tokens_today=12_000, cost_today_micros=0))
        await stage.until(lambda: "12k" in top(stage))
        assert "$" not in top(stage)
        stage.app.feed.take(SwarmView(10, False, "", views, tokens_today=12_000, cost_today_micros=400))
        await stage.until(lambda: "$0.0004" in top(stage))


async def test_the_header_shows_the_limit_of_money_beside_what_was_spent(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(120, 40)) as stage:
        views, cost = tuple(stage.app.feed.in_order()), 934_300
        stage.app.feed.take(SwarmView(9, False, "", views, cost_today_micros=cost, money_today=1_000_000))
        await stage.until(lambda: "$0.9343 of $1.00" in top(stage))


async def test_resuming_a_hold_for_a_spent_budget_says_that_it_comes_back(tmp_path: Path) -> None:
    settings = Settings.model_validate({"nudge": {"enabled": False}, "budget": {"swarm_per_day": 20_000}})
    async with cockpit(tmp_path, settings=settings, size=(120, 40)) as stage:

        def is_held() -> bool:
            return stage.app.feed.view is not None and stage.app.feed.view.held

        await stage.api.hold(True, reason="for lunch")
        await stage.until(is_held)
        await stage.press("x", until=lambda: not is_held())
        assert not stage.notices
        await stage.api.hold(True, reason=describe_spent_day(19_000, 21_000, 20_000))
        await stage.until(is_held)
        await stage.press("x")
        await stage.until(lambda: any("raise budget.swarm_per_day, then resume" in said for said in stage.notices))


async def test_a_hold_says_how_many_calls_still_end(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(120, 40)) as stage:
        calling = replace(stage.view(), state=MysisState.RUNNING, in_turn=True, activity=Activity.LLM, swarm_held=True)
        stage.app.feed.take(SwarmView(9, True, "", (calling,)))
        await stage.pilot.pause()
        assert "ON HOLD, 1 finishing  3 myses" in top(stage)
