"""The base class of dialogs, and the lines of their forms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.screen import ModalScreen
from textual.types import CSSPathType
from textual.widget import Widget
from textual.widgets import Static

from zoea.tui.commands import actions
from zoea.tui.commands.action import BoundAction
from zoea.tui.commands.actions import bindings
from zoea.tui.screens.base import BaseScreen

T = TypeVar("T")


class CockpitDialog(ModalScreen[T], BaseScreen[T]):
    """A box in the middle of the screen. Keys do not reach the screen behind it, or the app."""

    CSS_PATH: ClassVar[CSSPathType | None] = "modal.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings((actions.APP_BACK,))]

    def bind_actions(self) -> Iterable[BoundAction]:
        return (actions.APP_BACK.bind(self.back),)

    def back(self) -> None:
        """Close the dialog without a result."""
        self.dismiss()


def form_row(label: str, widget: Widget) -> ComposeResult:
    """Compose one line of a form: a label and an input."""
    with Horizontal(classes="field"):
        yield Static(label, classes="label", markup=False)
        yield widget
