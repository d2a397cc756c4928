"""The filter of the swarm list, and who a command to many is for."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.fakes.swarm import FakeSwarm
from zoea.model.enums import MysisState
from zoea.model.values import MysisView
from zoea.tui.swarm_list.message_targets import Audience, is_confirmed, refresh_target, target_many
from zoea.tui.swarm_list.row_filter import RowFilter


@pytest.fixture
async def views() -> list[MysisView]:
    api = FakeSwarm()
    miner = await api.create("ore-1", template="miner", tags=("north", "fleet two"))
    trader = replace(await api.create("trader", template="trader", tags=("south",)), text="Sold the ORE at a loss")
    scout = replace(await api.create("scout", start=False), state=MysisState.IDLE)
    return [miner, trader, scout]


def names(text: str, views: list[MysisView]) -> list[str]:
    return [view.name for view in RowFilter.parse(text).select(views)]


def test_words_match_names_first(views: list[MysisView]) -> None:
    assert names("ore", views) == ["ore-1"]
    assert names("ORE 1", views) == ["ore-1"]


def test_words_that_no_name_has_match_the_other_columns(views: list[MysisView]) -> None:
    assert names("loss", views) == ["trader"]
    assert names("north", views) == ["ore-1"]
    assert names("nothing such", views) == []


def test_fields_match_tags_states_templates_and_texts(views: list[MysisView]) -> None:
    assert names("tag:north", views) == ["ore-1"]
    assert names('tag:"fleet two"', views) == ["ore-1"]
    stopped = [*views[:2], replace(views[2], state=MysisState.STOPPED)]
    assert names("state:stop", stopped) == ["scout"]
    assert names("state:running", stopped) == ["ore-1", "trader"]
    assert names("template:min", views) == ["ore-1"]
    assert names("says:ore", views) == ["trader"]
    assert names('says:"the ore"', views) == ["trader"]
    assert names("tag:south scout", views) == []


def test_a_field_whose_value_is_still_to_come_filters_nothing(views: list[MysisView]) -> None:
    assert names("tag:", views) == ["ore-1", "trader", "scout"]
    assert not RowFilter.parse("state:")
    assert not RowFilter.parse("  ")


def test_an_unknown_field_is_a_word(views: list[MysisView]) -> None:
    assert names("mood:good", views) == []


def test_an_audience_is_the_marked_else_the_filtered_else_all(views: list[MysisView]) -> None:
    shown = RowFilter.parse("tag:south")
    for marks, by, title in (
        ({views[0].id}, shown, "broadcast to 1 (marked: ore-1)"),
        ((), shown, "broadcast to 1 (filter 'tag:south': trader)"),
        ((), RowFilter(), f"broadcast to all {len(views)} myses"),
    ):
        assert target_many(Audience.choose(views, marks, by)).title == title


def test_recipients_stay_those_that_the_prompt_named(views: list[MysisView]) -> None:
    target = target_many(Audience.choose(views, (), RowFilter.parse("scout")))
    assert target.names == ("scout",)
    later = [replace(view, state=MysisState.IDLE, version=view.version + 1) for view in views]
    assert refresh_target(target, later).names == ("scout",)
    assert refresh_target(target, later[:2]) is target


def test_a_limit_of_zero_never_asks() -> None:
    assert is_confirmed(20, 21)
    assert is_confirmed(20, 1, 200_001)
    assert not is_confirmed(20, 20, 200_000)
    assert not is_confirmed(0, 1_000, 10_000_000)
