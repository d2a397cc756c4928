"""Text widgets that can be clicked: a block of lines, a titled rule, key hints.

A text is made of (text, role) pieces and never parsed as markup. Pieces in the role `key` press that key.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.content import Content, Span
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Static

from zoea.model.errors import ZoeaError
from zoea.text.control_characters import reveal
from zoea.tui.commands.keymap import normal
from zoea.tui.text_layout import Piece
from zoea.tui.theme.role_styles import styles_of

_KEY_STYLE = "bold $secondary"
ClickablePiece = tuple[str, str, str]
"""Text, role and the Textual action that a click runs; the action is empty where a click does nothing."""


def click_style(action: str) -> Style:
    """Return a style that runs an action on click."""
    return Style.from_meta({"@click": action})


def key_click_style(key: str) -> Style | None:
    """Return a style that presses a key on click.

    Args:
        key: A key as people write it: `esc`, `^t`, `?`.

    Returns None where `key` is not the name of a key.
    """
    name = normal(key)
    return click_style(f"app.press({name!r})") if name else None


_SEPARATOR = " · "
_STYLES = {
    "": "",
    "strong": "bold",
    "quiet": "$text-quiet",
    "key": "bold $footer-key-foreground",
    "ok": "$success",
    "called": "bold $role-tool",
    "title": "bold $role-title",
    "asking": "bold $role-asking",
}
"""The styles of roles that are no variable of the theme alone."""


class KeyHints(Content):
    """Hints of keys. Where there is no room it leaves out whole hints, the one that leads back last."""

    __slots__ = ()

    def truncate(self, max_width: int, *, ellipsis: bool = False, pad: bool = False) -> Content:
        hints = self.plain.split(_SEPARATOR)
        while len(hints) > 1 and cell_len(_SEPARATOR.join(hints)) > max_width:
            del hints[-2 if hints[-1].startswith("esc ") else -1]
        shown = key_hints(_SEPARATOR.join(hints))
        return super(KeyHints, shown).truncate(max_width, ellipsis=ellipsis, pad=pad)


def key_hints(text: str) -> KeyHints:
    """Build a border title such as `enter write · esc back` with clickable keys."""
    spans: list[Span] = []
    at = 0
    for part in text.split(_SEPARATOR):
        key = part.partition(" ")[0]
        style = key_click_style(key)
        if style is not None:
            spans += [Span(at, at + len(part), style), Span(at, at + len(key), _KEY_STYLE)]
        at += len(part) + len(_SEPARATOR)
    return KeyHints(text, spans)


def put_titles(widget: Widget, title: Content | None, subtitle: Content | None) -> None:
    """Set the titles of a frame. Draw only its two lines again, and only where a title changed.

    Textual draws the whole widget whenever a title is set.
    """
    outer, content = widget.outer_size, widget.content_offset
    for name, new, line in (("_border_title", title, 0), ("_border_subtitle", subtitle, outer.height - 1)):
        before: Content | None = getattr(widget, name)
        after = new.expand_tabs(4).split()[0] if new is not None else None
        if _looks(after) != _looks(before):
            setattr(widget, name, after)
            widget.refresh(Region(-content.x, line - content.y, outer.width, 1))


def _looks(title: Content | None) -> tuple[object, ...]:
    """Return what differs where two titles look different; Textual compares the text only."""
    return () if title is None else (type(title), title.plain, title.spans)


class TextBlock(Static):
    """Show lines of (text, role) pieces as clickable text. Hidden characters of every piece are shown as escapes."""

    class Sized(Message):
        """Sent when the size changed."""

    def __init__(self, *, title: str = "", id: str | None = None, classes: str | None = None) -> None:
        super().__init__("", id=id, classes=classes, markup=False)
        self.border_title = Content(title)
        self._lines: Sequence[Sequence[Piece | ClickablePiece]] = ()
        self.auto_links = False

    def on_resize(self, event: events.Resize) -> None:
        self.post_message(self.Sized())

    def put(self, lines: Sequence[Sequence[Piece | ClickablePiece]]) -> None:
        """Show these lines; redraw only if they changed."""
        if lines != self._lines:
            self._lines = lines
            # A block of fixed size needs no layout: its text moves nothing else on the screen.
            is_sized_by_text = self.styles.auto_dimensions
            self.update(self._content(), layout=is_sized_by_text)
            if is_sized_by_text:
                # Textual counts a second request for a layout as the first one, even after another widget's layout
                # has measured the old text, and then keeps that height; changed styles make it measure again.
                self.styles.merge_rules({})

    def put_error(self, error: ZoeaError) -> None:
        """Show what went wrong, and what to do in a line below."""
        hint: list[list[Piece]] = [[(error.hint, "quiet")]] if error.hint else []
        self.put([[(error.title, "errored"), (f": {error.what}", "")], *hint])

    @property
    def plain(self) -> str:
        return "\n".join("".join(piece[0] for piece in line) for line in self._lines)

    def restyle(self) -> None:
        """Redraw in the current theme."""
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
                shown = reveal(raw)
                style = _STYLES.get(role, f"$role-{role}")
                if click:
                    press = click_style(click[0]) if click[0] else None
                elif role == "key":
                    press = key_click_style(shown)
                if press is not None and shown:
                    # A key and the words after it share one click target.
                    spans.append(Span(at, at + len(shown), press))
                if style and shown:
                    spans.append(Span(at, at + len(shown), style))
                text.append(shown)
                at += len(shown)
        return Content("".join(text), spans)


class TitledRule(Widget):
    """Draw a rule between two panels of one frame: `├─ alpha ──────── tab ┤`."""

    DEFAULT_CSS = "TitledRule { height: 1; width: 100%; }"

    _left: Sequence[ClickablePiece] = ()
    _right: Sequence[ClickablePiece] = ()

    def put(self, left: Sequence[ClickablePiece], right: Sequence[ClickablePiece] = ()) -> None:
        """Show these titles; redraw only if they changed."""
        if (left, right) != (self._left, self._right):
            self._left, self._right = left, right
            self.refresh()

    def _placed(self) -> list[tuple[int, ClickablePiece]]:
        """Return each title that fits, with its first column."""
        room = self.size.width - 3
        right = sum(cell_len(reveal(text)) + 2 for text, _, _ in self._right)
        placed: list[tuple[int, ClickablePiece]] = []
        at = 2
        for text, role, action in self._left:
            shown = reveal(text)
            if at + cell_len(shown) + 2 > room - right:
                break
            placed.append((at, (f" {shown} ", role, action)))
            at += cell_len(shown) + 3
        at = room - right + 1
        for text, role, action in self._right if at > 2 else ():
            shown = reveal(text)
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
