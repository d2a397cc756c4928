"""The order of the rows: by a column that `<` and `>` move, urgent ones first, pinned ones at the top."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from msgspec.structs import replace

from tests.case_tables import walk_cases
from tests.fakes.swarm import FakeSwarm
from tests.tui.cockpit import Stage, cockpit, cockpit_over
from tests.tui.test_roster import PLAIN
from zoea.model.enums import MysisState
from zoea.model.values import SwarmView
from zoea.tui.screens.dashboard import DashboardScreen
from zoea.tui.swarm_list.row_order import RowOrder, SortColumn
from zoea.tui.widgets.status_bars import PieceLine
from zoea.tui.widgets.swarm_table import SwarmTable

VIEWS = [
    replace(PLAIN, id=1, name="beta", tokens=5, cost_micros=9, context_used=1, context_limit=10),
    replace(PLAIN, id=2, name="Alpha", tokens=7, state=MysisState.STOPPED, context_used=30, context_limit=100),
    replace(PLAIN, id=3, name="gamma", tokens=6, cost_micros=20, state=MysisState.RUNNING, in_turn=True),
]
RATES = {1: 10, 2: 0, 3: 900}


def names(stage: Stage) -> list[str]:
    return [view.name for view in stage.one(SwarmTable).shown]


@walk_cases(
    ("column", "ids"),
    [
        (SortColumn.AGE, [1, 2, 3]),
        (SortColumn.NAME, [2, 1, 3]),
        (SortColumn.STATUS, [3, 1, 2]),
        (SortColumn.TIME, [2, 3, 1]),
        (SortColumn.CONTEXT, [2, 1, 3]),
        (SortColumn.RATE, [3, 1, 2]),
        (SortColumn.TOKENS, [2, 3, 1]),
        (SortColumn.COST, [3, 1, 2]),
    ],
)
def test_rows_are_sorted_by_each_column(column: SortColumn, ids: list[int]) -> None:
    views = list(VIEWS)
    RowOrder(RATES.__getitem__, lambda mysis_id: {1: 30, 2: 10, 3: 20}[mysis_id], column).sort(views)
    assert [view.id for view in views] == ids


def test_numbers_in_names_are_sorted_as_numbers() -> None:
    wanted = ["7b", "12a", "alpha", "alpha-2", "Alpha-10", "mysis-9", "mysis-10", "mysis-10-b", "mysis-x", "ä1"]
    views = [replace(PLAIN, id=number, name=name) for number, name in enumerate(reversed(wanted))]
    RowOrder(lambda _: 0, lambda _: 0, SortColumn.NAME).sort(views)
    assert [view.name for view in views] == wanted


def test_urgent_rows_come_before_the_column_and_pinned_ones_before_all() -> None:
    views = [*VIEWS, replace(PLAIN, id=4, name="delta", approvals=1), replace(PLAIN, id=5, name="echo")]
    RowOrder(lambda _: 0, lambda _: 0, SortColumn.TOKENS, attention_first=True, pinned={5}).sort(views)
    assert [view.id for view in views] == [5, 4, 2, 3, 1]


async def test_the_sorted_column_moves_and_is_marked_in_the_heading(tmp_path: Path) -> None:
    def has_sign(sign: str) -> bool:
        return sign in heading.text.split()

    async with cockpit_over(FakeSwarm(), tmp_path / "zoea.db", size=(120, 40)) as stage:
        stage.app.feed.take(SwarmView(1, False, "", tuple(VIEWS)))
        heading = stage.one(PieceLine, "#heads")
        await stage.until(lambda: names(stage) == ["beta", "Alpha", "gamma"])
        await stage.press("greater_than_sign")
        assert names(stage) == ["Alpha", "beta", "gamma"]
        assert heading.text.split()[0] == "name▲"
        await stage.press("less_than_sign", "less_than_sign")
        assert names(stage) == ["gamma", "beta", "Alpha"]
        assert "cost▼" in heading.text
        assert "context" not in heading.text
        assert "by cost · a sorts those that need you first · < > sort" in stage.text()
        await stage.press("less_than_sign")
        assert "tokens▼" in heading.text
        await stage.press("less_than_sign")
        for columns, sign in ((200, "tok/min▼"), (110, "tokens/min▼"), (120, "tok/min▼")):
            await stage.pilot.resize_terminal(columns, 40)
            await stage.until(partial(has_sign, sign))
        await stage.press("greater_than_sign")
        stage.app.feed.take(SwarmView(2, False, "", (replace(VIEWS[0], tokens=50),)))
        stage.top(DashboardScreen).tick()
        assert names(stage) == ["beta", "Alpha", "gamma"]
        await stage.press("v", "greater_than_sign")
        assert stage.one(SwarmTable).grouping is None


async def test_pinned_myses_stay_at_the_top_of_every_order(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.press("G", "P")
        assert names(stage) == ["gamma", "alpha", "beta"]
        await stage.until(lambda: "•gamma" in stage.text())
        cursor = stage.one(SwarmTable).cursor
        assert cursor is not None
        assert cursor.name == "gamma", "the cursor stays on its mysis"
        await stage.press("greater_than_sign")
        assert names(stage) == ["gamma", "alpha", "beta"]
        stage.app.feed_changed(frozenset({cursor.id}))
        await stage.press("P")
        assert names(stage) == ["alpha", "beta", "gamma"], "also after news of it"
