"""Creating, stopping, relaunching, deleting and bringing back myses: what a list of myses does for its keys.

A mixin of screens that know their `targets`. What destroys is confirmed by name first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from zoea.model.errors import ZoeaError
from zoea.model.values import MysisView
from zoea.model.words import MysisState
from zoea.text.control import one_line

if TYPE_CHECKING:
    from zoea.tui.screens.base import CockpitScreen


class Commanding:
    """`targets` are the marked myses, or the one under the cursor."""

    @property
    def _commander(self) -> CockpitScreen[None]:
        return cast("CockpitScreen[None]", self)

    def targets(self) -> tuple[MysisView, ...]:
        raise NotImplementedError

    def do_mysis_new(self) -> None:
        from zoea.tui.screens.new_mysis import NewMysis

        self._commander.cockpit.push_screen(NewMysis())

    def do_mysis_configure(self) -> None:
        from zoea.tui.screens.configuring import Configuring

        self._commander.cockpit.push_screen(Configuring(self.targets()))

    def do_mysis_stop(self) -> None:
        for view in self.targets():
            if view.state is not MysisState.STOPPED:
                self._commander.cockpit.ask_swarm(self._commander.cockpit.api.stop(f"#{view.id}"))

    def do_mysis_relaunch(self) -> None:
        for view in self.targets():
            if view.state is not MysisState.RUNNING:
                self._commander.cockpit.ask_swarm(self._commander.cockpit.api.start(f"#{view.id}"))

    def do_mysis_dismiss(self) -> None:
        for view in self.targets():
            if view.failure is not None:
                self._commander.cockpit.ask_swarm(self._commander.cockpit.api.dismiss(f"#{view.id}"))

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
