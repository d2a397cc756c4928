"""Needs-you panel: its lines, the keys it shows, and the myses they act on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.swarm.harness import plain
from tests.tui.cockpit import Stage, asks_when_told, cockpit
from tests.tui.test_approvals import ask
from tests.tui.test_clickable_keys import click_on
from tests.tui.test_dashboard_actions import errored, refusing
from zoea.llm.providers.scripted import Rule
from zoea.model.enums import MysisState
from zoea.model.errors import REFUSED_KEY
from zoea.model.values import Failure, SwarmView, UpstreamFault
from zoea.tui.dialogs.approvals import ApprovalDialog
from zoea.tui.screens.dashboard import DashboardScreen
from zoea.tui.screens.focus import FocusScreen
from zoea.tui.swarm_list.needs_you_panel import KeyScope, Line, build_needs_lines, find_next_in_need
from zoea.tui.widgets.clickable_text import TextBlock
from zoea.tui.widgets.swarm_table import SwarmTable


def faulty(key_is_wrong: list[bool]) -> list[Rule]:
    """A model that refuses `go` while the key is wrong."""
    return [lambda r: refusing(r) if plain(r.messages[-1].content) == "go" and key_is_wrong else None, asks_when_told]


async def test_the_last_answers_go_before_a_need_of_which_hardly_a_word_would_be_left(tmp_path: Path) -> None:
    refused = Failure("auth", "The key fails", "local answered 401: wrong key", "Enter a valid key")
    async with cockpit(tmp_path) as stage:
        view = replace(stage.view(), failure=refused, state=MysisState.ERRORED)
        reach, asked = KeyScope(view.id, frozenset(), stage.app.keys), stage.app.approvals
        others = [replace(view, id=number) for number in (91, 92, 93)]
        lines = build_needs_lines([view, *others], asked, reach, stage.app.now(), stage.app.glyphs, 58, 4)
    first = "".join(text for text, *_ in lines[0])
    assert "local answered 401" in first
    assert first.rstrip().endswith("explains it")


def texts(lines: list[Line]) -> list[str]:
    return ["".join(text for text, *_ in line) for line in lines]


async def test_a_key_that_is_refused_to_many_is_told_once_with_the_key_that_replaces_it(tmp_path: Path) -> None:
    refused = Failure("auth", REFUSED_KEY, "local answered 401: wrong key", "Enter a valid key")
    async with cockpit(tmp_path) as stage:
        view = replace(stage.view(), failure=refused, state=MysisState.ERRORED)
        others = [replace(view, id=91, name="beta"), replace(view, id=92, name="gamma", provider="other")]
        keys, asked, now, glyphs = stage.app.keys, stage.app.approvals, stage.app.now(), stage.app.glyphs
        reach = KeyScope(91, frozenset(), keys)
        lines = texts(build_needs_lines([view, *others], asked, reach, now, glyphs, 58, 12))
        brief = texts(build_needs_lines([view, *others], asked, reach, now, glyphs, 118, 12))
    assert [line for line in lines if "more" in line] == ["✖ beta and 1 more  The provider refused the key"]
    assert [line.strip() for line in lines if "replaces" in line] == [
        "E replaces its key",
        "w goes to it, then E replaces its key",
    ]
    assert [line.split("  ")[0] for line in brief] == ["✖ beta and 1 more", "✖ gamma"]


async def test_a_tool_server_without_connection_is_told_with_the_key_that_shows_it(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        view = stage.view()
        fault = UpstreamFault("reef", "down", "its process ended", (view.template,))
        stage.app.feed.take(SwarmView(1, False, "", (view,), faults=(fault,)))
        await stage.pilot.pause()
        assert panel(stage) == ["✖ reef  tool server down: its process ended  u opens it"]
        assert "no tools of reef" in stage.text()
        stage.app.feed.take(SwarmView(2, False, "", ()))
        await stage.pilot.pause()
        assert "no tools of reef" not in stage.text()


def panel(stage: Stage) -> list[str]:
    return stage.one(TextBlock, "#needs").plain.splitlines()


def cursor(stage: Stage) -> str:
    view = stage.one(SwarmTable).cursor
    return view.name if view is not None else ""


async def crowd(stage: Stage, many: int, hint: str = "") -> None:
    """So many whose model refused, made of the first; the cursor on the first."""
    failure = Failure("auth", "The key fails", "401 from ollama", hint)
    first = replace(stage.view(), state=MysisState.ERRORED, failure=failure)
    views = tuple(replace(first, id=number, name=f"m{number}") for number in range(1, many + 1))
    stage.app.feed.take(SwarmView(1, False, "", views))
    await stage.pilot.pause()


def test_the_next_in_need_follows_the_cursor_and_wraps_around() -> None:
    assert [find_next_in_need([3, 1, 2], at) for at in (None, 7, 3, 1, 2)] == [3, 3, 1, 2, 3]
    assert find_next_in_need([], 1) is None
    assert find_next_in_need([1], 1) is None


async def test_words_act_on_their_mysis_and_show_keys_only_if_they_do(tmp_path: Path) -> None:
    key_is_wrong = [True]
    async with cockpit(tmp_path, faulty(key_is_wrong), size=(120, 40)) as stage:
        await stage.api.stop("alpha")
        await errored(tmp_path, stage, "beta")
        await stage.until(lambda: "beta" in "".join(panel(stage)))
        assert cursor(stage) == "alpha"
        assert panel(stage)[-1] == "  w goes to it, then r relaunch  . dismiss error"
        await click_on(stage, "dismiss")
        await stage.until(lambda: stage.view("beta").failure is None)
        assert cursor(stage) == "alpha"
        assert stage.view("alpha").state is MysisState.STOPPED

        await errored(tmp_path, stage, "gamma")
        await stage.until(lambda: "gamma" in "".join(panel(stage)))
        await stage.press("w", "w")
        assert cursor(stage) == "gamma"
        assert panel(stage)[-1] == "  r relaunch  . dismiss error"
        await stage.press("k", "space", until=lambda: "unmarks" in panel(stage)[-1])
        assert cursor(stage) == "gamma"
        assert panel(stage)[-1] == "  esc unmarks: keys act on the marked now"
        key_is_wrong.clear()
        await click_on(stage, "esc unmarks")
        await stage.until(lambda: "relaunch" in panel(stage)[-1])
        await click_on(stage, "r relaunch  . dismiss error")
        await stage.until(lambda: stage.view("gamma").state is not MysisState.ERRORED)
        assert stage.view("alpha").state is MysisState.STOPPED
        assert not stage.app.marks


async def test_a_click_answers_its_mysis_and_the_key_answers_the_oldest(tmp_path: Path) -> None:
    async with cockpit(tmp_path, asks_when_told, size=(120, 40)) as stage:
        await ask(stage, "alpha")
        await ask(stage, "gamma")
        await stage.until(
            lambda: [line for line in panel(stage) if "answer" in line] == ["  o answer", "  click: answer"]
        )
        row = next(y for y, line in enumerate(stage.text().splitlines()) if "answer" in line and "o ans" not in line)
        await stage.pilot.click(offset=(stage.text().splitlines()[row].index("  click: answer") + 3, row))
        await stage.until(lambda: stage.shows(ApprovalDialog) and "gamma asks" in stage.text())


async def test_a_click_on_a_name_moves_the_cursor_even_to_a_filtered_row(tmp_path: Path) -> None:
    async with cockpit(tmp_path, faulty([True]), size=(80, 24)) as stage:
        await errored(tmp_path, stage, "beta")
        await stage.press("slash")
        await stage.enter("gamma")
        await stage.until(lambda: any("✖ beta" in line for line in panel(stage)))
        await click_on(stage, "✖ beta")
        await stage.until(lambda: cursor(stage) == "beta")
        assert stage.one(SwarmTable).count == 3


async def test_the_panel_counts_the_myses_that_do_not_fit(tmp_path: Path) -> None:
    async with cockpit(tmp_path, names=("alpha",), size=(80, 24)) as stage:
        await crowd(stage, 40)
        for size in ((80, 24), (120, 40), (160, 40)):
            await stage.pilot.resize_terminal(*size)
            await stage.until(lambda: len(panel(stage)) == stage.one(TextBlock, "#needs").content_size.height)
            lines = panel(stage)
            assert all("401 from olla" in line for line in lines[:-1])  # the first names keys, and may be cut for them
            assert lines[-1] == f"and {40 - len(lines) + 1} more: w goes to each"
            assert "r relaunch" in lines[0]
            assert "r relaunch" not in lines[1]


async def at_rest(stage: Stage, reason: str, names: tuple[str, ...]) -> None:
    """So many idle myses with this reason, made of the first."""
    first = replace(stage.view(), state=MysisState.IDLE, state_reason=reason)
    views = tuple(replace(first, id=number, name=name) for number, name in enumerate(names, 1))
    stage.app.feed.take(SwarmView(1, False, "", views))
    await stage.pilot.pause()


@pytest.mark.parametrize("reason", ["Zoea was closed", "Zoea was killed"])
async def test_those_that_ran_when_zoea_ended_can_be_run_again(tmp_path: Path, reason: str) -> None:
    async with cockpit(tmp_path, names=("alpha",), size=(160, 40)) as stage:
        await at_rest(stage, reason, ("alpha", "beta", "gamma"))
        await stage.until(lambda: panel(stage) == [f"3 had work to do when {reason}  R continues all 3"])
        await stage.press("R")
        await stage.until(lambda: "0 continued" in stage.text())  # in truth, these are running


async def test_a_done_mysis_is_reviewed_or_sent_on(tmp_path: Path) -> None:
    async with cockpit(tmp_path, names=("alpha", "beta"), size=(160, 40)) as stage:
        await stage.api.send("beta", "Rest.")
        await stage.until(lambda: stage.view("beta").turns == 1)
        # Later news of it would take its made end away.
        await stage.swarm.settled("beta")
        await stage.until(lambda: stage.view("beta").state is stage.swarm.state("beta"))
        await at_rest(stage, "done", ("alpha", "beta"))
        await stage.press("w", until=lambda: cursor(stage) == "beta")
        assert any("d result  . mark reviewed  m message" in line for line in panel(stage))
        reviewed = tuple(replace(view, is_reviewed=True) for view in stage.app.feed.myses.values())
        stage.app.feed.take(SwarmView(2, False, "", reviewed))
        assert not stage.app.feed.roster.in_need  # at once: the swarm itself tells the cockpit otherwise later


async def test_a_resize_below_a_dialog_takes_effect_when_it_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DashboardScreen, "tick", lambda screen: None)
    async with cockpit(tmp_path, names=("alpha",), size=(80, 24)) as stage:
        await crowd(stage, 30)
        await stage.press("q", until=lambda: not stage.shows(DashboardScreen))
        await stage.pilot.resize_terminal(160, 40)
        await stage.press("escape", shows=DashboardScreen)
        await stage.until(lambda: len(panel(stage)) == stage.one(TextBlock, "#needs").content_size.height)
        assert {len(line) for line in panel(stage)[:-1]} == {stage.one(TextBlock, "#needs").content_size.width}


async def test_a_line_names_its_keys_behind_the_presses_that_lead_to_it(tmp_path: Path) -> None:
    async with cockpit(tmp_path, names=("alpha",), size=(120, 60)) as stage:
        await crowd(stage, 5)
        await stage.until(lambda: len([line for line in panel(stage) if "relaunch" in line]) == 5)
        assert [line for line in panel(stage) if "relaunch" in line] == [
            "  r relaunch  . dismiss error",
            "  w goes to it, then r relaunch  . dismiss error",
            "  w twice goes to it, then r relaunch  . dismiss error",
            "  w 3 times goes to it, then r relaunch  . dismiss error",
            "  click: relaunch  click: dismiss error",
        ]


async def test_a_failure_that_something_must_be_mended_for_leads_to_what_to_do(tmp_path: Path) -> None:
    async with cockpit(tmp_path, names=("alpha",), size=(120, 60)) as stage:
        await crowd(stage, 5, hint="Enter a valid key.")
        await stage.until(lambda: len([line for line in panel(stage) if "explains it" in line]) == 5)
        assert [line for line in panel(stage) if "explains it" in line] == [
            "  enter explains it  r relaunch  . dismiss error",
            "  w goes to it, then enter explains it",
            "  w twice goes to it, then enter explains it",
            "  w 3 times goes to it, then enter explains it",
            "  click: explains it",
        ]
        await stage.press("enter", until=lambda: stage.shows(FocusScreen) and "Enter a valid key." in stage.text())


async def test_a_line_cut_for_its_keys_never_shows_another_number(tmp_path: Path) -> None:
    async with cockpit(tmp_path, asks_when_told, size=(80, 24)) as stage:
        await ask(stage, "alpha")
        reach, view, approvals = KeyScope(keys=stage.app.keys), stage.view(), stage.app.approvals
        approvals.open = (replace(approvals.open[0], arguments='{"item": "iron ore", "n": 4096.5}'),)
        shown = {
            "".join(text for text, _, _ in line)
            for width in range(30, 90)
            for line in build_needs_lines([view], approvals, reach, stage.app.now(), stage.app.glyphs, width, 1)
        }
        assert any("n=4096.5)" in line for line in shown)
        assert any("n=…" in line for line in shown)
        assert not [line for line in shown if re.search(r"n=[\d.]+…", line)]
