"""Fixtures of every test of the cockpit."""

from __future__ import annotations

import pytest
from textual._styles_cache import StylesCache
from textual.css.stylesheet import Stylesheet
from textual.message_pump import MessagePump
from textual.screen import Screen

from tests.fakes import paint_once
from tests.fakes.applied_styles import apply_known, replace_changed
from tests.fakes.found_handlers import find_handlers
from tests.fakes.parsed_styles import parse_once


@pytest.fixture(autouse=True)
def _styles_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep parsed style rules, and what they come to for a widget, between the cockpits of a process."""
    monkeypatch.setattr(Stylesheet, "_parse_rules", parse_once)
    monkeypatch.setattr(Stylesheet, "apply", apply_known)
    monkeypatch.setattr(Stylesheet, "replace_rules", staticmethod(replace_changed))


@pytest.fixture(autouse=True)
def _screens_are_painted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw what changed once a frame, not after each layout too; compose a screen only for who reads it."""
    monkeypatch.setattr(Screen, "_compositor_refresh", paint_once.refresh_later)
    monkeypatch.setattr(Screen, "_on_timer_update", paint_once.paint_frame)
    for name in ("render_widget", "set_dirty", "clear"):
        monkeypatch.setattr(StylesCache, name, getattr(paint_once, name))


@pytest.fixture(autouse=True)
def _handlers_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look handlers of messages up once for each class."""
    monkeypatch.setattr(MessagePump, "_get_dispatch_methods", find_handlers)
