"""The history of a mysis: a graph of commits, and one in full."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from msgspec.structs import replace
from textual import getters, on, work
from textual.app import ComposeResult
from textual.containers import Container
from textual.message import Message
from textual.screen import Screen

from zoea.chain.commit import ID_PREFIX, ContextCommit
from zoea.chain.materialize import MaterializedContext
from zoea.model.errors import UsageError, ZoeaError
from zoea.queries.commit_details import CommitDetails, KnownThen, read_conversation_until, read_details, read_known_then
from zoea.queries.commit_history import ContextHistory, read_history, read_newer, read_older
from zoea.queries.written_times import read_moment
from zoea.text.control_characters import one_line
from zoea.text.sentences import count_of
from zoea.tui import number_format
from zoea.tui.commands import swarm_commands
from zoea.tui.commands.action import ActionContext, ActionPlace, Handlers
from zoea.tui.conversation import history_lines
from zoea.tui.conversation.history_lines import SIGNS, sign_of
from zoea.tui.dialogs.commit_forms import AskDialog, CommitNameDialog, ForkDialog, ResumeDialog
from zoea.tui.screens.comparison import ComparisonScreen
from zoea.tui.screens.tabbed_screen import TabbedScreen
from zoea.tui.state.cockpit import Cockpit
from zoea.tui.state.deferred_work import reread
from zoea.tui.text_layout import Piece, wrap_words
from zoea.tui.widgets.folding_list import FoldingList
from zoea.tui.widgets.line_list import LineList
from zoea.tui.widgets.search_inputs import FilterLine

PAGE = 200
"""Commits that are read when the screen opens."""
MORE = 1_000
"""Commits that are read when the cursor comes near the oldest read one."""
NEAR = 50
ENTRIES = 2_000
"""The newest messages that a conversation shows here."""
_WORDS_HINT = "words of the summary, a name, an id"
_TIME_HINT = "10:30, 2h (ago), 2026-01-31 or 2026-01-31T10:30"
SIDES = ("about", "delta", "saw")
"""The parts about one commit, of which a wide screen shows one beside the commits."""
NO_COMMIT = "No commit yet: the first answer makes one"
NOT_COMMITTED = "choose a commit: this work is not committed yet"


class CommitList(LineList):
    """The list of commits; older ones are read before it goes to its end."""

    class OldestWanted(Message):
        """Sent when the cursor shall go to the oldest commit."""

    def action_edge(self, last: int) -> None:
        super().action_edge(last)
        if last:
            self.post_message(self.OldestWanted())


class HistoryScreen(TabbedScreen):
    """Shows commits, and the facts, messages and knowledge of the one under the cursor.

    The timeline lists the newest commit of every mysis at a moment instead; its keys go from moment to moment.

    Args:
        mysis_id: The mysis of the commits.
        seq: The commit to open; None for the newest.
    """

    CSS_PATH = "history.tcss"
    PLACE = ActionPlace.HISTORY
    PARTS: ClassVar[dict[str, str]] = {
        "commits": "COMMITS",
        "about": "ABOUT",
        "delta": "NEW IN IT",
        "saw": "ALL IT KNEW",
    }

    def __init__(self, mysis_id: int, seq: int | None = None) -> None:
        super().__init__()
        self.mysis_id = mysis_id
        self._wanted = seq
        self.marked: ContextCommit | None = None
        self.history = ContextHistory(mysis_id)
        self.details: CommitDetails | None = None
        self.context: MaterializedContext | None = None
        self.moment: KnownThen | None = None
        self.is_outdated = False
        self._is_read = False
        self._reading = asyncio.Lock()
        self._loads_older = False
        self._words = ""
        self._matching: list[int] | None = None
        self._lanes = 1
        self._about: list[list[Piece]] = []
        self._filter = FilterLine(placeholder=_WORDS_HINT, id="filter")

    @classmethod
    def open_over(cls, cockpit: Cockpit) -> HistoryScreen:
        return cls(cockpit.action_context().targets[0].id)

    def bind_actions(self) -> Handlers:
        return {
            **super().bind_actions(),
            "app.find": self._filter.open,
            "history.open": self._open_commit,
            "history.fork": lambda: self._open_form(ForkDialog),
            "history.ask": lambda: self._open_form(AskDialog),
            "history.resume": self._open_resume,
            "history.name": lambda: self._open_form(CommitNameDialog),
            "history.compare": self._compare,
            "history.timeline": self._open_timeline,
            **({} if self.moment is None else self._moment_handlers()),
            "history.undo": lambda: swarm_commands.undo_last(self.cockpit),
            "history.verbose": self.fold_all,
            "history.copy": lambda: self.cockpit.copy(self.chosen.id if self.chosen is not None else ""),
        }

    def compose_body(self) -> ComposeResult:
        yield self.strip()
        with Container(id="body"):
            yield CommitList(self._line, id="commits", classes="panel", empty="Reading the history…")
            yield LineList(lambda at, _: self._about[at], has_cursor=False, id="about", classes="panel")
            yield FoldingList(id="delta", classes="panel")
            yield FoldingList(id="saw", classes="panel")
        yield self._filter

    def on_mount(self) -> None:
        self._show_history()
        self._read_newest()

    # The shown commit and the choice.

    listed = getters.query_one("#commits", CommitList)

    @property
    def _has_live(self) -> bool:
        return bool(self.history.live.messages) and self._matching is None and self.moment is None

    @property
    def chosen(self) -> ContextCommit | None:
        """The commit under the cursor; None on the work that is not committed."""
        if (moment := self.moment) is not None:
            return moment.commits[self.listed.place] if self.listed.place < len(moment.commits) else None
        place = self._place_of(self.listed.place)
        return self.history.commits[place] if place is not None else None

    def _place_of(self, line: int) -> int | None:
        """Return the place of a line's commit in the history."""
        place = line - self._has_live
        if self._matching is not None:
            place = self._matching[place] if place < len(self._matching) else -1
        return place if 0 <= place < len(self.history.commits) else None

    def action_context(self) -> ActionContext:
        found = self.cockpit.build_context(self.cockpit.feed.myses.get(self.mysis_id))
        return replace(found, hidden="" if self.chosen is not None else NOT_COMMITTED)

    def count_of(self, part: str) -> int | None:
        match part:
            case "commits":
                return len(self.history.commits)
            case "delta" if self.details is not None:
                return len(self.details.delta)
        return None

    def _mark(self, part: str | None) -> None:
        super()._mark(part)
        if self.part != "commits":
            for other in SIDES:
                self.set_class(other == self.part, f"-shows-{other}")
        elif not any(self.has_class(f"-shows-{other}") for other in SIDES):
            self.add_class("-shows-about")
        if self.part == "saw":
            self._read_context()

    # Reading.

    @work(exit_on_error=False)
    async def _read_newest(self) -> None:
        await self._read(lambda database: read_history(database, self.mysis_id, PAGE))
        while self._wanted is not None and self.history.has_older and self.history.commits[-1].seq > self._wanted:
            await self._read(lambda database: read_older(database, self.history, 4 * MORE))
        at = next((at for at, one in enumerate(self.history.commits) if one.seq == self._wanted), 0)
        self.listed.move_to(at + self._has_live)

    async def _read(self, read: Callable[[Path], ContextHistory], *, oldest: bool = False) -> None:
        """Read the history again in a thread, and keep the cursor on its commit."""
        async with self._reading:
            if (found := await self.read(read)) is None:
                return
            chosen = self.chosen if self._is_read else None
            was_live = self._is_read and chosen is None
            self.history, self._is_read = found, True
            self._find_matches()
            self._show_history(keep=None if was_live else chosen, oldest=oldest)
        self._read_details()

    @work(exit_on_error=False, exclusive=True, group="older")
    async def _read_more(self) -> None:
        await self._read(lambda database: read_older(database, self.history, MORE))
        self._loads_older = False

    @work(exit_on_error=False, exclusive=True, group="older")
    async def _read_rest(self, *, oldest: bool) -> None:
        """Read every older commit, page by page: for the cursor that goes to the oldest, or for the filter."""
        while (oldest or self._words) and self.history.has_older and self.is_mounted:
            await self._read(lambda database: read_older(database, self.history, 4 * MORE), oldest=oldest)
        self._loads_older = False

    def on_commit_list_oldest_wanted(self) -> None:
        self._read_rest(oldest=True)

    @reread
    async def _refresh(self) -> None:
        await self._read(lambda database: read_newer(database, self.history, PAGE))

    def feed_changed(self, ids: frozenset[int]) -> None:
        super().feed_changed(ids)
        self.is_outdated = True  # a mysis that is not known yet may be a new fork

    def tick(self) -> None:
        """Read new commits, at most once a second."""
        super().tick()
        if self.is_outdated and self._is_read and self.moment is None:
            self.is_outdated = False
            self._refresh()
        else:
            self.listed.refresh()  # the ages

    @on(LineList.Moved, "#commits")
    @work(exclusive=True, exit_on_error=False, group="details")
    async def _read_details(self) -> None:
        """Read the commit under the cursor and show it."""
        commit = self.chosen
        if commit is None:
            self._show_details(None)
            return
        if self.details is not None and self.details.commit.seq == commit.seq:
            self._show_about()
            return
        found = await self.read(read_details, commit.seq)
        if found is not None and self.chosen == commit:
            self._show_details(found)

    @work(exclusive=True, exit_on_error=False, group="context")
    async def _read_context(self) -> None:
        """Read the conversation up to the commit under the cursor, while it is looked at."""
        opened, commit, saw = self.cockpit.opened, self.chosen, self.query_one("#saw", FoldingList)
        if opened is None or commit is None:
            self.context = None
            saw.put([], empty=NOT_COMMITTED.capitalize())
            saw.caption("ALL IT KNEW")
            return
        try:
            found = await asyncio.to_thread(read_conversation_until, opened.database, commit.seq)
        except ZoeaError as error:
            found = None
            saw.put([], empty=one_line(error.text))
        if not self.is_mounted or self.chosen != commit:
            return
        self.context = found
        if found is not None:
            left_out = max(0, len(found.entries) - ENTRIES)
            saw.put(history_lines.build_entry_items(found.entries[left_out:], left_out + 1))
            said = history_lines.describe_context(found)
            saw.caption("ALL IT KNEW", f"{said}; the newest {ENTRIES:,} are listed" if left_out else said)

    # Showing.

    def _show_history(self, *, keep: ContextCommit | None = None, oldest: bool = False) -> None:
        """Show the commits. The cursor goes to the oldest, or to a commit that is kept."""
        history, listed = self.history, self.listed
        shown = range(len(history.commits)) if self._matching is None else self._matching
        self._lanes = history_lines.count_lanes(history.rows, is_narrow=self.has_class("-narrow"))
        place = self._line_of(keep) if keep is not None else None
        count = len(shown) + self._has_live
        empty = NO_COMMIT if self._matching is None else f"No commit has {self._words!r}: esc removes the filter"
        above = listed.scroll_offset.y
        old = listed.place
        listed.show(count, place=count - 1 if oldest else None, empty=empty if self._is_read else None)
        if place is not None and not oldest and place != old:
            listed.move_to(place, follow=False)
            if above or old > listed.leaf:
                listed.scroll_to(y=above + place - old, animate=False, force=True, immediate=True)
        view = self.cockpit.feed.myses.get(self.mysis_id)
        name = one_line(view.name if view is not None else history.name)
        listed.caption(f"HISTORY OF {name} · ctx-id, age, new tokens, text", self._foot())
        self.draw_strip()
        self.redraw_bars()

    def _foot(self) -> str:
        if (moment := self.moment) is not None:
            signs = dict.fromkeys(f"{sign_of(one)} {SIGNS[one.checkpoint][1]}" for one in moment.commits)
            return " · ".join([count_of(len(moment.commits), "commit"), *signs]) if moment.commits else ""
        history = self.history
        more = "+" if history.has_older else ""
        branches = len(history.tips)
        count = f"{len(history.commits):,}{more} commit{'s' * (len(history.commits) != 1)}"
        said = f"{count} · {branches} branch{'es' * (branches != 1)}" if history.commits else ""
        if self._matching is not None:
            said = f"{len(self._matching):,} of {said}"
        if self.has_class("-narrow") or not said:
            return said
        return f"{said} · {history_lines.build_legend(self.history.commits, has_live=self._has_live)}"

    def _line_of(self, commit: ContextCommit) -> int | None:
        """Return the line of a commit."""
        at = next((at for at, one in enumerate(self.history.commits) if one.seq == commit.seq), None)
        if at is not None and self._matching is not None:
            at = self._matching.index(at) if at in self._matching else None
        return None if at is None else at + self._has_live

    def _line(self, line: int, width: int) -> list[Piece]:
        if self.moment is not None:
            return history_lines.build_moment_line(self.moment.commits[line], width, at=self.moment.at)
        history, now = self.history, self.cockpit.now()
        if line >= self.listed.count - NEAR and history.has_older and not self._loads_older:
            self._loads_older = True
            self.call_later(self._read_more)
        place = self._place_of(line)
        if place is None:
            return history_lines.build_live_line(history.live, width, now=now, lanes=self._lanes)
        commit, row = history.commits[place], history.rows[place]
        if self._matching is not None:
            row = replace(row, joined=(), passing=())
        refs = history.refs.get(commit.seq, ())
        is_marked = self.marked is not None and commit.seq == self.marked.seq
        return history_lines.build_commit_line(
            commit, row, refs, width, now=now, lanes=self._lanes, is_marked=is_marked
        )

    def _show_details(self, details: CommitDetails | None) -> None:
        self.details = details
        delta = self.query_one("#delta", FoldingList)
        if details is None:
            delta.put([], empty=NO_COMMIT if not self.history.live.messages else "Committed after the next answer")
        else:
            items = history_lines.build_entry_items(details.delta)
            delta.put(items, empty=one_line(details.missing) or "No messages")
        delta.caption("NEW IN IT", details.short_id if details is not None else "")
        self._show_about()
        self.draw_strip()
        self.redraw_bars()
        if self.part == "saw":
            self._read_context()

    @on(LineList.Resized, "#about")
    def _show_about(self) -> None:
        about = self.query_one("#about", LineList)
        about.caption("ABOUT THE COMMIT")
        if about.width <= 0:
            return
        width = max(10, about.width)
        if self.details is not None:
            self._about = history_lines.build_about_lines(self.details, self.history, width, now=self.cockpit.now())
        elif self.history.live.messages:
            said = history_lines.describe_live(self.history.live)
            self._about = [[(line, "quiet")] for line in wrap_words(f"{said}: its next answer commits it.", width)]
        else:
            self._about = [[(line, "quiet")] for line in wrap_words(NO_COMMIT if self._is_read else "", width)]
        about.show(len(self._about))

    @on(LineList.Resized, "#commits")
    def _fit_lanes(self) -> None:
        self._lanes = history_lines.count_lanes(self.history.rows, is_narrow=self.has_class("-narrow"))
        self.listed.caption(str(self.listed.border_title), self._foot())

    # Moving and acting.

    @on(LineList.Chosen, "#commits")
    def _open_commit(self) -> None:
        if self.moment is not None and self.chosen is not None:
            mysis_id = self.chosen.provenance.mysis_id
            if mysis_id is None:
                self.notify("It was imported from another program: `zoea ctx cat` shows it", markup=False, timeout=4)
            else:
                self.cockpit.push_screen(HistoryScreen(mysis_id, self.chosen.seq))
        elif self.part == "commits" and self.chosen is not None:
            self.go_to_part(next((one for one in SIDES if self.has_class(f"-shows-{one}")), "about"))

    def _open_form(self, form: Callable[[ContextCommit, str], Screen[Any]]) -> None:
        if (commit := self.chosen) is not None:
            self.cockpit.push_screen(form(commit, self._short_id(commit)))
        elif not self._is_read:
            self.notify("The history is still being read", markup=False, timeout=2)

    def _open_resume(self) -> None:
        """Resume the mysis of the commit, from the newest commit on its branch."""
        mysis_id = self.chosen.provenance.mysis_id if self.chosen is not None else None
        branch = self.history.find_branch(mysis_id) if mysis_id is not None else None
        if branch is None:
            self.notify("Its branch does not end here: f makes a mysis from the commit", markup=False, timeout=4)
            return
        tip, ref = branch
        self.cockpit.push_screen(ResumeDialog(tip, self._short_id(tip), ref))

    def _short_id(self, commit: ContextCommit) -> str:
        details = self.details
        is_read = details is not None and details.commit.seq == commit.seq
        return details.short_id if details is not None and is_read else commit.id[: len(ID_PREFIX) + 8]

    def _compare(self) -> None:
        """Mark the commit; with another one marked, show what each learned since their common one."""
        commit, marked = self.chosen, self.marked
        if commit is None:
            return
        if marked is None:
            self.marked = commit
            key = self.cockpit.key("history.compare")
            said = f"{self._short_id(commit)} is marked: {key} on another commit compares them, esc removes the mark"
            self.notify(said, markup=False, timeout=4)
        else:
            self.marked = None
            if marked.seq != commit.seq:
                self.cockpit.push_screen(ComparisonScreen(marked.seq, commit.seq))
        self.listed.refresh()

    # The timeline.

    def _open_timeline(self) -> None:
        self._filter.action_clear()
        self._show_moment(self.chosen.created_at if self.chosen is not None else self.cockpit.now())

    def _moment_handlers(self) -> Handlers:
        moment = self.moment or KnownThen(0)
        return {
            "timeline.earlier": lambda: self._go(moment.before, "No commit is older"),
            "timeline.later": lambda: self._go(moment.after, "No commit is newer"),
        }

    def _go(self, at: int | None, otherwise: str) -> None:
        if at is None:
            self.notify(otherwise, markup=False, timeout=2)
        else:
            self._show_moment(at)

    @work(exit_on_error=False, exclusive=True, group="moment")
    async def _show_moment(self, at: int) -> None:
        """List what each mysis knew at a moment; the cursor stays on its mysis."""
        before = self.chosen
        if (moment := await self.read(read_known_then, at)) is None:
            return
        name = before.provenance.principal if before is not None else ""
        places = [at for at, one in enumerate(moment.commits) if one.provenance.principal == name]
        self._take_moment(moment)
        self.listed.show(len(moment.commits), place=places[0] if places else 0, empty="No mysis had a commit then")
        now = self.cockpit.now()
        ago = f" · {number_format.age(moment.at, now)} ago" if moment.at < now else ""
        title = f"WHAT EACH KNEW AT {number_format.clock(moment.at, now, seconds=True)}{ago}"
        self.listed.caption(title, self._foot())
        self.go_to_part("commits")
        self._read_details()

    def _take_moment(self, moment: KnownThen | None) -> None:
        """Bind the keys of the timeline, or those of the history again for None."""
        self.moment = moment
        self.__dict__.pop("handlers", None)
        self._filter.placeholder = _WORDS_HINT if moment is None else _TIME_HINT
        # A key with a title of its own is left out of the footer last.
        for action, title in (
            ("app.find", "choose a time"),
            ("timeline.earlier", "earlier"),
            ("timeline.later", "later"),
        ):
            self.retitle(action, title if moment is not None else "")

    def back(self) -> None:
        """Go back to the commits, remove the mark, then the filter, or leave."""
        if self.part != "commits":
            self.go_to_part("commits")
        elif self.marked is not None:
            self.marked = None
            self.listed.refresh()
        elif self.moment is not None and not self._filter.text:
            self._take_moment(None)
            self._show_history()
            self._read_details()
        elif self._filter.text:
            self._filter.action_clear()
        else:
            self.dismiss()

    # Filter.

    def on_filter_line_changed(self, event: FilterLine.Changed) -> None:
        if self.moment is not None:
            return  # a time, which is taken when it is complete
        chosen = self.chosen
        self._words = event.text.lower()
        self._find_matches()
        self._show_history(keep=chosen)
        self._read_details()
        if self._words and self.history.has_older:
            self._read_rest(oldest=False)

    def on_filter_line_closed(self, event: FilterLine.Closed) -> None:
        if self.moment is not None and (text := self._filter.text):
            try:
                at = read_moment(text, self.cockpit.now())
            except UsageError as error:
                self.notify(one_line(error.text), severity="error", markup=False)
                self._filter.open()
                return
            self._filter.action_clear()
            self._show_moment(at)
        self.go_to_part("commits")

    def _find_matches(self) -> None:
        """Find the commits that the filter shows."""
        self._matching = [
            place for place, one in enumerate(self.history.commits) if self._words in self._searched(one)
        ] if self._words else None  # fmt: skip

    def _searched(self, commit: ContextCommit) -> str:
        parts = [commit.id, commit.note.summary, commit.provenance.principal, *commit.note.tags]
        return " ".join([*parts, *self.history.refs.get(commit.seq, ())]).lower()
