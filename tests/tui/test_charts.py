"""The charts show what is stored of the last hour, day or week."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.case_tables import walk_cases
from tests.tui.cockpit import Stage, answering, cockpit
from tests.tui.test_roster import PLAIN
from zoea.queries.swarm_stats import StatPoint, StatSpan, SwarmStats
from zoea.swarm.persistence.stat_ops import MINUTE_US, store_minute
from zoea.tui.screens.charts import (
    LEAST_POINTS,
    Chart,
    ChartSeries,
    ChartsScreen,
    SpenderList,
    StatPlot,
    build_charts,
    build_spender_lines,
    build_ticks,
    plot_colour,
    trim_unknown,
)
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
        await stage.press("right_square_bracket", "right_square_bracket", "right_square_bracket", shows="last week")
        await stage.press("left_square_bracket", shows="last day")
        await stage.press("escape")
        assert not stage.shows(ChartsScreen)


async def test_a_small_screen_shows_one_chart_at_a_time(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering(), size=(80, 24)) as stage:
        await stage.press("C", until=lambda: stage.shows(ChartsScreen) and "TOKENS PER MINUTE" in stage.text())
        assert [plot.id for plot in stage.screen.query(StatPlot) if plot.display] == ["tokens"]
        await stage.press("tab", "tab", "tab", shows="MYSES BY STATUS")
        assert [plot.id for plot in stage.screen.query(StatPlot) if plot.display] == ["myses"]
        await stage.pilot.resize_terminal(60, 16)
        await stage.until(lambda: " [ ] less or more time " in stage.text() and "QUEUED   tab" in stage.text())


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
    assert charts["tokens"].build_scale(21) == (
        1000,
        [0, 200, 400, 600, 800, 1000],
        ["0", "200", "400", "600", "800", "1k"],
    )
    assert charts["waiting"].build_scale(21)[2] == ["0", "2", "4", "6", "8", "10"]
    assert charts["myses"].build_scale(21)[2] == ["0", "1", "2", "3"]
    assert charts["spend"].build_scale(21)[2][-1] == "$0.01"


@walk_cases("rows", [-2, 0, 1, 2, 3, 5, 6, 7, 8, 9, 12, 14, 17, 23, 50])
@walk_cases("highest", [1, 2, 3, 5, 7, 10, 99, 4_999])
def test_values_of_an_axis_are_round_and_stand_evenly_in_its_rows(rows: int, highest: float) -> None:
    chart = Chart("", (ChartSeries("", "", (float(highest),)),))
    top, places, _ = chart.build_scale(rows)
    gaps = max(1, rows - 1)
    assert top >= highest
    assert places[0] == 0
    assert len(places) >= 2
    stands = [place * gaps / top for place in places]
    assert stands == pytest.approx([round(one) for one in stands])
    assert stands[-1] <= gaps + 1e-9
    assert gaps < 4 or len(places) <= gaps // 2 + 1
    assert gaps < 6 or highest < 2 or len(places) >= 3
    assert gaps < 3 or top <= 3 * highest


@walk_cases("width", [0, 20, 56, 80, 200])
def test_an_axis_names_the_newest_time_and_only_as_many_as_have_room(width: int) -> None:
    hour = SwarmStats(StatSpan.HOUR, tuple(replace(STATS.points[0], at=at * MINUTE_US) for at in range(60)))
    places, labels = build_ticks(hour, width)
    assert places[-1] == 59
    assert len(places) == len(labels) <= max(1, min(6, width // 12))
    assert all(after - before == places[-1] - places[-2] for before, after in pairwise(places))


async def test_the_present_minute_agrees_with_the_header_before_it_is_stored(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering(), size=(160, 48)) as stage:
        inner = stage.swarm
        await inner.store.write(lambda conn: store_minute(conn, {"working": 3}))
        await stage.api.send("alpha", "hello")
        await inner.settled("alpha")
        stage.clock.by(60)
        await stage.press("C")
        await stage.until(lambda: stage.shows(ChartsScreen) and "TURNS BY OUTCOME · 1 in the last hour" in stage.text())
        await stage.until(lambda: "3 idle" in stage.text().partition("\n")[0] and "idle 3" in stage.text())
        screen = stage.screen
        assert isinstance(screen, ChartsScreen)
        assert screen.stats is not None
        now = screen.stats.points[-1]
        assert now.turns == {"answered": 1}
        assert now.tokens > 0


async def test_the_myses_that_used_most_are_listed_first(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering(), size=(80, 24)) as stage:
        for name in ("beta", "beta", "gamma"):
            await stage.api.send(name, "hello")
            await stage.swarm.settled(name)
        await stage.press("C", "tab")
        await stage.until(lambda: "TOP SPENDERS · all their turns" in stage.text() and "gamma " in stage.text())
        panel = stage.one(SpenderList)
        assert [line.split()[0] for line in panel.plain.splitlines()] == ["beta", "gamma"]
        assert f"{stage.view('beta').tokens} tokens" in panel.plain.splitlines()[0]


def test_those_that_cost_most_come_before_those_that_cost_nothing() -> None:
    views = [
        replace(PLAIN, id=1, name="free", tokens=900_000),
        replace(PLAIN, id=2, name="dear", tokens=9, cost_micros=5),
    ]
    lines = ["".join(text for text, _ in line) for line in build_spender_lines(views, 60, 5, ("#", "."))]
    assert [line.split()[0] for line in lines] == ["dear", "free"]
    assert all(len(line) == 60 for line in lines)


def test_a_time_in_which_no_swarm_ran_is_blank_and_not_drawn_before_the_first_row() -> None:
    unknown = replace(STATS.points[0], tokens=0, turns={}, statuses={}, waiting=0)
    points = (*[unknown] * 48, *STATS.points[:4], *[unknown] * 4, *STATS.points[6:10])
    stats = trim_unknown(replace(STATS, points=points))
    assert len(stats.points) == 12
    for chart in build_charts(stats).values():
        assert [value is None for value in chart.series[0].values] == [False] * 4 + [True] * 4 + [False] * 4
        assert [places for places, _ in chart.series[0].runs()] == [[0, 1, 2, 3], [8, 9, 10, 11]]
    assert len(trim_unknown(replace(STATS, points=(unknown,) * 60)).points) == LEAST_POINTS


@walk_cases(("span", "points", "minutes"), [("hour", 23, 5), ("day", 96, 240), ("week", 84, 2880)])
def test_the_labels_of_an_axis_are_a_round_time_apart(span: str, points: int, minutes: int) -> None:
    stats = SwarmStats(StatSpan(span), (STATS.points[0],) * points)
    places, _ = build_ticks(stats, 200)
    assert {after - before for before, after in pairwise(places)} == {minutes / stats.span.step}


def test_every_role_of_a_theme_has_a_colour_for_charts() -> None:
    themes, _ = load_themes(Path("nowhere"))
    for theme in themes.values():
        assert all(plot_colour(colour) for colour in theme.roles.values())
    assert (plot_colour("#102030"), plot_colour("ansi_bright_red")) == ((16, 32, 48), "red+")
    assert (plot_colour("ansi_yellow"), plot_colour("ansi_default")) == ("orange", "default")
