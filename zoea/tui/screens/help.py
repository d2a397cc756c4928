"""Help: every action with its key, and why it is not possible now. From the action registry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from textual import getters, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets import Input

from zoea.model.status import MEANINGS
from zoea.text.sentences import begin_sentence
from zoea.tui.commands.action import Action, ActionContext, ActionPlace, Handlers
from zoea.tui.commands.actions import ACTIONS, BY_ID
from zoea.tui.commands.keymap import fixed_keys
from zoea.tui.screens.base import CockpitScreen
from zoea.tui.state.cockpit import Cockpit
from zoea.tui.text_layout import Piece, fit_text, wrap_words
from zoea.tui.widgets.clickable_text import key_hints
from zoea.tui.widgets.line_list import PickItem, PickList
from zoea.tui.widgets.status_bars import key_name

KEY_WIDTH = 11
TITLE_WIDTH = 21
BEFORE = KEY_WIDTH + 2 + TITLE_WIDTH
"""Cells before a description."""
MEANING_WIDTH = 80
"""Cells of a meaning while the width of the list is not known."""
ELSEWHERE = "elsewhere"
"""Stands for the reason of an action of another place, which the heading gives."""
PLACE_TITLES = {
    ActionPlace.EVERYWHERE: "EVERYWHERE",
    ActionPlace.DASHBOARD: "ON THE DASHBOARD",
    ActionPlace.FOCUS: "IN A CONVERSATION",
    ActionPlace.APPROVAL: "ANSWERING A QUESTION",
    ActionPlace.INPUT: "WHILE WRITING",
    ActionPlace.SETTINGS: "IN THE SETTINGS",
    ActionPlace.WELCOME: "ON THE WELCOME SCREEN",
    ActionPlace.INSPECTOR: "IN THE INSPECTOR",
    ActionPlace.HISTORY: "IN THE HISTORY OF A MYSIS",
    ActionPlace.COMPARISON: "COMPARING TWO COMMITS",
    ActionPlace.REVIEW: "REVIEWING CHANGED FILES",
    ActionPlace.SEARCH: "WHILE SEARCHING",
    ActionPlace.LOG: "IN THE LOG",
    ActionPlace.CHARTS: "IN THE CHARTS",
    ActionPlace.UPSTREAMS: "AT THE UPSTREAMS",
}
WORDS = {
    "commander": "you, in what the myses read and write",
    "mysis": "one agent (plural myses): a model with a memory of its own that works with tools",
    "turn": "its work from a message to its answer; one turn may send many requests to the model",
    "task": "what it works on, turn by turn, until it reports that it is done",
    "time": "how long it has had its status, or how long it still waits; last minute: its tokens, in steps of 5 s",
    "delivery mode": "when a message is read. queue: after the turn; steer: before the turn's next request; "
    "interrupt: at once, which ends the turn",
    "nudge": "a message that Zoea sends to remind it of its task; its answer costs tokens",
    "provider": "the service that answers for a model: a vendor with a key, or a server of yours",
    "template": "a file that says how a mysis works: prompt, provider, model, tools, budget",
    "session": "the time of a mysis from its start to its stop or failure; it remembers across sessions",
    "strategy": "the part of a template that chooses which messages a request holds",
    "upstream": "a server (MCP) that offers tools to the myses",
    "topic": "a named stream of messages between myses; a template says which ones its myses read",
    "tick": "the time of a game's server, as its results tell it",
    "‹ ›": "a field with several values: left and right change it",
    "hold": "a switch: what runs now finishes, nothing new starts until you resume",
    "budget": "a limit of tokens or money for a request, a turn, a mysis or the whole day",
    "request": "what is sent to the model at once; its limit: its budget, or the window less the longest answer",
    "parts": "what a request is made of. earlier: older turns; last calls, last answer: of the newest turn before "
    "(in templates: history, said); situation: what the template adds of the moment, such as the time, empty if "
    "it adds none; tool list: the schemas of the tools (tools); i shows all of them",
    "~2.8k/50k": "tokens of the newest request of a mysis, as estimated, and the limit of one request",
    "context": "all that a request holds; the window is the most that the model reads at once",
    "commit": "the state of a conversation at a moment, to read, compare or fork",
    "grant": "a tool that you allowed for all myses of a template; you can revoke it",
    "~, ?, $?": "an estimate; a number that is not known, or a limit that Zoea assumes; a price that is not known",
}
"""The words of Zoea that a new user cannot know."""


SYNONYMS = {
    "app.quit": "exit leave close",
    "app.reload": "refresh",
    "approval.once": "accept approve yes permission",
    "approval.deny": "reject refuse no permission",
    "focus.copy": "clipboard yank",
    "focus.export": "save download",
    "focus.stop": "kill abort cancel interrupt",
    "mysis.configure": "edit rename model settings",
    "mysis.delete": "kill remove",
    "mysis.new": "create add spawn agent",
    "mysis.relaunch": "restart start resume",
    "mysis.result": "diff changes report",
    "focus.result": "diff changes report",
    "mysis.review": "diff changes merge worktree git",
    "focus.review": "diff changes merge worktree git",
    "mysis.stop": "kill abort cancel interrupt",
    "mysis.undo": "revert restore",
    "screen.budgets": "limits cost spending",
    "screen.settings": "remap keys keybindings shortcuts preferences theme colours colors",
    "swarm.hold": "freeze suspend",
    "swarm.stop-all": "kill abort cancel interrupt",
}
"""Words by which people look for actions that have other names here."""


class HelpScreen(CockpitScreen[None]):
    """A searchable list of keys; enter runs a possible action on the screen below.

    Args:
        below: The screen below.
        context: Its context.
    """

    CSS_PATH = "help.tcss"
    TITLES: ClassVar[dict[str, str]] = {"app.find": "find"}
    ON_ENTER: ClassVar[str] = "do it"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("down", "move(1)"),
        ("up", "move(-1)"),
        ("pagedown", "page(1)"),
        ("pageup", "page(-1)"),
    ]

    def __init__(self, below: Screen[Any], context: ActionContext) -> None:
        super().__init__()
        self._below = below
        self._places = (ActionPlace.EVERYWHERE, below.PLACE) if isinstance(below, CockpitScreen) else ()
        self._action_context = context

    @classmethod
    def open_over(cls, cockpit: Cockpit) -> HelpScreen:
        return cls(cockpit.screen, cockpit.action_context())

    def bind_actions(self) -> Handlers:
        return {
            "app.find": lambda: self.query_one(Input).focus(),
            "app.help": self.cockpit.pop_screen,
        }

    def compose_body(self) -> ComposeResult:
        yield Input(placeholder="Type to find keys and actions", id="wanted")
        yield PickList(id="actions", classes="panel", title="HELP")

    def on_mount(self) -> None:
        self._show()
        self.query_one(Input).focus()

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    def feed_changed(self, ids: frozenset[int]) -> None:
        super().feed_changed(ids)
        if isinstance(self._below, CockpitScreen) and not self._action_context.is_ready:
            self._action_context = self._below.action_context()
            if self._action_context.is_ready and self.is_mounted:
                self._show()

    lines = getters.query_one(PickList)

    def action_context(self) -> ActionContext:
        return self._action_context

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.lines.action_choose()

    def on_pick_list_moved(self, event: PickList.Moved) -> None:
        self._describe(event.id)

    def on_pick_list_chosen(self, event: PickList.Chosen) -> None:
        """Close the help, then run the action."""
        cockpit = self.cockpit
        why = self._why_not(BY_ID[event.id])
        if why:
            self.notify(begin_sentence(why), title=BY_ID[event.id].title, severity="warning", markup=False)
            return
        cockpit.pop_screen()
        cockpit.call_later(cockpit.action_do, event.id)

    def action_move(self, by: int) -> None:
        self.lines.action_move(by)

    def action_page(self, by: int) -> None:
        self.lines.action_leaf(by)

    def back(self) -> None:
        """Clear the search, else close the screen."""
        wanted = self.query_one(Input)
        if wanted.value:
            wanted.value = ""
        else:
            self.cockpit.pop_screen()

    @on(Input.Changed)
    def _show(self) -> None:
        words = self.query_one(Input).value.casefold().split()
        choices = list(self._choices(words))
        if not choices:
            choices = [PickItem((("No action matches; esc clears the search", "quiet"),))]
        self.lines.put(choices)
        self.retitle("app.back", "clear" if words else "")
        self._describe(self.lines.chosen)

    def _choices(self, words: list[str]) -> Iterator[PickItem]:
        # Actions of the screen below come first.
        first = [place for place in ActionPlace if place in self._places and place is not ActionPlace.EVERYWHERE]
        rest = [place for place in ActionPlace if place not in first]
        sections = [(PLACE_TITLES[place], self._section(place, words)) for place in first]
        sections.append(("WHAT A STATUS MEANS", list(self._legend(words))))
        sections.append(("WORDS OF ZOEA", list(self._words(words))))
        sections += [(PLACE_TITLES[place], self._section(place, words)) for place in rest]
        elsewhere = {PLACE_TITLES[place] for place in rest if place is not ActionPlace.EVERYWHERE}
        is_first = True
        for title, lines in sections:
            if lines:
                if not is_first:
                    yield PickItem()
                is_first = False
                yield PickItem(((title, "title"), ("  not on this screen" if title in elsewhere else "", "quiet")))
                yield from lines

    def _section(self, place: ActionPlace, words: list[str]) -> list[PickItem]:
        return [*self._actions(place, words), *self._fixed(place, words)]

    def _legend(self, words: list[str]) -> Iterator[PickItem]:
        """Build the glyph, the word and the meaning of each status."""
        glyphs = self.cockpit.glyphs
        for status, meaning in MEANINGS.items():
            if all(word in f"{status} {meaning} status".casefold() for word in words):
                name = str(status)
                glyph = fit_text(glyphs.get(name, "?"), KEY_WIDTH, right=True)
                yield from self._explain((glyph, name), (name, name), meaning)

    def _words(self, words: list[str]) -> Iterator[PickItem]:
        for name, meaning in WORDS.items():
            if all(word in f"{name} {meaning}".casefold() for word in words):
                yield from self._explain((" " * KEY_WIDTH, ""), (name, "strong"), meaning)

    def _explain(self, glyph: Piece, name: Piece, meaning: str) -> Iterator[PickItem]:
        """Build the lines of a word and its meaning, which the cursor skips."""
        yield from self._describe_beside(
            (glyph, ("  ", ""), (fit_text(name[0], TITLE_WIDTH), name[1])), wrap_words(meaning, self._room)
        )

    @property
    def _room(self) -> int:
        """Cells of a line beside the keys and the names."""
        return (self.lines.scrollable_content_region.width or BEFORE + MEANING_WIDTH) - BEFORE

    def _describe_beside(self, head: Iterable[Piece], lines: Iterable[str]) -> Iterator[PickItem]:
        """Build the lines that the cursor skips: a key or a word, and beside it all of its description."""
        first, *more = lines
        yield PickItem((*head, (first, "")))
        yield from (PickItem(((" " * BEFORE, ""), (line, ""))) for line in more)

    def _actions(self, place: ActionPlace, words: list[str]) -> Iterator[PickItem]:
        for action in ACTIONS:
            if action.place is not place:
                continue
            key = key_name(self.cockpit.keys.get(action.id, action.key))
            names = (action.id, action.title, action.description, action.command, key, SYNONYMS.get(action.id, ""))
            if all(word in " ".join(names).casefold() for word in words):
                yield from self._lines(action, key)

    def _lines(self, action: Action, key: str) -> Iterator[PickItem]:
        """Build the lines of an action: its description, and why it is not possible now, in full."""
        # The heading says it of all actions of another place.
        why = self._why_not(action) if action.place in (*self._places, ActionPlace.EVERYWHERE) else ELSEWHERE
        head: list[Piece] = [
            (fit_text(key, KEY_WIDTH, right=True), "quiet" if why else "key"),
            ("  ", ""),
            (fit_text(action.title, TITLE_WIDTH), "quiet" if why else "strong"),
        ]
        room = self._room
        first, *more = wrap_words(action.description, room)
        yield PickItem((*head, (first, "quiet" if why else "")), action.id)
        lines: list[Piece] = [(line, "quiet" if why else "") for line in more]
        if why and why != ELSEWHERE:
            reason = why if why.startswith("not ") else f"not now: {why}"
            lines += [(line, "waiting") for line in wrap_words(reason, room)]
        for text, role in lines:
            yield PickItem(((" " * BEFORE, ""), (text, role)))

    def _fixed(self, place: ActionPlace, words: list[str]) -> Iterator[PickItem]:
        for fixed in fixed_keys(place):
            keys = " ".join(key_name(key) for key in fixed.keys)
            if all(word in f"{keys} {fixed.title} {fixed.description}".casefold() for word in words):
                cells = max(KEY_WIDTH, len(keys))
                title = fit_text(fixed.title, max(0, BEFORE - 2 - cells))
                head: list[Piece] = [(fit_text(keys, cells, right=True), "key"), ("  ", ""), (title, "strong")]
                yield from self._describe_beside(head, wrap_words(fixed.description, self._room))

    def _why_not(self, action: Action) -> str:
        if action.place not in (*self._places, ActionPlace.EVERYWHERE):
            return f"not here: {PLACE_TITLES[action.place].lower()}"
        if self.cockpit.find_action(action, self._below) is None:
            return "not on this screen"
        return action.why_not(self._action_context)

    def _describe(self, action_id: str) -> None:
        action = BY_ID.get(action_id)
        if action is None:
            self.lines.border_subtitle = ""
            return
        command = f" · command :{action.command}" if action.command else ""
        self.lines.border_subtitle = key_hints(f'enter do it{command} · setting tui.keys."{action.id}"')
