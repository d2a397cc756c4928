"""The first and the last line of every screen: who needs you, what it costs, and what the keys do here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol, cast

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from zoea.text.control import strip
from zoea.tui.actions import Action, Situation
from zoea.tui.styles import styles_of

KEY_NAMES = {
    "question_mark": "?",
    "colon": ":",
    "slash": "/",
    "comma": ",",
    "full_stop": ".",
    "asterisk": "*",
    "escape": "esc",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "less_than_sign": "<",
    "greater_than_sign": ">",
}


def key_name(key: str) -> str:
    """A key as people write it: `ctrl+f` -> `^f`, `question_mark` -> `?`."""
    first = key.split(",")[0]
    if first.startswith("ctrl+"):
        return f"^{KEY_NAMES.get(first[5:], first[5:])}"
    return KEY_NAMES.get(first, first)


Piece = tuple[str, str]


class Line(Widget):
    """One line of pieces, left and right; what does not fit is left out from the middle."""

    DEFAULT_CSS = "Line { height: 1; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._left: Sequence[Piece] = ()
        self._right: Sequence[Piece] = ()

    def put(self, left: Sequence[Piece], right: Sequence[Piece] = ()) -> None:
        """Show these pieces; draws only where something changed."""
        if (left, right) != (self._left, self._right):
            self._left, self._right = left, right
            self.refresh()

    @property
    def text(self) -> str:
        """What stands there, for tests and screen readers."""
        return "".join(text for text, _ in (*self._left, *self._right))

    def on_resize(self) -> None:
        # A screen below a box hears of no tick: what fits is looked at anew here.
        redraw = getattr(self.screen, "redraw_bars", None)
        if redraw is not None:
            redraw()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        plain = self.rich_style
        styles = styles_of(self)
        given = [(one_line_of(text), role) for text, role in self._left]
        right = [Segment(one_line_of(text), plain + styles.of(role)) for text, role in self._right]
        urgent = max((at for at, (_, role) in enumerate(given, 1) if role == "asking"), default=0)
        needed = sum(cell_len(text) for text, _ in given[:urgent])
        while right and needed + sum(cell_len(segment.text) for segment in right) > width:
            del right[0]  # what it costs gives way to who needs the person
        room = width - sum(cell_len(segment.text) for segment in right)
        left: list[Segment] = []
        used = 0
        for text, role in given:
            if used + cell_len(text) > room:
                break
            used += cell_len(text)
            left.append(Segment(text, plain + styles.of(role)))
        middle = Segment(" " * max(0, room - used), plain)
        return Strip([*left, middle, *right]).adjust_cell_length(width, plain)


def one_line_of(text: str) -> str:
    """A piece of a line without what a terminal would obey; its blanks stay as they are."""
    return strip(text).replace("\n", " ").replace("\t", " ")


class _Doing(Protocol):
    """An app that carries out actions: the cockpit."""

    def action_do(self, action_id: str) -> None: ...


class KeyLine(Line):
    """The footer: the most useful keys of this place, disabled ones quiet. A click on one is that key."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._actions: list[tuple[int, str]] = []

    def action_at(self, x: int) -> str:
        """The id of the action that is shown at a column, or nothing."""
        return next((action_id for end, action_id in self._actions if x < end), "")

    def on_click(self, event: events.Click) -> None:
        action_id = self.action_at(event.x)
        if action_id:
            cast(_Doing, self.app).action_do(action_id)

    def describe(self, actions: Sequence[Action], situation: Situation, keys: dict[str, str], badge: str = "") -> None:
        """Show the actions that have a footer rank; `keys` are the keys in force, by action id."""
        pairs: list[tuple[Piece, Piece]] = []
        ids: list[str] = []
        for action in sorted((a for a in actions if a.footer is not None), key=lambda a: a.footer or 0):
            off = bool(action.why_not(situation))
            title = action.title
            if action.id == "approval.oldest" and situation.approvals:
                title = f"{title} {situation.approvals}"
            if action.id == "swarm.hold" and situation.held:
                title = "resume"
            key = key_name(keys.get(action.id, action.key))
            ids.append(action.id)
            pairs.append(((f" {key}", "quiet" if off else "key"), (f" {title} ", "quiet" if off else "")))
        # Where it gets narrow the later ones go first, but never the last: that is the help.
        room = self.size.width - cell_len(badge)
        while len(pairs) > 1 and sum(cell_len(text) for pair in pairs for text, _ in pair) > room > 0:
            del pairs[-2], ids[-2]
        ends = accumulate(sum(cell_len(text) for text, _ in pair) for pair in pairs)
        self._actions = list(zip(ends, ids, strict=True))
        self.put([piece for pair in pairs for piece in pair], [(badge, "quiet")] if badge else ())
