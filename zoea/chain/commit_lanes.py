"""Lays out commits in lanes, one row per commit, as a graph of branches. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct


class Lane(Struct, frozen=True):
    """A column that waits for a commit further down.

    Attributes:
        seq: The commit.
        is_drawn: Whether a commit above has it as parent; False for a column that is only kept free for it.
    """

    seq: int
    is_drawn: bool = True


Lanes = tuple[Lane | None, ...]
"""The state below a row; None for a free column."""


class GraphRow(Struct, frozen=True):
    """One commit and the lanes beside it.

    Attributes:
        column: Of the commit.
        joined: Columns of lanes that end here, because the commit is their parent too; all to its right.
        passing: Columns of lanes that go on.
    """

    seq: int
    column: int
    joined: tuple[int, ...]
    passing: tuple[int, ...]


def lay_out(commits: Iterable[tuple[int, int | None]], lanes: Lanes = ()) -> tuple[list[GraphRow], Lanes]:
    """Lay out commits, newest first, and return their rows and the lanes below them.

    The lanes are the argument for the commits that follow, so that pages give the same rows as all at once.

    Args:
        commits: Number and parent of each; the numbers only fall.
        lanes: Those above the first commit.
    """
    open_lanes = list(lanes)
    rows = []
    for seq, parent in commits:
        waiting = [column for column, lane in enumerate(open_lanes) if lane is not None and lane.seq == seq]
        if not waiting:
            waiting = [open_lanes.index(None) if None in open_lanes else len(open_lanes)]
            open_lanes += [None] * (waiting[0] + 1 - len(open_lanes))
        column, *joined = waiting
        for each in joined:
            open_lanes[each] = None
        open_lanes[column] = None
        passing = tuple(place for place, lane in enumerate(open_lanes) if lane is not None and lane.is_drawn)
        open_lanes[column] = None if parent is None else Lane(parent)
        while open_lanes and open_lanes[-1] is None:
            open_lanes.pop()
        rows.append(GraphRow(seq, column, tuple(joined), passing))
    return rows, tuple(open_lanes)


def draw_row(row: GraphRow, glyph: str, most: int) -> list[tuple[str, int]]:
    """Draw a row as texts of one cell, two a column. Each comes with the column that gives its colour.

    Args:
        glyph: The sign of the commit, one cell.
        most: Columns that are drawn; `…` stands for those further right, and the sign of a commit there follows it.
    """
    last = max(row.column, *row.joined, *row.passing, 0)
    end = max(row.joined, default=row.column)
    cells = []
    for column in range(min(last + 1, most)):
        colour = column
        if column == row.column:
            sign = glyph
        elif column in row.joined:
            sign = "╯" if column == end else "┴"
        elif column in row.passing:
            sign = "┼" if row.column < column < end else "│"
        else:
            sign = "─" if row.column < column < end else " "
            colour = min((one for one in row.joined if one > column), default=column)
        cells.append((sign, colour))
        line = "─" if row.column <= column < end else " "
        cells.append((line, min((one for one in row.joined if one > column), default=column)))
    if row.column >= most:
        cells[-2:] = [("…", most - 1), (glyph, row.column)]
    elif last >= most:
        cells[-1] = ("…", most - 1)
    return cells
