"""Welcome: what was found on this machine, and one key for each way to begin."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from zoea.tui.actions import Place, bindings, of
from zoea.tui.screens.base import CockpitScreen
from zoea.tui.widgets.bars import KeyLine, Line


class Welcome(CockpitScreen[None]):
    """Shown where there is no mysis."""

    PLACES: ClassVar[tuple[Place, ...]] = (Place.EVERYWHERE, Place.WELCOME)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(of(Place.WELCOME))]

    def compose(self) -> ComposeResult:
        yield Line(id="top")
        yield KeyLine(id="keys")
