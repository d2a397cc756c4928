"""`zoea prices`: the list with source and date, own prices, and a running swarm that heeds them."""

from __future__ import annotations

from tests.cli.conftest import Zoea
from zoea.settings.paths import places


def test_prices_are_listed_with_source_and_date_and_own_ones_win(zoea: Zoea) -> None:
    listed = zoea("prices")
    assert "claude-opus-5 " in listed.out
    assert "https://platform.openai.com/docs/pricing" in listed.out
    zoea("prices", "set", "gpt-5", "--input", "1", "--cached", "0.5", "--output", "2", "--source", "my contract")
    [price] = zoea("prices", "--model", "gpt-5-2025-08-07", "--json").json["prices"]
    assert (price["input"], price["cached"], price["output"], price["is_own"]) == (1, 0.5, 2, True)
    assert price["source"] == "my contract"
    assert "my contract" in places(configured=False).prices.read_text()
    zoea("prices", "remove", "gpt-5")
    [price] = zoea("prices", "--model", "gpt-5", "--json").json["prices"]
    assert price["is_own"] is False


def test_an_unknown_price_and_a_broken_file_say_what_to_do(zoea: Zoea) -> None:
    missing = zoea("prices", "--model", "unheard-of")
    assert missing.code == 2
    assert "zoea prices set unheard-of" in missing.err
    assert "has no price of x" in zoea("prices", "remove", "x").err
    file = places(configured=False).prices
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("[model.x]\ninput = -3\n")
    broken = zoea("prices")
    assert broken.code != 0
    assert str(file) in broken.err.replace("\n", "")
    checked = zoea("config", "check")
    assert "prices.toml" in checked.out + checked.err
