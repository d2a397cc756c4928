"""All myses, with counts and orders that are kept current with each change.

A thousand myses change twenty times a second, and header, table, panels and terminal title ask for these each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from zoea.model.enums import MysisState
from zoea.model.status import CLOSED, KILLED, StatusWord
from zoea.model.values import MysisView
from zoea.tui.swarm_list import attention


class Roster:
    """The myses by id; read-only for others.

    `ended` counts those that ran when Zoea ended, by the state reason.
    """

    def __init__(self) -> None:
        self.myses: dict[int, MysisView] = {}
        self.running = 0
        self.ended: Counter[str] = Counter()
        self.statuses: Counter[StatusWord] = Counter()
        self._order: list[int] | None = []
        self._needing: dict[int, MysisView] = {}
        self._in_need: tuple[MysisView, ...] | None = ()

    def take(self, changed: Iterable[MysisView], removed: Iterable[int] = ()) -> None:
        """Merge changed rows, and remove those that went."""
        for view in changed:
            before = self.myses.get(view.id)
            if before is None:
                self._order = None
            else:
                self._count(before, -1)
            self.myses[view.id] = view
            self._count(view, 1)
            if attention.attention_reason(view):
                self._needing[view.id] = view
                self._in_need = None
            elif self._needing.pop(view.id, None) is not None:
                self._in_need = None
        for mysis_id in removed:
            gone = self.myses.pop(mysis_id, None)
            if gone is not None:
                self._count(gone, -1)
                self._order = None
                if self._needing.pop(mysis_id, None) is not None:
                    self._in_need = None

    def clear(self) -> None:
        self.take((), tuple(self.myses))

    def _count(self, view: MysisView, by: int) -> None:
        self.statuses[view.status] += by
        if view.state is MysisState.RUNNING:
            self.running += by
        elif view.state is MysisState.IDLE and view.state_reason in (CLOSED, KILLED):
            self.ended[view.state_reason] += by

    @property
    def in_need(self) -> tuple[MysisView, ...]:
        """The myses that need a person, the most urgent first, else by creation."""
        if self._in_need is None:
            self._in_need = tuple(attention.list_needing_attention(self._needing.values()))
        return self._in_need

    def in_order(self) -> list[MysisView]:
        """Return all myses in the order of their creation."""
        if self._order is None:
            self._order = sorted(self.myses)
        return [self.myses[mysis_id] for mysis_id in self._order]
