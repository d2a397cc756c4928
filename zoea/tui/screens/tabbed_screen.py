"""A screen of several parts, side by side if they fit, else in turn."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import BindingType

from zoea.tui.commands.action import Handlers
from zoea.tui.screens.base import CockpitScreen
from zoea.tui.widgets.clickable_text import ClickablePiece, TextBlock
from zoea.tui.widgets.folding_list import FoldingList

_TAB_HINTS = (("   tab", " next"), ("   tab",))
"""The key that goes to the next part, in the words for which there is room."""


class TabbedScreen(CockpitScreen[None]):
    """A screen of several parts, through which tab moves. The class `-part-ID` names the focused one.

    On narrow screens, and while it is zoomed, the style files show that part only. `strip` names all.
    """

    PARTS: ClassVar[dict[str, str]] = {}
    """The titles of the parts by their ids, in the order of tab."""
    BINDINGS: ClassVar[list[BindingType]] = [("tab", "part(1)"), ("shift+tab", "part(-1)")]

    part = ""

    def bind_actions(self) -> Handlers:
        return {"app.zoom": self._toggle_zoom}

    def on_mount(self) -> None:
        self.go_to_part(next(iter(self.PARTS)))

    def parts(self) -> tuple[str, ...]:
        """Return the ids of the parts that exist now."""
        return tuple(self.PARTS)

    def strip(self) -> TextBlock:
        """Return the line with the names of the parts, to be composed."""
        return TextBlock(id="parts")

    def count_of(self, part: str) -> int | None:
        """Return the number of items of a part; None where it is not shown."""
        return None

    def title_of(self, part: str) -> str:
        """Return the name of a part in the strip."""
        return self.PARTS[part]

    def draw_strip(self) -> None:
        """Draw the names and counts of the parts, with the focused one highlighted."""
        for strip in self.query("#parts").results(TextBlock):
            words: list[ClickablePiece] = []
            for part in self.parts():
                count = self.count_of(part)
                title = self.title_of(part) + (f" {count:,}" if count else "")
                role = "title" if part == self.part else "quiet"
                words += [(" · ", "quiet", "")] if words else []
                words.append((title, role, f"screen.to_part({part!r})"))
            room = (strip.content_size.width or self.size.width) - sum(cell_len(text) for text, *_ in words)
            hint = next((texts for texts in _TAB_HINTS if sum(map(len, texts)) <= room), ())
            roles = ("key", "quiet")
            strip.put([[*words, *((text, role, "screen.part(1)") for text, role in zip(hint, roles, strict=False))]])

    def action_to_part(self, part: str) -> None:
        self.go_to_part(part)

    def go_to_part(self, part: str) -> None:
        """Focus a part and show it."""
        self._mark(part)
        self.query_one(f"#{part}").focus()

    def action_part(self, by: int) -> None:
        parts = self.parts()
        here = parts.index(self.part) if self.part in parts else 0
        self.go_to_part(parts[(here + by) % len(parts)])

    def fold_all(self) -> None:
        """Unfold or fold the items of all lists."""
        for folding in self.query(FoldingList):
            folding.toggle_all()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        if event.widget.id in self.parts():
            self._mark(event.widget.id)

    def _mark(self, part: str | None) -> None:
        for other in self.PARTS:
            self.set_class(other == part, f"-part-{other}")
        self.part = part or ""
        self.zoomed = self.part if self.zoomed else ""
        self.draw_strip()
        self.redraw_bars()

    def on_resize(self) -> None:
        self.call_after_refresh(self._take_width)

    def _toggle_zoom(self) -> None:
        """Show the focused part alone, or all again."""
        self.zoomed = "" if self.zoomed else self.part
        self._take_width()
        if self.part not in self.parts():
            self.go_to_part(next(iter(self.PARTS)))
        self.redraw_bars()

    def _take_width(self) -> None:
        """Take a narrow screen's classes while a part is zoomed, else the width's."""
        width = 0 if self.zoomed else self.size.width
        bounds = sorted(self.app.HORIZONTAL_BREAKPOINTS or ())
        taken = max((least for least, _ in bounds if least <= width), default=0)
        for least, name in bounds:
            self.set_class(least == taken, name)
        self.draw_strip()
