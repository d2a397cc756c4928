"""Opens the screens and dialogs that are reachable from everywhere. Each is imported on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.screen import Screen

from zoea.tui.screens.base import CockpitScreen
from zoea.tui.state.cockpit import Cockpit


class ScreenOpener:
    """Pushes screens on the cockpit's stack."""

    def __init__(self, cockpit: Cockpit) -> None:
        self._cockpit = cockpit

    def open_command_prompt(self) -> None:
        from zoea.tui.dialogs.command_line import CommandPromptDialog

        self._cockpit.push_screen(CommandPromptDialog())

    def open_palette(self) -> None:
        from zoea.tui.commands.action_palette import ActionPalette

        self._cockpit.push_screen(ActionPalette(self._cockpit.glyphs["brand"]))

    def open_help(self) -> None:
        from zoea.tui.screens.help import HelpScreen

        cockpit = self._cockpit
        screen = cockpit.screen
        places = screen.PLACES if isinstance(screen, CockpitScreen) else ()
        cockpit.push_screen(
            HelpScreen(places, cockpit.action_context(), lambda action: cockpit.find_action(action, screen) is not None)
        )

    def open_quit(self) -> None:
        from zoea.tui.dialogs.quit import QuitDialog

        self._cockpit.push_screen(QuitDialog())

    def open_approvals(self) -> None:
        from zoea.tui.dialogs.approvals import ApprovalDialog

        self._cockpit.push_screen(ApprovalDialog())

    def open_search(self) -> None:
        from zoea.tui.screens.search import SearchScreen

        self._open_once(SearchScreen)

    def open_upstreams(self) -> None:
        from zoea.tui.screens.upstreams import UpstreamsScreen

        self._open_once(UpstreamsScreen)

    def open_mcp_clients(self) -> None:
        from zoea.tui.dialogs.clients import McpClientsDialog

        self._open_once(McpClientsDialog)

    def open_grants(self) -> None:
        from zoea.tui.dialogs.grants import GrantsDialog

        self._open_once(GrantsDialog)

    def open_topics(self) -> None:
        from zoea.tui.dialogs.topics import TopicsDialog

        self._open_once(TopicsDialog)

    def open_budgets(self) -> None:
        from zoea.tui.dialogs.budgets import BudgetsDialog

        self._open_once(BudgetsDialog)

    def open_charts(self) -> None:
        from zoea.tui.screens.charts import ChartsScreen

        self._open_once(ChartsScreen)

    def open_log(self) -> None:
        from zoea.tui.screens.log import LogScreen

        self._open_once(LogScreen)

    def open_settings(self) -> None:
        from zoea.tui.screens.settings import SettingsScreen

        self._open_once(SettingsScreen)

    def open_welcome(self) -> None:
        from zoea.tui.screens.welcome import WelcomeScreen

        self._open_once(WelcomeScreen)

    def open_inspector(self, mysis_id: int) -> None:
        from zoea.tui.screens.inspector import InspectorScreen

        self._cockpit.push_screen(InspectorScreen(mysis_id))

    def open_history(self, mysis_id: int) -> None:
        from zoea.tui.screens.history import HistoryScreen

        self._cockpit.push_screen(HistoryScreen(mysis_id))

    def _open_once(self, kind: Callable[[], Screen[Any]]) -> None:
        """Push a new screen, except where one of its kind is on top."""
        if type(self._cockpit.screen) is not kind:
            self._cockpit.push_screen(kind())
