"""A screen of several parts: all side by side where there is room, one at a time where there is not."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType

from zoea.tui.screens.base import CockpitScreen
from zoea.tui.widgets.clickable_text import ClickablePiece, TextBlock


class PartedScreen(CockpitScreen[None]):
    """Tab goes through `PARTS`; the screen has the class `-part-ID` of the one that has the focus.

    Style files show only that one where the screen is narrow. The `strip` names them all, by `PART_TITLES`.
    """

    PARTS: ClassVar[tuple[str, ...]] = ()
    PART_TITLES: ClassVar[dict[str, str]] = {}
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

    def strip(self) -> TextBlock:
        """One line with the names of the parts, to be composed."""
        return TextBlock(id="parts")

    def count_of(self, part: str) -> int | None:
        """How much there is in a part, where that is worth a word."""
        return None

    def draw_strip(self) -> None:
        """Name the parts, with their counts; the one that has the focus stands out."""
        for strip in self.query("#parts").results(TextBlock):
            words: list[ClickablePiece] = []
            for part in self.parts():
                count = self.count_of(part)
                title = self.PART_TITLES[part] + (f" {count:,}" if count else "")
                role = "title" if part == self.part else "quiet"
                words += [(" · ", "quiet", "")] if words else []
                words.append((title, role, f"screen.to_part({part!r})"))
            strip.put([[*words, ("   tab", "key", "screen.part(1)")]])

    def action_to_part(self, part: str) -> None:
        self.go_to_part(part)

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
        self.draw_strip()
        self.redraw_bars()

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw_strip)
