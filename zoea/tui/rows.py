"""How a mysis is one line: which columns fit, what stands in them, in which role's colour. Pure.

Columns come in the order of their importance and keep their widths, so nothing
shifts when a number grows. Source: spec tui.md, "80x24".
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from zoea.model.values import MysisView
from zoea.model.words import Activity, MysisState
from zoea.text.control import strip
from zoea.tui import figures

Piece = tuple[str, str]
"""A text and the role it is drawn in; an empty role is plain text."""

CONTEXT_WIDTH = 10
AGE_WIDTH = 4
STATE_WIDTH = 8
ACTIVITY_WIDTH = 8
SPARK_WIDTH = 12
RATE_WIDTH = 7
TEXT_MIN = 30
ACTIVITY_FROM = 100
SPARK_FROM = 120


@dataclass(frozen=True, slots=True)
class Columns:
    """Widths in cells; 0 where a column has no room."""

    name: int
    text: int
    activity: int
    spark: int

    @classmethod
    def of(cls, width: int) -> Columns:
        """What fits in `width` cells, the least important left out first."""
        activity = ACTIVITY_WIDTH if width >= ACTIVITY_FROM else 0
        spark = SPARK_WIDTH + RATE_WIDTH + 2 if width >= SPARK_FROM else 0
        fixed = 3 + STATE_WIDTH + 1 + AGE_WIDTH + 1 + CONTEXT_WIDTH + 2
        fixed += (activity + 1 if activity else 0) + (spark + 1 if spark else 0)
        name = max(10, min(20, width - fixed - TEXT_MIN - 1))
        return cls(name, max(0, width - fixed - name - 1), activity, spark)


@dataclass(frozen=True, slots=True)
class Row:
    """What a line shows besides the view: mark, cursor, measured tokens, the time it is, the call that waits."""

    view: MysisView
    marked: bool = False
    spark: str = ""
    rate: int = 0
    now: int = 0
    asks: str = ""


def glyph(view: MysisView) -> str:
    """The name of the glyph (and role) that stands for its state."""
    if view.state is MysisState.RUNNING:
        if view.approvals or view.activity is Activity.ASKING:
            return "asking"
        if view.waiting_until is not None:
            return "waiting"
    return str(view.state)


def said(view: MysisView, now: int) -> str:
    """The newest of question, error, final answer, tool call, prompt; what it waits for stands here too."""
    if view.held:
        return "on hold"
    if view.state is MysisState.ERRORED:
        title = one_line(view.failure.title if view.failure else view.state_reason)
        if view.retry_at is not None:
            return f"{title}, retry in {figures.span(max(0, (view.retry_at - now) / figures.SECOND))}"
        return title
    if view.state is MysisState.STOPPED:
        return one_line(view.state_reason) or "stopped"
    if view.state is MysisState.RUNNING and view.waiting_until is not None and not view.approvals:
        left = figures.span(max(0, (view.waiting_until - now) / figures.SECOND))
        return f"waits: {one_line(view.waiting_for) or 'as it asked'} ({left})"
    text = view.streaming or view.text
    if view.state is MysisState.IDLE and view.failure is not None:
        text = view.failure.title
    return one_line(text)


def one_line(text: str) -> str:
    """Whatever a model wrote, as one harmless line."""
    return " ".join(strip(text).split())


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Exactly `width` cells: cut with an ellipsis, or padded."""
    if width <= 0:
        return ""
    if cell_len(text) > width:
        return set_cell_size(text, width - 1).rstrip("\x00") + "…" if width > 1 else "…"
    pad = " " * (width - cell_len(text))
    return pad + text if right else text + pad


def compose(row: Row, columns: Columns, glyphs: dict[str, str]) -> list[Piece]:
    """The line as pieces, `columns` wide altogether."""
    view = row.view
    state = glyph(view)
    context = f"{figures.tokens(view.context_used)}/{figures.tokens(view.context_limit)}" if view.context_limit else "–"
    pieces: list[Piece] = [
        ("▌" if row.marked else " ", "asking" if row.marked else ""),
        (fit(glyphs.get(state, "?"), 1), state),
        (" ", ""),
        (fit(one_line(view.name), columns.name), "strong"),
        (" ", ""),
        (fit(str(view.state), STATE_WIDTH), state),
        (" ", ""),
        (fit(figures.age(view.progress_at or view.state_at, row.now), AGE_WIDTH, right=True), "quiet"),
        (" ", ""),
        (fit(context, CONTEXT_WIDTH, right=True), "quiet"),
        ("  ", ""),
    ]
    if columns.activity:
        doing = "" if view.activity is Activity.IDLE else str(view.activity)
        pieces += [(fit(doing, columns.activity), str(view.activity)), (" ", "")]
    if columns.spark:
        rate = f"~{figures.tokens(row.rate)}/m" if row.rate else ""
        pieces += [(fit(row.spark, SPARK_WIDTH), "llm"), (" ", ""), (fit(rate, RATE_WIDTH, right=True), "quiet")]
        pieces += [("  ", "")]
    role = "errored" if view.state is MysisState.ERRORED else "asking" if state == "asking" else ""
    text = f"asks: {one_line(row.asks)}" if row.asks else said(view, row.now)
    pieces.append((fit(text, columns.text), role))
    return pieces
