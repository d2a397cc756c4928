"""The log: all events of the swarm, and the end of the program's log file."""

from __future__ import annotations

import asyncio
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from typing import ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.widgets import Input

from zoea.model.values import Event
from zoea.queries.events import (
    PAGE,
    LogLine,
    contains_words,
    read_full_text,
    read_line_ids,
    read_log_lines,
    read_log_tail,
)
from zoea.queries.phrases import UNREMARKABLE, is_of_request
from zoea.queries.request_log import find_line_id
from zoea.tui import number_format
from zoea.tui.commands.action import ActionPlace, Handlers
from zoea.tui.screens.focus import FocusScreen
from zoea.tui.screens.tabbed_screen import TabbedScreen
from zoea.tui.state.deferred_work import reread
from zoea.tui.text_layout import Piece, fit_text, wrap_words
from zoea.tui.widgets.line_list import LineList, TextLines

WHO_WIDTH = 12
KEPT_LINES = 4_000
SEARCHED = 2_000
"""Lines that a search reads at once, and the newest ones among which an arrived line may stand already."""
AT_MOST_EVERY_S = 0.1
AFTER_KEY_S = 0.08
_LEVELS = {" ERROR ": "errored", " CRITICAL ": "errored", " WARNING ": "asking", " DEBUG ": "quiet"}


class LogScreen(TabbedScreen):
    """Events with the newest at the bottom, followed while the view is at the bottom.

    The lines that each request has are shown on demand, because they are most of all lines.
    """

    CSS_PATH = "log.tcss"
    PLACE = ActionPlace.LOG
    ON_ENTER: ClassVar[str] = "to the lines"
    PARTS: ClassVar[dict[str, str]] = {"events": "EVENTS", "whole": "THE CHOSEN EVENT", "file": "ZOEA.LOG"}

    def __init__(self) -> None:
        super().__init__()
        self._ids: array[int] = array("q")
        self.kept_lines: OrderedDict[int, LogLine] = OrderedDict()
        self._wanted: set[int] = set()
        self._reading: asyncio.Task[None] | None = None
        self._arriving: list[int] = []
        self._heard: list[int] | None = None
        self._taking: asyncio.Task[None] | None = None
        self._words = ""
        self._is_searching = False
        self._has_requests = False
        self._unseen = 0
        self._file: list[tuple[str, str]] = []
        self._tail: Sequence[str] = ()
        self._whole = 0

    def bind_actions(self) -> Handlers:
        return {
            "app.find": self._open_find,
            "log.follow": self._follow,
            "log.open": self._open_conversation,
            "log.requests": self._toggle_requests,
        }

    def compose_body(self) -> ComposeResult:
        yield self.strip()
        yield LineList(self.draw_event, id="events", classes="panel", title="LOG", empty="Reading…")
        yield TextLines(by_words=True, id="whole", classes="panel", title="THE CHOSEN EVENT")
        yield LineList(
            lambda at, _: [self._file[at]], has_cursor=False,
            id="file", classes="panel", title="ZOEA.LOG", foot="tab goes back to the events", empty="Reading…",
        )  # fmt: skip
        find = Input(id="find", placeholder="Show only lines with these words; esc shows all")
        find.cursor_blink = False
        yield find

    def on_mount(self) -> None:
        self.query_one("#find").display = False
        self._open()

    events = getters.query_one("#events", LineList)

    # Reading.

    @work(exclusive=True, exit_on_error=False, group="log")
    async def _open(self) -> None:
        """Read the list of events: all, or those with the words."""
        words = self._words
        self._heard = []  # events that arrive during the read
        if words:
            await asyncio.sleep(AFTER_KEY_S)
        ids = await self.read(read_line_ids, with_requests=self._has_requests)
        if ids is not None and words:
            await self._search(words, ids)
        elif ids is not None:
            self._is_searching = False
            self._ids = self._with_arrivals(ids)
            self.events.show(len(self._ids), empty="No event yet")
            self.events.to_end()
        self._heard = None
        self._describe()
        self._show_whole()

    async def _search(self, words: str, ids: array[int]) -> None:
        """Search in batches, newest first, so that the first hits are shown early."""
        found: list[int] = []
        self._is_searching = True
        self._ids = array("q")
        self.events.show(0, empty="Searching…")
        while True:
            part = ids[-SEARCHED:]
            del ids[-SEARCHED:]
            if (read := await self.read(read_log_lines, part)) is None:
                break
            lines = [line for line in reversed(read) if contains_words(line, words)]
            found += [line.id for line in lines]
            self._keep(lines)
            if lines or not ids:
                at = self.events.count - self.events.place
                self._ids = self._with_arrivals(array("q", reversed(found)))
                self.events.show(len(self._ids), place=len(self._ids) - max(1, at), empty="No match")
            if not ids:
                break
            self._describe()
        self._is_searching = False

    def _with_arrivals(self, ids: array[int]) -> array[int]:
        """Append the ids that arrived during the read."""
        known = set(ids[-SEARCHED:])
        ids.extend(each for each in self._heard or () if each not in known)
        return ids

    def _keep(self, lines: Sequence[LogLine]) -> None:
        for line in lines:
            self.kept_lines[line.id] = line
            self.kept_lines.move_to_end(line.id)
        while len(self.kept_lines) > KEPT_LINES:
            self.kept_lines.popitem(last=False)

    def _request_page(self, place: int) -> None:
        """Read the page around a line; one read at a time."""
        first = place // PAGE * PAGE
        self._wanted.add(first)
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while self._wanted:
            first = self._wanted.pop()
            if not (ids := self._ids[first : first + PAGE]):
                continue
            if (lines := await self.read(read_log_lines, ids)) is None:
                return
            self._keep(lines)
            if self._has_widgets:
                self.events.refresh()

    @property
    def _has_widgets(self) -> bool:
        """Whether the list exists; it is removed before the screen."""
        return self.is_mounted and bool(self.query("#events"))

    # News.

    def feed_event(self, event: Event) -> None:
        line = find_line_id(event)
        if event.kind in UNREMARKABLE or not line or (is_of_request(event) and not self._has_requests):
            return
        self._arriving.append(line)
        if self._taking is None or self._taking.done():
            self._taking = asyncio.create_task(self._take())

    async def _take(self) -> None:
        """Append arrived events, at most ten times a second."""
        while self._arriving and self._has_widgets:
            await asyncio.sleep(AT_MOST_EVERY_S)
            new, self._arriving = self._arriving, []
            if self._words:
                if (lines := await self.read(read_log_lines, new)) is None:
                    return
                self._keep(lines)
                new = [line.id for line in lines if contains_words(line, self._words)]
            if self._heard is not None:
                self._heard += new
            known = set(self._ids[-SEARCHED:])
            fresh = [each for each in new if each not in known]
            if not fresh or not self._has_widgets:
                continue
            self._unseen = 0 if self.events.is_at_end else self._unseen + len(fresh)
            self._ids.extend(fresh)
            self.events.append(len(self._ids))
            self._describe()
            self._show_whole()

    def tick(self) -> None:
        super().tick()
        if self.part == "file":
            self._read_file()

    # Showing.

    def draw_event(self, place: int, width: int) -> list[Piece]:
        line = self.kept_lines.get(self._ids[place]) if place < len(self._ids) else None
        if line is None:
            self._request_page(place)
            return [("…", "quiet")]
        at = number_format.clock(line.at, self.cockpit.now(), seconds=True)
        role = "commander" if line.who == "you" else "mysis" if line.mysis_id is not None else "quiet"
        left = f"{at}  "
        room = max(10, width - len(left) - WHO_WIDTH - 2)
        return [
            (left, "quiet"),
            (fit_text(line.who, WHO_WIDTH), role),
            ("  ", ""),
            (fit_text(line.text, room), "errored" if line.is_trouble else ""),
        ]

    def _describe(self) -> None:
        if not self._has_widgets:
            return
        events = self.events
        count = f"{len(self._ids):,}{'+' if self._is_searching else ''}"
        one = "line" if self._has_requests else "event"
        words = [f"{count} with “{self._words}”" if self._words else f"{count} {one}{'' if count == '1' else 's'}"]
        if events.is_at_end:
            self._unseen = 0
            words.append("follows new lines")
        elif self._unseen:
            words.append(f"↓ {self._unseen} new")
        events.caption("LOG", " · ".join(words))

    def on_line_list_moved(self, event: LineList.Moved) -> None:
        self._describe()
        self._show_whole()

    def _show_whole(self) -> None:
        """Show the line under the cursor in full, below the list that cuts it."""
        if not self._has_widgets:
            return
        place = self.events.place
        chosen = self._ids[place] if place < len(self._ids) else 0
        if chosen != self._whole:
            self._whole = chosen
            self._read_whole(chosen)

    @work(exclusive=True, exit_on_error=False, group="whole")
    async def _read_whole(self, line_id: int) -> None:
        await asyncio.sleep(AFTER_KEY_S)  # moving on through the list reads none of them
        text = await self.read(read_full_text, line_id) if line_id else ""
        if text is not None and self._has_widgets and line_id == self._whole:
            self.query_one("#whole", TextLines).put(text)

    # The file.

    @reread
    async def _read_file(self) -> None:
        tail = await self.read(lambda database: read_log_tail(database.with_name("zoea.log")))
        if tail is not None and tail != self._tail and self._has_widgets:
            self._tail = tail
            self._wrap_file()

    @on(LineList.Resized, "#file")
    def _wrap_file(self) -> None:
        file = self.query_one("#file", LineList)
        if file.width <= 0:
            return
        was_at_end = file.is_at_end or not self._file
        self._file = []
        for line in self._tail:
            role = next((role for word, role in _LEVELS.items() if word in line[:60]), "")
            self._file += [(part, role) for part in wrap_words(line, file.width)]
        file.show(len(self._file), empty="The log is empty")
        if was_at_end:
            file.to_end()

    def action_part(self, by: int) -> None:
        super().action_part(by)
        self._read_file()

    # Actions.

    def _follow(self) -> None:
        self.query_one(f"#{self.part}", LineList).to_end()
        self._describe()

    def _toggle_requests(self) -> None:
        """Show or hide what each request held and used, among the events."""
        self._has_requests = not self._has_requests
        self.retitle("log.requests", "hide request events" if self._has_requests else "")
        self.go_to_part("events")
        self._open()

    @on(LineList.Chosen, "#events")
    def _open_conversation(self) -> None:
        place = self.events.place
        line = self.kept_lines.get(self._ids[place]) if place < len(self._ids) else None
        if line is not None and line.mysis_id is not None:
            self.cockpit.push_screen(FocusScreen(line.mysis_id))

    def _open_find(self) -> None:
        self.go_to_part("events")
        find = self.query_one("#find", Input)
        find.display = True
        find.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.value.strip() != self._words:
            self._words = event.value.strip()
            self._open()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.events.focus()

    def back(self) -> None:
        find = self.query_one("#find", Input)
        if find.display:
            find.value = ""
            find.display = False
            self.events.focus()
        else:
            self.cockpit.pop_screen()
