"""Help: everything that can be done, by which key, and why not where it is not possible now. From the registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input

from zoea.tui.commands.actions import ACTIONS, BY_ID, Action, Place, Situation
from zoea.tui.commands.keymap import fixed_of
from zoea.tui.screens.base import CockpitScreen
from zoea.tui.text_layout import fit_text
from zoea.tui.widgets.clickable_text import TextBlock
from zoea.tui.widgets.pick_list import PickItem, PickList
from zoea.tui.widgets.status_bars import KeyFooter, PieceLine, key_name

KEY_WIDTH = 11
TITLE_WIDTH = 16
PLACE_TITLES = {
    Place.EVERYWHERE: "EVERYWHERE",
    Place.DASHBOARD: "ON THE DASHBOARD",
    Place.FOCUS: "IN A CONVERSATION",
    Place.APPROVAL: "ANSWERING A QUESTION",
    Place.INPUT: "WHILE WRITING",
    Place.SETTINGS: "IN THE SETTINGS",
    Place.WELCOME: "ON THE WELCOME SCREEN",
    Place.INSPECTOR: "IN THE INSPECTOR",
    Place.SEARCH: "WHILE SEARCHING",
    Place.LOG: "IN THE LOG",
    Place.UPSTREAMS: "AT THE UPSTREAMS",
}


class Help(CockpitScreen[None]):
    """Type to search; enter does what the line says, where it is possible on the screen below."""

    CSS_PATH = "help.tcss"
    TITLES: ClassVar[dict[str, str]] = {"app.find": "find"}
    ON_ENTER: ClassVar[str] = "do it"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "move(1)", show=False),
        Binding("up", "move(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
    ]

    def __init__(
        self, places: tuple[Place, ...], situation: Situation, can_do: Callable[[Action], bool] = lambda action: True
    ) -> None:
        super().__init__()
        self._can_do = can_do
        self._places = places
        self._situation = situation

    def compose(self) -> ComposeResult:
        yield PieceLine(id="top")
        yield Input(placeholder="type what you want to do", id="wanted")
        choices = PickList(id="actions", classes="panel")
        choices.border_title = "HELP"
        yield choices
        yield TextBlock(id="said")
        yield KeyFooter(id="keys")

    def on_mount(self) -> None:
        super().on_mount()
        self._show()
        self.query_one(Input).focus()

    @property
    def lines(self) -> PickList:
        return self.query_one(PickList)

    def situation(self) -> Situation:
        return self._situation

    def on_input_changed(self, event: Input.Changed) -> None:
        self._show()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.lines.action_choose()

    def on_pick_list_highlighted(self, event: PickList.Highlighted) -> None:
        self._describe(event.id)

    def on_pick_list_chosen(self, event: PickList.Chosen) -> None:
        """Leave, then do it."""
        cockpit = self.cockpit
        why = self._why_not(BY_ID[event.id])
        if why:
            self.notify(why, title=BY_ID[event.id].title, severity="warning", markup=False)
            return
        cockpit.pop_screen()
        cockpit.call_later(cockpit.action_do, event.id)

    def action_move(self, by: int) -> None:
        self.lines.action_move(by)

    def action_page(self, by: int) -> None:
        self.lines.action_page(by)

    def do_app_help(self) -> None:
        self.cockpit.pop_screen()

    def do_app_find(self) -> None:
        self.query_one(Input).focus()

    def do_app_back(self) -> None:
        """The search first, then the screen."""
        wanted = self.query_one(Input)
        if wanted.value:
            wanted.value = ""
        else:
            self.cockpit.pop_screen()

    def _show(self) -> None:
        words = self.query_one(Input).value.casefold().split()
        choices = list(self._choices(words))
        if not choices:
            choices = [PickItem((("nothing is called that; esc empties the search", "quiet"),))]
        self.lines.put(choices)
        self._describe(self.lines.chosen)

    def _choices(self, words: list[str]) -> Iterator[PickItem]:
        # What the screen below can do comes first.
        first = [place for place in Place if place in self._places and place is not Place.EVERYWHERE]
        rest = [place for place in Place if place not in first]
        is_first = True
        for place in (*first, *rest):
            lines = [*self._actions(place, words), *self._fixed(place, words)]
            if lines:
                if not is_first:
                    yield PickItem()
                is_first = False
                yield PickItem(((PLACE_TITLES[place], "title"),))
                yield from lines

    def _actions(self, place: Place, words: list[str]) -> Iterator[PickItem]:
        for action in ACTIONS:
            if action.place is not place:
                continue
            key = key_name(self.cockpit.keys.get(action.id, action.key))
            hay = f"{action.id} {action.title} {action.description} {action.command} {key}".casefold()
            if all(word in hay for word in words):
                yield self._line(action, key)

    def _line(self, action: Action, key: str) -> PickItem:
        why = self._why_not(action)
        pieces = [
            (fit_text(key, KEY_WIDTH, right=True), "quiet" if why else "key"),
            ("  ", ""),
            (fit_text(action.title, TITLE_WIDTH), "quiet" if why else "strong"),
        ]
        pieces.append((action.description, "quiet" if why else ""))
        if why:
            pieces.append((_why_said(why), "waiting"))
        return PickItem(tuple(pieces), action.id)

    def _fixed(self, place: Place, words: list[str]) -> Iterator[PickItem]:
        for fixed in fixed_of(place):
            keys = " ".join(key_name(key) for key in fixed.keys)
            if all(word in f"{keys} {fixed.description}".casefold() for word in words):
                yield PickItem(
                    (
                        (fit_text(keys, max(KEY_WIDTH, len(keys)), right=True), "key"),
                        ("  ", ""),
                        (fit_text("", max(0, TITLE_WIDTH - max(0, len(keys) - KEY_WIDTH))), ""),
                        (fixed.description, ""),
                    )
                )

    def _why_not(self, action: Action) -> str:
        if action.place not in (*self._places, Place.EVERYWHERE):
            return f"not here: {PLACE_TITLES[action.place].lower()}"
        if not self._can_do(action):
            return "not on this screen"
        return action.why_not(self._situation)

    def _describe(self, action_id: str) -> None:
        action = BY_ID.get(action_id)
        said = self.query_one("#said", TextBlock)
        if action is None:
            self.lines.border_subtitle = ""
            said.put([])
            return
        why = self._why_not(action)
        said.put([[(action.description, "quiet" if why else ""), (_why_said(why), "waiting")]])
        command = f" · :{action.command}" if action.command else ""
        self.lines.border_subtitle = Content(f"{action.id}{command} · enter does it")


def _why_said(why: str) -> str:
    """Why not, behind what an action does."""
    if not why:
        return ""
    return f"  {why}" if why.startswith("not ") else f"  not now: {why}"
