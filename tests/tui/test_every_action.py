"""Every action of the registry is run by its key, here or in its test.

A new action fails `test_every_action_has_a_test` until a test runs it.
"""

from __future__ import annotations

import ast
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.screen import Screen

from tests.queries.test_request_inspection import ROOMY, working_model
from tests.tui.cockpit import Stage, cockpit
from zoea.model.enums import MysisState
from zoea.settings.schema import Settings
from zoea.tui.commands.actions import ACTIONS, BY_ID
from zoea.tui.dialogs.clients import McpClientsDialog
from zoea.tui.dialogs.command_line import CommandPromptDialog
from zoea.tui.dialogs.commit_forms import ForkDialog
from zoea.tui.dialogs.configure import ConfigureDialog
from zoea.tui.dialogs.connect import ConnectDialog
from zoea.tui.dialogs.export import ExportDialog
from zoea.tui.dialogs.grants import GrantsDialog
from zoea.tui.dialogs.modal import ConfirmDialog
from zoea.tui.dialogs.new_mysis import NewMysisDialog
from zoea.tui.dialogs.quit import QuitDialog
from zoea.tui.dialogs.topics import TopicsDialog
from zoea.tui.screens.dashboard import DashboardScreen
from zoea.tui.screens.focus import FocusScreen
from zoea.tui.screens.help import HelpScreen
from zoea.tui.screens.history import HistoryScreen
from zoea.tui.screens.inspector import InspectorScreen
from zoea.tui.screens.log import LogScreen
from zoea.tui.screens.search import SearchScreen
from zoea.tui.screens.settings import SettingsScreen
from zoea.tui.screens.upstreams import UpstreamsScreen
from zoea.tui.screens.welcome import WelcomeScreen
from zoea.tui.widgets.conversation_view import ConversationView
from zoea.tui.widgets.message_prompt import MessagePrompt

HERE = Path(__file__).parent

BY_HAND = {
    "app.back", "app.command", "app.find", "app.help", "app.palette", "app.quit", "app.screenshot",
    "screen.clients", "screen.grants", "screen.log", "screen.search", "screen.settings", "screen.topics",
    "screen.upstreams", "screen.welcome",
    "swarm.attention", "swarm.broadcast", "swarm.broadcast-all", "swarm.hold", "swarm.stop-all",
    "mysis.configure", "mysis.delete", "mysis.focus", "mysis.inspect", "mysis.mark", "mysis.mark-all", "mysis.message",
    "mysis.new", "mysis.pause", "mysis.result", "mysis.relaunch", "mysis.stop", "mysis.task", "mysis.undo",
    "mysis.history", "focus.history", "history.copy", "history.open", "history.verbose", "history.fork",
    "focus.copy", "focus.export", "focus.inspect", "focus.message", "focus.next-hit",
    "focus.next-mysis",
    "focus.next-turn", "focus.pause", "focus.previous-hit", "focus.previous-mysis", "focus.previous-turn",
    "focus.relaunch", "focus.result", "focus.stop", "focus.verbose",
    "inspect.copy", "inspect.fold", "inspect.newer", "inspect.next-turn", "inspect.older", "inspect.previous-turn",
    "inspect.verbose", "log.follow", "log.open", "log.requests", "welcome.connect", "welcome.new",
}  # fmt: skip
"""Driven by the tests of this file."""

TIMELINE_TEST = "test_the_timeline_shows_what_each_mysis_knew_and_leads_to_its_history"
ELSEWHERE = {
    "app.zoom": "test_zoom.py::test_plus_shows_one_part_of_the_inspector_and_the_conversation_alone",
    "provider.key": "test_upstreams.py::test_e_replaces_a_refused_key_and_the_myses_go_on",
    "app.reload": "test_upstreams.py::test_changed_settings_are_noticed_and_applied_while_myses_run",
    "upstreams.add": "test_upstreams.py::n_adds_a_server_from_a_command_line_and_the_swarm_takes_it_over",
    "upstreams.switch": "test_upstreams.py::test_space_switches_an_upstream_off_and_on_and_d_removes_it",
    "upstreams.remove": "test_upstreams.py::test_space_switches_an_upstream_off_and_on_and_d_removes_it",
    "history.ask": "test_history.py::a_asks_what_the_mysis_knew_at_the_commit",
    "history.resume": "test_history.py::test_r_starts_the_mysis_again_with_its_whole_conversation",
    "history.name": "test_history.py::n_gives_the_commit_a_name_that_is_shown",
    "history.compare": "test_history.py::test_c_marks_one_commit_and_compares_another_with_it",
    "compare.fold": "test_history.py::test_c_marks_one_commit_and_compares_another_with_it",
    "compare.verbose": "test_history.py::test_c_marks_one_commit_and_compares_another_with_it",
    "history.undo": "test_history.py::test_f_says_the_cost_then_makes_forks_that_z_removes",
    "history.timeline": f"test_history.py::{TIMELINE_TEST}",
    "timeline.earlier": f"test_history.py::{TIMELINE_TEST}",
    "timeline.later": f"test_history.py::{TIMELINE_TEST}",
    "swarm.again": "test_needs_you_panel.py::test_those_that_ran_when_zoea_ended_can_be_run_again",
    "approval.oldest": "test_approvals.py::the_dialog_opens_only_by_its_key_and_shows_the_oldest_question_in_full",
    "approval.once": "test_approvals.py::y_allows_once_and_the_call_runs",
    "approval.next": "test_approvals.py::the_key_that_opens_the_dialog_answers_nothing_however_long_it_is_held",
    "approval.change": "test_approvals.py::e_changes_the_arguments_and_allows_the_call_with_them",
    "approval.mark": "test_approvals.py::marked_calls_of_one_tool_are_answered_by_one_key",
    "approval.diff": "test_approvals.py::test_the_approval_of_an_edit_shows_its_diff_and_d_what_is_sent",
    "approval.session": "test_approvals.py::s_allows_the_tool_until_the_mysis_stops",
    "approval.template": "test_approvals.py::t_allows_the_tool_for_the_template",
    "approval.deny": "test_approvals.py::n_denies_with_a_sentence_that_the_model_reads",
    "approval.later": "test_approvals.py::escape_leaves_the_input_then_the_dialog_and_the_question_stays_open",
    "swarm.sort-before": "test_row_order.py::test_the_sorted_column_moves_and_is_marked_in_the_heading",
    "swarm.sort-after": "test_row_order.py::test_the_sorted_column_moves_and_is_marked_in_the_heading",
    "mysis.pin": "test_row_order.py::test_pinned_myses_stay_at_the_top_of_every_order",
    "mysis.dismiss": "test_dashboard_actions.py::test_a_dot_dismisses_the_error_of_the_row",
    "focus.dismiss": "test_focus.py::test_reports_are_reviewed_one_after_the_other_without_leaving",
    "focus.next-in-need": "test_focus.py::test_reports_are_reviewed_one_after_the_other_without_leaving",
    "swarm.next-in-need": "test_needs_you_panel.py::test_words_act_on_their_mysis_and_show_keys_only_if_they_do",
    "focus.keep": "test_focus.py::k_keeps_a_message_word_for_word_and_releases_it",
    "swarm.hive": "test_hive.py::test_v_shows_the_hive_with_the_same_cursor_marks_filter_and_detail",
    "screen.budgets": "test_budgets_dialog.py::test_the_day_is_shown_with_a_bar_and_what_to_do_near_its_end",
    "screen.charts": "test_charts.py::test_the_charts_show_the_stored_minutes_and_the_span_changes",
    "charts.shorter": "test_charts.py::test_the_charts_show_the_stored_minutes_and_the_span_changes",
    "charts.longer": "test_charts.py::test_the_charts_show_the_stored_minutes_and_the_span_changes",
    "swarm.grouping": "test_hive.py::test_v_shows_the_hive_with_the_same_cursor_marks_filter_and_detail",
    "settings.change": "test_settings.py::enter_and_space_step_through_few_options",
    "settings.default": "test_settings.py::a_persons_own_value_is_removed",
    "search.open": "test_search.py::test_enter_opens_the_turn_with_the_hit_and_esc_comes_back_to_the_list_where_it_was",
    "upstreams.reconnect": "test_upstreams.py::providers_are_asked_again",
    "upstreams.try": "test_upstreams.py::a_tool_is_tried_with_arguments_that_begin_with_what_is_required",
    "mysis.review": "test_review.py::the_change_is_shown_by_file_and_folds",
    "focus.review": "test_review.py::f_opens_the_review_from_a_conversation",
    "review.fold": "test_review.py::the_change_is_shown_by_file_and_folds",
    "review.fold-all": "test_review.py::the_change_is_shown_by_file_and_folds",
    "review.previous-hunk": "test_review.py::the_change_is_shown_by_file_and_folds",
    "review.next-hunk": "test_review.py::the_change_is_shown_by_file_and_folds",
    "review.previous-mysis": "test_review.py::test_without_a_worktree_or_a_change_the_review_says_so",
    "review.next-mysis": "test_review.py::test_without_a_worktree_or_a_change_the_review_says_so",
    "review.next-hit": "test_review.py::words_are_found_also_in_a_folded_file",
    "review.previous-hit": "test_review.py::words_are_found_also_in_a_folded_file",
    "review.mark": "test_review.py::s_sends_a_sentence_about_the_marked_lines",
    "review.send": "test_review.py::s_sends_a_sentence_about_the_marked_lines",
    "review.merge": "test_review.py::test_m_merges_after_a_question_and_says_what_the_command_says",
    "review.drop": "test_review.py::test_drop_keeps_work_and_removes_a_worktree_without_it",
    "review.commit": "test_review.py::test_c_commits_with_a_message",
    "review.editor": "test_review.py::test_e_opens_the_file_at_its_line_but_no_link_that_leads_out",
    "review.side-by-side": "test_review.py::both_sides_stand_side_by_side_where_there_is_room",
    "review.result": "test_review.py::test_d_shows_the_changes_of_a_worktree_and_there_the_report",
    "welcome.repository": "test_welcome.py::test_in_a_git_repository_work_on_it_is_the_first_way",
    "welcome.sandbox": "test_welcome.py::test_one_key_starts_five_miners_in_the_sandbox",
}
"""The test that drives it, where that needs a stage of its own."""


def test_every_action_has_a_test() -> None:
    assert {action.id for action in ACTIONS} - BY_HAND - set(ELSEWHERE) == set()
    assert (BY_HAND | set(ELSEWHERE)) - {action.id for action in ACTIONS} == set()


def test_a_test_in_another_file_exists_and_presses_the_key() -> None:
    for action_id, place in ELSEWHERE.items():
        file, _, name = place.partition("::")
        tree = ast.parse((HERE / file).read_text("utf-8"))
        steps = {node.name: node for node in tree.body if isinstance(node, ast.AsyncFunctionDef)}
        assert name in steps, action_id
        assert BY_ID[action_id].key in pressed(name, steps), action_id


def pressed(name: str, steps: dict[str, ast.AsyncFunctionDef]) -> set[str]:
    """Return the keys that a test presses, as they are written in it. Steps of its file that it takes count too."""
    keys: set[str] = set()
    for call in ast.walk(steps[name]):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "press":
            keys |= {str(given.value) for given in call.args if isinstance(given, ast.Constant)}
        elif isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in steps.keys() - {name}:
            step = steps[call.func.id]
            keys |= pressed(call.func.id, steps)
            if step.args.vararg is not None and any(isinstance(node, ast.Starred) for node in ast.walk(step)):
                keys |= {str(given.value) for given in call.args if isinstance(given, ast.Constant)}
    return keys


class Driver:
    """Presses keys of actions, and keeps which were carried out."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.done: list[str] = []
        real = stage.app.action_do

        def do(action_id: str, again: Callable[[], object] | None = None) -> None:
            if not BY_ID[action_id].why_not(stage.app.action_context()):
                self.done.append(action_id)
            real(action_id, again)

        stage.app.action_do = do  # type: ignore[method-assign]  # watched, and done

    async def __call__(self, action_id: str, kind: type[Screen[Any]] | None = None) -> None:
        """Press the action's own key: it is carried out, and this screen is on top then."""
        before = len(self.done)
        await self.stage.press(BY_ID[action_id].key)
        assert action_id in self.done[before:], action_id
        if kind is not None:
            await self.stage.until(lambda: self.stage.shows(kind))
            await self.stage.pilot.pause()

    async def by_name(self, action_id: str) -> None:
        """As the palette does it: where the list that has the focus takes the key itself, for the same thing."""
        self.stage.app.action_do(action_id)
        assert action_id == self.done[-1]
        await self.stage.pilot.pause()

    async def and_back(self, action_id: str, kind: type[Screen[Any]]) -> None:
        """As above, and escape leads to where it was."""
        before = type(self.stage.screen)
        await self(action_id, kind)
        await self.stage.press("escape")
        await self.stage.until(lambda: self.stage.shows(before))


@asynccontextmanager
async def driven(folder: Path, actions: str) -> AsyncIterator[tuple[Stage, Driver]]:
    """Open a cockpit whose alpha has worked one turn of several requests. In the end all `actions` must be done."""
    async with cockpit(
        folder, working_model(), settings=Settings.model_validate(ROOMY), names=("alpha", "beta")
    ) as stage:
        await stage.api.send("alpha", "Mine the belt")
        await stage.swarm.settled_in_time()  # its second request failed, and is tried again later
        await stage.until(lambda: stage.view().turns > 0)
        driver = Driver(stage)
        yield stage, driver
        wanted = {one for one in BY_HAND if one.split(".")[0] in actions.split()}
        assert wanted - set(driver.done) == set()


async def test_actions_of_the_list_and_of_every_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with driven(tmp_path, "app screen swarm mysis log welcome") as (stage, drive):
        await drive("mysis.mark")
        await drive("mysis.mark-all")
        await drive("mysis.mark-all")
        assert not stage.app.marks
        await drive("swarm.attention")
        await drive("swarm.attention")
        for action_id, kind in (
            ("mysis.new", NewMysisDialog), ("mysis.configure", ConfigureDialog), ("app.command", CommandPromptDialog),
            ("app.help", HelpScreen), ("screen.upstreams", UpstreamsScreen), ("screen.settings", SettingsScreen),
            ("screen.search", SearchScreen), ("screen.clients", McpClientsDialog), ("screen.grants", GrantsDialog),
            ("screen.topics", TopicsDialog),
            ("mysis.inspect", InspectorScreen), ("mysis.history", HistoryScreen), ("app.quit", QuitDialog),
        ):  # fmt: skip
            await stage.press("G" if kind is ConfigureDialog else "g")  # who runs is not configured
            await drive.and_back(action_id, kind)
        await drive("app.palette")
        await stage.press("escape", shows=DashboardScreen)
        for action_id in ("mysis.message", "mysis.task", "swarm.broadcast", "swarm.broadcast-all"):
            await drive(action_id)
            assert stage.one(MessagePrompt).is_open
            await drive("app.back")
        await drive("app.find")
        await stage.press("escape")
        await drive("swarm.hold")
        await stage.until(lambda: "ON HOLD" in stage.text())
        await drive("swarm.hold")
        monkeypatch.chdir(tmp_path)
        await drive("app.screenshot")
        await stage.until(lambda: any("written to" in notice for notice in stage.notices))
        await stage.until(lambda: [*tmp_path.glob("zoea-*.svg")])
        await drive("screen.welcome", WelcomeScreen)
        await drive.and_back("welcome.connect", ConnectDialog)
        await drive.and_back("welcome.new", NewMysisDialog)
        await stage.press("escape")
        await drive("screen.log", LogScreen)
        await drive("log.follow")
        await drive("log.requests")
        await stage.until(lambda: "turn 1" in stage.text())
        await stage.press("home", "down")  # the first is the commander's own
        await drive.by_name("log.open")
        await stage.until(lambda: stage.shows(FocusScreen))
        await stage.press("escape", "escape", shows=DashboardScreen)
        await drive.and_back("mysis.focus", FocusScreen)
        await drive.and_back("mysis.result", FocusScreen)
        await stage.press("G")
        await drive("mysis.pause")
        await stage.until(lambda: stage.view("beta").held)
        await drive("mysis.pause")
        await stage.until(lambda: not stage.view("beta").held)
        await drive("mysis.relaunch")
        await stage.until(lambda: stage.view("beta").state is MysisState.RUNNING)
        await drive("mysis.stop")
        await stage.until(lambda: stage.view("beta").state is MysisState.STOPPED)
        await drive("mysis.delete", ConfirmDialog)
        await stage.press("y", until=lambda: len(stage.undoable) == 1)
        await drive("mysis.undo")
        await stage.until(lambda: stage.has("beta"))
        await drive("swarm.stop-all")
        await drive("swarm.stop-all")
        await stage.until(lambda: all(v.state is MysisState.STOPPED for v in stage.app.feed.myses.values()))


async def test_actions_of_a_conversation_and_its_requests(tmp_path: Path) -> None:
    async with driven(tmp_path, "focus inspect") as (stage, drive):
        await drive("mysis.focus", FocusScreen)
        await stage.until(lambda: stage.one(ConversationView).cursor is not None)
        await drive("focus.previous-turn")
        await drive("focus.next-turn")
        await drive("focus.verbose")
        await drive("focus.copy")
        await drive("focus.result")
        await drive("focus.result")
        await drive.and_back("focus.export", ExportDialog)
        await stage.press("slash")
        await stage.enter("belt")
        await stage.until(lambda: stage.app.action_context().finding)
        await drive("focus.next-hit")
        await drive("focus.previous-hit")
        await stage.press("escape")
        await drive("focus.next-mysis")
        await drive("focus.previous-mysis")
        await drive("focus.message")
        assert stage.one(MessagePrompt).is_open
        await stage.press("escape")
        await drive("focus.pause")
        await stage.until(lambda: stage.view().held)
        await drive("focus.pause")
        await stage.until(lambda: not stage.view().held)
        await drive("focus.stop")
        await stage.until(lambda: stage.view().state is MysisState.STOPPED)
        await drive("focus.relaunch")
        await stage.until(lambda: stage.view().state is MysisState.RUNNING)
        await drive("focus.inspect", InspectorScreen)
        screen = stage.screen
        assert isinstance(screen, InspectorScreen)
        await stage.until(lambda: screen.inspection is not None)
        for action_id in ("older", "newer", "previous-turn", "next-turn", "verbose", "copy"):
            await drive(f"inspect.{action_id}")
        await drive.by_name("inspect.fold")
        await stage.press("escape")
        await drive("focus.history", HistoryScreen)
        history = stage.screen
        assert isinstance(history, HistoryScreen)
        await stage.until(lambda: history.details is not None)
        await drive.and_back("history.fork", ForkDialog)
        await drive("history.verbose")
        await drive("history.copy")
        await drive.by_name("history.open")
