"""The inspector: one request of a mysis with its packs, messages, tools and token counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace
from textual import getters, on, work
from textual.app import ComposeResult
from textual.containers import Container

from zoea.context import explain
from zoea.model.request import RequestMessage
from zoea.queries.request_inspection import (
    Inspection,
    StoredRequest,
    inspect_request,
    read_requests,
    read_requests_since,
)
from zoea.queries.request_troubles import Trouble, find_troubles
from zoea.queries.turn_times import TurnTime, read_turn_times
from zoea.text.control_characters import one_line
from zoea.text.sentences import count_of
from zoea.tui.commands.action import ActionContext, ActionPlace, Handlers
from zoea.tui.conversation.request_lines import (
    WORK_LEGEND,
    build_head_lines,
    build_message_items,
    build_plan_lines,
    build_request_line,
    build_turn_line,
)
from zoea.tui.conversation.tool_items import build_offered_items
from zoea.tui.screens.tabbed_screen import TabbedScreen
from zoea.tui.state.cockpit import Cockpit
from zoea.tui.state.deferred_work import reread
from zoea.tui.text_layout import Piece
from zoea.tui.widgets.clickable_text import TextBlock
from zoea.tui.widgets.folding_list import FoldingList
from zoea.tui.widgets.line_list import LineList

PAGE = 200

READING = "Reading the requests"
"""Shown until the database is read."""
NO_REQUEST = "No request yet: its first turn sends one to the model"
"""Shown for a mysis that has sent nothing to its model."""


class InspectorScreen(TabbedScreen):
    """Shows one request, and a list of all.

    Args:
        mysis_id: The mysis of the requests.
        request_id: The request to open; None for the newest.
    """

    CSS_PATH = "inspector.tcss"
    PLACE = ActionPlace.INSPECTOR
    PARTS: ClassVar[dict[str, str]] = {
        "packs": "PARTS",
        "messages": "MESSAGES",
        "tools": "TOOLS",
        "turns": "TURNS",
        "requests": "REQUESTS",
    }

    def __init__(self, mysis_id: int, request_id: int | None = None) -> None:
        super().__init__()
        self.mysis_id = mysis_id
        self._wanted = request_id
        self._requests: list[StoredRequest] = []
        self._at = 0
        self._has_older = True
        self._is_read = False
        self.inspection: Inspection | None = None
        self._packs: list[list[Piece]] = []
        self._turns: tuple[TurnTime, ...] = ()
        self._longest = 0
        self._troubles: tuple[Trouble, ...] = ()
        self.is_outdated = False

    @classmethod
    def open_over(cls, cockpit: Cockpit) -> InspectorScreen:
        return cls(cockpit.action_context().targets[0].id, getattr(cockpit.screen, "request_id", None))

    def bind_actions(self) -> Handlers:
        return {
            **super().bind_actions(),
            "inspect.older": lambda: self._go(self._at + 1),
            "inspect.newer": lambda: self._go(self._at - 1),
            "inspect.previous-turn": lambda: self._go_to_turn(older=True),
            "inspect.next-turn": lambda: self._go_to_turn(older=False),
            "inspect.fold": lambda: self._folding.toggle(),
            "inspect.verbose": lambda: self._folding.toggle_all(),
            "inspect.copy": lambda: self.cockpit.copy(self.build_copy()),
        }

    def compose_body(self) -> ComposeResult:
        yield TextBlock(id="head", classes="panel")
        yield self.strip()
        with Container(id="body"):
            yield LineList(
                lambda at, _: build_request_line(self._requests[at]),
                id="requests", classes="panel", title="REQUESTS", empty=READING,
            )  # fmt: skip
            yield LineList(
                lambda at, _: self._packs[at], has_cursor=False,
                id="packs", classes="panel", title="PARTS OF THE REQUEST", empty=READING,
            )  # fmt: skip
            yield FoldingList(id="messages", classes="panel", title="MESSAGES", empty=READING)
            yield FoldingList(id="tools", classes="panel", title="TOOLS OFFERED", empty=READING)
            yield LineList(
                lambda at, width: build_turn_line(self._turns[at], self._longest, self.cockpit.now(), width),
                id="turns", classes="panel", title="TURNS, by how long they took", foot=WORK_LEGEND, empty=READING,
            )  # fmt: skip

    def on_mount(self) -> None:
        self._show_head()
        self._open()
        self._read_turns()

    def parts(self) -> tuple[str, ...]:
        """Return the parts; the list of requests needs a wide screen."""
        return super().parts() if self.has_class("-wide") else super().parts()[:-1]

    messages = getters.query_one("#messages", FoldingList)

    @property
    def sent(self) -> tuple[RequestMessage, ...]:
        """The messages of the shown request, as planned."""
        return self.inspection.messages if self.inspection is not None else ()

    @property
    def request(self) -> StoredRequest | None:
        return self._requests[self._at] if self._at < len(self._requests) else None

    def action_context(self) -> ActionContext:
        view = self.cockpit.feed.myses.get(self.mysis_id)
        is_hidden = self.has_class("-narrow") and self.part not in ("messages", "tools")
        found = self.cockpit.build_context(view)
        return replace(found, hidden="press tab to go to the messages first" if is_hidden else "")

    def count_of(self, part: str) -> int | None:
        counts = {"messages": len(self.sent), "requests": len(self._requests), "turns": len(self._turns)}
        return len(self.inspection.tools) if part == "tools" and self.inspection is not None else counts.get(part)

    # Reading.

    @work(exit_on_error=False)
    async def _open(self) -> None:
        if self._wanted is not None:
            await self._read_older(before=self._wanted + 1)
            await self._read_newer()
            places = [place for place, request in enumerate(self._requests) if request.id <= self._wanted]
            self._at = places[0] if places else 0
        else:
            await self._read_older()
        await self._inspect()

    async def _read_older(self, before: int | None = None) -> None:
        """Append a page of older requests to the list."""
        if before is None and self._requests:
            before = self._requests[-1].id
        bounds = {"limit": PAGE} if before is None else {"limit": PAGE, "before": before}
        if (page := await self.read(read_requests, self.mysis_id, **bounds)) is not None:
            self._requests += page
            self._has_older = len(page) == PAGE

    async def _read_newer(self) -> None:
        """Read new requests and changes of the newest; the shown one stays."""
        since = next((each.id for each in reversed(self._requests) if each.state == "reserved"), None)
        if since is None:
            since = self._requests[0].id if self._requests else 0
        if (fresh := await self.read(read_requests_since, self.mysis_id, since)) is None:
            return
        shown = self.request  # read it now, because a key may have chosen another request during the read
        self._requests = [*fresh, *(each for each in self._requests if each.id < since)]
        if shown is not None:
            self._at = next((place for place, each in enumerate(self._requests) if each.id == shown.id), self._at)

    async def _inspect(self) -> None:
        """Read the chosen request and show it."""
        request = self.request
        if request is None:
            self._show(None)
            return
        read = await self.read(_read_with_troubles, request.id)
        now = self.request  # the row may have been replaced during the read
        if read is not None and now is not None and now.id == request.id:
            inspection, self._troubles = read
            self._requests[self._at] = inspection.request
            self._show(inspection)

    # News.

    def feed_changed(self, ids: frozenset[int]) -> None:
        super().feed_changed(ids)
        if self.mysis_id in ids:
            self.is_outdated = True

    def tick(self) -> None:
        """Read the news of the mysis, at most once a second."""
        super().tick()
        if self.is_outdated or (self.part == "turns" and self._turns and not self._turns[0].outcome):
            self._read_turns()
        if self.is_outdated:
            self.is_outdated = False
            self._refresh()

    @reread
    async def _read_turns(self) -> None:
        """Read how long the turns took; an open one grows."""
        turns = await self.read(read_turn_times, self.mysis_id, self.cockpit.now())
        if turns is None or not self.is_mounted:
            return
        listed = self.query_one("#turns", LineList)
        grown = len(turns) - len(self._turns) if self._turns else 0
        self._turns, self._longest = turns, max((turn.length for turn in turns), default=0)
        listed.show(len(turns), empty="No turn yet", place=min(len(turns) - 1, listed.place + grown) if turns else 0)
        self.draw_strip()

    def on_line_list_chosen(self, event: LineList.Chosen) -> None:
        """Show the last request of the turn under the cursor."""
        if event.lines.id == "turns":
            number = self._turns[event.place].number
            found = next((at for at, each in enumerate(self._requests) if each.turn_number == number), None)
            if found is None:
                self.notify("Its requests are further back: left goes to older ones", markup=False, timeout=3)
            else:
                self._go(found)
                self.go_to_part("packs")

    @reread
    async def _refresh(self) -> None:
        before = self.request
        await self._read_newer()
        now = self.request
        if not self.is_mounted:
            return
        if now != before or self.inspection is None:
            await self._inspect()
        else:
            self._show_requests()
            self._show_head()

    # Showing.

    def _show(self, inspection: Inspection | None) -> None:
        self.inspection, self._is_read = inspection, True
        sent = inspection.sent if inspection is not None else ()
        tools = inspection.tools if inspection is not None else ()
        gone = inspection.gone if inspection is not None else ""
        nothing = self._describe_none()
        self.messages.put(build_message_items(sent), empty=gone or nothing or "No messages")
        tokens = sum(each.tokens for each in sent)
        self.messages.caption("MESSAGES", f"{count_of(len(sent), 'message')}, ~{tokens:,} tokens" if sent else "")
        offered = self.query_one("#tools", FoldingList)
        offered.put(build_offered_items(tools), empty=nothing or "No tools were offered")
        own = sum(tool.name.startswith("zoea_") for tool in tools)
        offered.caption("TOOLS OFFERED", f"{len(tools) - own} of upstreams, {own} of Zoea" if tools else "")
        self._show_packs()
        self._show_requests()
        self._show_head()
        self.draw_strip()

    def _describe_none(self) -> str:
        """Return why no request is shown; empty where one is."""
        return "" if self.request is not None else NO_REQUEST if self._is_read else READING

    @on(LineList.Resized, "#packs")
    def _show_packs(self) -> None:
        packs = self.query_one("#packs", LineList)
        if packs.width > 0:
            self._packs = (
                build_plan_lines(self.inspection, packs.width, self._troubles) if self.inspection is not None else []
            )
            packs.show(len(self._packs), place=0, empty=self._describe_none())

    def _show_requests(self) -> None:
        listed = self.query_one("#requests", LineList)
        listed.show(len(self._requests), place=self._at, empty=self._describe_none())
        listed.caption(
            "REQUESTS",
            f"{len(self._requests)}{'+' if self._has_older else ''} request{'s' * (len(self._requests) != 1)}",
        )

    def _show_head(self) -> None:
        head = self.query_one("#head", TextBlock)
        request = self.request
        view = self.cockpit.feed.myses.get(self.mysis_id)
        name = one_line(view.name if view is not None else request.mysis if request is not None else "")
        if request is None:
            head.put([[(name, "mysis"), (f"  {self._describe_none()}", "quiet")]])
            return
        newer = f"   {self._at} newer" if self._at else ""
        kind = f"request {request.iteration}" if request.purpose == "turn" else request.purpose
        turn = f"turn {request.turn_number}, {kind}" if request.turn_number else request.purpose
        first: list[Piece] = [(name, "mysis"), (f"  {turn}", "strong"), (newer, "asking")]
        lines = build_head_lines(request, self.cockpit.now())
        is_narrow = self.has_class("-narrow")
        head.put([first, *lines] if is_narrow else [[*first, ("   ", ""), *lines[0]], *lines[1:]])

    def _take_width(self) -> None:
        """Draw the head again too, because it has one more line on a narrow screen."""
        super()._take_width()
        if self._is_read:
            self._show_head()

    # Moving.

    def on_line_list_moved(self, event: LineList.Moved) -> None:
        if event.lines.id == "requests" and event.place != self._at:
            self._go(event.place)

    @work(exclusive=True, exit_on_error=False, group="go")
    async def _go(self, place: int) -> None:
        """Show the request at a place of the list; read older ones at its end."""
        if place >= len(self._requests) - 1 and self._has_older:
            await self._read_older()
        self._at = max(0, min(place, len(self._requests) - 1))
        await self._inspect()

    def _go_to_turn(self, *, older: bool) -> None:
        """Show the last request of the turn before, or the first of the turn after."""
        here = self.request
        places = range(self._at + 1, len(self._requests)) if older else range(self._at - 1, -1, -1)
        if here is None:
            return
        other = next((place for place in places if self._requests[place].turn_number != here.turn_number), None)
        if other is not None:
            self._go(other)
        elif older and self._has_older:
            self._go(len(self._requests) - 1)
        else:
            self.notify("There is no other turn in this direction", markup=False, timeout=2)

    # Folding and copying.

    @property
    def _folding(self) -> FoldingList:
        return self.query_one("#tools", FoldingList) if self.part == "tools" else self.messages

    def build_copy(self) -> str:
        """Return the message under the cursor as JSON, the tool's schema, or the plan."""
        inspection = self.inspection
        if inspection is None:
            return ""
        at = self._folding.item
        if self.part == "messages" and at is not None:
            return as_json(inspection.messages[at])
        if self.part == "tools" and at is not None:
            return inspection.tools[at].schema
        title = f"{inspection.request.mysis}, request {inspection.request.id}"
        return (
            explain(inspection.plan, title=title, limit=inspection.limit)
            if inspection.plan is not None
            else inspection.gone
        )


def _read_with_troubles(database: Path, request_id: int) -> tuple[Inspection, tuple[Trouble, ...]]:
    found = inspect_request(database, request_id)
    return found, find_troubles(database, found)


def as_json(message: RequestMessage) -> str:
    """Return a message as JSON, with everything that was sent of it."""
    parts: dict[str, object] = {"role": str(message.role), "content": message.content}
    if message.reasoning:
        parts["reasoning"] = message.reasoning
    if message.calls:
        parts["calls"] = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.calls]
    if message.call_id:
        parts |= {"call_id": message.call_id, "name": message.name, "is_error": message.is_error}
    if message.native is not None:
        parts["native"] = message.native.blocks
    return json.dumps(parts, ensure_ascii=False, indent=2)
