"""What the BROADCASTS panel says: what was said to many, and what became of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from zoea.app.broadcasts import Broadcast
from zoea.text.control import one_line
from zoea.tui import figures
from zoea.tui.rows import Piece, cells, fit

ONE_LINE_FROM = 60
"""Where a panel is this wide, a broadcast and its receipt share a line."""


def said_lines(said: Sequence[Broadcast], now: int, width: int) -> list[list[Piece]]:
    """The newest first, in lines of at most `width` cells; 0 where the width is not known yet."""
    if not said:
        return [[("nothing was broadcast yet: press b", "quiet")]]
    lines: list[list[Piece]] = []
    for one in said:
        lines += _one_line(one, now, width) if width >= ONE_LINE_FROM else _two_lines(one, now, width)
    return lines


def receipt(said: Broadcast) -> str:
    """`4 answered · 1 queued`; nothing for what only the commander hears."""
    if said.to_commander:
        return ""
    parts = [
        (said.answered, "answered"),
        (said.working, "working"),
        (said.queued, "queued"),
        (said.unanswered, "not answered"),
        (said.skipped, "skipped"),
    ]
    return " · ".join(f"{count} {word}" for count, word in parts if count)


def _head(said: Broadcast, now: int) -> list[Piece]:
    to = "you" if said.to_commander else str(said.recipients)
    who = "commander" if said.sender == "you" else "mysis"
    clock = f"{figures.clock(said.created_at, now)} "
    return [(clock, "quiet"), (one_line(said.sender), who), (f" → {to}  ", "quiet")]


def _one_line(said: Broadcast, now: int, width: int) -> list[list[Piece]]:
    head, became = _head(said, now), receipt(said)
    room = width - cells(head) - (cell_len(became) + 2 if became else 0)
    line = [*head, (fit(one_line(said.text), max(8, room)), "")]
    return [[*line, (f"  {became}", "quiet")] if became else line]


def _two_lines(said: Broadcast, now: int, width: int) -> list[list[Piece]]:
    head, became = _head(said, now), receipt(said)
    room = width - cells(head)
    text = one_line(said.text)
    lines = [[*head, (fit(text, room).rstrip() if room >= 8 else text, "")]]
    indent = " " * cell_len(head[0][0])
    return [*lines, [(indent + became, "quiet")]] if became else lines
