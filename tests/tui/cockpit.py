"""Run the cockpit over a real swarm with a scripted model and a manual clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import pytest
from textual._context import visible_screen_stack
from textual._xterm_parser import XTermParser
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, TextArea

from tests import waiting
from tests.fakes.llm_clock import HandClock
from tests.swarm.harness import Swarm, call, plain, swarm
from tests.tui.idle_pilot import IdlePilot
from zoea.llm.providers.scripted import Rule
from zoea.model.enums import MysisState, Role
from zoea.model.request import Answer, ModelRequest
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import MysisView
from zoea.runtime.run_options import StartOptions
from zoea.settings.early_defaults import EarlySettings
from zoea.settings.paths import Places
from zoea.settings.schema import Settings
from zoea.tui.app import CockpitApp
from zoea.tui.state.swarm_connection import Opener, OpenSwarm
from zoea.tui.terminal.terminal_input import TerminalInput

W = TypeVar("W", bound=Widget)
S = TypeVar("S", bound=Screen[Any])
P = ParamSpec("P")
START = 1_700_000_000_000_000
WITHIN_S = 30.0
SIZE = (120, 40)

QUIET = Settings.model_validate({"nudge": {"enabled": False}, "swarm": {"max_myses": 1000}})


def answering(text: str = "done") -> Rule:
    """Return a model that always gives this answer."""
    return lambda request: Answer(text=text)


@dataclass
class Stage:
    """Hold the app, its pilot and, if there is one, the swarm of a test."""

    app: CockpitApp
    pilot: IdlePilot
    clock: HandClock
    inner: Swarm | None = None
    notices: list[str] = field(default_factory=list)
    names: Sequence[str] = ()
    """The myses of the beginning."""
    starts: bool = False
    """Whether they were started."""

    @property
    def swarm(self) -> Swarm:
        assert self.inner is not None
        return self.inner

    @property
    def api(self) -> SwarmApi:
        return self.app.api

    @property
    def screen(self) -> Screen[Any]:
        return self.app.screen

    @property
    def undoable(self) -> Sequence[tuple[int, str]]:
        """The myses of the newest command that can be undone."""
        return self.app.undo[-1].myses if self.app.undo else ()

    def shows(self, kind: type[Screen[Any]]) -> bool:
        """Return whether a screen of this kind is on top, with its widgets."""
        return isinstance(self.app.screen, kind) and self.app.screen.is_mounted

    def top(self, kind: type[S]) -> S:
        """Return the screen on top, which has to be of this kind."""
        assert isinstance(self.app.screen, kind)
        return self.app.screen

    async def until(self, predicate: Callable[[], Any], *, within: float = WITHIN_S) -> None:
        """Wait for a predicate in real time, then until the screen is painted."""
        await waiting.until(predicate, within=within)
        await self.pilot.rest()

    def _admits_keys(self) -> bool:
        """Return whether keys are no longer dropped as part of a burst or text."""
        keys = self.app.type_ahead
        return time.monotonic() >= max(keys._discards_until, keys._discards_text_until)

    async def press(
        self, *keys: str, shows: str | type[Screen[Any]] = "", until: Callable[[], Any] | None = None
    ) -> None:
        """Press keys and wait until the app is idle. Before that, wait until it no longer drops keys.

        Args:
            shows: The text or the kind of screen to wait for.
            until: What to wait for.
        """
        await waiting.until(self._admits_keys)
        await self.pilot.press(*keys)
        if isinstance(shows, type):
            await self.until(lambda: self.shows(shows))
        elif shows:
            await self.until(lambda: shows in self.text())
        if until is not None:
            await self.until(until)

    async def write(self, text: str) -> None:
        """Type text in one burst, a key for each character."""
        names = {" ": "space", "\n": "ctrl+j", "#": "number_sign", "/": "slash", ":": "colon", ".": "full_stop"}
        names |= {"-": "minus", "_": "underscore", ",": "comma", "?": "question_mark", "!": "exclamation_mark"}
        await waiting.until(self._admits_keys)
        await self.pilot.press_in_a_burst(*(names.get(char, char) for char in text))

    async def enter(self, text: str) -> None:
        """Type text and press enter."""
        await self.write(text)
        await self.press("enter")

    async def go_home(self) -> None:
        """Leave every screen, the prompt with its text and the marks, and forget the notices."""
        while len(self.app.screen_stack) > 2:
            self.app.pop_screen()
            await self.pilot.pause()
        while self.app.marks or isinstance(self.app.focused, Input | TextArea):
            if isinstance(self.app.focused, TextArea):
                self.app.focused.text = ""  # a draft would stand there again
            await self.press("escape")
        self.notices.clear()

    async def resize(self, width: int, height: int) -> None:
        """Resize the terminal, and wait until the screen on top is laid out for it."""
        if self.app.size != (width, height):
            await self.pilot.resize_terminal(width, height)
        await self.until(lambda: self.screen._compositor.size == (width, height))

    async def start_anew(self) -> None:
        """Go home, and begin again: with new myses in place of all, without questions, a history, drafts and undo."""
        await self.go_home()
        commander = self.swarm.commander
        await self.resize(*SIZE)
        if commander.swarm.hold_switch.swarm:
            await commander.hold(False)
        for grant in await self.api.grants():
            await self.api.revoke(grant.id)
        names = [runner.mysis.name for runner in commander.swarm.runners.values()]
        await asyncio.gather(*map(commander.delete, names))
        ids = {(await commander.create(name, start=self.starts)).id for name in self.names}
        self.swarm.peer.seen.clear()
        new = dict.fromkeys(ids, MysisState.RUNNING if self.starts else MysisState.IDLE)
        known = self.app.feed.myses  # it is kept as one object
        await self.until(lambda: {one: known[one].state for one in known} == new and not self.app.approvals.open)
        for key in list(self.app.drafts._by_key):
            self.app.drafts.keep(key, "")
        self.app.new_myses = StartOptions()
        self.app.undo.clear()
        await waiting.until(self._admits_keys)
        await self.pilot.press_in_a_burst("escape", "home")

    async def read_at_once(self, typed: str) -> None:
        """Get what one read of the terminal gives, and the silence after it."""
        keyboard = TerminalInput(XTermParser())
        for message in [*keyboard.feed(typed), *keyboard.tick()]:
            self.app.post_message(message)
        await self.pilot.pause()

    def one(self, kind: type[W], selector: str = "") -> W:
        """Return the widget of this kind on the top screen."""
        return self.screen.query_one(selector, kind) if selector else self.screen.query_one(kind)

    def view(self, name: str = "alpha") -> MysisView:
        """Return the mysis as the cockpit knows it. Raises StopIteration if it is unknown."""
        return next(view for view in self.app.feed.myses.values() if view.name == name)

    def has(self, *names: str) -> bool:
        return {view.name for view in self.app.feed.myses.values()} >= set(names)

    def strips(self) -> list[Strip]:
        """Render the top screen, with those behind it."""
        visible_screen_stack.set(self.app._background_screens)
        return self.screen._compositor.render_strips(self.screen.size)

    def text(self) -> str:
        """Return the text of the top screen."""
        return "\n".join(strip.text for strip in self.strips())


def _watch(app: CockpitApp, notices: list[str]) -> None:
    real = app.notify

    def notify(message: str, **more: Any) -> None:
        notices.append(f"{more.get('title', '')}: {message}" if more.get("title") else message)
        real(message, **more)

    app.notify = notify  # type: ignore[method-assign]  # what was said, beside saying it


@asynccontextmanager
async def cockpit_over(
    api: SwarmApi,
    database: Path,
    *,
    size: tuple[int, int] = SIZE,
    clock: HandClock | None = None,
    is_owner: bool = True,
    config: Path | None = None,
    theme: str = "nova",
    keymap: dict[str, str] | None = None,
    calm: bool = True,
    sandbox_opener: Opener | None = None,
    seconds: Callable[[], float] | None = None,
    inner: Swarm | None = None,
    read_only_reason: str = "",
    writes_files: bool = True,
    drafts: Path | None = None,
    places: Places | None = None,
) -> AsyncIterator[Stage]:
    """Run a cockpit over any `SwarmApi` and close it at the end."""
    clock = clock or HandClock(START)

    @asynccontextmanager
    async def opener() -> AsyncIterator[OpenSwarm]:
        reason = read_only_reason
        yield OpenSwarm(api, database, is_owner, "reef-run", places, read_only_reason=reason, writes_files=writes_files)

    app = CockpitApp(
        opener,
        config=config or database.parent / "config",
        drafts=drafts,
        early=EarlySettings(theme=theme, keys=keymap or {}, reduced_motion=calm),
        sandbox_opener=sandbox_opener,
        now=clock.now,
        clock=seconds or (lambda: clock.now() / 1_000_000),  # a second press is in time however slow the machine is
    )
    notices: list[str] = []
    _watch(app, notices)
    async with app.run_test(size=size, notifications=True):
        stage = Stage(app, IdlePilot(app), clock, inner, notices)
        await stage.until(lambda: app.feed.view is not None)
        await stage.pilot.pause()
        try:
            yield stage
        finally:
            await app.connection.close()
    assert app.reported_defects == [], "a defect was reported that this test does not expect"


@asynccontextmanager
async def cockpit(
    folder: Path,
    rules: Rule | Sequence[Rule] = (),
    *,
    names: Sequence[str] = ("alpha", "beta", "gamma"),
    start: bool = False,
    settings: Settings | None = None,
    **more: Any,
) -> AsyncIterator[Stage]:
    """Run a cockpit over a swarm of `names`, idle unless `start`.

    Args:
        rules: Rules of the scripted model.
        settings: Settings of the swarm; the default turns nudges off.
        more: Arguments for `cockpit_over`.
    """
    async with swarm(folder, rules or answering(), settings=settings or QUIET) as inner:
        for name in names:
            await inner.commander.create(name, start=start)
        async with cockpit_over(inner.api, inner.path, clock=inner.clock, inner=inner, **more) as stage:
            stage.names, stage.starts = names, start
            await stage.until(lambda: stage.has(*names))
            await stage.pilot.pause()
            yield stage


async def take_steps(
    stage: Stage,
    *steps: Callable[[Stage], Awaitable[None]],
    after: Callable[[Stage], Awaitable[None]] = Stage.go_home,
) -> None:
    """Take steps in one cockpit, each from its list without marks. A failure names its step.

    Args:
        after: What each step is followed by; `Stage.start_anew` gives the next one a swarm without a history.
    """
    for step in steps:
        try:
            await step(stage)
            await after(stage)
        except Exception as error:
            error.add_note(f"in the step {getattr(step, '__name__', step)}")
            raise


async def take_steps_anew(folder: Path, *steps: Callable[[Stage], Awaitable[None]], **more: Any) -> None:
    """Take steps in one cockpit, each over a swarm of new myses without a history.

    Args:
        more: Arguments for `cockpit`.
    """
    *before, last = steps
    async with cockpit(folder, **more) as stage:
        await take_steps(stage, *before, after=Stage.start_anew)
        await take_steps(stage, last)


def patched(
    step: Callable[Concatenate[Stage, pytest.MonkeyPatch, P], Awaitable[None]],
) -> Callable[Concatenate[Stage, P], Awaitable[None]]:
    """Give a step patches that end with it."""

    @wraps(step)
    async def take(stage: Stage, /, *values: P.args, **named: P.kwargs) -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            await step(stage, monkeypatch, *values, **named)

    return take


def asks_when_told(request: ModelRequest) -> Answer:
    """Call the destructive tool if the prompt says burn; answer everything else."""
    last = request.messages[-1]
    if last.role is Role.USER and plain(last.content).startswith("burn"):
        return Answer(calls=(call("burn", plain(last.content)),))
    return Answer(text="done")
