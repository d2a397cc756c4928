"""The charts show what is stored of the last hour, day or week."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.tui.cockpit import Stage, answering, cockpit
from zoea.queries.swarm_stats import StatPoint, StatSpan, SwarmStats
from zoea.swarm.persistence.stat_ops import MINUTE_US, store_minute
from zoea.tui.screens.charts import ChartsScreen, StatPlot, build_charts, build_ticks, plot_colour
from zoea.tui.theme.themes import load_themes

STATS = SwarmStats(
    StatSpan.HOUR,
    tuple(
        StatPoint(
            at=1_700_000_040_000_000 + minute * MINUTE_US,
            minutes=1,
            tokens=100 * minute,
            cost_micros=0,
            turns={"answered": 1, "loop": 2} if minute == 9 else {},
            statuses={"working": 3, "idle": 0, "errored": minute % 2},
            waiting=minute,
        )
        for minute in range(10)
    ),
)


async def _play(stage: Stage) -> None:
    """Store a minute before and one after a turn."""
    inner = stage.swarm
    statuses = {str(word): count for word, count in inner.commander.swarm.live_view.count_statuses().items()}
    await inner.store.write(lambda conn: store_minute(conn, statuses))
    await inner.commander.send("alpha", "hello")
    await inner.settled("alpha")
    stage.clock.by(60)
    await inner.store.write(lambda conn: store_minute(conn, {"working": 2, "asking": 1}))


async def test_the_charts_show_the_stored_minutes_and_the_span_changes(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering(), size=(160, 48)) as stage:
        await _play(stage)
        await stage.press("C")
        await stage.until(lambda: stage.shows(ChartsScreen) and "TURNS BY OUTCOME · 1 in the last hour" in stage.text())
        assert "MYSES BY STATUS · 3 now · last hour" in stage.text()
        assert "last hour" in stage.text()
        await stage.press("right_square_bracket", "right_square_bracket", "right_square_bracket")
        await stage.until(lambda: "last week" in stage.text())
        await stage.press("left_square_bracket")
        await stage.until(lambda: "last day" in stage.text())
        await stage.press("escape")
        assert not stage.shows(ChartsScreen)


async def test_a_small_screen_shows_one_chart_at_a_time(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering(), size=(80, 24)) as stage:
        await stage.press("C")
        await stage.until(lambda: stage.shows(ChartsScreen) and "nothing is stored yet" in stage.text())
        assert [plot.id for plot in stage.screen.query(StatPlot) if plot.display] == ["tokens"]
        await stage.press("tab", "tab")
        await stage.until(lambda: "MYSES BY STATUS" in stage.text())
        assert [plot.id for plot in stage.screen.query(StatPlot) if plot.display] == ["myses"]


@pytest.mark.parametrize("theme", ["ansi", "tide", "high-contrast"])
async def test_charts_are_drawn_in_every_kind_of_theme(tmp_path: Path, theme: str) -> None:
    async with cockpit(tmp_path, answering(), size=(120, 40), theme=theme) as stage:
        await _play(stage)
        await stage.press("C")
        await stage.until(lambda: stage.shows(ChartsScreen) and "TURNS BY OUTCOME · 1 in the last hour" in stage.text())


def test_outcomes_are_counted_over_the_whole_time_as_their_title_says() -> None:
    ended = replace(STATS.points[0], turns={"answered": 4})
    chart = build_charts(replace(STATS, points=(ended, *STATS.points[1:])))["turns"]
    assert [chart.describe(each) for each in chart.series] == ["answered 5", "other ends 2"]
    chart = build_charts(STATS)["myses"]
    assert [chart.describe(each) for each in chart.series] == [
        f"{each.label} {each.values[-1]:.0f}" for each in chart.series
    ]


def test_a_series_leaves_out_statuses_that_no_mysis_had() -> None:
    charts = build_charts(STATS)
    assert [each.label for each in charts["myses"].series] == ["working", "errored"]
    assert [(each.label, each.values[-1]) for each in charts["turns"].series] == [("answered", 1), ("other ends", 2)]
    assert charts["tokens"].series[0].values[-1] == 900
    assert charts["spend"].highest == 0
    assert charts["tokens"].build_scale() == (
        1000,
        [0, 200, 400, 600, 800, 1000],
        ["0", "200", "400", "600", "800", "1k"],
    )
    assert charts["waiting"].build_scale()[2] == ["0", "2", "4", "6", "8", "10"]
    assert charts["myses"].build_scale()[2] == ["0", "1", "2", "3"]
    assert charts["spend"].build_scale()[2][-1] == "$0.01"


@pytest.mark.parametrize("width", [0, 20, 56, 80, 200])
def test_an_axis_names_the_newest_time_and_only_as_many_as_have_room(width: int) -> None:
    hour = SwarmStats(StatSpan.HOUR, tuple(replace(STATS.points[0], at=at * MINUTE_US) for at in range(60)))
    places, labels = build_ticks(hour, width)
    assert places[-1] == 59
    assert len(places) == len(labels) <= max(1, min(6, width // 12))
    assert all(after - before == places[-1] - places[-2] for before, after in pairwise(places))


def test_every_role_of_a_theme_has_a_colour_for_charts() -> None:
    themes, _ = load_themes(Path("nowhere"))
    for theme in themes.values():
        assert all(plot_colour(colour) for colour in theme.roles.values())
    assert (plot_colour("#102030"), plot_colour("ansi_bright_red")) == ((16, 32, 48), "red+")
    assert (plot_colour("ansi_yellow"), plot_colour("ansi_default")) == ("orange", "default")
