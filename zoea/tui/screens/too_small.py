"""The notice below 80x20 cells, which covers every screen until there is room again."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.events import Resize
from textual.geometry import Size
from textual.screen import ModalScreen

from zoea.tui.widgets.clickable_text import TextBlock

MINIMUM = Size(80, 20)


def is_too_small(size: Size) -> bool:
    return size.width < MINIMUM.width or size.height < MINIMUM.height


class TooSmallScreen(ModalScreen[None]):
    """Takes every key and closes itself."""

    CSS_PATH = "too_small.tcss"

    def compose(self) -> ComposeResult:
        yield TextBlock(id="words")

    def on_mount(self) -> None:
        self._say(self.app.size)

    def on_resize(self, event: Resize) -> None:
        if is_too_small(event.size):
            self._say(event.size)
        elif self.is_current:
            self.dismiss()

    def on_screen_resume(self) -> None:
        if not is_too_small(self.app.size):
            self.call_after_refresh(self.dismiss)

    def _say(self, size: Size) -> None:
        # Each line fits into 20 cells, because nothing wraps here.
        sizes = f"{size.width}x{size.height}, needs {MINIMUM.width}x{MINIMUM.height}"
        self.query_one(TextBlock).put([[("Terminal too small", "title")], [(sizes, "quiet")]])
