"""Shows a bar for each budget, those over their bound, and the remedies."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget

from zoea.queries.budget_report import BudgetUse, Pressure, read_budgets
from zoea.settings.endpoints import ProviderType
from zoea.settings.layers import load
from zoea.text.amounts import format_dollars
from zoea.text.control_characters import one_line
from zoea.tui import number_format
from zoea.tui.dialogs.modal import ListDialog
from zoea.tui.text_layout import Piece, count_cells, fit_text, wrap_pieces
from zoea.tui.widgets.clickable_text import TextBlock

_TITLE, _BAR = 16, 10
_BOX, _EDGES = 76, 7
"""Columns of the box, and those of its frame, padding and scrollbar."""
_ROLES = {Pressure.LOW: "running", Pressure.MEDIUM: "running", Pressure.HIGH: "waiting", Pressure.CRITICAL: "errored"}
_READ_EVERY = 2.0
_UNCOUNTED = "The built-in player (autopilot) uses no model: it is not counted."
_NOTES = (
    "budget.enforcement says what follows for a turn or mysis, budget.swarm_enforcement for the day: "
    "soft slows down, hard stops, approve asks you.",
    "zoea prices says what models cost.",
)


class BudgetsDialog(ListDialog):
    """Reads the budgets again while it is open."""

    TITLE = "BUDGETS"
    KEYS = "enter change limits · esc back"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "change_limits", "change limits")]

    def __init__(self) -> None:
        super().__init__()
        self._found: tuple[BudgetUse, ...] | None = None
        self._rows = TextBlock(id="budgets")

    def content(self) -> Iterable[Widget]:
        return (VerticalScroll(self._rows, id="rows"),)

    def on_mount(self) -> None:
        self.set_interval(_READ_EVERY, self.read_again)

    def action_change_limits(self) -> None:
        """Open the settings at the limit of the day."""
        from zoea.tui.screens.settings import SettingsScreen

        self.close()
        self.cockpit.push_screen(SettingsScreen(group="budget", field="budget.swarm_per_day"))

    async def catch_up(self) -> None:
        where, now = self.cockpit.places, self.cockpit.now()
        self._found = await asyncio.to_thread(lambda: read_budgets(where.database, load(where).settings, now))

    def draw(self) -> None:
        if self.problem[0]:
            self._rows.put([[self.problem]])
            return
        if self._found is None:
            self._rows.put([[("Reading…", "quiet")]])
            return
        lines: list[list[Piece]] = []
        room = min(_BOX, self.size.width) - _EDGES
        has_bars = all(count_cells(_row(one)) <= room for one in self._found)
        for before, one in zip((None, *self._found), self._found, strict=False):
            is_again = before is not None and before.title == one.title
            lines += wrap_pieces(_row(one, has_bar=has_bars, is_again=is_again), room, by_words=True)
            if one.advice:
                lines += wrap_pieces([("    ", ""), (one.advice, _ROLES[one.pressure])], room, by_words=True)
        notes: tuple[str, ...] = _NOTES
        if any(view.provider == ProviderType.AUTOPILOT for view in self.cockpit.feed.myses.values()):
            notes = (_UNCOUNTED, *_NOTES)
        lines += [[], *([(note, "quiet")] for note in notes)]
        self._rows.put(lines)


def _row(one: BudgetUse, *, has_bar: bool = True, is_again: bool = False) -> list[Piece]:
    """Return one budget. `is_again` is that of the line above, in dollars."""
    format_amount = format_dollars if one.is_money else number_format.tokens
    title: Piece = (fit_text("  in dollars" if is_again else one_line(one.title), _TITLE), "")
    used = format_amount(one.used) + ("+$?" if one.is_money and one.unpriced else "")
    if one.limit is None:
        return [title, ("  ", ""), (f"{used}, no limit", "quiet")]
    filled, empty = number_format.bar(one.share, _BAR)
    role = _ROLES[one.pressure]
    reserved = f" · {format_amount(one.reserved)} reserved" if one.reserved else ""
    by_hard = {"day": "then on hold", "mysis": "then it stops"}.get(one.scope, "then its turn ends")
    then = {"soft": "then slower", "approve": "then you are asked"}.get(one.enforcement, by_hard)
    then = "then without a model" if one.scope == "background" else then
    bar: list[Piece] = [("  ", ""), (filled, role), (empty, "quiet")] if has_bar else []
    return [
        title,
        *bar,
        (f"  {used} of {format_amount(one.limit)}", role if role != "running" else ""),
        (f", {then}{reserved}", "quiet"),
    ]
