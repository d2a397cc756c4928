"""Myses, receipts and times as text for a terminal, with hidden characters as escapes."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable

from zoea.cli.output import moment
from zoea.model.enums import MysisState
from zoea.model.status import BY_PERSON, MEANINGS, StatusWord
from zoea.model.values import MysisView, Receipt, ReceiptLine, SwarmView
from zoea.queries.broadcasts import NOT_DELIVERED
from zoea.queries.error_report import report_error
from zoea.queries.status_phrases import describe_assumed_window, describe_detail, describe_status
from zoea.text.control_characters import prose_line, reveal
from zoea.text.sentences import count_of

TEXT_WIDTH = 60
TEXT_MOST = 2_000
LEAST_TEXT = 10
"""Columns that the last text needs at least; with fewer left, the line may wrap."""
_INDENT = "    "
_WAITING = ("delivered", "started", "waiting")
_AS_STATED = (StatusWord.WORKING, StatusWord.IDLE, StatusWord.DONE)
"""Statuses that agree with the state: nothing keeps the mysis from what it was told."""


def state_word(view: MysisView, hold_reason: str = "") -> str:
    """Return the state that a command has set. Where something keeps the mysis from it, its status with the cause.

    Args:
        hold_reason: Why the whole swarm is on hold.
    """
    if view.status in _AS_STATED or (view.state is MysisState.STOPPED and view.state_reason == BY_PERSON):
        return view.state.value
    more = {StatusWord.HELD: hold_reason, StatusWord.ASKING: MEANINGS[StatusWord.ASKING]}.get(view.status, "")
    words = describe_status(view, time.time_ns() // 1000)
    return reveal(f"{words}: {more}" if more else words)


def table(myses: Iterable[MysisView]) -> str:
    """Return one line per mysis under a header line, columns aligned."""
    rows = [("NAME", "STATUS", "PROVIDER", "TURNS", "TOOLS", "TOKENS", "LAST")]
    rows += [
        (
            reveal(view.name),
            view.status.value,
            provider_label(view),
            str(view.turns),
            str(view.tool_calls),
            f"{view.tokens:,}",
            _last(view),
        )
        for view in myses
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    room = _terminal_width() - sum(widths) - 2 * len(widths)
    lines = [(*row[:-1], one_line(row[-1], room if room >= LEAST_TEXT else TEXT_WIDTH)) for row in rows]
    return "\n".join(_line(row, widths) for row in lines)


def _terminal_width() -> int:
    """Return the columns of the terminal behind stdout; 0 if stdout is no terminal."""
    return shutil.get_terminal_size((0, 0)).columns if sys.stdout.isatty() else 0


def provider_label(view: MysisView) -> str:
    """Return `provider/model`, or the agent that plays the mysis. The autopilot is shown as having no model."""
    if view.agent:
        return reveal(f"{view.agent} (agent)")
    if view.provider == "autopilot":
        return "autopilot (no model)"
    model = view.model or view.answered_by
    return reveal(f"{view.provider}/{model}" if model else view.provider)


def details(view: MysisView) -> str:
    """Return all fields of one mysis, one per line; empty fields are left out."""
    now = time.time_ns() // 1000
    lines = [
        ("name", reveal(view.name)),
        ("id", f"#{view.id}"),
        ("status", reveal(describe_status(view, now))),
        ("state", view.state.value + (f": {reveal(view.state_reason)}" if view.state_reason else "")),
        ("since", moment(view.state_at)),
        ("activity", view.activity.value),
        ("template", reveal(view.template)),
        ("provider", provider_label(view)),
        ("works on", reveal(view.works_on)),
        ("task", one_line(view.goal, TEXT_MOST)),
        ("done at", moment(view.goal_reached_at or 0)),
        ("tags", ", ".join(map(reveal, view.tags))),
        (
            "turns",
            f"{view.turns}, {count_of(view.requests, 'request')}, {count_of(view.tool_calls, 'tool call')}, "
            f"{count_of(view.errors, 'error')}",
        ),
        ("tokens", f"{view.tokens:,}"),
        ("context", f"{view.context_used:,} of {view.context_limit:,}" if view.context_limit else ""),
        ("window", describe_assumed_window(view)),
        (
            "this turn",
            f"{view.turn_tokens:,} of {view.turn_limit:,} tokens" if view.turn_limit and view.turn_tokens else "",
        ),
        ("pending", str(view.pending or "")),
        ("approvals", str(view.approvals or "")),
    ]
    if (report := report_error(view, now)) is not None:
        lines.append(("error", reveal(f"{report.title}: {report.what}" if report.title else report.what)))
        lines.append(("", reveal(report.since)))
        lines.append(("next", report.plan))
        lines.append(("do", reveal(report.advice)))
    if view.text:
        lines.append(("last", reveal(view.text)))
    return "\n".join(f"{name:<10}{text}" for name, text in lines if text)


def indented(text: str) -> str:
    """Return lines indented below entries of a list, wrapped to the terminal's width."""
    lines, width = text.splitlines(), _terminal_width() - len(_INDENT)
    if width > LEAST_TEXT:
        from rich.cells import chop_cells  # rich takes a while to import, and pipes need no width

        lines = [part for line in lines for part in chop_cells(line.expandtabs(), width) or [""]]
    return "\n".join(f"{_INDENT}{line}" for line in lines)


def can_withdraw(line: ReceiptLine) -> bool:
    """True while the message waits for this recipient."""
    return bool(line.delivery_id) and line.status in _WAITING


def receipt_line(line: ReceiptLine, view: MysisView | None = None, hold_reason: str = "") -> str:
    """Return one recipient's line of a receipt. It shows the delivery id while it can be withdrawn.

    Args:
        view: The recipient; where something keeps it from the message, the line says what.
    """
    if view is not None and view.status not in _AS_STATED and can_withdraw(line):
        return reveal(f"{line.mysis}  delivered ({line.delivery_id}): it is {state_word(view, hold_reason)}")
    number = f" ({line.delivery_id})" if can_withdraw(line) else ""
    status = NOT_DELIVERED if line.status == "skipped" else line.status
    return reveal(f"{line.mysis}  {status}{number}" + (f": {line.reason}" if line.reason else ""))


def describe_receipt(receipt: Receipt, swarm: SwarmView | None = None) -> list[str]:
    """Return a line for each recipient. With `swarm`, it says what keeps it from the message."""
    views = {one.name: one for one in swarm.myses} if swarm is not None else {}
    why = swarm.hold_reason if swarm is not None else ""
    return [receipt_line(line, views.get(line.mysis), why) for line in receipt.lines]


def one_line(text: str, width: int = TEXT_WIDTH) -> str:
    """Join the text's lines into one and cut it at `width` characters."""
    flat = prose_line(text)
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def _last(view: MysisView) -> str:
    detail = describe_detail(view, time.time_ns() // 1000)
    is_working = view.status is StatusWord.WORKING and not view.streaming
    if view.status in (StatusWord.QUEUED, StatusWord.RETRYING, StatusWord.WAITING) or (is_working and detail):
        return detail
    if view.failure is not None and view.state is not MysisState.RUNNING:
        return view.failure.title
    return (view.text or view.state_reason)[:TEXT_MOST]


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
    return "  ".join([*cells, row[-1]]).rstrip()
