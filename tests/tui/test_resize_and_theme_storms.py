"""Many changes of theme and terminal size on every screen break nothing."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual import events
from textual.geometry import Size
from textual.screen import Screen

from tests.tui.cockpit import Stage, asks_when_told, cockpit
from zoea.tui.app import MINIMUM, TooSmallScreen, is_too_small
from zoea.tui.screens.dashboard import DashboardScreen
from zoea.tui.theme import themes

SCREENS = (
    "mysis.focus",
    "mysis.inspect",
    "screen.search",
    "screen.upstreams",
    "screen.log",
    "screen.settings",
    "screen.welcome",
    "app.help",
    "app.command",
    "app.palette",
    "approval.oldest",
    "mysis.new",
    "mysis.delete",
    "app.quit",
)
"""Actions of the list that each open a screen."""
STORMS, SIZES = 2 if os.environ.get("ZOEA_SOAK") else 1, 8
"""So many storms on each screen, of so many sizes that come faster than they are drawn: over a hundred together."""
WIDTHS, HEIGHTS = (20, 250), (5, 70)


async def opened(stage: Stage, action_id: str) -> Screen[Any]:
    """The screen that an action of the list opens, over the list alone."""
    while not isinstance(stage.screen, DashboardScreen):
        stage.app.pop_screen()
        await stage.pilot.pause()
    stage.app.action_do(action_id)
    await stage.until(lambda: not isinstance(stage.screen, DashboardScreen) and stage.screen.is_mounted)
    await stage.pilot.pause()
    return stage.screen


async def with_a_question(stage: Stage) -> None:
    await stage.api.send("alpha", "burn it")
    await stage.until(lambda: stage.app.approvals.open)


def tour(names: list[str]) -> list[str]:
    """Return a walk in which each name comes before and after the first. Under ZOEA_SOAK, after every other."""
    walk: list[str] = []
    for place, one in enumerate(names if os.environ.get("ZOEA_SOAK") else names[:1]):
        walk.append(one)
        for other in names[place + 1 :]:
            walk += [other, one]
    return walk


def says(stage: Stage, text: str) -> Callable[[], bool]:
    """The text stands on the screen, however it is wrapped."""
    return lambda: text in " ".join(stage.text().split())


async def storm(stage: Stage, chance: random.Random) -> Size:
    """Sizes in quick succession, the last of them as often too small as not."""
    for _ in range(SIZES - 1):
        size = Size(chance.randint(*WIDTHS), chance.randint(*HEIGHTS))
        stage.app.post_message(events.Resize(size, size))
        await asyncio.sleep(0)
    last = Size(chance.randint(*WIDTHS), chance.randint(*HEIGHTS))
    if chance.random() < 0.4:
        last = Size(max(last.width, MINIMUM.width), max(last.height, MINIMUM.height))
    await stage.pilot.resize_terminal(*last)
    return last


async def test_themes_follow_each_other_and_every_screen_bears_that_of_the_terminal(tmp_path: Path) -> None:
    async with cockpit(tmp_path, asks_when_told) as stage:
        await with_a_question(stage)
        # The terminal's own palette is the one that is unlike the others.
        for name in tour(["ansi", *sorted(stage.app.theme_specs.keys() - {"ansi"})]):
            stage.app.use_theme(name)
            await stage.pilot.pause()
            assert stage.app.theme == name
        for place, action_id in enumerate(SCREENS):
            screen = await opened(stage, action_id)
            stage.app.use_theme((themes.DEFAULT, "ansi")[place % 2])
            await stage.pilot.pause()
            assert stage.screen is screen, action_id
        assert stage.app.reported_defects == []


async def test_a_hundred_sizes_break_nothing_and_below_the_smallest_it_says_so(tmp_path: Path) -> None:
    chance = random.Random(20)
    async with cockpit(tmp_path, asks_when_told) as stage:
        await with_a_question(stage)
        for action_id in SCREENS:
            screen = await opened(stage, action_id)
            for _ in range(STORMS):
                size = await storm(stage, chance)
                await stage.until(lambda: isinstance(stage.screen, TooSmallScreen) == is_too_small(stage.app.size))
                if is_too_small(size):
                    await stage.until(
                        says(stage, f"{size.width}x{size.height}, needs {MINIMUM.width}x{MINIMUM.height}")
                    )
                else:
                    assert stage.screen is screen, action_id
            await stage.pilot.resize_terminal(120, 40)
            await stage.until(lambda: not isinstance(stage.screen, TooSmallScreen))
        assert stage.app.reported_defects == []
        assert "alpha" in stage.text()
