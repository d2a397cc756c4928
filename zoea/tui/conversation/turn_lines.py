"""Lines of the timeline: a bar for each turn, as long as it took and coloured by what it did. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from zoea.queries.turn_times import TurnTime, TurnWork
from zoea.tui import number_format
from zoea.tui.text_layout import Piece, count_cells, fit_text

_SIGNS = {TurnWork.MODEL: "█", TurnWork.TOOLS: "▒", TurnWork.WAITING: "─"}
"""Signs that tell apart without colour, also in ASCII."""
_ROLES = {TurnWork.MODEL: "llm", TurnWork.TOOLS: "tool", TurnWork.WAITING: "waiting"}
LEGEND = " · ".join(f"{sign} {work}" for work, sign in _SIGNS.items())
_SUMS_FROM = 100
"""Columns from which a line says how long each kind took."""


def build_turn_line(turn: TurnTime, longest: int, now: int, width: int) -> list[Piece]:
    """Build the line of a turn: its number and time, the bar, how long it took, and how it ended.

    Args:
        longest: µs of the longest turn, whose bar has the whole room.
    """
    head: list[Piece] = [(f"{turn.number:>4} ", "strong"), (f"{number_format.clock(turn.opened_at, now)}  ", "quiet")]
    end: list[Piece] = [(fit_text(number_format.duration(turn.length), 8, right=True), "")]
    if width >= _SUMS_FROM:
        sums = ((work, turn.sum_up(work)) for work in TurnWork)
        said = " · ".join(f"{work} {number_format.duration(time)}" for work, time in sums if time)
        end.append((f"  {fit_text(said, 44)}", "quiet"))
    end.append((f"  {fit_text(turn.outcome.replace('_', ' ') or 'goes on', 10)}", "" if turn.outcome else "working"))
    room = max(1, width - count_cells([*head, *end]))
    bar = _build_bar(turn, max(1, round(room * turn.length / longest)) if longest > 0 else 1)
    return [*head, *bar, (" " * (room - count_cells(bar)), ""), *end]


def _build_bar(turn: TurnTime, cells: int) -> list[Piece]:
    """Build a bar in which each cell shows what most of its time went to."""
    works = [_find_work(turn, at, cells) for at in range(cells)]
    return [(_SIGNS[work] * len(list(run)), _ROLES[work]) for work, run in groupby(works)]


def _find_work(turn: TurnTime, at: int, cells: int) -> TurnWork:
    left, right = (turn.opened_at + turn.length * edge / cells for edge in (at, at + 1))
    shares = dict.fromkeys(TurnWork, 0.0)
    for span in turn.spans:
        shares[span.work] += max(0.0, min(span.ended, right) - max(span.began, left))
    return max(shares, key=lambda work: shares[work]) if any(shares.values()) else TurnWork.WAITING


def find_longest(turns: Sequence[TurnTime]) -> int:
    """Return the µs of the longest turn; 0 for none."""
    return max((turn.length for turn in turns), default=0)
