"""Prices: the user's file over the published ones, and what stays unknown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.case_tables import walk_cases
from zoea.llm.price_writer import remove_price, set_price
from zoea.llm.prices import FREE, ModelPrice, PriceList, find_price, published_prices, read_price_file
from zoea.llm.providers.anthropic_stream import usage_of
from zoea.model.errors import SettingsError
from zoea.model.request import Answer
from zoea.model.values import Usage


def price_of(model: str) -> ModelPrice:
    found = find_price(model, published_prices())
    assert found is not None
    return found


def test_a_price_counts_cached_tokens_apart() -> None:
    opus = price_of("claude-opus-5")
    assert opus.cost(1_000_000, 0) == 5_000_000
    assert opus.cost(1_000_000, 0, 1_000_000) == 500_000
    assert opus.cost(0, 1_000) == 25_000


@walk_cases(
    ("model", "tokens", "micros"),
    [
        ("claude-sonnet-4-5", 200_000, 600_000),
        ("claude-sonnet-4-5", 200_001, None),  # with the header of a longer window it costs more
        ("claude-sonnet-4", 200_001, None),
        ("claude-sonnet-4-6", 900_000, 2_700_000),
    ],
)
def test_a_prompt_longer_than_a_price_holds_for_has_no_price(model: str, tokens: int, micros: int | None) -> None:
    assert price_of(model).cost(tokens, 0) == micros
    answer = Answer(usage=Usage(input_tokens=tokens, output_tokens=0))
    assert PriceList().add_cost(answer, "p", model).usage.cost_micros == micros


@walk_cases(
    ("reported", "surcharge"),
    [
        ({}, None),
        ({"cache_creation_input_tokens": 1_000}, 250),
        ({"cache_creation_input_tokens": 1_000, "cache_creation": {"ephemeral_1h_input_tokens": 1_000}}, 1_000),
        ({"cache_creation_input_tokens": 1_000, "cache_creation": {"ephemeral_1h_input_tokens": 400}}, 550),
        ({"cache_creation_input_tokens": 1, "cache_creation": "odd"}, 1),
    ],
)
def test_what_claude_keeps_for_an_hour_costs_twice_as_much(reported: dict[str, Any], surcharge: int | None) -> None:
    assert usage_of({"input_tokens": 5, **reported}).write_surcharge == surcharge


def test_what_a_vendor_writes_into_its_cache_costs_more_than_input() -> None:
    answer = Answer(usage=Usage(input_tokens=1_000, output_tokens=0, write_surcharge=250))
    assert PriceList().add_cost(answer, "p", "claude-opus-5").usage.cost_micros == 1_250 * 5


@walk_cases("model", ["claude-haiku-4-5-20251001", "anthropic/claude-haiku-4-5", "claude-haiku-4-5@20251001"])
def test_a_dated_release_has_the_price_of_its_model_with_any_vendor_prefix(model: str) -> None:
    assert price_of(model).name == "claude-haiku-4-5"


@walk_cases("model", ["reef-1", "gpt-5-pro", "gpt-5-mini-turbo", "claude-opus-50", ""])
def test_a_model_that_only_resembles_another_has_no_price(model: str) -> None:
    assert find_price(model, published_prices()) is None


def test_every_published_price_names_source_and_date() -> None:
    assert all(one.source.startswith("https://") and one.as_of for one in published_prices())


def test_the_users_file_wins_is_read_again_when_it_changes_and_stays_where_it_breaks(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    prices = PriceList(file, is_free=lambda provider, _model: provider == "here")
    assert prices.find("p", "gpt-5") == price_of("gpt-5")
    assert prices.find("here", "gpt-5") == FREE
    file.write_text('[model."gpt-5"]\ninput = 1\noutput = 2\n[model."vendor/*"]\ninput = 3\noutput = 4\n')
    own = prices.find("here", "gpt-5")
    assert own is not None
    assert (own.input, own.cached, own.output, own.is_own) == (1, 1, 2, True)
    assert prices.find("p", "vendor/anything") is not None
    file.write_text("not toml")
    assert prices.find("p", "gpt-5") == own
    file.unlink()
    assert prices.find("p", "gpt-5") == price_of("gpt-5")


@pytest.mark.parametrize(
    "text", ["[model.x]\ninput = -1\noutput = 2", "[model.x]\ninput = 1", "[modle.x]\ninput = 1", "x ="]
)
def test_a_broken_price_file_names_the_file_and_the_form_of_an_entry(tmp_path: Path, text: str) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(text)
    with pytest.raises(SettingsError) as raised:
        read_price_file(file)
    assert str(file) in raised.value.what
    assert '[model."gpt-5"]' in raised.value.hint


def test_an_answer_gets_its_cost_unless_the_provider_reported_one_or_the_price_is_unknown() -> None:
    prices = PriceList()
    used = Answer(text="x", usage=Usage(input_tokens=1_000, cached_tokens=1_000, output_tokens=1_000), model="gpt-5")
    assert prices.add_cost(used, "p", "").usage.cost_micros == 125 + 10_000
    reported = Answer(text="x", usage=Usage(input_tokens=1, output_tokens=1, cost_micros=7))
    assert prices.add_cost(reported, "p", "gpt-5").usage.cost_micros == 7
    assert prices.add_cost(used, "p", "unheard-of").usage.cost_micros is None
    assert prices.add_cost(Answer(text="x"), "p", "gpt-5").usage.cost_micros is None


def test_setting_and_removing_a_price_keeps_what_else_stands_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    set_price(file, ModelPrice("a-*", 1, 0.5, 2, "here", "2026-11-01"))
    file.write_text("# mine\n" + file.read_text())
    set_price(file, ModelPrice("b", 3, 3, 4, "", "2026-11-02"))
    assert [one.name for one in read_price_file(file)] == ["a-*", "b"]
    assert remove_price(file, "a-*")
    assert not remove_price(file, "a-*")
    assert file.read_text().startswith("# mine\n")
    assert [one.name for one in read_price_file(file)] == ["b"]


@pytest.mark.parametrize(
    "text", [f"x = {'[' * 20_000}{']' * 20_000}", f"x = {'1' * 5_000}", '[model." "]\ninput = 1\noutput = 2']
)
def test_a_file_that_no_parser_can_take_leaves_the_prices_read_before(tmp_path: Path, text: str) -> None:
    file = tmp_path / "prices.toml"
    file.write_text("[model.m]\ninput = 1\noutput = 2\n")
    prices = PriceList(file)
    own = prices.find("p", "m")
    file.write_text(text)
    assert own is not None
    assert prices.find("p", "m") == own
    with pytest.raises(SettingsError):
        read_price_file(file)


def test_a_price_file_that_is_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    os.mkfifo(file)
    assert PriceList(file).find("p", "gpt-5") == price_of("gpt-5")
    with pytest.raises(SettingsError, match="is not a file"):
        read_price_file(file)


@pytest.mark.parametrize(("name", "dollars"), [("m", float("inf")), ("m", float("nan")), ("m", 200_000.0), (" ", 1.0)])
def test_a_price_that_could_not_be_read_again_is_not_written(tmp_path: Path, name: str, dollars: float) -> None:
    file = tmp_path / "prices.toml"
    with pytest.raises(SettingsError):
        set_price(file, ModelPrice(name, dollars, dollars, dollars))
    assert not file.exists()


@pytest.mark.parametrize(
    "text",
    [
        "model = {a = {input = 1, output = 2}}\n",
        "[model]\na.input = 1\na.output = 2\n",
        "model.a = {input = 1, output = 2}\n",
    ],
)
def test_a_price_is_added_to_entries_in_any_form_of_toml(tmp_path: Path, text: str) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(text)
    set_price(file, ModelPrice("b", 3, 3, 4))
    assert {one.name: one.output for one in read_price_file(file)} == {"a": 2, "b": 4}
    assert remove_price(file, "a")
    assert [one.name for one in read_price_file(file)] == ["b"]
