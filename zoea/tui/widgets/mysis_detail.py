"""Detail of the mysis under the cursor: end of its conversation, newest request.

With room for one line only, that line shows what the row does not. The store is read in a thread, shortly after the
cursor rests and at most twice a second.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from textual import events, getters
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.timer import Timer

from zoea.model.enums import Activity, MysisState
from zoea.model.errors import StoreError
from zoea.model.status import StatusWord
from zoea.model.values import MysisView
from zoea.queries.error_report import report_error
from zoea.queries.status_phrases import describe_assumed_window, describe_detail, describe_status
from zoea.text.amounts import format_dollars
from zoea.text.control_characters import one_line
from zoea.tui import number_format
from zoea.tui.state.cockpit import Cockpit
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.swarm_list.mysis_row import CALL_SIGN, build_turn_budget, describe_player, describe_role, status_text
from zoea.tui.text_layout import Piece, count_cells, cut_pieces
from zoea.tui.widgets.clickable_text import TextBlock, put_titles
from zoea.tui.widgets.status_bars import PieceLine

if TYPE_CHECKING:
    from zoea.queries.request_summary import RequestSummary
    from zoea.tui.conversation.blocks import ConversationBlock

REST_S = 0.08
AGAIN_S = 0.5
MEMORIES = 48


class MysisDetail(Horizontal):
    """Show one mysis; call `show` when the cursor moves or the mysis changes."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, classes="panel")
        self._view: MysisView | None = None
        self._placeholder: list[list[Piece]] = []
        self._blocks: tuple[ConversationBlock, ...] = ()
        self._seen: RequestSummary | None = None
        self._read: tuple[int, int] = (0, -1)
        self._has_running_call = False
        self._timer: Timer | None = None
        self._is_reading = False
        self._line = PieceLine(id="detail-line")
        self._recent = TextBlock(id="recent")
        self._request = TextBlock(id="request")

    _cockpit = getters.app(Cockpit)

    def compose(self) -> ComposeResult:
        yield self._line
        yield self._recent
        yield self._request

    def show(self, view: MysisView | None, placeholder: list[list[Piece]]) -> None:
        """Show this mysis; without one, show the given lines."""
        moved = view is None or self._view is None or view.id != self._view.id
        self._view, self._placeholder = view, placeholder
        if moved:
            self._blocks, self._seen = (), None
        if view is not None and (self._read != (view.id, view.version) or self._has_running_call):
            self._read_soon(REST_S if moved else AGAIN_S, restart=moved)
        self._draw()

    def restyle(self) -> None:
        """Redraw in the current theme."""
        self._draw()

    def on_resize(self, event: events.Resize) -> None:
        self._draw()
        if self._view is not None and self._read != (self._view.id, self._view.version):
            self._read_soon(REST_S, restart=False)

    # Reading.

    def _read_soon(self, wait: float, *, restart: bool) -> None:
        if self._timer is not None:
            if not restart:
                return
            self._timer.stop()
        self._timer = self.set_timer(wait, self._begin)

    def _begin(self) -> None:
        self._timer = None
        view, database = self._view, self._cockpit.database
        if view is None or database is None or self._is_reading or not self._recent.display:
            return
        self._is_reading = True
        self.run_worker(DeferredWork(lambda: self._read_beside(database, view)), exit_on_error=False)

    async def _read_beside(self, database: Path, view: MysisView) -> None:
        try:
            blocks, seen, runs = await asyncio.to_thread(_newest, database, view.id, self._cockpit.now())
        except StoreError as error:
            self._cockpit.show_error(error)
            return
        finally:
            self._is_reading = False
        self._read = (view.id, view.version)
        if self._view is not None and self._view.id == view.id:
            self._blocks, self._seen, self._has_running_call = blocks, seen, runs
            self._draw()
        if self._view is not None and self._read != (self._view.id, self._view.version):
            self._read_soon(AGAIN_S, restart=False)

    # Drawing.

    @property
    def lists_messages(self) -> bool:
        """Whether it has lines for the newest messages, sent ones that wait among them."""
        return self._recent.display and self._recent.size.height > 1

    def _draw(self) -> None:
        if not self.is_attached:
            return
        view = self._view
        if view is None:
            put_titles(self, Content(""), Content(""))
            in_one = [piece for line in self._placeholder for piece in (*line, ("  ", ""))]
            self._line.put(cut_pieces(in_one, self._line.size.width))
            self._recent.put(self._placeholder)
            self._request.put(())
            return
        state = str(view.status)
        put_titles(
            self,
            Content.assemble(
                (f"{self._cockpit.glyphs.get(state, '?')} ", f"$role-{state}"),
                (one_line(view.name), "bold"),
                (f"  {format_state(view, self._cockpit.now())}", "$text-quiet"),
            ),
            Content(f"{describe_role(view)} · {describe_player(view)}"),
        )
        is_told = self.lists_messages
        begin, end = build_brief_line(view, self._cockpit.now(), tells_failure=not is_told)
        while (
            end
            and count_cells(end) > self._line.size.width // 2
            and count_cells([*begin, *end]) > self._line.size.width
        ):
            end = end[:-1]  # what it does comes before what it used
            while end and end[-1][0].strip() in ("", "this turn"):
                end = end[:-1]
        self._line.put(cut_pieces(begin, self._line.size.width - count_cells(end)), end)
        if self._cockpit.database is None:
            self._recent.put([[(status_text(view), "")]])
            self._request.put(())
        else:
            self._draw_recent(view)

    def _draw_recent(self, view: MysisView) -> None:
        """Draw the newest lines of the conversation, and what the last request took."""
        # Imported here because rows must not wait for it.
        from zoea.tui.conversation.blocks import BlockKind, ConversationBlock
        from zoea.tui.conversation.recent_lines import build_recent_lines, build_usage_lines

        size, now = self._recent.content_size, self._cockpit.now()
        if size.width > 0:
            is_told = report_error(view, now) is not None
            said = [] if is_told else [ConversationBlock("said", BlockKind.ANSWER, 0, body=status_text(view))]
            self._recent.put(build_recent_lines(self._blocks or said, view, size.width, size.height, now))
        if self._read[0] != view.id:
            self._request.put([[("Reading its newest request", "quiet")]])
            return
        self._request.put(build_usage_lines(self._seen, view, self._request.content_size.height))


def format_state(view: MysisView, now: int) -> str:
    """Return the status with its cause, turn and request, and the age of the text."""
    where = f" · turn {view.turn_number}, request {view.iteration}" if view.iteration else ""
    since = _format_text_age(view, now)
    status = describe_status(view, now) if report_error(view, now) is None else view.status  # lines below tell why
    return f"{status}{where}{f' · last text {since} ago' if since else ''}"


def _format_text_age(view: MysisView, now: int) -> str:
    """Format the age of the text that is shown. Empty while it is being written or a cause stands there."""
    if not (view.text and view.text_at) or view.streaming or view.status not in (StatusWord.WORKING, StatusWord.IDLE):
        return ""
    if view.status is StatusWord.WORKING and describe_detail(view):
        return ""
    return number_format.age(view.text_at, now)


def build_call_pieces(view: MysisView, now: int) -> tuple[list[Piece], list[Piece]]:
    """Build the current or last call and its time; empty if text came after it."""
    if view.state is not MysisState.RUNNING or not view.text.startswith(CALL_SIGN):
        return [], []
    since = max(0, now - view.text_at)
    time = (
        number_format.duration(since)
        if view.activity is Activity.TOOL
        else f"{number_format.age(view.text_at, now)} ago"
    )
    return [(CALL_SIGN, "tool"), (one_line(view.text[len(CALL_SIGN) :]), "called")], [(f"  {time}", "quiet")]


def build_brief_line(view: MysisView, now: int, *, tells_failure: bool = True) -> tuple[list[Piece], list[Piece]]:
    """Build the one-line detail: activity or error left, usage right.

    Args:
        tells_failure: Name the error; lines below tell it otherwise.
    """
    right: list[Piece] = [(f"  {number_format.tokens(view.tokens)} tokens", "quiet")] if view.tokens else []
    if budget := build_turn_budget(view, has_bar=False):
        right = [("  ", ""), *budget]
    if view.tokens and view.cost_micros is not None:
        right.append((f"  {format_dollars(view.cost_micros)} in all", "quiet"))
    if tells_failure and (report := report_error(view, now)) is not None:
        return [(report.what, "errored"), (f"  {report.plan}", "waiting"), (f"  {report.advice}", "quiet")], right
    left, time = build_call_pieces(view, now)
    right = [*time, *right]
    if not left:
        left = [(f"turn {view.turn_number}", "strong")] if view.turn_number else []
        left += [(f", request {view.iteration}", "quiet")] if view.iteration else []
        since = _format_text_age(view, now)
        left += [(f"{'  ' if left else ''}last text {since} ago", "quiet")] if since and view.text else []
        left.append((f"{'  ' if left else ''}{describe_role(view)}", ""))
        left.append((f" · {describe_player(view)}", "quiet"))
    if view.pending:
        left.append((f"  {view.pending} waiting in its inbox", "waiting"))
    if assumed := describe_assumed_window(view):
        left.insert(0, (f"context window {assumed}  ", "waiting"))
    return left, right


def _newest(
    database: Path, mysis_id: int, now: int
) -> tuple[tuple[ConversationBlock, ...], RequestSummary | None, bool]:
    """Read the newest blocks, the newest request, and whether a call is running."""
    from zoea.queries import conversation
    from zoea.queries.request_summary import read_newest_request
    from zoea.tui.conversation.blocks import build_page_blocks

    page = conversation.read_newest(database, mysis_id, memories=MEMORIES)
    runs = any(turn.is_running_a_call for turn in page.turns[-1:])
    return build_page_blocks(page, now), read_newest_request(database, mysis_id), runs


def build_empty_lines(cockpit: Cockpit) -> list[list[Piece]]:
    """Return the text that is shown where no mysis is listed."""
    if (error := cockpit.open_error) is not None:
        return [[(error.title, "errored")], [(error.what, "")], [(error.hint, "quiet")]]
    if cockpit.opened is None:
        return [[("Opening the swarm…", "quiet")]]
    text = "No mysis matches the filter: esc shows all" if cockpit.feed.myses else "No mysis yet: press n to create one"
    return [[(text, "quiet")]]
