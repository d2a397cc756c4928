"""Newest part of a conversation in a few lines. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from rich.cells import cell_len

from zoea.model.values import MysisView
from zoea.queries.error_report import ErrorReport, report_error
from zoea.queries.request_summary import MysisContext, RequestSummary
from zoea.queries.status_phrases import describe_preparation
from zoea.text.amounts import format_dollars
from zoea.text.control_characters import prose_line
from zoea.tui import number_format
from zoea.tui.conversation import focus_lines
from zoea.tui.conversation.blocks import BlockKind, ConversationBlock
from zoea.tui.swarm_list.mysis_row import build_turn_budget
from zoea.tui.text_layout import Piece, cut_pieces, fit_text, plain_lines, wrap_words

TEXT_CHARS = 2000
ANSWER_LINES = 4
INDENT = "  "


def build_recent_lines(
    blocks: Sequence[ConversationBlock], view: MysisView, width: int, height: int, now: int
) -> list[list[Piece]]:
    """Build the newest `height` lines; the streamed text or the error comes last. `now` is in µs."""
    lines: list[list[Piece]] = []
    rule: ConversationBlock | None = None
    report = report_error(view, now)
    if report is not None and blocks and blocks[-1].kind is BlockKind.OUTCOME:
        blocks = blocks[:-1]  # the report tells it with what follows
    for block in blocks:
        if block.kind is BlockKind.TURN:
            rule = block
        else:
            lines += _of(
                block, rule, width, most=max(ANSWER_LINES, height - 3) if block is blocks[-1] else ANSWER_LINES
            )
            rule = None
    if preparation := describe_preparation(view):
        lines.append(cut_pieces([(INDENT, ""), (preparation, "quiet")], width))
    if view.thinking and not view.streaming:
        lines += _wrapped(view.thinking, width, "reasoning", newest=True)
    if view.streaming:
        lines += _wrapped(view.streaming, width, "", newest=True)
    if report is not None:
        lines += _failed(report, width, height)
    return lines[-max(1, height) :]


def _failed(report: ErrorReport, width: int, height: int) -> list[list[Piece]]:
    """Build what happened, since when, what Zoea will do and the advice. Two lines if they do not fit."""
    parts = ((report.what, "errored"), (report.title, "quiet"), (report.since, "quiet"), (report.plan, "waiting"))
    whole = [line for text, role in (*parts, (report.advice, "")) if text for line in _wrapped(text, width, role)]
    if len(whole) <= height:
        return whole
    short = [cut_pieces([(INDENT, ""), (report.what, "errored"), (f"  {report.since}", "quiet")], width)]
    return [*short, cut_pieces([(INDENT, ""), (report.plan, "waiting"), (f"  {report.advice}", "")], width)]


def build_usage_lines(seen: RequestSummary | None, view: MysisView, height: int) -> list[list[Piece]]:
    """Build the newest request and the total usage. Drop blank lines first if short of room."""
    lines = focus_lines.build_request_lines(MysisContext(seen))
    used: list[Piece] = [(number_format.tokens(view.tokens), "strong"), (" tokens in all", "quiet")]
    if view.cost_micros is not None:
        used.append((f"  {format_dollars(view.cost_micros)}", "quiet"))
    if budget := build_turn_budget(view):
        # It has the tokens of the turn, and is newer than what was read of the request.
        lines = [line for line in lines if not any("so far" in text for text, _ in line)]
        lines.append(budget)
    lines += [used] if view.tokens else []
    while len(lines) > max(1, height) and [] in lines:
        lines.remove([])
    return lines


def _of(block: ConversationBlock, rule: ConversationBlock | None, width: int, *, most: int) -> list[list[Piece]]:
    match block.kind:
        case BlockKind.PROMPT:
            head = list(rule.head if rule is not None else block.head)
            return [cut_pieces([*head, ("  ", ""), (_start(block.body), "strong")], width)]
        case BlockKind.REASONING:
            return [cut_pieces([(f"{INDENT}reasoning  ", "reasoning"), (_start(block.body), "quiet")], width)]
        case BlockKind.CALL:
            right = [("  ", ""), *((" ".join(filter(None, text.split(" "))) + " ", role) for text, role in block.right)]
            room = width - sum(cell_len(text) for text, _ in right)
            return [[*cut_pieces([(INDENT, ""), *block.head], room), *right]]
        case BlockKind.ANSWER:
            return _wrapped(block.body, width, block.role, most=most)
    said = [(f"  {_start(block.body)}", block.role)] if block.body else []
    return [cut_pieces([(INDENT, ""), *block.head, *said], width)]


def _start(text: str) -> str:
    return prose_line(text[:TEXT_CHARS])


def _wrapped(text: str, width: int, role: str, *, newest: bool = False, most: int = ANSWER_LINES) -> list[list[Piece]]:
    """Return the first lines of a text, or with `newest` the last ones."""
    room = width - len(INDENT)
    lines = plain_lines(text[-TEXT_CHARS:] if newest else text[:TEXT_CHARS])
    found = list(islice((part for line in lines for part in wrap_words(line, room)), 400))
    shown = found[-most:] if newest else found[:most]
    if not newest and len(found) > most:
        shown[-1] = f"{fit_text(shown[-1], room - 2).rstrip()} …"
    return [[(INDENT, ""), (line, role)] for line in shown]
