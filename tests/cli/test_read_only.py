"""`zoea run --read-only` is for a terminal, and starts nothing."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Zoea


@pytest.mark.parametrize("also", [(), ("--plain",), ("--headless",), ("--json",), ("--for", "1s")])
def test_without_a_screen_it_is_refused(zoea: Zoea, also: tuple[str, ...]) -> None:
    refused = zoea("run", "--read-only", *also)
    assert refused.code != 0
    assert "--read-only opens the cockpit" in refused.err
