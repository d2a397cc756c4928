"""Creates, configures, stops, relaunches, pauses and deletes the targets of a list of myses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from zoea.model.enums import MysisState
from zoea.model.status import wants_review
from zoea.model.values import MysisView
from zoea.tui.commands import swarm_commands
from zoea.tui.screens.base import BaseScreen


class MysisController:
    """Commands to the marked myses, or to the one under the cursor.

    Args:
        screen: The screen with the list.
        targets: Returns the myses that a command is for.
        shows_result: Returns whether the targets may differ from the row under the cursor; the result is then shown.
    """

    def __init__(
        self,
        screen: BaseScreen[Any],
        targets: Callable[[], tuple[MysisView, ...]],
        shows_result: Callable[[], bool],
    ) -> None:
        self._screen = screen
        self._targets = targets
        self._shows_result = shows_result

    def create(self) -> None:
        """Open the dialog for a new mysis."""
        from zoea.tui.dialogs.new_mysis import NewMysisDialog

        cockpit = self._screen.cockpit
        cockpit.push_screen(NewMysisDialog(cockpit.new_myses))

    def configure(self) -> None:
        """Open the dialog that configures the targets."""
        from zoea.tui.dialogs.configure import ConfigureDialog

        self._screen.cockpit.push_screen(ConfigureDialog(self._targets()))

    def stop(self) -> None:
        """Stop the targets that are not stopped."""
        self._give([view for view in self._targets() if view.state is not MysisState.STOPPED], swarm_commands.STOP)

    def relaunch(self) -> None:
        """Start the targets that do not run."""
        self._give([view for view in self._targets() if view.state is not MysisState.RUNNING], swarm_commands.RELAUNCH)

    def toggle_pause(self) -> None:
        """Pause the targets, or resume them where all are paused."""
        swarm_commands.toggle_pause(self._screen.cockpit, self._targets(), shows_result=self._shows_result())

    def dismiss_errors(self) -> None:
        """Dismiss the errors of the targets, and mark their results as reviewed."""
        failed = [view for view in self._targets() if view.failure is not None or wants_review(view)]
        self._give(failed, swarm_commands.DISMISS)

    def run_again(self) -> None:
        """Continue the myses that were running when Zoea ended."""
        cockpit = self._screen.cockpit
        work = cockpit.api.start_all(again=True)
        cockpit.ask_swarm(work, done=lambda count: cockpit.notify(f"{count} continued", markup=False))

    def delete(self) -> None:
        """Delete the targets once the person has confirmed it."""
        swarm_commands.confirm_deletion(self._screen.cockpit, self._targets())

    def _give(self, views: Sequence[MysisView], command: swarm_commands.BatchCommand) -> None:
        swarm_commands.give(self._screen.cockpit, views, command, shows_result=self._shows_result())
