"""The review: what a mysis changed in its worktree, to be merged, sent back, committed or dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import getters, on, work
from textual.app import ComposeResult, SuspendNotSupported
from textual.containers import Vertical

from zoea.model.errors import ZoeaError
from zoea.model.status import StatusWord
from zoea.model.values import Event, MysisView
from zoea.text.control_characters import one_line
from zoea.text.patches import FileDiff
from zoea.text.sentences import count_of
from zoea.tui import number_format
from zoea.tui.commands import swarm_commands
from zoea.tui.commands.action import ActionContext, ActionPlace, Handlers
from zoea.tui.conversation.blocks import Symbols
from zoea.tui.conversation.change_lines import (
    ChangeRow,
    arrange_pairs,
    arrange_rows,
    build_line,
    build_pair,
    describe_file,
    find_hunks,
    find_lines,
    find_start,
    name_lines,
)
from zoea.tui.dialogs.commit_forms import WorktreeCommitDialog
from zoea.tui.screens.base import CockpitScreen
from zoea.tui.state import worktree_access
from zoea.tui.state.cockpit import Cockpit
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.state.syntax_marks import read_marks
from zoea.tui.swarm_list.message_targets import list_names
from zoea.tui.terminal.external_editor import open_editor
from zoea.tui.text_layout import Piece
from zoea.tui.theme.role_styles import styles_of
from zoea.tui.widgets.line_list import LineList, TextLines
from zoea.tui.widgets.message_prompt import MessagePrompt
from zoea.tui.widgets.search_inputs import FindBar

if TYPE_CHECKING:
    from zoea.queries.change_origins import HunkOrigin

MARK = "▌"
WIDE = 150
"""Cells of the list from which the lines before and after a change stand side by side."""
_AT_ONCE = 20
"""Files that one process lexes."""
_IN_TURN = "One after the other, each on top of the former; it stops at the first that fails."


class ReviewScreen(CockpitScreen[None]):
    """Shows the files that a mysis changed, each foldable, as the lines of a patch.

    Args:
        ids: The myses; the first is shown, and a merge takes all of them that have a worktree.
    """

    CSS_PATH = "review.tcss"
    TITLES: ClassVar[dict[str, str]] = {"app.find": "find"}
    PLACE = ActionPlace.REVIEW

    def __init__(self, ids: Sequence[int]) -> None:
        super().__init__()
        self._ids, self._at = list(ids), 0
        self.review: worktree_access.Review | None = None
        self._files: Sequence[FileDiff] = ()
        self._read_files: Sequence[FileDiff] = ()
        self._folded: set[str] = set()
        self._rows: list[ChangeRow] = []
        self._places: dict[tuple[int, int], int] = {}
        self._origins: Mapping[tuple[int, int], HunkOrigin] = {}
        self._hunks: list[int] = []
        self._marks: dict[int, Sequence[str]] = {}
        self._wanted: list[int] = []
        self._anchor: tuple[int, int] | None = None
        self._hits: list[tuple[int, int]] = []
        self._words, self._hit, self._busy = "", 0, ""
        self._is_wide: bool | None = None
        """Whether both sides were chosen to stand side by side; None: where there is room."""
        self._conflict = ""
        """The mysis with the conflict that stopped the last merge, so that it can be sent back."""
        self._prompt = MessagePrompt(id="prompt")

    @classmethod
    def open_over(cls, cockpit: Cockpit) -> ReviewScreen:
        return cls([view.id for view in cockpit.action_context().targets])

    def bind_actions(self) -> Handlers:
        return {
            "app.find": lambda: self._bar.open(),
            "review.fold": self._toggle_fold,
            "review.fold-all": self._toggle_all,
            "review.side-by-side": self._toggle_side_by_side,
            "review.previous-hunk": lambda: self._go_to_hunk(-1),
            "review.next-hunk": lambda: self._go_to_hunk(1),
            "review.previous-mysis": lambda: self._show_other(-1),
            "review.next-mysis": lambda: self._show_other(1),
            "review.next-hit": lambda: self._step(1),
            "review.previous-hit": lambda: self._step(-1),
            "review.mark": self._mark,
            "review.merge": self._merge,
            "review.send": self._send_back,
            "review.drop": self._drop,
            "review.commit": self._commit,
            "review.editor": lambda: self.cockpit.start_work(self._edit, group="editor"),
        }

    def compose_body(self) -> ComposeResult:
        with Vertical(id="body"):
            yield LineList(
                self._draw, right_of=self._draw_origin, id="changes", classes="panel", empty="Reading the changes…"
            )
            yield TextLines(by_words=True, id="said", classes="panel")
            yield FindBar(self._find, self._step, id="find", place="the changes")
        yield self._prompt

    changes = getters.query_one("#changes", LineList)
    said = getters.query_one(TextLines)
    _bar = getters.query_one(FindBar)

    def on_mount(self) -> None:
        self.changes.focus()
        self._read()

    @property
    def view(self) -> MysisView | None:
        return self.cockpit.feed.myses.get(self._ids[self._at])

    @property
    def _who(self) -> str:
        view = self.view
        return view.name if view is not None else ""

    def action_context(self) -> ActionContext:
        return self.cockpit.build_context(self.view, finding=bool(self._hits))

    @property
    def holds_keys(self) -> bool:
        return any(prompt.is_sending for prompt in self.query(MessagePrompt))

    # Reading.

    @work(exclusive=True, exit_on_error=False, group="review")
    async def _read(self) -> None:
        name = self._who
        try:
            found = await asyncio.to_thread(worktree_access.read_review, self.cockpit.places, name)
        except ZoeaError as error:
            if self.is_mounted and name == self._who:
                self.review, self._read_files = None, ()
                self._arrange(None, empty=one_line(error.text))
                self.changes.caption(f"CHANGES OF {name}")
            return
        if not self.is_mounted or name != self._who:
            return
        place = self.changes.place if self.review is not None else 0
        self.review, self._read_files, self._hits = found, found.files, []
        self._arrange(place, empty="Nothing changed")
        came = f"from {found.target or 'no branch'} {found.base[:7]}"
        self.changes.caption(f"CHANGES OF {name}", f"{found.counts} · {found.branch} {came}")
        self._origins = {}
        with suppress(ZoeaError):  # the changes can be judged without
            origins = await asyncio.to_thread(worktree_access.read_change_origins, self.cockpit.places, name, found)
            if self.is_attached and self.review is found:
                self._origins = origins
                self.changes.refresh()

    @work(exclusive=True, exit_on_error=False, group="arrange")
    async def _arrange(self, place: int | tuple[int, int] | None, empty: str | None = None) -> None:
        """Lay out the rows in a thread. Put the cursor on `place`, a row or a file and its line."""
        files, width = self._read_files, self.changes.width
        if width <= 0:
            return
        folded = {at for at, file in enumerate(files) if file.path in self._folded}
        is_wide = width >= WIDE if self._is_wide is None else self._is_wide
        self.retitle("review.side-by-side", "one column" if is_wide else "")
        rows, places, hunks = await asyncio.to_thread(_lay_out, files, folded, width, is_wide)
        if not self.is_mounted:
            return
        if files is not self._files:
            same = {at for at, (old, new) in enumerate(zip(self._files, files, strict=False)) if old == new}
            self._marks = {at: self._marks[at] for at in same & self._marks.keys() - set(self._wanted)}
            self._wanted = []
        self._files, self._rows, self._places, self._hunks = files, rows, places, hunks
        if isinstance(place, tuple):
            place = places.get(place, places.get((place[0], -1), 0))
        self.changes.show(len(rows), place=place, empty=empty)

    def on_line_list_resized(self, event: LineList.Resized) -> None:
        if event.lines is self.changes and self._read_files:
            self._arrange(self._here)

    def feed_event(self, event: Event) -> None:
        if event.mysis_id == self._ids[self._at] and event.kind == "turn.ended" and self.is_mounted:
            self._read()

    # Drawing.

    def _draw(self, place: int, width: int) -> Sequence[Piece]:
        row = self._rows[place]
        file = self._files[row.file]
        if row.line < 0:
            sign = Symbols.folded if file.path in self._folded else Symbols.open
            return [(f"{sign} ", "quiet"), *describe_file(file)]
        mark = (MARK, "asking") if row.line in self._chosen(row.file) else (" ", "")
        syntax = self._read_syntax(place, row)
        if row.is_pair:
            mark = (MARK, "asking") if {row.line, row.left} & set(self._chosen(row.file)) else (" ", "")
            return [mark, *build_pair(file, row, self._words, width, syntax)]
        return [mark, *build_line(file.lines[row.line], row, self._words, syntax[1])]

    def _read_syntax(self, place: int, row: ChangeRow) -> tuple[str, str]:
        """Return the marks of the texts of a row, left and right. Empty where the theme has no colours for them."""
        if not styles_of(self.changes).has_syntax:
            return "", ""
        marks = self._marks.get(row.file)
        if marks is None and 0 <= place - self.changes.scroll_offset.y < self.changes.size.height:
            self._marks[row.file] = ()
            self._wanted.append(row.file)
            if len(self._wanted) == 1:
                self.call_later(self._read_marks)
        if not marks:
            return "", ""
        before, after = marks[row.left] if row.left >= 0 else "", marks[row.right if row.is_pair else row.line]
        if row.is_first:
            return before, after
        left, right = find_start(self._rows, place)
        return before[left:], after[right:]

    @work(exclusive=True, exit_on_error=False, group="marks")
    async def _read_marks(self) -> None:
        """Read the syntax of the wanted files, the newest first. Read as many at once as a screen shows."""
        while self._wanted and self.is_attached:
            files, batch = self._files, self._wanted[-_AT_ONCE:]
            found = await read_marks(self.cockpit.places, self._who, [files[at] for at in batch])
            if files is self._files:
                self._marks.update(zip(batch, found, strict=False))
                done = batch[: len(found)]
                self._wanted = [at for at in self._wanted if at not in done]
                self.changes.refresh()

    def _draw_origin(self, place: int) -> Sequence[Piece]:
        """Return the turns that made a changed place, and when it was allowed."""
        row = self._rows[place]
        origin = self._origins.get((row.file, row.line)) if row.is_first else None
        if origin is None:
            return ()
        at = number_format.clock(origin.allowed_at, self.cockpit.now()) if origin.allowed_at else ""
        turns = ", ".join(map(str, origin.turns))
        parts = (
            f"turn {turns}" if turns else "",
            "a command" if origin.is_command else "",
            (f"allowed by you {at}" if origin.answer == "once" else f"by your grant of {at}") if at else "",
            "" if origin.is_committed else "not committed",
        )
        return [(f" {' · '.join(part for part in parts if part)} ", "quiet")] if any(parts) else ()

    @property
    def _here(self) -> tuple[int, int]:
        """The file and the line under the cursor."""
        place = self.changes.place
        return (self._rows[place].file, self._rows[place].line) if place < len(self._rows) else (0, -1)

    @property
    def _file(self) -> FileDiff | None:
        return self._files[self._here[0]] if self._files else None

    def _chosen(self, file: int) -> range:
        """Return the lines of a file between the mark and the cursor."""
        at, line = self._here
        if self._anchor is None or self._anchor[0] != at or file != at:
            return range(0)
        return range(max(0, min(self._anchor[1], line)), max(self._anchor[1], line) + 1)

    def on_line_list_moved(self, event: LineList.Moved) -> None:
        if self._anchor is not None and event.lines is self.changes:
            self.changes.refresh()

    def _mark(self) -> None:
        self._anchor = None if self._anchor is not None else self._here
        self.changes.refresh()

    # Moving and folding.

    @on(LineList.Chosen, "#changes")
    def _toggle_fold(self) -> None:
        if (file := self._file) is not None:
            self._folded ^= {file.path}
            self._arrange((self._here[0], -1))

    def _toggle_all(self) -> None:
        """Fold all files to their heads, or unfold all."""
        self._folded = set() if self._folded else {file.path for file in self._files}
        self._arrange((self._here[0], -1))

    def _toggle_side_by_side(self) -> None:
        is_wide = self.changes.width >= WIDE if self._is_wide is None else self._is_wide
        self._is_wide = not is_wide
        self._arrange(self._here)

    def _go_to_hunk(self, by: int) -> None:
        here = self.changes.place
        places = [place for place in self._hunks if (place > here if by > 0 else place < here)]
        if places:
            self.changes.move_to(places[0] if by > 0 else places[-1])

    def _show_other(self, by: int) -> None:
        order = self._ids if len(self._ids) > 1 else [view.id for view in self.cockpit.feed.in_order()]
        at = order.index(self._ids[self._at]) + by if self._ids[self._at] in order else 0
        if not 0 <= at < len(order) or (len(self._ids) > 1 and self._prompt.is_open):
            self.notify("No other mysis there", markup=False)
            return
        if len(self._ids) > 1:
            self._at = at
        else:
            self._ids = [order[at]]
        self.review, self._read_files, self._anchor, self._hits = None, (), None, []
        self._folded = set()
        self.said.display = False
        self._arrange(0, empty="Reading the changes…")
        self._read()
        self.redraw_bars()

    # Finding.

    def _find(self, words: str, go: bool) -> None:
        if go:
            self.changes.focus()
        self.run_worker(DeferredWork(lambda: self._find_all(words, go=go)), group="find", exclusive=True)

    async def _find_all(self, words: str, *, go: bool) -> None:
        if words != self._words or not self._hits:
            self._hits = await asyncio.to_thread(find_lines, self._files, words)
            self._words = words
            here = self._here
            self._hit = next((at for at, hit in enumerate(self._hits) if hit >= here), 0)
            self.changes.refresh()
        if go and self._hits:
            self._go_to_hit()
        elif self._bar.display:
            self._bar.tell(count_of(len(self._hits), "line") if words else "")
        self.redraw_bars()

    def _step(self, by: int) -> None:
        if self._hits:
            self._hit += by
            self._go_to_hit()

    def _go_to_hit(self) -> None:
        self._hit %= len(self._hits)
        hit = self._hits[self._hit]
        path = self._files[hit[0]].path
        if path in self._folded and hit[1] >= 0:
            self._folded -= {path}
            self._arrange(hit)
        elif hit in self._places:
            self.changes.move_to(self._places[hit])
        self._bar.tell(f"{self._hit + 1:,} of {len(self._hits):,}")

    # Leaving.

    def back(self) -> None:
        if self._prompt.is_open:
            self._prompt.close()
        elif self._bar.display:
            self._bar.close()
            self._words, self._hits = "", []
            self.changes.focus()
            self.changes.refresh()
            self.redraw_bars()
        elif self.said.display and not self._busy:
            self.said.display = False
            self.changes.focus()
        elif self._anchor is not None:
            self._mark()
        else:
            self.cockpit.pop_screen()

    def on_message_prompt_closed(self, event: MessagePrompt.Closed) -> None:
        self.changes.focus()

    # Acting.

    def _tell(self, title: str, text: str) -> None:
        said = self.said
        said.caption(title, "" if self._busy else "esc closes it")
        said.put(text)
        said.display = True

    def _start(self, title: str, command: Callable[[], str]) -> None:
        """Carry a command out in a thread, and show its result or refusal."""
        if self._busy:
            self.notify(f"{self._busy} is not done yet", severity="warning", markup=False)
            return
        self._busy = title
        self._tell(title, "under way…")
        self.cockpit.start_work(lambda: self._carry_out(title, command))

    async def _carry_out(self, title: str, command: Callable[[], str]) -> None:
        try:
            text = await asyncio.to_thread(command)
        except ZoeaError as error:
            text = f"{error.title}: {error.text}"
        finally:
            self._busy = ""
        if self.is_attached:
            self._tell(title, text)
            self._read()
        else:
            self.notify(text, title=title, markup=False)

    @work(exit_on_error=False)
    async def _merge(self) -> None:
        """Ask, then merge this mysis, or all those that were marked and have a worktree."""
        myses = self.cockpit.feed.myses
        names = [myses[one].name for one in self._ids if one in myses]
        others: list[str] = []
        if len(names) > 1:
            names = await self._list_owned(names)
        elif names:
            done = [view.name for view in self.cockpit.feed.in_order() if view.status is StatusWord.DONE]
            others = [one for one in await self._list_owned(done, with_work=True) if one != names[0]]
        if not names:
            self.notify("None of the marked myses has a worktree", severity="warning", markup=False)
            return
        lines = [f"Merge {', '.join(names)}?", _IN_TURN]
        if len(names) == 1 and self.review is not None:
            lines = [f"Merge {names[0]} into {self.review.target or 'no branch'}?", self.review.counts]
        more = ""
        if others:
            more = "merge all"
            lines.append(f"Done too: {', '.join(others)}. {_IN_TURN}")
        ask = swarm_commands.confirm
        all_names = [*names, *others]
        ask(
            self.cockpit, "MERGE", lines, "merge", lambda: self._merge_all(names),
            more=(more, lambda: self._merge_all(all_names)),
        )  # fmt: skip

    async def _list_owned(self, names: Sequence[str], *, with_work: bool = False) -> list[str]:
        with suppress(ZoeaError):
            return await asyncio.to_thread(worktree_access.list_owned, self.cockpit.places, names, with_work=with_work)
        return list(names)

    def _merge_all(self, names: Sequence[str]) -> None:
        places = self.cockpit.places

        def merge() -> str:
            text, self._conflict = worktree_access.merge_worktrees(places, names)
            return text

        self._start(f"MERGE OF {', '.join(names)}", merge)

    def _drop(self) -> None:
        if (view := self.view) is None:
            return
        places, name = self.cockpit.places, view.name
        lines = [f"Drop the worktree of {list_names([view])}?", "One that holds uncommitted or unmerged work is kept."]
        drop = partial(self._start, f"DROP OF {name}", partial(worktree_access.drop_worktree, places, name))
        swarm_commands.confirm(self.cockpit, "DROP", lines, "drop", drop)

    def _commit(self) -> None:
        places, name = self.cockpit.places, self._who

        def commit(message: str | None) -> None:
            if message:
                self._start(f"COMMIT OF {name}", lambda: worktree_access.commit_worktree(places, name, message))

        self.cockpit.push_screen(WorktreeCommitDialog(), commit)

    def _send_back(self) -> None:
        """Open the prompt with the conflict that stopped a merge, else with the selected lines."""
        if self._conflict:
            self._send_conflict(self._conflict)
            return
        if (view := self.view) is None:
            return
        self._prompt.write_to(view)
        if (file := self._file) is not None:
            at, line = self._here
            self._prompt.add_text(f"{one_line(name_lines(file, self._chosen(at) or [line]))}: ")

    @work(exit_on_error=False)
    async def _send_conflict(self, name: str) -> None:
        """Mark the conflicts in the worktree, and open the prompt with a message about them."""
        view = next((view for view in self.cockpit.feed.in_order() if view.name == name), None)
        if view is None:
            self.notify(f"There is no mysis {name} any more", severity="warning", markup=False)
            return
        try:
            text = await asyncio.to_thread(worktree_access.mark_conflicts, self.cockpit.places, name)
        except ZoeaError as error:
            self.say(error)
            return
        if self.is_attached:
            self._conflict, self.said.display = "", False
            self._prompt.write_to(view)
            if text not in self._prompt.text:
                self._prompt.add_text(text)
            self._read()

    async def _edit(self) -> None:
        """Open the file under the cursor in the person's editor."""
        if (file := self._file) is None:
            return
        line = file.lines[self._here[1]].new if self._here[1] >= 0 else 0
        try:
            path = await asyncio.to_thread(worktree_access.find_file, self.cockpit.places, self._who, file.path)
            with self.app.batch_update(), self.app.suspend():
                await open_editor(path, line)
        except ZoeaError as error:
            self.say(error)
        except (SuspendNotSupported, OSError) as error:
            self.notify(f"The editor did not start: {error}", severity="warning", markup=False)
        finally:
            self.app.refresh(layout=True)
        self._read()


def _lay_out(
    files: Sequence[FileDiff], folded: set[int], width: int, is_wide: bool
) -> tuple[list[ChangeRow], dict[tuple[int, int], int], list[int]]:
    rows = (arrange_pairs if is_wide else arrange_rows)(files, folded, width)
    places = {(row.file, row.left): place for place, row in enumerate(rows) if row.is_first and row.left >= 0}
    places |= {(row.file, row.line): place for place, row in enumerate(rows) if row.is_first}
    return rows, places, find_hunks(rows, files)
