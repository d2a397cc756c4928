"""What the NEEDS YOU panel says: who waits for the commander, for what, and which key answers. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from zoea.app.sentences import asked_line, question_of
from zoea.model.values import MysisView
from zoea.text.control import one_line
from zoea.tui import attention, figures
from zoea.tui.asked import Asked
from zoea.tui.rows import cells, cut, fit, glyph

Piece = tuple[str, str]
SHOWN = 8


def needs_lines(views: Sequence[MysisView], asked: Asked, now: int, glyphs: dict[str, str]) -> list[list[Piece]]:
    """Two or three lines for each of the first, and how many more there are."""
    lines: list[list[Piece]] = []
    for view in views[:SHOWN]:
        lines += [[]] if lines else []
        lines += _of(view, asked, now, glyphs)
    if len(views) > SHOWN:
        lines += [[], [(f"and {len(views) - SHOWN} more: a shows them first", "quiet")]]
    return lines


def needs_briefly(
    views: Sequence[MysisView], asked: Asked, now: int, glyphs: dict[str, str], width: int
) -> list[list[Piece]]:
    """One line for each of the first, where there are few lines but wide ones; the key stands at its end."""
    lines: list[list[Piece]] = []
    name = max((len(one_line(view.name)) for view in views[:SHOWN]), default=0)
    for view in views[:SHOWN]:
        state, question = glyph(view), asked.of(view.id)
        head: list[Piece] = [(f"{glyphs.get(state, '?')} ", state), (fit(one_line(view.name), min(name, 20)), "strong")]
        if question is not None:
            said: list[Piece] = [("  asks  ", "quiet"), (one_line(asked_line(question)), "tool")]
            keys: list[Piece] = [(f"  {figures.age(question.asked_at, now)}  ", "quiet"), ("o", "key"), (" answer", "")]
        elif view.approvals or attention.reason(view) == "asks":
            said = [("  asks  ", "quiet"), (one_line(view.text), "")]
            keys = [("  m", "key"), (" answer", "")]
        else:
            said = [(f"  {one_line(attention.reason(view))}", "errored")]
            said += [(f"  {one_line(view.failure.what)}", "quiet")] if view.failure else []
            keys = [("  r", "key"), (" relaunch  ", ""), (".", "key"), (" dismiss", "")]
        left = cut([*head, *said], width - cells(keys))
        lines.append([*left, (" " * (width - cells(left) - cells(keys)), ""), *keys])
    if len(views) > SHOWN:
        lines.append([(f"and {len(views) - SHOWN} more: a shows them first", "quiet")])
    return lines


def _of(view: MysisView, asked: Asked, now: int, glyphs: dict[str, str]) -> list[list[Piece]]:
    state = glyph(view)
    head: list[Piece] = [(f"{glyphs.get(state, '?')} ", state), (one_line(view.name), "strong")]
    question = asked.of(view.id)
    if question is not None:
        what = "asks" if question_of(question) else "asks to run"
        more = f" ×{view.approvals}" if view.approvals > 1 else ""
        return [
            [*head, (f" {what}{more}", ""), (f"  {figures.age(question.asked_at, now)}", "quiet")],
            [("  ", ""), (one_line(asked_line(question)), "tool")],
            [("  o", "key"), (" look and answer", "")],
        ]
    if view.approvals or attention.reason(view) == "asks":
        return [[*head, (" asks", "asking")], [("  m", "key"), (f" answer: {one_line(view.text)}", "")]]
    what = one_line(view.failure.what) if view.failure else ""
    lines: list[list[Piece]] = [[*head, (f" {one_line(attention.reason(view))}", "errored")]]
    lines += [[(f"  {what}", "quiet")]] if what else []
    return [*lines, [("  r", "key"), (" relaunch   ", ""), (".", "key"), (" dismiss", "")]]
