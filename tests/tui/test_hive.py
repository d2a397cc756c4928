"""The hive: one cell a mysis, with the cursor, marks, filter and detail of the table."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec.structs import replace
from textual.color import Color

from tests.fakes.swarm import FakeSwarm
from tests.tui.cockpit import answering, cockpit, cockpit_over
from tests.tui.test_roster import PLAIN
from tests.tui.test_theme_files import contrast
from zoea.model.enums import Activity, MysisState
from zoea.model.status import StatusWord
from zoea.tui.swarm_list.hive_layout import HiveGrouping, HiveLayout, find_level, group_of, hive_key
from zoea.tui.theme.role_styles import RoleStyles
from zoea.tui.theme.themes import load_themes
from zoea.tui.widgets.swarm_table import SwarmTable

WORKING = replace(PLAIN, state=MysisState.RUNNING, in_turn=True, activity=Activity.LLM)


def test_cells_stand_in_groups_with_headings() -> None:
    hive = HiveLayout.of(["idle"] * 5 + ["working"] * 2, width=6)
    assert [(line.title, line.first, line.end) for line in hive.lines] == [
        ("idle 5", 0, 0), ("", 0, 3), ("", 3, 5), ("working 2", 0, 0), ("", 5, 7),
    ]  # fmt: skip
    assert [hive.line_of(place) for place in range(7)] == [1, 1, 1, 2, 2, 4, 4]
    assert [hive.place_at(2, column) for column in (0, 1, 2, 4)] == [3, 3, 4, None]
    assert hive.place_at(0, 0) is None
    assert HiveLayout.of([], 6).place_beyond(0, 1) == 0


def test_cells_are_as_large_as_the_room_allows() -> None:
    few, many = ["idle"] * 6, ["idle"] * 2000
    assert [(HiveLayout.fit(few, width, height).cell) for width, height in ((80, 20), (80, 6), (80, 3), (30, 4))] == [
        40, 24, 16, 2,
    ]  # fmt: skip
    assert [HiveLayout.fit(few, *room).cell for room in ((135, 50), (135, 30))] == [80, 60]
    assert HiveLayout.fit(many, 196, 40).cell == 2
    large = HiveLayout.fit(few, 80, 20)
    assert [(line.first, line.part) for line in large.lines[1:5]] == [(0, 0), (0, 1), (0, 2), (2, 0)]
    assert (large.line_of(2), large.place_at(5, 41), large.place_at(6, 0)) == (4, 3, 2)
    assert (large.place_beyond(1, 1), large.place_beyond(5, -1)) == (3, 3)


async def test_a_large_cell_shows_the_name_what_it_does_and_its_newest_text(tmp_path: Path) -> None:
    async with cockpit(tmp_path, names=("alpha", "beta", "gamma"), size=(120, 40)) as stage:
        await stage.api.send("beta", "Look around")
        await stage.until(lambda: stage.view("beta").turns == 1)
        await stage.swarm.settled("beta")
        await stage.press("v", until=lambda: "⬡ alpha" in stage.text() and "⬡ gamma" in stage.text())
        table = stage.one(SwarmTable)
        lines = stage.text().splitlines()
        row = next(at for at, line in enumerate(lines) if "⬡ beta" in line)
        column = lines[row].index("⬡ beta")
        assert lines[row + 1][column:].startswith("  idle")
        assert lines[row + 2][column:].startswith("  done")
        await stage.pilot.click(offset=(column + 3, row + 2))
        assert table.cursor is not None
        assert table.cursor.name == "beta"
        await stage.press("space", shows="▌⬡ beta")


async def test_the_largest_cell_has_the_room_for_a_whole_text(tmp_path: Path) -> None:
    words = " ".join(f"belt{number}" for number in range(30))
    async with cockpit(tmp_path, answering(words), names=("alpha", "beta"), size=(200, 60)) as stage:
        await stage.api.send("beta", "Look around")
        await stage.until(lambda: stage.view("beta").turns == 1)
        await stage.swarm.settled("beta")
        await stage.press("v", until=lambda: "belt29" in stage.text() and "⬡ beta" in stage.text())
        await stage.pilot.resize_terminal(80, 24)
        await stage.until(lambda: re.search(r"belt\d+ ?…", stage.text()))


def test_the_cursor_moves_up_and_down_within_its_column() -> None:
    hive = HiveLayout.of(["idle"] * 5 + ["working"] * 2, width=6)
    assert (hive.place_beyond(1, 1), hive.place_beyond(2, 1)) == (4, 4)
    assert (hive.place_beyond(4, 1), hive.place_beyond(5, -2)) == (6, 0)
    assert (hive.place_beyond(1, -1), hive.place_beyond(6, 1)) == (1, 6)


def test_myses_are_grouped_by_status_template_or_first_tag() -> None:
    tagged = replace(WORKING, id=2, tags=("fleet", "north"), template="scout")
    assert [group_of(tagged, grouping) for grouping in HiveGrouping] == ["working", "scout", "fleet"]
    assert group_of(PLAIN, HiveGrouping.TAG) == "no tag"
    views = [PLAIN, tagged, replace(PLAIN, id=3, approvals=1)]
    by_status = sorted(views, key=lambda view: hive_key(view, HiveGrouping.STATUS, attention_first=False))
    assert [view.status for view in by_status] == ["working", "asking", "idle"]
    by_tag = sorted(views, key=lambda view: hive_key(view, HiveGrouping.TAG, attention_first=True))
    assert [view.id for view in by_tag] == [2, 3, 1]


def test_brightness_follows_the_tokens_of_the_last_minute() -> None:
    assert [find_level(rate, 900) for rate in (0, 1, 299, 300, 600, 900)] == [0, 1, 1, 2, 3, 3]
    assert find_level(0, 0) == 0


def test_every_cell_is_readable_in_every_theme_also_the_darkest() -> None:
    themes, _ = load_themes(Path("nowhere"))
    for theme in themes.values():
        if theme.is_ansi:
            continue
        ground = theme.colours["background"]
        for word in StatusWord:
            colour = RoleStyles(theme).shade(str(word), 0).color
            assert colour is not None
            shade = Color.parse(colour.name).hex
            assert contrast(shade, ground) >= 3.0, (theme.name, word)


async def test_v_shows_the_hive_with_the_same_cursor_marks_filter_and_detail(tmp_path: Path) -> None:
    async with cockpit(tmp_path, names=("alpha", "beta", "gamma")) as stage:
        table = stage.one(SwarmTable)
        await stage.press("down", "v", shows="idle 3")
        assert table.cursor is not None
        assert table.cursor.name == "beta"
        await stage.press("right")
        assert table.cursor.name == "gamma"
        await stage.until(lambda: "gamma" in stage.text(), within=10)
        await stage.press("left", "space")
        assert {stage.app.feed.myses[each].name for each in stage.app.marks} == {"beta"}
        await stage.press("slash")
        await stage.write("alp")
        await stage.until(lambda: "idle 1" in stage.text())
        await stage.press("escape", "V", shows="grouped by template")
        await stage.press("V", shows="no tag")
        await stage.press("v", until=lambda: table.grouping is None)


async def test_two_thousand_cells_fit_a_screen_of_200_by_60_and_follow_the_keys(tmp_path: Path) -> None:
    api = FakeSwarm()
    for number in range(2000):
        await api.create(f"m{number:04}", start=bool(number % 2))
    async with cockpit_over(api, tmp_path / "zoea.db", size=(200, 60)) as stage:
        table = stage.one(SwarmTable)
        await stage.until(lambda: table.count == 2000)
        await stage.press("v", shows="idle 2000")
        assert table.virtual_size.height <= table.size.height, "all cells are visible at once"
        assert stage.text().count(stage.app.glyphs["idle"]) >= 2000
        first = table.cursor
        await stage.press(*["down", "right"] * 10)
        assert table.cursor is not None
        assert table.cursor != first
