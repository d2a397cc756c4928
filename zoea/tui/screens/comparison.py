"""Two commits side by side: what they have in common, and what each learned since."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.containers import Container

from zoea.model.errors import ZoeaError
from zoea.queries.commit_details import ComparedCommits, compare_commits
from zoea.text.control_characters import one_line, prose_line
from zoea.text.sentences import count_of
from zoea.tui import number_format
from zoea.tui.commands.action import ActionPlace, Handlers
from zoea.tui.conversation.history_lines import DIFFERS, build_compared_items
from zoea.tui.screens.tabbed_screen import TabbedScreen
from zoea.tui.text_layout import Piece, strip_emphasis
from zoea.tui.widgets.clickable_text import TextBlock
from zoea.tui.widgets.folding_list import FoldingList

ENTRIES = 2_000
"""The newest messages of each that are listed."""


class ComparisonScreen(TabbedScreen):
    """Shows the newest common commit of two, and the messages of each after it.

    Args:
        one: Number of the marked commit.
        other: Number of the commit that it is compared with.
    """

    CSS_PATH = "comparison.tcss"
    PLACE = ActionPlace.COMPARISON
    PARTS: ClassVar[dict[str, str]] = {"one": "THE MARKED COMMIT", "other": "THE OTHER COMMIT"}

    def __init__(self, one: int, other: int) -> None:
        super().__init__()
        self._chosen = (one, other)
        self.compared: ComparedCommits | None = None

    def bind_actions(self) -> Handlers:
        return {
            **super().bind_actions(),
            "compare.fold": lambda: self.query_one(f"#{self.part or 'one'}", FoldingList).toggle(),
            "compare.verbose": self.fold_all,
        }

    def compose_body(self) -> ComposeResult:
        yield TextBlock(id="common", classes="panel", title="IN COMMON")
        yield self.strip()
        with Container(id="body"):
            yield FoldingList(id="one", classes="panel", empty="Reading the commits…")
            yield FoldingList(id="other", classes="panel", empty="Reading the commits…")

    def on_mount(self) -> None:
        self._read()

    def count_of(self, part: str) -> int | None:
        return None if self.compared is None else len(self.compared.learned[self.parts().index(part)])

    def title_of(self, part: str) -> str:
        """Return the commit by its id and mysis, once it was read."""
        if self.compared is None:
            return super().title_of(part)
        at = self.parts().index(part)
        return f"{self.compared.short_ids[at]} {one_line(self.compared.commits[at].provenance.principal)}"

    @work(exit_on_error=False)
    async def _read(self) -> None:
        opened = self.cockpit.opened
        if opened is None:
            return
        try:
            found = await asyncio.to_thread(compare_commits, opened.database, *self._chosen)
        except ZoeaError as error:
            for part in self.PARTS:
                self.query_one(f"#{part}", FoldingList).put([], empty=one_line(error.text))
            return
        if not self.is_mounted:
            return
        self.compared = found
        lines: list[list[Piece]] = [[("Nothing: their conversations begin apart", "quiet")]]
        if found.common is not None:
            age = number_format.age(found.common.created_at, self.cockpit.now())
            said = strip_emphasis(prose_line(found.common.note.summary))
            lines = [[(found.common_id, "title"), (f"  {age} ago  ", "quiet"), (said, "")]]
        self.query_one("#common", TextBlock).put(lines)
        for at, part in enumerate(self.PARTS):
            listed, learned = self.query_one(f"#{part}", FoldingList), found.learned[at]
            left_out = max(0, len(learned) - ENTRIES)
            items, marked = build_compared_items(learned[left_out:], found.learned[1 - at], left_out + 1)
            listed.put(items, empty="Nothing new: it is the commit that both have in common")
            foot = f"{count_of(len(learned), 'message')} after it, {marked:,} ({DIFFERS}) only here"
            more = f"; the newest {ENTRIES:,} are listed" if left_out else ""
            listed.caption(self.title_of(part), foot + more)
        self.draw_strip()
