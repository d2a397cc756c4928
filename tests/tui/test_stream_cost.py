"""Watching a stream costs no query of the widget tree."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from textual.dom import DOMNode

from tests.swarm.harness import script
from tests.tui.cockpit import cockpit
from zoea.model.enums import Activity
from zoea.model.request import Answer
from zoea.model.values import SwarmView
from zoea.tui.screens.dashboard import DashboardScreen
from zoea.tui.screens.focus import FocusScreen

LOOKS = 20
METHODS = ("query", "query_one", "query_exactly_one")
PACKAGE = str(Path(__file__).parents[2] / "zoea")


@contextmanager
def counted_queries(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Collect the functions of Zoea that query the widget tree in the block."""
    found: list[str] = []

    def counting(name: str) -> Any:
        real = getattr(DOMNode, name)

        def query(self: DOMNode, *arguments: Any) -> Any:
            caller = sys._getframe(1).f_code
            if caller.co_filename.startswith(PACKAGE):
                found.append(caller.co_qualname)
            return real(self, *arguments)

        return query

    with monkeypatch.context() as patch:
        for name in METHODS:
            patch.setattr(DOMNode, name, counting(name))
        yield found


@pytest.mark.parametrize("screen", [FocusScreen, DashboardScreen])
async def test_a_stream_is_shown_without_queries(screen: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with cockpit(tmp_path, script(Answer(text="done")), start=True) as stage:
        if screen is FocusScreen:
            await stage.press("enter")
        await stage.until(lambda: isinstance(stage.screen, screen) and stage.screen.is_mounted)
        await stage.pilot.pause()
        view = stage.app.feed.in_order()[0]

        async def look(number: int) -> None:
            said = "a word " * number
            fresh = replace(view, streaming=said, thinking="so", activity=Activity.LLM, text=said)
            stage.app.feed.take(SwarmView(100 + number, False, "", (fresh,)))
            await stage.pilot.pause()

        await look(1)
        with counted_queries(monkeypatch) as found:
            for number in range(2, LOOKS):
                await look(number)
        assert found == []
