"""The swarm as a hive: one cell a mysis, in groups. Pure.

A cell has a mark and the glyph of the status, and with more room the name, what it does, and its newest text. Its
brightness tells the tokens of the last minute.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from zoea.model.status import StatusWord
from zoea.model.values import MysisView
from zoea.text.control_characters import one_line
from zoea.tui.swarm_list import attention

CELL = 2
"""Columns of the smallest cell."""
CELL_SIZES = ((80, 6), (60, 4), (40, 3), (24, 2), (16, 1), (CELL, 1))
"""Columns and lines of a cell, the largest first: glyph; name; status, activity and time; newest text."""
NO_TAG = "no tag"
LEVELS = 4
"""Degrees of brightness, 0 for a mysis without tokens in the last minute."""

_STATUS_ORDER = {word: place for place, word in enumerate(StatusWord)}


class HiveGrouping(StrEnum):
    """What the cells of a group have in common."""

    STATUS = "status"
    TEMPLATE = "template"
    TAG = "tag"

    @property
    def following(self) -> HiveGrouping:
        """The grouping that a key chooses after this one."""
        found = list(HiveGrouping)
        return found[(found.index(self) + 1) % len(found)]


def group_of(view: MysisView, grouping: HiveGrouping) -> str:
    """Return the group of a mysis; the first of its tags counts."""
    match grouping:
        case HiveGrouping.STATUS:
            return str(view.status)
        case HiveGrouping.TEMPLATE:
            return one_line(view.template)
    return one_line(view.tags[0]) if view.tags else NO_TAG


def hive_key(view: MysisView, grouping: HiveGrouping, *, attention_first: bool) -> tuple[int, str, int, int]:
    """Return the place of a mysis in the hive, for sorting: group, urgency, age."""
    if grouping is HiveGrouping.STATUS:
        word = view.status
        name, rank = str(word), _STATUS_ORDER[word]
    else:
        name = group_of(view, grouping)
        rank = int(name == NO_TAG)
    return rank, name, attention.attention_rank(view) if attention_first else 0, view.id


HiveCell = tuple[int, bool]
"""How one mysis is drawn: its brightness, 0 to 3, and whether it is marked."""


class HiveLine(Struct, frozen=True):
    """One line: the heading of a group, or a line of the cells from place `first` to before `end`.

    `part` is its place among the lines of these cells.
    """

    title: str = ""
    first: int = 0
    end: int = 0
    part: int = 0


class HiveLayout(Struct, frozen=True):
    """The lines of a hive; places number the cells in order.

    Attributes:
        starts: The first place of each line of cells, in order.
        at: The first line of each of those.
        cell, height: Columns and lines of a cell.
    """

    lines: tuple[HiveLine, ...]
    starts: tuple[int, ...]
    at: tuple[int, ...]
    cell: int = CELL
    height: int = 1

    @classmethod
    def fit(cls, groups: Sequence[str], width: int, height: int) -> HiveLayout:
        """Lay out the largest cells of which all fit into `height` lines, else the smallest."""
        for cell, lines in CELL_SIZES:
            found = cls.of(groups, width, cell, lines)
            if len(found.lines) <= height and cell <= width:
                break
        return found

    @classmethod
    def of(cls, groups: Sequence[str], width: int, cell: int = CELL, height: int = 1) -> HiveLayout:
        """Lay out cells by group in lines of `width` columns; groups come in order."""
        room = max(1, width // cell)
        lines: list[HiveLine] = []
        starts: list[int] = []
        at: list[int] = []
        first = 0
        while first < len(groups):
            end = first
            while end < len(groups) and groups[end] == groups[first]:
                end += 1
            lines.append(HiveLine(f"{groups[first]} {end - first}"))
            for start in range(first, end, room):
                starts.append(start)
                at.append(len(lines))
                lines += [HiveLine("", start, min(end, start + room), part) for part in range(height)]
            first = end
        return cls(tuple(lines), tuple(starts), tuple(at), cell, height)

    def line_of(self, place: int) -> int:
        """Return the first line of a place; 0 without cells."""
        return self.at[bisect_right(self.starts, place) - 1] if self.starts else 0

    def place_at(self, line: int, column: int) -> int | None:
        """Return the place under a column of a line; None beside the cells."""
        if not 0 <= line < len(self.lines):
            return None
        found = self.lines[line]
        place = found.first + column // self.cell
        return place if found.first <= place < found.end else None

    def place_beyond(self, place: int, by: int) -> int:
        """Return the place `by` lines of cells below, or above, in the nearest column."""
        if not self.starts:
            return 0
        row = bisect_right(self.starts, place) - 1
        column = place - self.starts[row]
        other = min(len(self.starts) - 1, max(0, row + by))
        line = self.lines[self.at[other]]
        return min(line.end - 1, line.first + column)


def find_level(rate: int, highest: int) -> int:
    """Return a cell's brightness, 0 to 3, by its share of the highest rate."""
    if rate <= 0 or highest <= 0:
        return 0
    return min(LEVELS - 1, 1 + rate * (LEVELS - 1) // max(1, highest))
