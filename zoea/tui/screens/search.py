"""Search in all conversations of the swarm while the person types; enter opens the hit."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Input

from zoea.model.enums import Role
from zoea.model.errors import StoreError
from zoea.queries.search_reader import (
    HitPlace,
    SwarmSearcher,
    SwarmSearchHit,
    SwarmSearchPage,
    SwarmSearchQuery,
    parse_search,
)
from zoea.text.control_characters import one_line, prose_line
from zoea.tui import number_format
from zoea.tui.commands.action import ActionPlace, Handlers
from zoea.tui.screens.base import CockpitScreen
from zoea.tui.screens.focus import FocusScreen
from zoea.tui.text_layout import Piece, fit_text
from zoea.tui.widgets.clickable_text import TextBlock
from zoea.tui.widgets.line_list import LineList

_SPOTS = (HitPlace.CALL, HitPlace.REASONING)
_ROLES = {Role.SYSTEM: "system", Role.USER: "prompt", Role.ASSISTANT: "answer", Role.TOOL: "result"}
"""What a hit stands in; a call and reasoning have their own words."""

AFTER_KEY_S = 0.08
WHO_WIDTH = 14
TURN_WIDTH = 5
_LEAD = 24
_HELP = "@name one mysis · role:user, assistant or tool · since:2h · until:10:30 · capitals match case"


class SearchScreen(CockpitScreen[None]):
    """Searches all conversations: an input, the hits, and the text around the chosen hit."""

    CSS_PATH = "search.tcss"
    TITLES: ClassVar[dict[str, str]] = {"app.find": "find"}
    PLACE = ActionPlace.SEARCH
    ON_ENTER: ClassVar[str] = "open"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("down", "move(1)"),
        ("up", "move(-1)"),
        ("pagedown", "leaf(1)"),
        ("pageup", "leaf(-1)"),
    ]

    def __init__(self, typed: str = "") -> None:
        super().__init__()
        self._typed = typed
        self._wish = SwarmSearchQuery()
        self._hits: list[SwarmSearchHit] = []
        self._before: int | None = None
        self._note = ""
        self._searcher: SwarmSearcher | None = None
        self._is_searching = False

    def bind_actions(self) -> Handlers:
        return {"app.find": lambda: self.query_one("#words").focus(), "search.open": self._open_hit}

    def compose_body(self) -> ComposeResult:
        words = Input(self._typed, id="words", placeholder="Search all conversations")
        words.cursor_blink = False
        yield words
        yield LineList(self.draw_hit, id="hits", classes="panel", title="SEARCH", empty=_HELP)
        yield TextBlock(id="around", classes="panel")

    def on_mount(self) -> None:
        self.query_one("#words").focus()
        if self._typed:
            self._begin()

    def on_unmount(self) -> None:
        if self._searcher is not None:
            self._searcher.stop()

    @property
    def holds_keys(self) -> bool:
        """Whether hits are still to come. Until then enter would open another one."""
        return any(
            worker.group == "search" and worker.node is self and not worker.is_finished for worker in self.workers
        )

    hits = getters.query_one("#hits", LineList)

    # Searching.

    @on(Input.Changed)
    def _begin(self) -> None:
        """Search 80 ms after the last key, and interrupt the earlier search."""
        if self._searcher is not None:
            self._searcher.stop()
        wish = parse_search(self.query_one("#words", Input).value, self.cockpit.now())
        self._search(wish)

    @work(exclusive=True, exit_on_error=False, group="search")
    async def _search(self, wish: SwarmSearchQuery) -> None:
        await asyncio.sleep(AFTER_KEY_S)
        self._wish = wish
        if wish.is_empty or wish.problem:
            self._show(SwarmSearchPage())
            return
        found = await self._page(wish, None)
        if found is not None:
            self._show(found)

    async def _page(self, wish: SwarmSearchQuery, before: int | None) -> SwarmSearchPage | None:
        opened = self.cockpit.opened
        if opened is None:
            return None
        searcher = self._searcher = self._searcher or SwarmSearcher(opened.database)
        number = searcher.begin()
        self._is_searching = True
        self._describe()
        try:
            found = await asyncio.to_thread(searcher.search, number, wish, before)
        except StoreError as error:
            self.cockpit.show_error(error)
            found = SwarmSearchPage()
        self._is_searching = False
        return found

    def _show(self, found: SwarmSearchPage) -> None:
        if self.is_mounted:
            self._hits, self._before, self._note = list(found.hits), found.before, found.note
            self.hits.show(len(self._hits), place=0)
            self._describe()

    @work(exclusive=True, exit_on_error=False, group="search")
    async def _more(self) -> None:
        """Read the next page, when the cursor reaches the last hit."""
        found = await self._page(self._wish, self._before)
        if found is not None and self.is_mounted:
            self._hits += found.hits
            self._before, self._note = found.before, found.note
            self.hits.show(len(self._hits))
            self._describe()

    # Showing.

    def draw_hit(self, place: int, width: int) -> list[Piece]:
        hit = self._hits[place]
        at = number_format.clock(hit.at, self.cockpit.now())
        pieces: list[Piece] = [
            (at + "  ", "quiet"),
            (fit_text(one_line(hit.mysis), WHO_WIDTH), "quiet" if hit.is_deleted else "mysis"),
        ]
        if width >= 100:
            pieces.append((fit_text(f"t{hit.turn_number}", TURN_WIDTH, right=True) + "  ", "quiet"))
        pieces += self._who(hit)
        pieces += snippet(hit, _LEAD)
        return pieces

    def _who(self, hit: SwarmSearchHit) -> list[Piece]:
        match hit.role, hit.spot:
            case Role.USER, _:
                role = "commander" if hit.sender == "you" else "mysis"
                return [(f"{one_line(hit.sender) or 'nobody'}: ", role)]
            case Role.TOOL, _:
                return [(f"{self.cockpit.glyphs['tool']} {one_line(hit.tool)} → ", "tool")]
            case _, HitPlace.CALL:
                return [(f"{self.cockpit.glyphs['tool']} ", "tool")]
            case _, HitPlace.REASONING:
                return [("reasoning: ", "reasoning")]
        return []

    def _describe(self) -> None:
        if not self.is_mounted:
            return
        count = f"{len(self._hits)}{'+' if self._before is not None else ''}"
        if self._wish.problem:
            foot = self._wish.problem
        elif self._wish.is_empty:
            foot = ""
        else:
            foot = "Searching…" if self._is_searching and not self._hits else f"{count} found, newest first"
            foot += f" · {self._note}" if self._note and self._hits else ""
        self.hits.caption("SEARCH", foot)
        if not self._hits:
            nothing = "No match"
            if self._before is not None:
                nothing = "No match among the newest; press down to search older ones"
            self.hits.show(0, empty=_HELP if self._wish.is_empty or self._wish.problem else nothing)
        self._draw_around()

    @on(LineList.Moved)
    def _draw_around(self) -> None:
        around = self.query_one("#around", TextBlock)
        if not self._hits:
            around.put([])
            return
        hit = self._hits[min(self.hits.place, len(self._hits) - 1)]
        deleted = " (deleted)" if hit.is_deleted else ""
        head: list[Piece] = [
            (one_line(hit.mysis), "mysis"),
            (f"{deleted}  turn {hit.turn_number}, {hit.spot if hit.spot in _SPOTS else _ROLES[hit.role]}", "quiet"),
        ]
        text = [(piece, "asking" if role == "hit" else role) for piece, role in snippet(hit, len(hit.text), flat=False)]
        around.put([head, text])

    # Moving.

    def action_move(self, by: int) -> None:
        if by > 0 and self.hits.place + by >= len(self._hits) and self._before is not None and not self._is_searching:
            self._more()
        self.hits.action_move(by)

    def action_leaf(self, by: int) -> None:
        self.action_move(by * self.hits.leaf)

    @on(Input.Submitted)
    @on(LineList.Chosen)
    def _do_open(self) -> None:
        self.cockpit.action_do("search.open")

    def _open_hit(self) -> None:
        if self._hits:
            hit = self._hits[self.hits.place]
            words = self._wish.words
            self.cockpit.push_screen(FocusScreen(hit.mysis_id, turn=hit.turn_number, key=key_of(hit), words=words))


def key_of(hit: SwarmSearchHit) -> str:
    """Return the key of the block with the hit."""
    if hit.call_id is not None:
        return f"call {hit.call_id}"
    return f"thought {hit.memory_id}" if hit.spot is HitPlace.REASONING else f"memory {hit.memory_id}"


def snippet(hit: SwarmSearchHit, lead: int, *, flat: bool = True) -> list[Piece]:
    """Return the text around the hit, which has the role `hit`.

    Args:
        lead: Characters before the hit, with `flat`.
        flat: Return one line.
    """
    before, found = hit.text[: hit.start], hit.text[hit.start : hit.start + hit.length]
    after = hit.text[hit.start + hit.length :]
    if flat:
        before, found, after = _flat(before), _flat(found), _flat(after)
        if len(before) > lead:
            before = "…" + before[-lead:]
    return [(before, ""), (found, "hit"), (after, "")]


def _flat(text: str) -> str:
    """Return the text on one line, with its outer blanks as one space each."""
    flat = prose_line(text)
    if not flat:
        return " " if text else ""
    return (" " if text[0].isspace() else "") + flat + (" " if text[-1].isspace() else "")
