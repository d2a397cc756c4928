"""The newest of one mysis's conversation in a few lines: what was asked, thought, called, answered. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from rich.cells import cell_len

from zoea.model.enums import MysisState
from zoea.model.values import Failure, MysisView
from zoea.queries.request_summary import MysisContext, RequestSummary
from zoea.text.control_characters import one_line
from zoea.tui import number_format
from zoea.tui.conversation import focus_lines
from zoea.tui.conversation.blocks import Block, Kind
from zoea.tui.swarm_list import attention
from zoea.tui.swarm_list.mysis_row import budget_of_turn
from zoea.tui.text_layout import Piece, cut, fit, lines_of, wrap

TEXT_CHARS = 2000
ANSWER_LINES = 4
INDENT = "  "


def recent_lines(blocks: Sequence[Block], view: MysisView, width: int, height: int) -> list[list[Piece]]:
    """The newest `height` lines, none wider than `width`; what is being said comes last, or what went wrong."""
    lines: list[list[Piece]] = []
    rule: Block | None = None
    for block in blocks:
        if block.kind is Kind.TURN:
            rule = block
        else:
            lines += _of(block, rule, width)
            rule = None
    if view.thinking and not view.streaming:
        lines += _wrapped(view.thinking, width, "reasoning", newest=True)
    if view.streaming:
        lines += _wrapped(view.streaming, width, "", newest=True)
    if view.failure is not None and view.state is not MysisState.RUNNING:
        lines += _failed(view.failure, width, height)
    return lines[-max(1, height) :]


def _failed(failure: Failure, width: int, height: int) -> list[list[Piece]]:
    """Its cause, its title and what to do: whole where there is room, else in two lines, cut."""
    cause, title, hint = one_line(attention.cause(failure)), one_line(failure.title), one_line(failure.hint)
    whole = _wrapped(cause, width, "errored")
    whole += _wrapped(title, width, "quiet") if title != cause else []
    whole += _wrapped(hint, width, "") if hint else []
    if len(whole) <= height:
        return whole
    short = [cut([(INDENT, ""), (cause, "errored"), (f"  {title}" if title != cause else "", "quiet")], width)]
    return short + ([cut([(INDENT, ""), (hint, "")], width)] if hint else [])


def request_lines(seen: RequestSummary | None, view: MysisView, height: int) -> list[list[Piece]]:
    """What its newest request held, and what it used in all; where lines are few, the empty ones go first."""
    lines = focus_lines.sees(MysisContext(seen))
    used: list[Piece] = [(number_format.tokens(view.tokens), "strong"), (" tokens in all", "quiet")]
    if view.cost_micros is not None:
        used.append((f"  {number_format.money(view.cost_micros)}", "quiet"))
    lines += [budget] if (budget := budget_of_turn(view)) else []
    lines += [used] if view.tokens else []
    for spare in (lambda line: not line, lambda line: any(text == " empty" for text, _ in line)):
        while len(lines) > max(1, height) and any(map(spare, lines)):
            lines.remove(next(filter(spare, lines)))
    return lines


def _of(block: Block, rule: Block | None, width: int) -> list[list[Piece]]:
    match block.kind:
        case Kind.PROMPT:
            head = list(rule.head if rule is not None else block.head)
            return [cut([*head, ("  ", ""), (_start(block.body), "strong")], width)]
        case Kind.REASONING:
            return [cut([(f"{INDENT}thinking  ", "reasoning"), (_start(block.body), "quiet")], width)]
        case Kind.CALL:
            right = [("  ", ""), *((" ".join(text.split()) + " ", role) for text, role in block.right)]
            room = width - sum(cell_len(text) for text, _ in right)
            return [[*cut([(INDENT, ""), *block.head], room), *right]]
        case Kind.ANSWER:
            return _wrapped(block.body, width, block.role)
    said = [(f"  {_start(block.body)}", block.role)] if block.body else []
    return [cut([(INDENT, ""), *block.head, *said], width)]


def _start(text: str) -> str:
    return one_line(text[:TEXT_CHARS])


def _wrapped(text: str, width: int, role: str, *, newest: bool = False) -> list[list[Piece]]:
    """A few lines of a text: its first, or its newest."""
    room = width - len(INDENT)
    lines = lines_of(text[-TEXT_CHARS:] if newest else text[:TEXT_CHARS])
    found = list(islice((part for line in lines for part in wrap(line, room)), 400))
    shown = found[-ANSWER_LINES:] if newest else found[:ANSWER_LINES]
    if not newest and len(found) > ANSWER_LINES:
        shown[-1] = fit(f"{shown[-1]} {found[ANSWER_LINES]}", room)
    return [[(INDENT, ""), (line, role)] for line in shown]
