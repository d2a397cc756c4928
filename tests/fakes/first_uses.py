"""Does before a fork what Zoea and its libraries put off until first use.

Putting it off brings the first paint forward for a person. Each fork of the tests would do it again, which is a fifth
of the time of a cockpit.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from textual import _callback, message_pump
from textual.css.stylesheet import Stylesheet
from textual.message_pump import MessagePump
from textual.reactive import Reactive
from textual.widget import Widget

from tests.fakes.applied_styles import apply_known, process_changed_components, replace_changed
from tests.fakes.found_handlers import SilentLog, count_parameters, find_handlers, read_value
from tests.fakes.light_strips import make_caches_late
from tests.fakes.parsed_styles import parse_once
from tests.waiting import until
from zoea import tui
from zoea.model.errors import OwnerError
from zoea.settings.layers import load
from zoea.settings.paths import Places
from zoea.text import lazy_pattern
from zoea.tools.builtin.arguments import schema_of
from zoea.tui.start import build_cockpit
from zoea.tui.state.swarm_connection import OpenSwarm

_LATE = ("anyio._backends._asyncio", "encodings.ascii", "encodings.idna", "textual.scrollbar")
"""Modules that libraries load at their first use."""
_METHODS = ("match", "search", "fullmatch", "finditer", "findall", "scanner", "split", "sub", "subn")


def do_first_uses() -> None:
    """Build all models, schemas and patterns, read settings, and show a cockpit on no terminal."""
    for name in _LATE:
        import_module(name)
    for model in _find_subclasses(BaseModel):
        if model.__module__.startswith("zoea."):
            model.model_rebuild()
        if model.__module__.startswith("zoea.tools."):
            schema_of(model)
    for pattern in gc.get_objects():
        if type(pattern) is lazy_pattern._LazyPattern:
            for name in _METHODS:
                getattr(pattern, name)
    _keep_results()
    with tempfile.TemporaryDirectory() as folder:
        where = Places(Path(folder), Path(folder), Path(folder))
        load(where, project_dir=Path(folder), env={})
        asyncio.run(_show_cockpit(where))


def _keep_results() -> None:
    """Keep what Textual looks up again and again, as tests of the cockpit do."""
    make_caches_late()
    changes: tuple[tuple[Any, str, Any], ...] = (
        (Stylesheet, "_parse_rules", parse_once),
        (Stylesheet, "apply", apply_known),
        (Stylesheet, "replace_rules", staticmethod(replace_changed)),
        (Stylesheet, "_process_component_classes", process_changed_components),
        (MessagePump, "_get_dispatch_methods", find_handlers),
        (_callback, "_count_parameters", count_parameters),
        (message_pump, "log", SilentLog()),
        (Reactive, "__get__", read_value),
    )
    for place, name, value in changes:
        setattr(place, name, value)


def _find_subclasses(base: Any) -> set[Any]:
    return set(base.__subclasses__()).union(*map(_find_subclasses, base.__subclasses__()))


async def _show_cockpit(where: Places) -> None:
    """Show a cockpit until it fails to open its swarm."""

    def refuse() -> AbstractAsyncContextManager[OpenSwarm]:
        raise OwnerError("there is no swarm here")

    cockpit = build_cockpit(where, refuse)
    async with cockpit.run_test(size=(120, 40)) as pilot:
        await until(lambda: cockpit.connection.error is not None)
        await pilot.pause()
        _parse_styles(cockpit.stylesheet.copy())


def _parse_styles(styles: Stylesheet) -> None:
    """Parse the rules of all screens, dialogs and widgets, with the variables of a stylesheet."""
    styles.read_all(sorted(Path(tui.__file__).parent.rglob("*.tcss")))
    for kind in _find_subclasses(Widget):
        for read_from, css, tie_breaker, scope in object.__new__(kind)._get_default_css():
            styles.add_source(css, read_from=read_from, is_default_css=True, tie_breaker=tie_breaker, scope=scope)
    styles.parse()
