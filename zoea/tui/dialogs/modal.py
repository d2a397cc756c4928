"""What every box over a screen has: the app's type, and looks that follow the theme."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from textual.screen import ModalScreen
from textual.types import CSSPathType

from zoea.tui.commands.actions import Situation

if TYPE_CHECKING:
    from zoea.tui.app import Cockpit

T = TypeVar("T")


class CockpitModal(ModalScreen[T]):
    """A box in the middle. Keys reach nothing behind it."""

    CSS_PATH: ClassVar[CSSPathType | None] = "modal.tcss"

    @property
    def cockpit(self) -> Cockpit:
        return cast("Cockpit", self.app)

    def situation(self) -> Situation:
        return self.cockpit.base_situation()

    def look_changed(self) -> None:
        for widget in self.query("*"):
            restyle: Any = getattr(widget, "restyle", None)
            if restyle is not None:
                restyle()
            widget.refresh()

    def do_app_back(self) -> None:
        self.dismiss()
