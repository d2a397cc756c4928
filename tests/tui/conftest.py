"""Fixtures of every test of the cockpit."""

from __future__ import annotations

import pytest
from textual.css.stylesheet import Stylesheet

from tests.fakes.parsed_styles import parse_once


@pytest.fixture(autouse=True)
def _styles_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep parsed style rules between the cockpits of a process."""
    monkeypatch.setattr(Stylesheet, "_parse_rules", parse_once)
