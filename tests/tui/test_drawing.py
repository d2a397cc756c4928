"""Only what reads differently is drawn again: counted, not timed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tests.tui.cockpit import Stage, cockpit
from zoea.model.values import MysisView, SwarmView
from zoea.tui.screens.dashboard import DashboardScreen
from zoea.tui.swarm_list import mysis_row
from zoea.tui.text_layout import Piece
from zoea.tui.widgets.swarm_table import SwarmTable

MANY = 10_000


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lines of the table that were drawn, as they are."""
    lines: list[int] = []
    real = SwarmTable.render_line

    def render_line(self: SwarmTable, y: int) -> Strip:
        lines.append(y)
        return real(self, y)

    monkeypatch.setattr(SwarmTable, "render_line", render_line)
    return lines


@pytest.fixture
def dirtied(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the lines that are to be drawn again, by the id of their widget."""
    lines: Counter[str] = Counter()
    real = Widget._set_dirty

    def set_dirty(self: Widget, *regions: Region) -> None:
        lines[self.id or type(self).__name__] += sum(region.height for region in regions or (self.size.region,))
        real(self, *regions)

    monkeypatch.setattr(Widget, "_set_dirty", set_dirty)
    return lines


async def crowd(stage: Stage, many: int = MANY) -> list[MysisView]:
    """Many rows, all like the first."""
    first = replace(stage.view(), state_at=stage.clock.now())
    views = [replace(first, id=number, name=f"m{number}") for number in range(1, many + 1)]
    stage.app.feed.take(SwarmView(1, False, "", tuple(views)))
    await stage.pilot.pause()
    return views


async def test_unchanged_rows_are_not_drawn_again(tmp_path: Path, drawn: list[int]) -> None:
    async with cockpit(tmp_path, names=("alpha",)) as stage:
        views = await crowd(stage)
        dashboard = stage.screen
        assert isinstance(dashboard, DashboardScreen)
        in_sight = dashboard.table.size.height
        widgets = set(dashboard.query("*"))

        drawn.clear()
        stage.app.feed.take(SwarmView(2, False, "", (replace(views[-1], text="far away"),)))
        await stage.pilot.pause()
        assert drawn == []

        stage.app.feed.take(SwarmView(3, False, "", (replace(views[2], text="in sight"),)))
        await stage.pilot.pause()
        assert drawn == [2]

        drawn.clear()
        dashboard.tick()
        await stage.pilot.pause()
        assert drawn == []
        stage.clock.by(1)
        dashboard.tick()
        await stage.pilot.pause()
        assert sorted(drawn) == list(range(in_sight))

        drawn.clear()
        for _ in range(5):
            await stage.press("pagedown")
        assert dashboard.table.cursor is not None
        assert dashboard.table.cursor.id > in_sight
        assert len(drawn) <= 5 * (in_sight + 2)
        assert set(dashboard.query("*")) == widgets


async def test_a_step_draws_two_rows_and_the_title_of_the_detail(tmp_path: Path, dirtied: Counter[str]) -> None:
    async with cockpit(tmp_path, size=(200, 60), names=("alpha",)) as stage:
        await crowd(stage, 60)
        await stage.press("j")
        dirtied.clear()
        await stage.press("j")
        assert dirtied["swarm"] == 2
        assert dirtied["detail"] == 1
        assert not dirtied.keys() - {"swarm", "detail", "detail-rule", "detail-line", "recent", "request"}


async def test_a_row_that_a_second_changes_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: Counter[str] = Counter()

    def build_row(row: mysis_row.TableRow, *more: Any) -> list[Piece]:
        built[row.view.name] += 1
        return mysis_row.build_row(row, *more)

    monkeypatch.setattr("zoea.tui.widgets.swarm_table.build_row", build_row)
    async with cockpit(tmp_path, names=("alpha",)) as stage:
        views = await crowd(stage, 60)
        dashboard = stage.screen
        assert isinstance(dashboard, DashboardScreen)
        built.clear()
        stage.clock.by(1)
        dashboard.tick()
        await stage.pilot.pause()
        assert built == dict.fromkeys((view.name for view in views[: dashboard.table.size.height]), 1)

        stage.clock.by(1)
        dashboard.tick()
        stage.app.feed.take(SwarmView(2, False, "", (replace(views[0], name="renamed"),)))
        await stage.pilot.pause()
        assert built["renamed"] == 1, "a row that changed since the tick"
