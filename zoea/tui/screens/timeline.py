"""Who knew what at a moment: the newest commit of each mysis then."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.widgets import Input

from zoea.chain.commit import ContextCommit
from zoea.model.errors import UsageError, ZoeaError
from zoea.queries.commit_details import KnownThen, read_known_then
from zoea.queries.written_times import read_written_time
from zoea.text.control_characters import one_line, prose_line
from zoea.text.sentences import count_of
from zoea.tui import number_format
from zoea.tui.commands.action import ActionPlace, Handlers
from zoea.tui.conversation.history_lines import ID_DIGITS, SIGNS, sign_of
from zoea.tui.screens.base import CockpitScreen
from zoea.tui.text_layout import Piece, fit_text, spread_pieces
from zoea.tui.widgets.clickable_text import TextBlock
from zoea.tui.widgets.line_list import LineList
from zoea.tui.widgets.status_bars import KeyFooter, PieceLine

_NAME, _AGE = 16, 5
_CAPTION = "MYSES · ctx-id, its age then, new tokens, text"


class TimelineScreen(CockpitScreen[None]):
    """One row per mysis. The arrow keys go from commit to commit of the whole swarm.

    Args:
        at: The moment, µs UTC.
    """

    CSS_PATH = "timeline.tcss"
    PLACE = ActionPlace.TIMELINE
    TITLES: ClassVar[dict[str, str]] = {"app.find": "choose a time"}

    def __init__(self, at: int) -> None:
        super().__init__()
        self.known = KnownThen(at)
        self._said: Piece = ("", "")

    def bind_actions(self) -> Handlers:
        return {
            "app.back": self.back,
            "app.find": self._write_time,
            "timeline.earlier": lambda: self._go(self.known.before, "no commit is older"),
            "timeline.later": lambda: self._go(self.known.after, "no commit is newer"),
            "timeline.open": self._open,
        }

    def compose(self) -> ComposeResult:
        yield PieceLine(id="top")
        yield TextBlock(id="moment", classes="panel")
        yield LineList(self._line, id="known", classes="panel", empty="No mysis had a commit then")
        yield Input(id="time", placeholder="10:30, 2h (ago), 2026-01-31 or 2026-01-31T10:30", compact=True)
        yield KeyFooter(id="keys")

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one("#moment").border_title = "WHO KNEW WHAT AT THIS TIME"
        self.listed.caption(_CAPTION)
        self.listed.focus()
        self._draw()
        self._read(self.known.at)

    @property
    def listed(self) -> LineList:
        return self.query_one("#known", LineList)

    @property
    def chosen(self) -> ContextCommit | None:
        """The commit under the cursor."""
        place = self.listed.place
        return self.known.commits[place] if place < len(self.known.commits) else None

    @work(exit_on_error=False, exclusive=True, group="moment")
    async def _read(self, at: int) -> None:
        """Read what each knew at a moment; the cursor stays on its mysis."""
        opened, before = self.cockpit.opened, self.chosen
        if opened is None:
            return
        try:
            found = await asyncio.to_thread(read_known_then, opened.database, at)
        except ZoeaError as error:
            self.cockpit.show_error(error)
            return
        if not self.is_mounted:
            return
        self.known, self._said = found, ("", "")
        name = before.provenance.principal if before is not None else ""
        places = [at for at, one in enumerate(found.commits) if one.provenance.principal == name]
        self.listed.show(len(found.commits), place=places[0] if places else None)
        self._draw()

    def _draw(self) -> None:
        known, now = self.known, self.cockpit.now()
        ago = f"  {number_format.age(known.at, now)} ago" if known.at < now else ""
        line: list[Piece] = [(number_format.clock(known.at, now, seconds=True), "title"), (ago, "quiet")]
        self.query_one("#moment", TextBlock).put([[*line, ("   ", ""), self._said]])
        signs = dict.fromkeys(f"{sign_of(one)} {SIGNS[one.checkpoint][1]}" for one in known.commits)
        foot = " · ".join([count_of(len(known.commits), "commit"), *signs])
        self.listed.caption(_CAPTION, foot if known.commits else "")
        self.redraw_bars()

    def _line(self, place: int, width: int) -> list[Piece]:
        commit = self.known.commits[place]
        tokens = f"+~{number_format.tokens(commit.token_count)}"
        return spread_pieces(
            [
                (f" {sign_of(commit)} ", "running"),
                (fit_text(one_line(commit.provenance.principal), _NAME) + " ", "mysis"),
                (commit.digest.hex()[:ID_DIGITS], "quiet"),
                (fit_text(number_format.age(commit.created_at, self.known.at), _AGE, right=True), "quiet"),
                (fit_text(tokens, _AGE + 3, right=True) + " ", "quiet"),
                (prose_line(commit.note.summary), ""),
            ],
            [],
            width,
        )

    # Moving.

    def _go(self, at: int | None, otherwise: str) -> None:
        if at is None:
            self.notify(otherwise.capitalize(), markup=False, timeout=2)
        else:
            self._read(at)

    def _write_time(self) -> None:
        field = self.query_one("#time", Input)
        field.add_class("-open")
        field.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            at = read_written_time(event.value.strip(), self.cockpit.now())
        except UsageError as error:
            self._said = (one_line(error.text), "errored")
            self._draw()
            return
        self._close_input()
        self._read(at)

    def _close_input(self) -> None:
        field = self.query_one("#time", Input)
        field.remove_class("-open")
        field.value = ""
        self.listed.focus()

    def back(self) -> None:
        """Close the input, or leave."""
        if self.query_one("#time", Input).has_class("-open"):
            self._said = ("", "")
            self._close_input()
            self._draw()
        else:
            self.dismiss()

    def on_line_list_chosen(self, event: LineList.Chosen) -> None:
        self._open()

    def _open(self) -> None:
        """Open the history of the mysis at its commit."""
        from zoea.tui.screens.history import HistoryScreen

        commit = self.chosen
        if commit is None:
            return
        mysis_id = commit.provenance.mysis_id
        if mysis_id is None:
            self.notify("It was imported from another program: `zoea ctx cat` shows it", markup=False, timeout=4)
        else:
            self.cockpit.push_screen(HistoryScreen(mysis_id, commit.seq))
