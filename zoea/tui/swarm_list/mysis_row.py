"""How a mysis is one line: which columns fit, what stands in them, in which role's colour. Pure.

Columns come in the order of their importance and keep their widths, so nothing
shifts when a number grows. Source: spec tui.md, "80x24".
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
"""What a row's text begins with where that is a call."""
AUTOPILOT = "autopilot"
"""The provider that is no model, which is said wherever it is named."""
NAME_MIN, NAME_MAX = 10, 20
TEXT_MIN = 30
# Widths of the table, which is narrower than the terminal: at 100, 160 and 120 columns, and alone at 180.
ACTIVITY_FROM = 92
SPARK_FROM = 104
RATE_FROM = 116
BAR_FROM = 132
SAID_FROM = 104
TEXT_MOST = 500
BUDGET_WIDTH = 10
FULL_SHARE = 0.8
"""From here on a context, or a budget, is nearly full."""

_TICKS = re.compile(r"(?P<what>\w*?)(?:tick (?P<at>[\d.]+)|ticks (?P<many>[\d.]+))")


@dataclass(frozen=True, slots=True)
class RowColumns:
    """Widths in cells; 0 where a column has no room."""

    name: int
    text: int
    activity: int
    spark: int
    rate: int = 0
    bar: int = 0
    text_age: int = 0

    @classmethod
    def of(cls, width: int, longest: int = NAME_MAX) -> RowColumns:
        """What fits in `width` cells, the least important left out first. `longest` is the longest name's width."""
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
class MysisRow:
    """What a line shows besides the view: mark, cursor, measured tokens, the time it is, the call that waits."""

    view: MysisView
    marked: bool = False
    spark: str = ""
    rate: int = 0
    now: int = 0
    asks: str = ""


def glyph_name(view: MysisView) -> str:
    """The name of the glyph (and role) that stands for its state."""
    if view.state is MysisState.RUNNING:
        if view.approvals or view.activity is Activity.ASKING:
            return "asking"
        if view.waiting_until is not None:
            return "waiting"
    return str(view.state)


def status_text(view: MysisView) -> str:
    """The newest of question, error, final answer, tool call, prompt; what it waits for stands here too."""
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
    """What it waits for, in words; a field of a result that named ticks (`arrival_tick 12`) becomes some."""
    found = _TICKS.fullmatch(reason)
    if found is None:
        return one_line(reason) or "as it asked"
    what, at, many = found.group("what").rstrip("_").replace("_", " "), found.group("at"), found.group("many")
    if many:
        return f"{what}, {many} ticks".removeprefix(", ")
    return f"arrives T{at}" if what.endswith("arrival") else f"{what} until T{at}".strip()


def describe_model(model: str, provider: str) -> str:
    """What it thinks with, as a person reads it."""
    if provider == AUTOPILOT:
        return "autopilot (no model)"
    return f"{one_line(model)} on {one_line(provider)}" if model else f"{one_line(provider)}'s own model"


def format_text_age(view: MysisView, now: int) -> str:
    """How old its text is; empty where it is of this moment, or its age stands elsewhere."""
    if view.held or view.streaming or (_is_waiting(view) and not view.approvals):
        return ""
    at = view.state_at if view.state in (MysisState.ERRORED, MysisState.STOPPED) else view.text_at
    return number_format.age(at, now) if at else ""


def format_time_left(view: MysisView, now: int) -> str:
    """How long it still waits, or until it is tried again; empty where it does neither."""
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
    """The columns' names, above them."""
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


def build_row(row: MysisRow, columns: RowColumns, glyphs: dict[str, str]) -> list[Piece]:
    """The line as pieces, `columns` wide altogether."""
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


def _says(row: MysisRow, columns: RowColumns, state: str) -> list[Piece]:
    """Its text, cut where there is too much of it; never what it ends on, the time that is left."""
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
    """How much of its context the newest request used, in its own colour where that is nearly all."""
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
    """What its turn has used of what it may, from nothing on; no pieces where no bound is known or no turn was."""
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
