"""One row of the swarm table: which columns fit, and their content. Pure.

Columns have fixed widths, so that nothing shifts when a number grows.
"""

from __future__ import annotations

from msgspec import Struct
from rich.cells import cell_len

from zoea.model.enums import Activity, MysisState
from zoea.model.status import KILLED, NOTHING_NEW, StatusWord, next_change_at
from zoea.model.values import MysisView
from zoea.queries.status_phrases import describe_detail, describe_retry_cause
from zoea.text.amounts import format_dollars
from zoea.text.control_characters import one_line, prose_line
from zoea.text.sentences import begin_sentence
from zoea.tui import number_format
from zoea.tui.swarm_list.row_order import SortColumn
from zoea.tui.text_layout import Piece, count_cells, fit_text, strip_emphasis

CONTEXT_WIDTH = 11
TIME_WIDTH = 6
STATUS_WIDTH = 8
ACTIVITY_WIDTH = 10
SPARK_WIDTH = 12
RATE_WIDTH = 9
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
TEXT_MOST = 500
TAGS_FROM = 45
"""Width of the text from which a row shows tags; the detail shows them always."""
TAGS_SHARE = 3
"""Tags take at most one part in this many of the text's width."""
BUDGET_WIDTH = 10
FILES_WIDTH = 18
"""`+120 -34, 12 files`."""
FULL_SHARE = 0.8
"""Share from which on a context or a budget counts as nearly full."""
_TOTALS = (SortColumn.TOKENS, SortColumn.COST)
_DOING = {Activity.LLM: "model call", Activity.TOOL: "tool call"}
_COLOURED = (StatusWord.ASKING, StatusWord.STOPPED, StatusWord.ERRORED, StatusWord.RETRYING)
"""Statuses of which the text of a row has the colour."""
_SPOKEN = (StatusWord.WORKING, StatusWord.ASKING, StatusWord.IDLE, StatusWord.DONE, StatusWord.HELD, StatusWord.PAUSED)
"""Statuses of which a row shows the newest text rather than a cause."""


class RowColumns(Struct, frozen=True):
    """Column widths in cells; 0 for a column without room."""

    name: int
    text: int
    activity: int
    spark: int
    rate: int = 0
    bar: int = 0
    files: int = 0

    @classmethod
    def of(cls, width: int, longest: int = NAME_MAX, *, has_files: bool = False) -> RowColumns:
        """Return the columns that fit in `width` cells; drop the least important first.

        Args:
            longest: Width of the longest name.
            has_files: Whether a mysis changed files in a worktree.
        """
        files = FILES_WIDTH if has_files and width >= ACTIVITY_FROM else 0
        width -= files + 1 if files else 0
        activity = ACTIVITY_WIDTH if width >= ACTIVITY_FROM else 0
        spark = SPARK_WIDTH if width >= SPARK_FROM else 0
        rate = RATE_WIDTH if width >= RATE_FROM else 0
        bar = BAR_WIDTH if width >= BAR_FROM else 0
        fixed = 3 + STATUS_WIDTH + 1 + TIME_WIDTH + 1 + CONTEXT_WIDTH + 1
        fixed += sum(one + 1 for one in (activity, rate, bar) if one) + (spark + 2 if spark else 0)
        name = max(NAME_MIN, min(NAME_MAX, longest, width - fixed - TEXT_MIN - 1))
        return cls(name, max(0, width - fixed - name - 1), activity, spark, rate, bar, files)


class TableRow(Struct, frozen=True):
    """A view and the other values of its row.

    Args:
        spark: Sparkline of tokens.
        rate: Tokens per minute.
        now: Time in µs.
        since: When the mysis got its status, in µs; 0 where that is not known.
        asks: Call or question that waits for the commander.
        files: The lines and files that it changed in its worktree, as counted last.
        lacks: Names of its tool servers that do not work now.
    """

    view: MysisView
    marked: bool = False
    spark: str = ""
    rate: int = 0
    now: int = 0
    asks: str = ""
    since: int = 0
    pinned: bool = False
    files: str = ""
    lacks: str = ""


def status_text(view: MysisView) -> str:
    """Return the cause of a wait, retry, stop or error. Else the newest text of the mysis."""
    detail = begin_sentence(describe_detail(view), view.provider)
    match view.status:
        case StatusWord.WORKING if detail and not view.streaming:
            return detail
        case StatusWord.RETRYING:
            return detail
        case StatusWord.HELD | StatusWord.PAUSED if view.state is MysisState.ERRORED:
            return begin_sentence(describe_retry_cause(view), view.provider)
        case StatusWord.IDLE if view.failure is not None or view.state_reason in (KILLED, NOTHING_NEW):
            return detail
        case StatusWord.STOPPED | StatusWord.ERRORED:
            return detail or begin_sentence(view.status)
        case word if word not in _SPOKEN:
            return detail
    text = view.streaming or view.text
    return one_line(text) if text.startswith(CALL_SIGN) else strip_emphasis(prose_line(text[:TEXT_MOST]))


def describe_activity(view: MysisView) -> str:
    """Describe what a working mysis does now. Empty where its status says it already."""
    return "summary" if view.is_summarising else _DOING.get(view.activity, "")


def describe_role(view: MysisView) -> str:
    """Describe template and tags: `miner #north`."""
    return one_line(" ".join((view.template, *(f"#{tag}" for tag in view.tags))))


def describe_model(model: str, provider: str) -> str:
    """Describe model and provider."""
    if provider == AUTOPILOT:
        return "autopilot (no model)"
    return f"{one_line(model)} on {one_line(provider)}" if model else f"{one_line(provider)}'s own model"


def describe_player(view: MysisView) -> str:
    """Describe what answers for a mysis: an external agent, or a model and its provider."""
    if not view.agent:
        return describe_model(view.model or view.answered_by, view.provider)
    agent = f"{one_line(view.agent)} (agent)"
    # The model of the mysis is what the agent may get through Zoea, and not what it uses with its own login.
    return describe_model(view.answered_by, agent) if view.answered_by not in ("", view.agent) else agent


def format_time(view: MysisView, now: int, since: int = 0) -> str:
    """Format the time left of a wait, else the time since the status began. Unknown while it is held.

    Args:
        since: When it got its status; 0 where that is not known.
    """
    if view.status in (StatusWord.HELD, StatusWord.PAUSED):
        return number_format.UNKNOWN
    change = next_change_at(view)
    if change is not None:
        return f"in {number_format.span(max(0, (change - now) / number_format.SECOND))}"
    is_known = since and view.state is MysisState.RUNNING  # the times of other states are stored
    return number_format.age(since if is_known else find_status_time(view), now)


def find_status_time(view: MysisView) -> int:
    """Return the time of the state, or of the last activity while running, in µs."""
    return view.progress_at or view.state_at if view.state is MysisState.RUNNING else view.state_at


def build_heading(columns: RowColumns, sort: SortColumn = SortColumn.AGE) -> list[Piece]:
    """Build the line with the column names. A sign marks the one that is sorted by.

    Tokens or cost of all time stand in the place of the context while rows are sorted by them.
    """

    def name(column: SortColumn) -> str:
        return f"{column}{sort.sign}" if column is sort else str(column)

    third = sort if sort in _TOTALS else SortColumn.CONTEXT
    line = f"   {fit_text(name(SortColumn.NAME), columns.name)} {fit_text(name(SortColumn.STATUS), STATUS_WIDTH)} "
    line += f"{fit_text(name(SortColumn.TIME), TIME_WIDTH, right=True)} "
    line += f"{fit_text('', columns.bar)} " if columns.bar else ""
    line += f"{fit_text(f'{name(third)} ', CONTEXT_WIDTH, right=True)} "
    line += f"{fit_text('files', columns.files)} " if columns.files else ""
    line += f"{fit_text('doing', columns.activity)} " if columns.activity else ""
    alone = f"tokens/min{sort.sign if sort is SortColumn.RATE else ''}"
    line += fit_text("last minute" if columns.rate else alone, columns.spark) if columns.spark else ""
    line += f" {fit_text(name(SortColumn.RATE), columns.rate, right=True)}" if columns.rate else ""
    line += "  " if columns.spark else ""
    return [(line + fit_text("latest", columns.text), "quiet")]


def build_row(
    row: TableRow, columns: RowColumns, glyphs: dict[str, str], sort: SortColumn = SortColumn.AGE
) -> list[Piece]:
    """Build a row as pieces that fill the columns."""
    view = row.view
    state = str(view.status)
    pieces: list[Piece] = [
        ("▌" if row.marked else " ", "asking" if row.marked else ""),
        (fit_text(glyphs.get(state, "?"), 1), state),
        ("•" if row.pinned else " ", "title" if row.pinned else ""),
        (fit_text(one_line(view.name), columns.name), "strong"),
        (" ", ""),
        (fit_text(state, STATUS_WIDTH), state),
        (" ", ""),
        (fit_text(format_time(view, row.now, row.since), TIME_WIDTH, right=True), "quiet"),
        (" ", ""),
        *(_total(view, columns, sort) if sort in _TOTALS else _context(view, columns)),
        (" ", ""),
    ]
    if columns.files:
        pieces.append((f"{fit_text(row.files, columns.files)} ", ""))
    if columns.activity:
        pieces += [(fit_text(describe_activity(view), columns.activity), str(view.activity)), (" ", "")]
    if columns.spark:
        pieces.append((fit_text(row.spark, columns.spark), "llm" if len(set(row.spark)) > 1 else "quiet"))
        if columns.rate:
            rate = f"~{number_format.tokens(row.rate)}" if row.rate else ""
            pieces += [(" ", ""), (fit_text(rate, columns.rate, right=True), "quiet")]
        pieces.append(("  ", ""))
    return [*pieces, *_says(row, columns, state)]


def _says(row: TableRow, columns: RowColumns, state: str) -> list[Piece]:
    """Build the text of a row: its agent and tags, then its question, cause or newest text."""
    text = f"asks: {one_line(row.asks)}" if row.asks else status_text(row.view)
    agent = [f"by {row.view.agent}"] if row.view.agent else []
    tags = one_line(" ".join((*agent, *(f"#{tag}" for tag in row.view.tags))))
    room = min(cell_len(tags), columns.text // TAGS_SHARE) if columns.text >= TAGS_FROM else 0
    shown: list[Piece] = [(fit_text(tags, room), "quiet"), (" ", "")] if room else []
    if row.lacks and state not in _COLOURED:  # what stopped it is more
        lacks = f"no tools of {one_line(row.lacks)}"
        shown += [(fit_text(lacks, min(cell_len(lacks), columns.text // 2)), "errored"), (" ", "")]
    return [*shown, (fit_text(text, columns.text - count_cells(shown)), state if state in _COLOURED else "")]


def _total(view: MysisView, columns: RowColumns, sort: SortColumn) -> list[Piece]:
    """Build the tokens or the cost of all time in the place of the context."""
    cost = "" if view.cost_micros is None else format_dollars(view.cost_micros)
    text = cost if sort is SortColumn.COST else number_format.tokens(view.tokens) if view.tokens else ""
    return [(" " * (columns.bar + 1 if columns.bar else 0), ""), (fit_text(text, CONTEXT_WIDTH, right=True), "quiet")]


def _context(view: MysisView, columns: RowColumns) -> list[Piece]:
    """Build the estimated size of the newest request and its limit, highlighted if nearly full.

    A limit with `?` is of an assumed window; the detail says what is assumed.
    """
    if not view.context_limit:
        return [
            (
                " " * (columns.bar + 1 if columns.bar else 0)
                + fit_text(number_format.UNKNOWN, CONTEXT_WIDTH, right=True),
                "quiet",
            )
        ]
    share = view.context_used / view.context_limit
    doubt = "?" if view.window_assumed else ""
    used, limit = view.context_used, view.context_limit
    numbers = f"~{number_format.tokens(used)}/{number_format.tokens(limit)}{doubt}"
    if len(numbers) > CONTEXT_WIDTH:  # without decimals, because a cut number says nothing
        numbers = f"~{number_format.tokens(round(used, -3))}/{number_format.tokens(round(limit, -3))}{doubt}"
    pieces: list[Piece] = []
    if columns.bar:
        filled, empty = number_format.bar(share, columns.bar)
        pieces = [(filled, "waiting" if share >= FULL_SHARE else "running"), (empty, "quiet"), (" ", "")]
    role = "waiting" if share >= FULL_SHARE else "quiet"
    return [*pieces, (fit_text(numbers, CONTEXT_WIDTH, right=True), role)]


def build_turn_budget(view: MysisView, *, has_bar: bool = True) -> list[Piece]:
    """Build the use of the turn's token budget; empty without a limit or a turn."""
    if not view.turn_limit or not (view.turn_tokens or view.state is MysisState.RUNNING):
        return []
    share = view.turn_tokens / view.turn_limit
    role = "waiting" if share >= FULL_SHARE else "running"
    filled, empty = number_format.bar(share, BUDGET_WIDTH)
    head: list[Piece] = (
        [("turn budget ", "quiet"), (filled, role), (empty, "quiet")] if has_bar else [("this turn", "quiet")]
    )
    numbers = f" {number_format.tokens(view.turn_tokens)}/{number_format.tokens(view.turn_limit)} tokens"
    return [*head, (numbers, role if role == "waiting" else "quiet")]
