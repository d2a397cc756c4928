"""A screen of several parts: all side by side where there is room, one at a time where there is not."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType

from zoea.tui.screens.base import CockpitScreen


class PartedScreen(CockpitScreen[None]):
    """Tab goes through `PARTS`; the screen has the class `-part-ID` of the one that has the focus.

    Style files show only that one where the screen is narrow.
    """

    PARTS: ClassVar[tuple[str, ...]] = ()
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "part(1)", show=False),
        Binding("shift+tab", "part(-1)", show=False),
    ]

    part = ""

    def on_mount(self) -> None:
        super().on_mount()
        self.go_to_part(self.PARTS[0])

    def parts(self) -> tuple[str, ...]:
        """The ids of the parts there are now."""
        return self.PARTS

    def go_to_part(self, part: str) -> None:
        """Give the focus to a part, and show it."""
        self._mark(part)
        self.query_one(f"#{part}").focus()

    def action_part(self, by: int) -> None:
        parts = self.parts()
        here = parts.index(self.part) if self.part in parts else 0
        self.go_to_part(parts[(here + by) % len(parts)])

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        if event.widget.id in self.parts():
            self._mark(event.widget.id)

    def _mark(self, part: str | None) -> None:
        for other in self.PARTS:
            self.set_class(other == part, f"-part-{other}")
        self.part = part or ""
