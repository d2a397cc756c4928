"""Creates, configures, stops, relaunches and deletes the targets of a list of myses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from zoea.model.enums import MysisState
from zoea.model.errors import ZoeaError
from zoea.model.values import MysisView
from zoea.text.control_characters import one_line
from zoea.tui.commands import swarm_commands
from zoea.tui.screens.base import BaseScreen

_NAMED = 2


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

        self._screen.cockpit.push_screen(NewMysisDialog())

    def configure(self) -> None:
        """Open the dialog that configures the targets."""
        from zoea.tui.dialogs.configure import ConfigureDialog

        self._screen.cockpit.push_screen(ConfigureDialog(self._targets()))

    def stop(self) -> None:
        """Stop the targets that are not stopped."""
        active = [view for view in self._targets() if view.state is not MysisState.STOPPED]
        self._command_each(active, self._screen.cockpit.api.stop, "stopped")

    def relaunch(self) -> None:
        """Start the targets that do not run."""
        resting = [view for view in self._targets() if view.state is not MysisState.RUNNING]
        self._command_each(resting, self._screen.cockpit.api.start, "started")

    def dismiss_errors(self) -> None:
        """Dismiss the errors of the targets."""
        failed = [view for view in self._targets() if view.failure is not None]
        self._command_each(failed, self._screen.cockpit.api.dismiss, "dismissed")

    def delete(self) -> None:
        """Delete the targets once the person has confirmed it."""
        swarm_commands.confirm_deletion(self._screen.cockpit, self._targets())

    def undo_deletion(self) -> None:
        """Restore the mysis that was deleted last."""
        swarm_commands.undo_deletion(self._screen.cockpit)

    def _command_each(self, views: Sequence[MysisView], command: Callable[[str], Awaitable[object]], word: str) -> None:
        """Run a command for each mysis; show errors, and the names of those that took it."""
        cockpit, shows_result = self._screen.cockpit, self._shows_result()

        async def run() -> list[str]:
            answers = await asyncio.gather(*(command(f"#{view.id}") for view in views), return_exceptions=True)
            for answer in answers:
                if isinstance(answer, ZoeaError):
                    cockpit.show_error(answer)
                elif isinstance(answer, BaseException):
                    raise answer
            return [view.name for view, answer in zip(views, answers, strict=True) if not isinstance(answer, ZoeaError)]

        def done(names: list[str]) -> None:
            if shows_result and names:
                who = f"{len(names)} myses" if len(names) > _NAMED else " and ".join(map(one_line, names))
                cockpit.notify(f"{who} {word}", markup=False)

        cockpit.ask_swarm(run(), done=done)
