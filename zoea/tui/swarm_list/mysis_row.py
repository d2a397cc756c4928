"""One row of the swarm table: which columns fit, and their content. Pure.

Columns have fixed widths, so that nothing shifts when a number grows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rich.cells import cell_len

from zoea.model.enums import Activity, MysisState
from zoea.model.values import MysisView
from zoea.text.control_characters import one_line
from zoea.tui import number_format
from zoea.tui.swarm_list import attention
from zoea.tui.text_layout import Piece, fit_text, strip_emphasis

CONTEXT_WIDTH = 10
AGE_WIDTH = 4
STATE_WIDTH = 8
ACTIVITY_WIDTH = 8
SPARK_WIDTH = 12
RATE_WIDTH = 8
BAR_WIDTH = 8
CALL_SIGN = "⚙ "
"""Start of a row's text that is a tool call."""
AUTOPILOT = "autopilot"
"""Provider without a model; marked as such in the interface."""
NAME_MIN, NAME_MAX = 10, 20
TEXT_MIN = 30
# Table widths, which are smaller than the terminal's: at 100, 160 and 120 columns, and alone at 180.
ACTIVITY_FROM = 92
SPARK_FROM = 104
RATE_FROM = 116
BAR_FROM = 132
SAID_FROM = 104
TEXT_MOST = 500
BUDGET_WIDTH = 10
FULL_SHARE = 0.8
"""Share from which on a context or a budget counts as nearly full."""

_TICKS = re.compile(r"(?P<what>\w*?)(?:tick (?P<at>[\d.]+)|ticks (?P<many>[\d.]+))")


@dataclass(frozen=True, slots=True)
class RowColumns:
    """Column widths in cells; 0 for a column without room."""

    name: int
    text: int
    activity: int
    spark: int
    rate: int = 0
    bar: int = 0
    text_age: int = 0

    @classmethod
    def of(cls, width: int, longest: int = NAME_MAX) -> RowColumns:
        """Return the columns that fit in `width` cells; drop the least important first.

        Args:
            longest: Width of the longest name.
        """
        activity = ACTIVITY_WIDTH if width >= ACTIVITY_FROM else 0
        spark = SPARK_WIDTH if width >= SPARK_FROM else 0
        rate = RATE_WIDTH if width >= RATE_FROM else 0
        bar = BAR_WIDTH if width >= BAR_FROM else 0
        fixed = 3 + STATE_WIDTH + 1 + AGE_WIDTH + 1 + CONTEXT_WIDTH + 2
        text_age = AGE_WIDTH if width >= SAID_FROM else 0
        fixed += sum(one + 1 for one in (activity, rate, bar, text_age) if one) + (spark + 2 if spark else 0)
        name = max(NAME_MIN, min(NAME_MAX, longest, width - fixed - TEXT_MIN - 1))
        return cls(name, max(0, width - fixed - name - 1), activity, spark, rate, bar, text_age)


@dataclass(frozen=True, slots=True)
class TableRow:
    """A view and the other values of its row.

    Args:
        spark: Sparkline of tokens.
        rate: Tokens per minute.
        now: Time in µs.
        asks: Call or question that waits for the commander.
    """

    view: MysisView
    marked: bool = False
    spark: str = ""
    rate: int = 0
    now: int = 0
    asks: str = ""


def glyph_name(view: MysisView) -> str:
    """Return the name of the glyph and role for a state."""
    if view.state is MysisState.RUNNING:
        if view.approvals or view.activity is Activity.ASKING:
            return "asking"
        if view.waiting_until is not None:
            return "waiting"
    return str(view.state)


def status_text(view: MysisView) -> str:
    """Return the newest of question, error, answer, tool call and prompt, or the wait."""
    if view.held:
        return "on hold"
    if view.state is MysisState.ERRORED:
        return one_line(attention.describe_failure(view.failure) if view.failure else view.state_reason)
    if view.state is MysisState.STOPPED:
        return one_line(view.state_reason) or "stopped"
    if _is_waiting(view):
        return f"waits: {describe_wait(view.waiting_for)}"
    text = view.streaming or view.text
    if view.state is MysisState.IDLE and view.failure is not None:
        text = attention.describe_failure(view.failure)
    return one_line(text) if text.startswith(CALL_SIGN) else strip_emphasis(one_line(text[:TEXT_MOST]))


def describe_wait(reason: str) -> str:
    """Describe a wait; `arrival_tick 12` becomes `arrives T12`."""
    found = _TICKS.fullmatch(reason)
    if found is None:
        return one_line(reason) or "as it asked"
    what, at, many = found.group("what").rstrip("_").replace("_", " "), found.group("at"), found.group("many")
    if many:
        return f"{what}, {many} ticks".removeprefix(", ")
    return f"arrives T{at}" if what.endswith("arrival") else f"{what} until T{at}".strip()


def describe_model(model: str, provider: str) -> str:
    """Describe model and provider."""
    if provider == AUTOPILOT:
        return "autopilot (no model)"
    return f"{one_line(model)} on {one_line(provider)}" if model else f"{one_line(provider)}'s own model"


def format_text_age(view: MysisView, now: int) -> str:
    """Format the age of the text; empty while it is new or shown elsewhere."""
    if view.held or view.streaming or (_is_waiting(view) and not view.approvals):
        return ""
    at = view.state_at if view.state in (MysisState.ERRORED, MysisState.STOPPED) else view.text_at
    return number_format.age(at, now) if at else ""


def format_time_left(view: MysisView, now: int) -> str:
    """Format the time until a wait or retry ends; empty if there is none."""
    if view.held:
        return ""
    if view.state is MysisState.ERRORED and view.retry_at is not None:
        return f", retry in {_until(view.retry_at, now)}"
    if _is_waiting(view):
        return f" ({_until(view.waiting_until or now, now)})"
    return ""


def _is_waiting(view: MysisView) -> bool:
    return view.state is MysisState.RUNNING and view.waiting_until is not None and not view.approvals


def _until(then: int, now: int) -> str:
    return number_format.span(max(0, (then - now) / number_format.SECOND))


def build_heading(columns: RowColumns) -> list[Piece]:
    """Build the line with the column names."""
    line = f"   {fit_text('name', columns.name)} {fit_text('state', STATE_WIDTH)} "
    line += f"{fit_text('last', AGE_WIDTH, right=True)} "
    line += f"{fit_text('', columns.bar)} " if columns.bar else ""
    line += f"{fit_text('context', CONTEXT_WIDTH, right=True)}  "
    line += f"{fit_text('doing', columns.activity)} " if columns.activity else ""
    line += fit_text("tokens", columns.spark) if columns.spark else ""
    line += f" {fit_text('', columns.rate)}" if columns.rate else ""
    line += "  " if columns.spark else ""
    line += f"{fit_text('ago', columns.text_age, right=True)} " if columns.text_age else ""
    return [(line + fit_text("says", columns.text), "quiet")]


def build_row(row: TableRow, columns: RowColumns, glyphs: dict[str, str]) -> list[Piece]:
    """Build a row as pieces that fill the columns."""
    view = row.view
    state = glyph_name(view)
    pieces: list[Piece] = [
        ("▌" if row.marked else " ", "asking" if row.marked else ""),
        (fit_text(glyphs.get(state, "?"), 1), state),
        (" ", ""),
        (fit_text(one_line(view.name), columns.name), "strong"),
        (" ", ""),
        (fit_text(str(view.state), STATE_WIDTH), state),
        (" ", ""),
        (fit_text(number_format.age(view.progress_at or view.state_at, row.now), AGE_WIDTH, right=True), "quiet"),
        (" ", ""),
        *_context(view, columns),
        ("  ", ""),
    ]
    if columns.activity:
        doing = "" if view.activity is Activity.IDLE else str(view.activity)
        pieces += [(fit_text(doing, columns.activity), str(view.activity)), (" ", "")]
    if columns.spark:
        pieces.append((fit_text(row.spark, columns.spark), "llm" if len(set(row.spark)) > 1 else "quiet"))
        if columns.rate:
            rate = f"~{number_format.tokens(row.rate)}/m" if row.rate else ""
            pieces += [(" ", ""), (fit_text(rate, columns.rate, right=True), "quiet")]
        pieces.append(("  ", ""))
    return [*pieces, *_says(row, columns, state)]


def _says(row: TableRow, columns: RowColumns, state: str) -> list[Piece]:
    """Build the text of a row; cut the text before the time that is left."""
    view = row.view
    text, end = (
        (f"asks: {one_line(row.asks)}", "") if row.asks else (status_text(view), format_time_left(view, row.now))
    )
    room = columns.text
    if end and cell_len(text) + cell_len(end) > room:
        text = fit_text(text, max(1, room - cell_len(end)))
    pieces: list[Piece] = [(fit_text(text + end, room), _says_role(view, state))]
    if columns.text_age:
        pieces[:0] = [(fit_text(format_text_age(view, row.now), columns.text_age, right=True), "quiet"), (" ", "")]
    return pieces


def _context(view: MysisView, columns: RowColumns) -> list[Piece]:
    """Build the use of the context by the newest request, highlighted if nearly full."""
    if not view.context_limit:
        return [
            (
                " " * (columns.bar + 1 if columns.bar else 0)
                + fit_text(number_format.UNKNOWN, CONTEXT_WIDTH, right=True),
                "quiet",
            )
        ]
    share = view.context_used / view.context_limit
    numbers = f"{number_format.tokens(view.context_used)}/{number_format.tokens(view.context_limit)}"
    pieces: list[Piece] = []
    if columns.bar:
        filled, empty = number_format.bar(share, columns.bar)
        pieces = [(filled, "waiting" if share >= FULL_SHARE else "running"), (empty, "quiet"), (" ", "")]
    role = "waiting" if share >= FULL_SHARE else "quiet"
    return [*pieces, (fit_text(numbers, CONTEXT_WIDTH, right=True), role)]


def build_turn_budget(view: MysisView) -> list[Piece]:
    """Build the use of the turn's token budget; empty without a limit or a turn."""
    if not view.turn_limit or not (view.turn_tokens or view.state is MysisState.RUNNING):
        return []
    share = view.turn_tokens / view.turn_limit
    role = "waiting" if share >= FULL_SHARE else "running"
    filled, empty = number_format.bar(share, BUDGET_WIDTH)
    numbers = f" {number_format.tokens(view.turn_tokens)}/{number_format.tokens(view.turn_limit)}"
    return [("budget ", "quiet"), (filled, role), (empty, "quiet"), (numbers, role if role == "waiting" else "quiet")]


def _says_role(view: MysisView, state: str) -> str:
    if view.state is MysisState.ERRORED:
        return "errored"
    return state if state in ("asking", "stopped") else ""
