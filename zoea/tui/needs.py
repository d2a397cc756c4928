"""What the NEEDS YOU panel says: who waits for the commander, for what, and which key answers. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from zoea.model.values import MysisView
from zoea.tui import attention, figures
from zoea.tui.asked import Asked
from zoea.tui.rows import glyph, one_line

Piece = tuple[str, str]
SHOWN = 8
_ARGUMENTS = 200


def needs_lines(views: Sequence[MysisView], asked: Asked, now: int, glyphs: dict[str, str]) -> list[list[Piece]]:
    """Two or three lines for each of the first, and how many more there are."""
    lines: list[list[Piece]] = []
    for view in views[:SHOWN]:
        lines += [[]] if lines else []
        lines += _of(view, asked, now, glyphs)
    if len(views) > SHOWN:
        lines += [[], [(f"and {len(views) - SHOWN} more: a shows them first", "quiet")]]
    return lines


def call_line(tool: str, arguments: str) -> str:
    """A call as people write one: `sell(item="ore", n=40)`; what is no short JSON object stands as it is."""
    try:
        given = json.loads(arguments) if len(arguments) <= _ARGUMENTS * 10 else None
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        return one_line(f"{tool}({arguments[:_ARGUMENTS]})")
    inner = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in given.items())
    return one_line(f"{tool}({inner[:_ARGUMENTS]})")


def _of(view: MysisView, asked: Asked, now: int, glyphs: dict[str, str]) -> list[list[Piece]]:
    state = glyph(view)
    head: list[Piece] = [(f"{glyphs.get(state, '?')} ", state), (one_line(view.name), "strong")]
    question = asked.of(view.id)
    if question is not None:
        more = f" ×{view.approvals}" if view.approvals > 1 else ""
        return [
            [*head, (f" asks to run{more}", ""), (f"  {figures.age(question.asked_at, now)}", "quiet")],
            [("  ", ""), (call_line(question.tool, question.arguments), "tool")],
            [("  o", "key"), (" look and answer", "")],
        ]
    if view.approvals or attention.reason(view) == "asks":
        return [[*head, (" asks", "asking")], [("  m", "key"), (f" answer: {one_line(view.text)}", "")]]
    what = one_line(view.failure.what) if view.failure else ""
    lines: list[list[Piece]] = [[*head, (f" {one_line(attention.reason(view))}", "errored")]]
    lines += [[(f"  {what}", "quiet")]] if what else []
    return [*lines, [("  r", "key"), (" relaunch   ", ""), (".", "key"), (" dismiss", "")]]
