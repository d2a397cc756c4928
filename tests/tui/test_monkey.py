"""Random keys on the whole cockpit cause no traceback and destroy nothing without a question."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.keys import _get_unicode_name_from_key

from tests.swarm.harness import swarm
from tests.tui.cockpit import QUIET, Stage, asks_when_told, cockpit_over
from zoea.model.enums import MysisState
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import MysisView
from zoea.queries.broadcasts import read_broadcasts
from zoea.queries.stored_swarm import read_swarm_view
from zoea.tui.app import CockpitApp
from zoea.tui.commands.actions import ACTIONS
from zoea.tui.dialogs.approvals import ApprovalDialog
from zoea.tui.dialogs.modal import ConfirmDialog
from zoea.tui.dialogs.quit import QuitDialog
from zoea.tui.screens.dashboard import DashboardScreen

SOAK_S = 60.0
KEYS = 120
"""Keys of the quick run, which are always the same ones."""
GUARDED = ("delete", "stop_all", "answer", "shutdown")
TYPED = ["a", "b", "c", "d", "e", "i", "m", "n", "o", "r", "s", "t", "u", "x", "y", "z", "space", "minus"]
MOVES = ["enter", "escape", "escape", "tab", "up", "down", "left", "right", "j", "k", "G", "pageup", "pagedown"]
EDITS = ["backspace", "delete", "ctrl+a", "ctrl+k", "ctrl+u", "ctrl+w", "ctrl+c", "ctrl+j", "ctrl+z", "shift+left"]
SIZES = [(120, 40), (80, 24), (200, 60), (70, 15), (100, 20)]


@dataclass
class Watched:
    """Wraps the swarm's api, and notes the screen and keys of each destructive call."""

    api: SwarmApi
    screen: str = ""
    keys: list[str] = field(default_factory=list)
    fired: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.api, name)
        if name in GUARDED:
            self.fired.append((name, self.screen, tuple(self.keys[-2:])))
        return found


def all_keys() -> list[str]:
    registered = [action.key for action in ACTIONS if action.key]
    return [*registered, *registered, *TYPED, *MOVES, *MOVES, *EDITS]


def was_confirmed(fired: tuple[str, str, tuple[str, ...]]) -> bool:
    """Whether a person who pressed these keys on this screen was asked before."""
    what, screen, keys = fired
    if screen == ConfirmDialog.__name__:
        return keys[-1] == "y"
    match what:
        case "answer":
            return screen == ApprovalDialog.__name__ and keys[-1] in ("y", "s", "t", "enter")
        case "stop_all":
            return keys == ("X", "X")
    return False


def stored_part(view: MysisView) -> tuple[Any, ...]:
    """Return what both the feed and the database know of a mysis. No stored row says that it is running."""
    state = MysisState.IDLE if view.state is MysisState.RUNNING else view.state
    counts = (view.turns, view.tool_calls, view.errors, view.requests, view.tokens, view.pending, view.approvals)
    return (
        view.id,
        view.name,
        view.template,
        view.provider,
        view.model,
        state,
        view.tags,
        view.held,
        view.failure,
        counts,
    )


def shown(stage: Stage) -> list[tuple[Any, ...]]:
    return [stored_part(view) for view in stage.app.feed.in_order()]


def is_what_is_stored(stage: Stage) -> bool:
    view = read_swarm_view(stage.swarm.path)
    return shown(stage) == [stored_part(one) for one in view.myses] and bool(
        stage.app.feed.view and stage.app.feed.view.held == view.held
    )


async def press_fast(stage: Stage, key: str) -> None:
    """Press a key and wait until it was handled: a pilot's key takes ten times as long."""
    event = events.Key(key, _character(key))
    event.set_sender(stage.app)
    stage.app.post_message(event)
    await asyncio.sleep(0)
    await stage.until(lambda: has_failed(stage) or is_handled(stage))


def has_failed(stage: Stage) -> bool:
    return stage.app._exception is not None


def is_handled(stage: Stage) -> bool:
    return not (stage.app.message_queue_size or stage.screen.message_queue_size)


def _character(key: str) -> str | None:
    try:
        return unicodedata.lookup(_get_unicode_name_from_key(key))
    except KeyError:
        return key if len(key) == 1 else None


async def press_at_random(stage: Stage, watched: Watched, chance: random.Random, *, soak: bool) -> int:
    """Press random keys until all are pressed or the time is over. Return how many. Now and then resize or send too."""
    keys, count, ends = all_keys(), 0, time.monotonic() + SOAK_S
    while time.monotonic() < ends if soak else count < KEYS:
        key = chance.choice(keys)
        watched.screen = type(stage.screen).__name__
        watched.keys.append(key)
        await press_fast(stage, key)
        count += 1
        if chance.random() < 0.01:
            await stage.pilot.resize_terminal(*chance.choice(SIZES))
        if chance.random() < 0.03:
            living = [view for view in stage.app.feed.in_order() if view.state.accepts_messages]
            if living:
                await watched.api.send(f"#{chance.choice(living).id}", chance.choice(["burn it", "go", "[/] \x1b[2J"]))
        if has_failed(stage):
            break
    return count


@pytest.mark.timeout(SOAK_S + 60)
async def test_random_keys_break_nothing_and_destroy_nothing_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    soak = bool(os.environ.get("ZOEA_SOAK"))
    seed = random.randrange(1_000_000) if soak else 7
    left: list[tuple[str, str]] = []
    caplog.set_level(logging.ERROR)

    async with swarm(tmp_path, asks_when_told, settings=QUIET) as inner:
        for name in ("alpha", "beta", "gamma", "delta"):
            await inner.commander.create(name, start=False)
        watched = Watched(inner.api)

        async def leave(self: CockpitApp, how: str = "stop") -> None:
            left.append((watched.screen, watched.keys[-1]))
            self.pop_screen()

        monkeypatch.setattr(CockpitApp, "leave", leave)
        monkeypatch.setattr(CockpitApp, "leave_now", lambda self: None)
        async with cockpit_over(watched, inner.path, clock=inner.clock, inner=inner) as stage:
            count = await press_at_random(stage, watched, random.Random(seed), soak=soak)
            logging.getLogger(__name__).info("seed %d: %d keys, %d guarded", seed, count, len(watched.fired))
            assert stage.app._exception is None
            await stage.pilot.resize_terminal(120, 40)
            await stage.until(lambda: is_what_is_stored(stage))
            dashboard = next(one for one in stage.app.screen_stack if isinstance(one, DashboardScreen))
            stored = read_broadcasts(inner.path)
            await stage.until(lambda: dashboard.broadcasts == stored)
    assert [one for one in watched.fired if not was_confirmed(one)] == []
    assert [one for one in left if one[0] != QuitDialog.__name__] == []
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
