"""Fixtures of every test of the cockpit."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from textual import _callback, message_pump
from textual._styles_cache import StylesCache
from textual.css.stylesheet import Stylesheet
from textual.design import ColorSystem
from textual.dom import DOMNode
from textual.message_pump import MessagePump
from textual.reactive import Reactive
from textual.screen import Screen

from tests.fakes import paint_once
from tests.fakes.applied_styles import apply_known, process_changed_components, replace_changed
from tests.fakes.found_handlers import SilentLog, count_parameters, find_handlers, find_screen, read_value
from tests.fakes.light_strips import make_caches_late
from tests.fakes.parsed_styles import generate_once, parse_once, tokens_once
from zoea.agents.agent_launch import KnownAgent
from zoea.tui.theme import themes

make_caches_late()


@pytest.fixture(autouse=True)
def _styles_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep parsed style rules, and their results for widgets, between cockpits of a process."""
    monkeypatch.setattr(Stylesheet, "_parse_rules", parse_once)
    monkeypatch.setattr(Stylesheet, "_variable_tokens", property(tokens_once))
    monkeypatch.setattr(ColorSystem, "generate", generate_once)
    monkeypatch.setattr(Stylesheet, "apply", apply_known)
    monkeypatch.setattr(Stylesheet, "replace_rules", staticmethod(replace_changed))
    monkeypatch.setattr(Stylesheet, "_process_component_classes", process_changed_components)


@pytest.fixture(autouse=True)
def _no_agent_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Find no external agent of this machine. A test that wants one puts it into a list of its own."""
    monkeypatch.setattr(KnownAgent, "program", None)


@pytest.fixture(autouse=True)
def _screens_are_painted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw what changed once a frame, not after each layout too. Compose a screen only for its readers."""
    monkeypatch.setattr(Screen, "_compositor_refresh", paint_once.refresh_later)
    monkeypatch.setattr(Screen, "_on_timer_update", paint_once.paint_frame)
    for name in ("render_widget", "set_dirty", "clear"):
        monkeypatch.setattr(StylesCache, name, getattr(paint_once, name))


_read_theme = themes.read_theme
_read_shipped = cache(_read_theme)
_SHIPPED = themes.list_theme_folders(Path("none"))[0]


def _read_shipped_once(file: Path) -> themes.ThemeSpec:
    return (_read_shipped if file.parent == _SHIPPED else _read_theme)(file)


@pytest.fixture(autouse=True)
def _handlers_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look up once for each class what handles a message and which values are computed. Log no message."""
    monkeypatch.setattr(MessagePump, "_get_dispatch_methods", find_handlers)
    monkeypatch.setattr(_callback, "_count_parameters", count_parameters)
    monkeypatch.setattr(message_pump, "log", SilentLog())
    monkeypatch.setattr(Reactive, "__get__", read_value)
    monkeypatch.setattr(DOMNode, "screen", property(find_screen))


@pytest.fixture(autouse=True)
def _shipped_themes_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parse the themes of Zoea once, not for each cockpit."""
    monkeypatch.setattr(themes, "read_theme", _read_shipped_once)
