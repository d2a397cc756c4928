"""Lines of pieces in a box: text and role, never markup, never taller than its place."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.content import Content, Span
from textual.message import Message
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Static

from zoea.text.control_characters import strip
from zoea.tui.commands.keymap import normal
from zoea.tui.text_layout import Piece
from zoea.tui.theme.role_styles import styles_of

ClickablePiece = tuple[str, str, str]
"""A text, its role, and what a click on it does, as Textual names actions; empty for nothing."""


def click_style(action: str) -> Style:
    """The style of a text whose click is this action."""
    return Style.from_meta({"@click": action})


def key_click_style(key: str) -> Style | None:
    """The style of a text whose click presses a key, as `esc` or `^t`; None where the words are no key."""
    name = normal(key)
    return click_style(f"app.press({name!r})") if name else None


def key_hints(text: str) -> Content:
    """`enter write · esc back` as a border's title, each part a press of its first word."""
    spans: list[Span] = []
    at = 0
    for part in text.split(" · "):
        style = key_click_style(part.partition(" ")[0])
        if style is not None:
            spans.append(Span(at, at + len(part), style))
        at += len(part) + len(" · ")
    return Content(text, spans)


class TextBlock(Static):
    """Shows lines of (text, role) pieces; keys among them can be clicked, and words that say what a click does.

    What a model or person wrote is stripped of control characters.
    """

    class Sized(Message):
        """It has another size: whoever fits lines into it does so anew."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__("", id=id, classes=classes, markup=False)
        self._lines: Sequence[Sequence[Piece | ClickablePiece]] = ()
        self.auto_links = False

    def on_resize(self, event: events.Resize) -> None:
        self.post_message(self.Sized())

    def put(self, lines: Sequence[Sequence[Piece | ClickablePiece]]) -> None:
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
                    press = click_style(click[0]) if click[0] else None
                elif role == "key":
                    press = key_click_style(shown)
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


class TitledRule(Widget):
    """Titles on the left, one on the right; the frame's own line between them."""

    DEFAULT_CSS = "TitledRule { height: 1; width: 100%; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._left: Sequence[ClickablePiece] = ()
        self._right: Sequence[ClickablePiece] = ()

    def put(self, left: Sequence[ClickablePiece], right: Sequence[ClickablePiece] = ()) -> None:
        """Show these words; draws only where something changed."""
        if (left, right) != (self._left, self._right):
            self._left, self._right = left, right
            self.refresh()

    def _placed(self) -> list[tuple[int, ClickablePiece]]:
        """Each word that fits, with the column it begins in."""
        room = self.size.width - 3
        right = sum(cell_len(strip(text)) + 2 for text, _, _ in self._right)
        placed: list[tuple[int, ClickablePiece]] = []
        at = 2
        for text, role, action in self._left:
            shown = strip(text)
            if at + cell_len(shown) + 2 > room - right:
                break
            placed.append((at, (f" {shown} ", role, action)))
            at += cell_len(shown) + 3
        at = room - right + 1
        for text, role, action in self._right if at > 2 else ():
            shown = strip(text)
            placed.append((at, (f" {shown} ", role, action)))
            at += cell_len(shown) + 2
        return placed

    def render_line(self, y: int) -> Strip:
        plain, styles = self.rich_style, styles_of(self)
        segments = [Segment("├─", plain)]
        at = 2
        for start, (text, role, _) in self._placed():
            segments += [Segment("─" * (start - at), plain), Segment(text, plain + styles.of(role))]
            at = start + cell_len(text)
        segments += [Segment("─" * max(0, self.size.width - at - 1), plain), Segment("┤", plain)]
        return Strip(segments).adjust_cell_length(self.size.width, plain)

    async def on_click(self, event: events.Click) -> None:
        for start, (text, _, action) in self._placed():
            if action and start <= event.x < start + cell_len(text):
                await self.run_action(action)
