"""Fixtures of every test of the cockpit."""

from __future__ import annotations

import pytest
from textual.css.stylesheet import Stylesheet
from textual.screen import Screen

from tests.fakes.paint_once import paint_frame, refresh_later
from tests.fakes.parsed_styles import parse_once


@pytest.fixture(autouse=True)
def _styles_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep parsed style rules between the cockpits of a process."""
    monkeypatch.setattr(Stylesheet, "_parse_rules", parse_once)


@pytest.fixture(autouse=True)
def _screens_are_painted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paint a screen once a frame, not after each layout too."""
    monkeypatch.setattr(Screen, "_compositor_refresh", refresh_later)
    monkeypatch.setattr(Screen, "_on_timer_update", paint_frame)
