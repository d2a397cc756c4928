"""Lines of pieces in a box: text and role, never markup, never taller than its place."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.content import Content, Span
from textual.message import Message
from textual.widgets import Static

from zoea.text.control_characters import strip
from zoea.tui.widgets.clickable_keys import Word, clicking, pressing

Piece = tuple[str, str]


class TextBlock(Static):
    """Shows lines of (text, role) pieces; keys among them can be clicked, and words that say what a click does.

    What a model or person wrote is stripped of control characters.
    """

    class Sized(Message):
        """It has another size: whoever fits lines into it does so anew."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__("", id=id, classes=classes, markup=False)
        self._lines: Sequence[Sequence[Piece | Word]] = ()
        self.auto_links = False

    def on_resize(self, event: events.Resize) -> None:
        self.post_message(self.Sized())

    def put(self, lines: Sequence[Sequence[Piece | Word]]) -> None:
        """Show these lines; draws only where something changed."""
        if lines != self._lines:
            self._lines = lines
            # Where the place has a size of its own, another text moves nothing else on the screen.
            self.update(self._content(), layout=self.styles.auto_dimensions)

    @property
    def plain(self) -> str:
        return "\n".join("".join(piece[0] for piece in line) for line in self._lines)

    def restyle(self) -> None:
        """The theme changed."""
        self.update(self._content())

    def _content(self) -> Content:
        text: list[str] = []
        spans: list[Span] = []
        at = 0
        for number, line in enumerate(self._lines):
            if number:
                text.append("\n")
                at += 1
            press = None
            for raw, role, *click in line:
                shown = strip(raw)
                style = self._style(role)
                if click:
                    press = clicking(click[0]) if click[0] else None
                elif role == "key":
                    press = pressing(shown)
                if press is not None and shown:
                    # A key and the words behind it are one thing to click.
                    spans.append(Span(at, at + len(shown), press))
                if style and shown:
                    spans.append(Span(at, at + len(shown), style))
                text.append(shown)
                at += len(shown)
        return Content("".join(text), spans)

    def _style(self, role: str) -> str:
        match role:
            case "":
                return ""
            case "strong":
                return "bold"
            case "quiet":
                return "$text-quiet"
            case "key":
                return "bold $footer-key-foreground"
            case "title" | "asking":
                return f"bold $role-{role}"
        return f"$role-{role}"
