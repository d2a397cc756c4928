"""Header and footer lines: status pieces, and the keys of the current place or input."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain

from msgspec import Struct
from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, TextArea

from zoea.model.enums import MysisState
from zoea.model.status import StatusWord
from zoea.text.control_characters import reveal
from zoea.tui.commands.action import UNLISTED, Action, ActionContext, ActionPlace, needs_target
from zoea.tui.text_layout import Piece, count_cells, cut_text
from zoea.tui.theme.role_styles import styles_of

_FIRST = ("enter", "ctrl+j", "tab", "escape")
"""Keys that come first in the footer, in this order."""

_ALWAYS = ("app.back", "app.palette")
"""Actions that the footer of every input names."""


def is_typing(focused: Widget | None) -> bool:
    """Return whether letters are text now."""
    return isinstance(focused, Input | TextArea)


def typed_keys(focused: Widget, possible: Iterable[Action], keys: Mapping[str, str]) -> list[FooterKey]:
    """Return the keys of an input: of the widgets around it, the screen and the app.

    `ON_ENTER` of a widget or screen names the effect of enter in its inputs.
    """
    found: dict[str, FooterKey] = {}
    for node in focused.ancestors_with_self[:-1]:  # up to the screen
        for binding in _own_bindings(node):
            for key in binding.key.split(","):
                if binding.description:
                    found.setdefault(key, FooterKey(((key, f"app.press({key!r})"),), binding.description))
        enter = getattr(node, "ON_ENTER", "")
        if enter and isinstance(focused, Input):
            found.setdefault("enter", FooterKey((("enter", "app.press('enter')"),), enter))
    for action in possible:
        if (action.footer is None or action.only_if_room) and action.id not in _ALWAYS:
            continue
        key = keys.get(action.id, action.key)
        if (key == "escape" or key.startswith("ctrl+")) and key not in focused._bindings.key_to_bindings:
            found.setdefault(key, FooterKey(((key, f"app.do({action.id!r})"),), action.title))
    found.pop("alt+enter", None)  # the same as ctrl+j
    found.pop("down", None)
    ranks = {key: at for at, key in enumerate(_FIRST)}
    return [found[key] for key in sorted(found, key=lambda key: ranks.get(key, len(ranks)))]


def _own_bindings(node: DOMNode) -> Iterator[Binding]:
    """Yield the bindings of Zoea's own widgets; the registry has those of screens."""
    if not isinstance(node, Screen):
        own = (each for each in type(node).__mro__ if each.__module__.partition(".")[0] not in ("textual", "builtins"))
        yield from (one for each in own for one in vars(each).get("BINDINGS", ()) if isinstance(one, Binding))


KEY_NAMES = {
    "question_mark": "?",
    "colon": ":",
    "slash": "/",
    "comma": ",",
    "full_stop": ".",
    "asterisk": "*",
    "dollar_sign": "$",
    "plus": "+",
    "escape": "esc",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "less_than_sign": "<",
    "greater_than_sign": ">",
}


def key_name(key: str) -> str:
    """Return a key as people write it: `ctrl+f` -> `^f`, `question_mark` -> `?`."""
    first = key.split(",")[0]
    if first.startswith("ctrl+"):
        return f"^{KEY_NAMES.get(first[5:], first[5:])}"
    return KEY_NAMES.get(first, first)


URGENT = ("asking", "errored")
"""Roles of pieces that are cut last."""
CUT_LEAST = 10
"""A piece that would be cut to fewer cells is left out."""
_PLACES_OF_MYSES = (ActionPlace.DASHBOARD, ActionPlace.FOCUS)


class PieceLine(Widget):
    """Show one line of pieces, left and right.

    If there is little room the right side is shortened first, then the left one; urgent pieces are cut last.
    """

    DEFAULT_CSS = "PieceLine { height: 1; }"

    _left: Sequence[Piece] = ()
    _right: Sequence[Piece] = ()

    def put(self, left: Sequence[Piece], right: Sequence[Piece] = ()) -> None:
        """Show these pieces; redraw only if they changed."""
        if (left, right) != (self._left, self._right):
            self._left, self._right = left, right
            self.refresh()

    @property
    def text(self) -> str:
        """Return the line as text, for tests and screen readers."""
        return "".join(text for text, _ in (*self._left, *self._right))

    def on_resize(self) -> None:
        # A screen below a dialog gets no tick, so the bars are refitted here.
        redraw = getattr(self.screen, "redraw_bars", None)
        if redraw is not None:
            redraw()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        plain = self.rich_style
        styles = styles_of(self)
        given = [(clean_line(text), role) for text, role in self._left]
        right = [(clean_line(text), role) for text, role in self._right]
        urgent = max((at for at, (_, role) in enumerate(given, 1) if role in URGENT), default=0)
        needed = count_cells(given[:urgent])
        while right and needed + _apart(right) > width:
            del right[0]  # costs make room for urgent pieces
        left = fit_pieces(given, width - _apart(right))
        pieces = [*left, (" " * max(0, width - count_cells(left) - count_cells(right)), ""), *right]
        segments = [Segment(text, plain + styles.of(role)) for text, role in pieces]
        return Strip(segments).adjust_cell_length(width, plain)


def fit_pieces(pieces: Sequence[Piece], width: int) -> list[Piece]:
    """Return the pieces cut to `width` cells, the last ones first, urgent ones last."""
    kept = list(pieces)
    for is_urgent in (False, True):
        for at in reversed(range(len(kept))):
            over = count_cells(kept) - width
            if over <= 0:
                return kept
            text, role = kept[at]
            if (role in URGENT) is is_urgent:
                left = cell_len(text) - over
                kept[at] = (cut_text(text, left) if left >= CUT_LEAST else "", role)
    return kept


def _apart(right: Sequence[Piece]) -> int:
    """Return the cells of the right side with a blank before it."""
    return count_cells(right) + (bool(right) and not right[0][0].startswith(" "))


def clean_line(text: str) -> str:
    """Escape hidden characters and replace line breaks; keep blanks."""
    return reveal(text).replace("\n", " ").replace("\t", " ")


AT_REST = (StatusWord.IDLE, StatusWord.DONE, StatusWord.STOPPED, StatusWord.ERRORED)
"""Statuses of myses that do nothing which could be held or stopped."""
HOLD_FROM = 100
FILTER_FROM = 9
"""Number of myses from which a filter is of use."""


def is_needed_later(action: Action, situation: ActionContext, *, lists_myses: bool) -> bool:
    """Return whether nothing is to be done with an action yet, although it is possible.

    Args:
        lists_myses: Whether the screen shows the list of myses, so that its filter is one of them.
    """
    targets, has_marks = situation.targets, len(situation.targets) > 1
    match action.id:
        case "swarm.hold":
            return not (situation.held or situation.busy)
        case "app.find" if action.title == "filter" and lists_myses:  # elsewhere it finds in a text
            return has_marks or 0 < situation.shown < FILTER_FROM
        case "mysis.new":
            return has_marks
        case "mysis.stop" | "focus.stop":
            return not has_marks and all(view.status in AT_REST for view in targets)
        case "mysis.relaunch" | "focus.relaunch":
            return not has_marks and all(view.state is MysisState.IDLE for view in targets)
        case "mysis.review" | "focus.review":
            return not any(view.works_on for view in targets)
    return False


class FooterKey(Struct, frozen=True):
    """One entry of the footer: a key and what it does, or a pair of keys with one title.

    `presses` has each key with the Textual action of a click on it.
    """

    presses: tuple[tuple[str, str], ...]
    title: str
    off: bool = False
    is_later: bool = False
    is_kept: bool = False
    is_spare: bool = False
    is_general: bool = False

    @property
    def pieces(self) -> tuple[Piece, Piece]:
        names = "".join(f" {key_name(key)}" for key, _ in self.presses)
        return (names, "quiet" if self.off else "key"), (f" {self.title} ", "quiet" if self.off else "")

    @property
    def width(self) -> int:
        return count_cells(self.pieces)

    def split(self, width: int) -> list[tuple[int, str]]:
        """Return the cells of each key with its click, the last with the title."""
        *before, (_, last) = self.presses
        found = [(1 + cell_len(key_name(key)), click) for key, click in before]
        return [*found, (width - sum(each for each, _ in found), last)]


class KeyFooter(PieceLine):
    """Show the most useful keys of a place; a click on one presses it.

    Keys of disabled actions are drawn in the role `quiet`.
    """

    _clicks: Sequence[tuple[int, str]] = ()
    _described: object = None  # what `describe` has shown; None after anything else

    def put(self, left: Sequence[Piece], right: Sequence[Piece] = ()) -> None:
        """Show these pieces, none of which is a key."""
        self._described, self._clicks = None, ()
        super().put(left, right)

    async def on_click(self, event: events.Click) -> None:
        click = next((click for end, click in self._clicks if event.x < end), "")
        if click:
            await self.run_action(click)

    def describe(
        self,
        actions: Sequence[Action],
        situation: ActionContext,
        keys: dict[str, str],
        badge: str = "",
        *,
        leads_back: bool = True,
        kept: Collection[str] = (),
    ) -> None:
        """Show the actions that have a footer rank.

        Args:
            keys: Keys in force, by action id.
            badge: Text on the right.
            kept: Actions that are dropped last, by id, besides those that matter everywhere.
        """
        described = (actions, situation, dict(keys), badge, leads_back, tuple(kept), self.size.width)
        if described == self._described:
            return  # most news and most keys change nothing here
        shown: list[FooterKey] = []
        has_marks = len(situation.targets) > 1
        places = {action.place for action in actions}
        acts_on_myses = not places.isdisjoint(_PLACES_OF_MYSES)
        for action in sorted((a for a in actions if a.footer is not None), key=lambda a: a.footer or 0):
            if (why := action.why_not(situation)) in UNLISTED or (why and action.id == "provider.key"):
                continue
            if why and action.place is ActionPlace.EVERYWHERE and not acts_on_myses:
                continue  # only the screens of myses name a general key that is impossible now
            off = bool(why)
            is_later = is_needed_later(action, situation, lists_myses=ActionPlace.DASHBOARD in places)
            title, is_kept = action.title, action.id in ("app.back", "app.help", "provider.key", *kept)
            if action.id == "app.back" and not leads_back:
                if not has_marks:
                    continue
                title = "unmark"
            if action.id == "swarm.hold":
                # It matters most where the keys act on myses; only a narrow footer has no room for it while all rest.
                is_later = is_later and self.size.width < HOLD_FROM
                is_kept = not is_later and (situation.held or acts_on_myses)
            if action.id == "approval.oldest" and situation.approvals:
                title, is_kept = f"{title} {situation.approvals}", True
            if action.id == "swarm.hold" and situation.held:
                title = "resume all"
            if action.id in ("mysis.message", "focus.message") and not all(
                view.state.accepts_messages for view in situation.targets
            ):
                title = "relaunch with a message"
            if has_marks and not off and (needs_target(action.requires) or action.id == "swarm.broadcast"):
                title, is_kept = f"{title} {len(situation.targets)} marked", not is_later
            presses: tuple[tuple[str, str], ...] = ((keys.get(action.id, action.key), f"app.do({action.id!r})"),)
            if action.pair and shown and shown[-1].title == action.pair:
                presses = (*shown.pop().presses, *presses)
            shown.append(
                FooterKey(
                    presses,
                    action.pair or title,
                    off=off,
                    is_later=is_later,
                    is_kept=is_kept,
                    is_spare=action.only_if_room and not is_kept,
                    is_general=action.place is ActionPlace.EVERYWHERE and action.id not in ("app.back", "app.find"),
                )
            )
        self.show(shown, badge)
        self._described = described

    def show(self, keys: Iterable[FooterKey], badge: str = "") -> None:
        """Show the keys that fit. Drop those of no use now, then spare, general and later ones, kept ones last."""
        shown = list(keys)
        aside: list[Piece] = [(badge, "quiet")] if badge else []
        widths = {id(one): one.width for one in shown}
        room, needed = self.size.width - _apart(aside), sum(widths.values())
        places, dropped = {id(one): at for at, one in enumerate(shown)}, list[FooterKey]()
        while needed > room > 0 and len(shown) > 1:
            useless = (one for one in reversed(shown) if (one.off or one.is_later) and not one.is_kept)
            spare = (one for one in reversed(shown) if one.is_spare)
            general = (one for one in reversed(shown) if one.is_general and not one.is_kept)
            others = (one for one in reversed(shown) if not one.is_kept)
            gone = next(chain(useless, spare, general, others), shown[-1])
            shown.remove(gone)
            dropped.append(gone)
            needed -= widths[id(gone)]
        for one in reversed(dropped):  # short ones may fit where a long one did not
            if not (one.off or one.is_later) and needed + widths[id(one)] <= room:
                shown.append(one)
                needed += widths[id(one)]
        shown.sort(key=lambda one: places[id(one)])
        parts = [part for one in shown for part in one.split(widths[id(one)])]
        self.put([piece for one in shown for piece in one.pieces], aside)
        self._clicks = list(zip(accumulate(width for width, _ in parts), (click for _, click in parts), strict=True))
