"""Sorts rows: pinned first, urgent next if wanted, then by a column. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from enum import StrEnum

from msgspec import Struct

from zoea.model.status import StatusWord, next_change_at
from zoea.model.values import MysisView
from zoea.tui.swarm_list import attention
from zoea.tui.swarm_list.hive_layout import HiveGrouping

_NUMBER = re.compile(r"(\d+)")
_NameParts = list[tuple[bool, int, str]]
_STATUS_ORDER = {word: place for place, word in enumerate(StatusWord)}


class SortColumn(StrEnum):
    """What the rows are sorted by, in the order of the columns."""

    AGE = "age"
    NAME = "name"
    STATUS = "status"
    TIME = "time"
    CONTEXT = "context"
    RATE = "tok/min"
    TOKENS = "tokens"
    COST = "cost"

    @property
    def sign(self) -> str:
        """The sign in the heading: up for the smallest first."""
        return "" if self is SortColumn.AGE else "▲" if self in (SortColumn.NAME, SortColumn.STATUS) else "▼"

    @property
    def words(self) -> str:
        """Say the order in words."""
        return "oldest first" if self is SortColumn.AGE else f"by {self}"

    def step(self, by: int) -> SortColumn:
        """Return the column `by` places to the right, beginning again at the end."""
        found = list(SortColumn)
        return found[(found.index(self) + by) % len(found)]


class RowOrder(Struct, frozen=True):
    """How rows are sorted.

    Attributes:
        pinned: Ids of the myses that stay at the top.
        rate_of: Returns the tokens a minute of a mysis by its id.
        since_of: Returns when it got its status, in µs.
    """

    rate_of: Callable[[int], int]
    since_of: Callable[[int], int]
    column: SortColumn = SortColumn.AGE
    attention_first: bool = False
    pinned: Collection[int] = ()

    @property
    def is_moving(self) -> bool:
        """Whether news of a mysis may move its row."""
        return self.column is not SortColumn.AGE

    def sort(self, views: list[MysisView]) -> None:
        """Sort in place."""
        views.sort(key=self._key)

    def _key(self, view: MysisView) -> tuple[bool, int, float, _NameParts, int]:
        rank = attention.attention_rank(view) if self.attention_first else 0
        name = _read_numbers(view.name) if self.column is SortColumn.NAME else []
        return view.id not in self.pinned, rank, self._number(view), name, view.id

    def _number(self, view: MysisView) -> float:
        match self.column:
            case SortColumn.STATUS:
                return _STATUS_ORDER[view.status]
            case SortColumn.TIME:
                # Those that go on at a known time come after those that have had their status for long.
                return next_change_at(view) or self.since_of(view.id)
            case SortColumn.CONTEXT:
                return -view.context_used / view.context_limit if view.context_limit else 0.0
            case SortColumn.RATE:
                return -self.rate_of(view.id)
            case SortColumn.TOKENS:
                return -view.tokens
            case SortColumn.COST:
                return -(view.cost_micros or 0)
        return 0.0


def _read_numbers(name: str) -> _NameParts:
    """Split a name at its numbers, so that mysis-9 comes before mysis-10."""
    parts = filter(None, _NUMBER.split(name.casefold()))
    return [(False, int(part), "") if part.isdecimal() else (True, 0, part) for part in parts]


def describe_order(order: RowOrder, grouping: HiveGrouping | None, *, has_marks: bool) -> str:
    """Say how the rows stand, and which keys change that."""
    orders = ["those that need you first", order.column.words]
    now, other = orders if order.attention_first else reversed(orders)
    how = f"{now} · a sorts {other} · < > sort"
    if grouping is not None:
        how = f"grouped by {grouping} · V another grouping · v rows"
    return f"space marks · esc removes the marks · {how}" if has_marks else how
