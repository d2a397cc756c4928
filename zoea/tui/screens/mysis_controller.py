"""Creating, stopping, relaunching, deleting and bringing back myses: what a list of myses does for its keys.

A mixin of screens that know their `targets`. What destroys is confirmed by name first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, cast

from zoea.model.enums import MysisState
from zoea.model.errors import ZoeaError
from zoea.model.values import MysisView
from zoea.text.control_characters import one_line

if TYPE_CHECKING:
    from zoea.tui.screens.base import CockpitScreen


_NAMED = 2


class Commanding:
    """`targets` are the marked myses, or the one under the cursor."""

    @property
    def _commander(self) -> CockpitScreen[None]:
        return cast("CockpitScreen[None]", self)

    def targets(self) -> tuple[MysisView, ...]:
        raise NotImplementedError

    @property
    def is_said_of_others(self) -> bool:
        """Whether the targets may be others than the one under the cursor: what became of them is said then."""
        raise NotImplementedError

    def do_mysis_new(self) -> None:
        from zoea.tui.dialogs.new_mysis import NewMysis

        self._commander.cockpit.push_screen(NewMysis())

    def do_mysis_configure(self) -> None:
        from zoea.tui.dialogs.configure import Configuring

        self._commander.cockpit.push_screen(Configuring(self.targets()))

    def do_mysis_stop(self) -> None:
        running = [view for view in self.targets() if view.state is not MysisState.STOPPED]
        self._each(running, self._commander.cockpit.api.stop, "stopped")

    def do_mysis_relaunch(self) -> None:
        resting = [view for view in self.targets() if view.state is not MysisState.RUNNING]
        self._each(resting, self._commander.cockpit.api.start, "started")

    def do_mysis_dismiss(self) -> None:
        failed = [view for view in self.targets() if view.failure is not None]
        self._each(failed, self._commander.cockpit.api.dismiss, "dismissed")

    def _each(self, views: Sequence[MysisView], command: Callable[[str], Awaitable[object]], word: str) -> None:
        """Give a command to each; those that took it are named where they need not be the one under the cursor."""
        cockpit, is_said = self._commander.cockpit, self.is_said_of_others

        async def run() -> list[str]:
            answers = await asyncio.gather(*(command(f"#{view.id}") for view in views), return_exceptions=True)
            for answer in answers:
                if isinstance(answer, ZoeaError):
                    cockpit.show_error(answer)
                elif isinstance(answer, BaseException):
                    raise answer
            return [view.name for view, answer in zip(views, answers, strict=True) if not isinstance(answer, ZoeaError)]

        def done(names: list[str]) -> None:
            if is_said and names:
                who = f"{len(names)} myses" if len(names) > _NAMED else " and ".join(map(one_line, names))
                cockpit.notify(f"{who} {word}", markup=False)

        cockpit.ask_swarm(run(), done=done)

    def do_mysis_delete(self) -> None:
        self._commander.cockpit.confirm_deletion(self.targets())

    def do_mysis_undo(self) -> None:
        cockpit = self._commander.cockpit
        mysis_id, name = cockpit.deleted.pop()

        def back(_: MysisView) -> None:
            cockpit.notify(f"{one_line(name)} is back", markup=False)

        def stays_away(error: ZoeaError) -> None:
            cockpit.deleted.append((mysis_id, name))
            cockpit.show_error(error)

        cockpit.ask_swarm(cockpit.api.undelete(mysis_id), done=back, refused=stays_away)
