"""Measure the cockpit's cost over a large swarm, and how long a person waits.

    python -m benchmarks.tui_load [--quick] [--only fed,busy,sixty,agents,idle,rows,hive,memory]

Each line is measured in a process of its own, which holds the swarm and its cockpit, on a real terminal:

- fed: 1,000 myses, 500 changes and events a second. Each change carries the time of its making
  into the row's text; `screen` is from there until the terminal's other end has read it (a text that
  the next one replaced counts when that one came). `key` is from `j` or `k` to the title of the next mysis.
- busy: the same over a swarm that works: prompts, plans, answers of a model that thinks 0.3 s, tool calls, the store.
- sixty: 60 myses at work at 200x60: each streams an answer or waits for a tool all the time, 20 pieces a second.
- agents: 20 processes of external agents that tell 100 pieces of text a second each; CPU of swarm and cockpit for one.
- idle: 1,000 myses that rest: share of one core, everything included.
- rows: steps by lines and pages through 10,000 rows: widgets made, lists arranged, lines drawn for each step.
- memory: resident memory after 100,000 events against after the first 10,000.

`--quick` ends within a minute. The exit code is 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from benchmarks.cost import judge, machine, measured, quantile, resident
from benchmarks.rig import PlainModel, Rig, rig
from benchmarks.terminal import SIZE, Terminal, plain
from tests.agents.agent_harness import OneFolder
from tests.fakes import acp_agent
from tests.fakes.no_connections import NoConnections
from zoea.agents.agent_pool import AgentPool
from zoea.model.request import Delta, ModelRequest, StreamItem
from zoea.model.values import Event, SwarmView
from zoea.process.clock import SystemClock
from zoea.runtime.compose import RunningSwarm
from zoea.settings.template import AgentSettings, Template
from zoea.swarm.live_view import LiveMysis
from zoea.tui.app import CockpitApp, run
from zoea.tui.state.swarm_connection import OpenSwarm
from zoea.tui.widgets.swarm_table import SwarmTable

ROOT = Path(__file__).parents[1]
MYSES = 1000
SIXTY, LARGE = 60, (200, 60)
AGENTS, UPDATES = 20, 100
SEEN = 10
"""Number of visible rows; they get a tenth of all changes."""
GOALS = {
    "fed_screen_p99_ms": 150.0,
    "fed_key_p99_ms": 50.0,
    "busy_screen_p99_ms": 150.0,
    "busy_key_p99_ms": 50.0,
    "sixty_screen_p99_ms": 300.0,
    "sixty_key_p50_ms": 60.0,
    "sixty_key_p99_ms": 150.0,
    "agents_key_p99_ms": 60.0,
    "agents_cpu_ms_per_update": 1.0,
    "idle_percent": 2.0,
    "switch_cpu_ms": 50.0,
    "key_p99_cpu_ms": 50.0,
    "widgets_per_step": 0.0,
    "arrangings_per_step": 0.0,
    "lines_beyond_screen": 3.0,
    "memory_growth": 1.05,
}
_STAMP = re.compile(r"(\d+)@(\d+);")
_STEPS = 200


# The swarm's process.


class ThinkingModel(PlainModel):
    """Answer like `PlainModel`, after the delay of a model."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        await asyncio.sleep(0.3)
        async for item in super().stream(request):
            yield item


class StreamingModel(PlainModel):
    """Answer like `PlainModel`, after a delay and in pieces for two seconds."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        await asyncio.sleep(0.3)
        for number in range(40):
            yield Delta(text=f"Sector {number} holds iron. ")
            await asyncio.sleep(0.05)
        async for item in super().stream(request):
            yield item


@contextmanager
def stamped() -> Any:
    """Begin each row text with mysis and time in µs. Return the texts of visible rows."""
    said: list[tuple[int, int]] = []
    before = LiveMysis.say

    def say(self: LiveMysis, text: str, at: int) -> None:
        now = time.monotonic_ns() // 1000
        if self.mysis.id <= SEEN:
            said.append((self.mysis.id, now))
        before(self, f"{self.mysis.id}@{now}; {text}", at)

    with patch.object(LiveMysis, "say", say):  # all texts of a row pass it
        yield said


def cockpit_over(swarm: Rig) -> CockpitApp:
    @asynccontextmanager
    async def opener() -> AsyncIterator[OpenSwarm]:
        yield OpenSwarm(RunningSwarm.of(swarm.commander, NoConnections()), swarm.folder / "zoea.db", True, "load")

    return CockpitApp(opener, config=swarm.folder / "config", now=SystemClock().now)


async def shown(
    cockpit: CockpitApp, work: Callable[[], Awaitable[dict[str, Any]]], myses: int = MYSES
) -> dict[str, Any]:
    """Run the cockpit, do the work once all myses are shown, and return its result."""
    showing = asyncio.create_task(run(cockpit))
    async with asyncio.timeout(120):
        while len(cockpit.feed.myses) < myses:  # noqa: ASYNC110  the cockpit tells its screens, not others
            await asyncio.sleep(0.05)
    await asyncio.sleep(1.5)  # opening is over: what follows is measured
    working = asyncio.ensure_future(work())
    await asyncio.wait({showing, working}, return_when=asyncio.FIRST_COMPLETED)
    if not working.done():
        raise RuntimeError("the cockpit ended before its time")
    cockpit.exit()
    await showing
    return working.result()


class Feeder:
    """Change rows and publish events without a swarm, so that only the cockpit works."""

    def __init__(self, swarm: Rig) -> None:
        # A benchmark's way in: there is no other that costs nothing.
        self._view, self._hub = swarm.commander.swarm.live_view, swarm.commander.swarm.services.events
        self._ids = sorted(row.mysis.id for row in self._view.rows())
        self._dice = random.Random(7)
        self.events = 0

    def feed(self) -> None:
        """Make one change and one event; every tenth changes a visible row."""
        self.events += 1
        mysis_id = self._dice.choice(self._ids[:SEEN] if self.events % 10 == 0 else self._ids)
        row = self._view.row(mysis_id)
        now = time.time_ns() // 1000
        row.tokens += 150
        row.requests += 1
        row.context_used = self._dice.randrange(50_000)
        row.context_limit = 50_000
        row.progress_at = now
        row.say("Mining belt-2; the hold is full, I sell at the next station.", now)
        self._view.touch(mysis_id)
        kind = ("request.settled", "mysis.state", "turn.ended", "tool.ended", "delivery.taken")[self.events % 5]
        self._hub.publish([Event(self._hub.last_id + 1, kind, mysis_id, {"outcome": "answered"}, now)])

    async def at_rate(self, per_second: int, seconds: float) -> None:
        """Feed evenly in steps of 10 ms; catch up late steps."""
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < seconds:
            for _ in range(int(passed * per_second) - self.events):
                self.feed()
            await asyncio.sleep(0.01)


async def fed(seconds: float) -> dict[str, Any]:
    """Measure the cockpit's own cost, without a swarm's work."""
    with stamped() as said:
        async with rig(PlainModel()) as swarm:
            await swarm.create(MYSES)
            feeder = Feeder(swarm)

            async def work() -> dict[str, Any]:
                with measured() as cost:
                    await feeder.at_rate(500, seconds)
                await asyncio.sleep(0.5)
                return {"events_per_second": round(feeder.events / seconds), **_share(cost.cpu, cost.seconds)}

            return {**await shown(cockpit_over(swarm), work), "said": said}


async def busy(seconds: float) -> dict[str, Any]:
    """Measure with a working swarm in the same process, a tenth of its turns visible."""
    with stamped() as said:
        async with rig(ThinkingModel()) as swarm:
            ids = await swarm.create(MYSES)
            dice = random.Random(7)
            resting = set(ids)

            async def turn(mysis_id: int) -> None:
                await swarm.turn(mysis_id, "go on")
                resting.add(mysis_id)

            async def work() -> dict[str, Any]:
                commander = swarm.commander
                turns, heard = set[asyncio.Task[None]](), swarm.commander.swarm.services.events.last_id
                begun = time.monotonic()
                with measured() as cost:
                    while (passed := time.monotonic() - begun) < seconds:
                        for _ in range(int(passed * 60) - len(turns)):
                            seen = sorted(resting & set(ids[:SEEN])) if len(turns) % 8 == 0 else None
                            chosen = dice.choice(seen or sorted(resting))
                            resting.discard(chosen)
                            turns.add(asyncio.create_task(turn(chosen)))
                        await asyncio.sleep(0.02)
                events = commander.swarm.services.events.last_id - heard
                await asyncio.wait(turns)
                await asyncio.sleep(0.5)
                return {
                    "turns_per_second": round(len(turns) / seconds),
                    "events_per_second": round(events / seconds),
                    **_share(cost.cpu, cost.seconds),
                }

            return {**await shown(cockpit_over(swarm), work), "said": said}


async def sixty(seconds: float) -> dict[str, Any]:
    """Measure with 60 myses that all work: the end of a turn opens the next."""
    with stamped() as said:
        async with rig(StreamingModel()) as swarm:
            ids = await swarm.create(SIXTY)

            async def go_on(mysis_id: int, until: float) -> int:
                turns = 0
                while time.monotonic() < until:
                    await swarm.turn(mysis_id, "go on")
                    turns += 1
                return turns

            async def work() -> dict[str, Any]:
                until = time.monotonic() + seconds
                with measured() as cost:
                    turns = await asyncio.gather(*(go_on(mysis_id, until) for mysis_id in ids))
                await asyncio.sleep(0.5)
                return {"turns_per_second": round(sum(turns) / cost.seconds, 1), **_share(cost.cpu, cost.seconds)}

            return {**await shown(cockpit_over(swarm), work, SIXTY), "said": said}


async def agents(seconds: float) -> dict[str, Any]:
    """Measure with external agents that all stream, each in a process of its own."""
    played = AgentSettings(command=sys.executable, args=(acp_agent.__file__,))
    template = Template(name="default", runtime="acp", run="once", acp=played)
    with stamped() as said:
        async with rig(PlainModel(), templates=(template,)) as swarm:
            services = swarm.commander.swarm.services
            services.files, services.agents = (
                OneFolder(swarm.folder),
                AgentPool(lambda: AGENTS),
            )  # whatever memory is free
            ids = await swarm.create(AGENTS)

            async def ask(steps: list[Any]) -> None:
                await asyncio.gather(*(swarm.turn(mysis_id, json.dumps(steps)) for mysis_id in ids))

            async def work() -> dict[str, Any]:
                await ask([["say", "ready"]])
                with measured() as cost:
                    await ask([["stream", UPDATES, seconds]])
                updates = AGENTS * UPDATES * seconds
                return {
                    "updates_per_second": round(updates / cost.seconds),
                    "cpu_ms_per_update": round(cost.cpu_ms(int(updates)), 3),
                    **_share(cost.cpu, cost.seconds),
                }

            return {**await shown(cockpit_over(swarm), work, AGENTS), "said": said}


async def idle(seconds: float) -> dict[str, Any]:
    """Measure an idle swarm."""
    async with rig(PlainModel()) as swarm:
        await swarm.create(MYSES)

        async def work() -> dict[str, Any]:
            await asyncio.sleep(6)  # the cursor rests after five seconds
            with measured() as cost:
                await asyncio.sleep(seconds)
            return _share(cost.cpu, cost.seconds)

        return await shown(cockpit_over(swarm), work)


def _share(cpu: float, seconds: float) -> dict[str, Any]:
    return {"cpu_percent": round(cpu / seconds * 100, 2)}


async def rows(count: int) -> dict[str, Any]:
    """Step a thousand times by lines and pages; only visible lines may be made."""
    async with rig(PlainModel()) as swarm:
        await swarm.create(1)
        cockpit = cockpit_over(swarm)
        async with cockpit.run_test(size=(120, 40)) as pilot:
            while not cockpit.feed.myses:  # noqa: ASYNC110  as above
                await asyncio.sleep(0.01)
            first = cockpit.feed.myses[1]
            many = tuple(replace(first, id=number, name=f"m{number}") for number in range(1, count + 1))
            cockpit.feed.take(SwarmView(1, False, "", many))
            await pilot.pause()
            table = cockpit.screen.query_one(SwarmTable)
            made = counted(table)
            for step in range(_STEPS):
                table.move(table.page if step % 4 == 3 else 1)
                await pilot.pause()
            return {
                "rows": count,
                "widgets_per_step": made["widgets"] / _STEPS,
                "arrangings_per_step": made["arrangings"] / _STEPS,
                "lines_per_step": round(made["lines"] / _STEPS, 1),
                "screen_lines": table.size.height,
            }


async def hive(count: int) -> dict[str, Any]:
    """Switch between rows and hive, then move its cursor: CPU in ms from the key until it is drawn.

    The cheapest switch counts, because on a busy machine the clock redraws the cells during the others.
    """
    async with rig(PlainModel()) as swarm:
        await swarm.create(1)
        cockpit = cockpit_over(swarm)
        async with cockpit.run_test(size=(200, 60)) as pilot:
            while not cockpit.feed.myses:  # noqa: ASYNC110  as above
                await asyncio.sleep(0.01)
            first = cockpit.feed.myses[1]
            many = tuple(replace(first, id=number, name=f"m{number}") for number in range(1, count + 1))
            cockpit.feed.take(SwarmView(1, False, "", many))
            await pilot.pause()
            costs = []
            for key in (*"vvvvvvv", *("down", "right") * 20):
                with measured() as cost:
                    await pilot.press(key)
                    await pilot.pause()
                costs.append(cost.cpu * 1e3)
            return {
                "cells": count,
                "switch_cpu_ms": round(min(costs[:7]), 1),
                "key_p50_cpu_ms": round(quantile(costs[7:], 0.5), 1),
                "key_p99_cpu_ms": round(quantile(costs[7:], 0.99), 1),
            }


def counted(table: SwarmTable) -> dict[str, int]:
    """Count widgets and lists that are made from now on."""
    from textual.widget import Widget

    made = {"widgets": 0, "arrangings": 0, "lines": 0}

    def watch(owner: Any, name: str, what: str) -> None:
        before = getattr(owner, name)

        def counting(*given: Any, **named: Any) -> Any:
            made[what] += 1
            return before(*given, **named)

        setattr(owner, name, counting)

    watch(Widget, "__init__", "widgets")
    watch(SwarmTable, "_arrange", "arrangings")
    watch(table, "render_line", "lines")
    return made


async def memory(events: int) -> dict[str, Any]:
    """Measure events as fast as the cockpit takes them."""
    async with rig(PlainModel()) as swarm:
        await swarm.create(MYSES)
        feeder = Feeder(swarm)
        cockpit = cockpit_over(swarm)
        heard = 0
        happened = cockpit.feed._happened

        def hear(event: Event) -> None:
            nonlocal heard
            heard += 1
            happened(event)

        cockpit.feed._happened = hear

        async def work() -> dict[str, Any]:
            before = 0
            begun = time.monotonic()
            with measured() as cost:
                while feeder.events < events:
                    for _ in range(50):
                        feeder.feed()
                    await asyncio.sleep(0.002)
                    if feeder.events == events // 10:
                        before = resident()
            return {
                "events": events,
                "heard": heard,
                "events_per_second": round(events / (time.monotonic() - begun)),
                "before_mb": round(before / 1e6, 1),
                "after_mb": round(resident() / 1e6, 1),
                "cpu_us_per_event": round(cost.cpu / events * 1e6),
            }

        return await shown(cockpit, work)


ON_KEYS = ("fed", "busy", "sixty", "agents")
"""The parts in which a person presses keys."""
PARTS = {
    "fed": fed,
    "busy": busy,
    "sixty": sixty,
    "agents": agents,
    "idle": idle,
    "rows": rows,
    "hive": hive,
    "memory": memory,
}


# The person's side of the terminal.


class Watcher:
    """Read the time stamps as they appear on the screen."""

    def __init__(self) -> None:
        self.came: list[tuple[int, int, float]] = []
        self._rest = ""

    def heard(self, text: str, at: float) -> None:
        whole = self._rest + text
        self.came += [(int(who), int(made), at * 1e6) for who, made in _STAMP.findall(plain(whole))]
        self._rest = whole[-80:]

    def delays(self, said: list[list[int]]) -> tuple[list[float], int]:
        """Return ms from each text to the screen, and how many never came. A later text counts for an earlier one."""
        shown: dict[int, list[tuple[int, float]]] = {}
        for who, made, at in self.came:
            shown.setdefault(who, []).append((made, at))
        delays, lost = [], 0
        for who, made in said:
            first = min((at for later, at in shown.get(who, ()) if later >= made), default=None)
            if first is None:
                lost += 1
            else:
                delays.append((first - made) / 1e3)
        return delays, lost


def person(terminal: Terminal, seconds: float) -> list[float]:
    """Move between the first two rows; return ms from key to title."""
    waits: list[float] = []
    dice = random.Random(7)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        key, name = ("j", "m1") if len(waits) % 2 == 0 else ("k", "m0")
        at = terminal.press(key)
        waits.append((terminal.wait_for(rf" {name}  \S") - at) * 1e3)
        time.sleep(0.05 + dice.random() * 0.2)
    return waits


def on_terminal(name: str, number: float) -> dict[str, Any]:
    """Run a part on a terminal with key presses while rows change."""
    watcher = Watcher()
    command = [sys.executable, "-m", "benchmarks.tui_load", "--part", name, f"{number:g}"]
    size = LARGE if name == "sixty" else SIZE
    terminal = Terminal(command, environment=_environment(), heard=watcher.heard, size=size)
    try:
        waits: list[float] = []
        if name in ON_KEYS:
            terminal.wait_for(r"\d+@\d+;", within=180)
            waits = person(terminal, number - 1.5)
        figures: dict[str, Any] = json.loads(terminal.result().splitlines()[-1])
    finally:
        terminal.close()
    if waits:
        delays, lost = watcher.delays(figures.pop("said"))
        figures |= {"texts": len(delays), "lost": lost, "keys": len(waits)}
        for what, values in (("screen", delays), ("key", waits)):
            figures |= {f"{what}_p50_ms": round(quantile(values, 0.5), 1)}
            figures |= {f"{what}_p99_ms": round(quantile(values, 0.99), 1)}
    return figures


def in_process(name: str, number: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.tui_load", "--part", name, f"{number:g}"]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=3600, env=_environment())
    figures: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return figures


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}


def measure(wanted: list[str], quick: bool) -> dict[str, float]:
    """Run the parts, print a line for each, return the figures of the goals."""
    found: dict[str, float] = {}
    for name, number in (
        ("fed", 8 if quick else 30),
        ("busy", 8 if quick else 30),
        ("sixty", 8 if quick else 30),
        ("agents", 8 if quick else 30),
        ("idle", 6 if quick else 30),
        ("rows", 10_000),
        ("hive", 2_000),
        ("memory", 20_000 if quick else 100_000),
    ):
        if name not in wanted:
            continue
        figures = in_process(name, number) if name in ("rows", "hive") else on_terminal(name, number)
        print(f"{name:9} {json.dumps(figures)}", flush=True)
        match name:
            case "fed" | "busy":
                found |= {f"{name}_{what}_p99_ms": figures[f"{what}_p99_ms"] for what in ("screen", "key")}
            case "sixty":
                names = ("screen_p99_ms", "key_p50_ms", "key_p99_ms")
                found |= {f"sixty_{what}": figures[what] for what in names}
            case "agents":
                found |= {f"agents_{what}": figures[what] for what in ("key_p99_ms", "cpu_ms_per_update")}
            case "idle":
                found["idle_percent"] = figures["cpu_percent"]
            case "rows":
                found |= {key: figures[key] for key in ("widgets_per_step", "arrangings_per_step")}
                found["lines_beyond_screen"] = max(0.0, figures["lines_per_step"] - figures["screen_lines"])
            case "hive":
                found |= {key: figures[key] for key in ("switch_cpu_ms", "key_p99_cpu_ms")}
            case "memory":
                found["memory_growth"] = round(figures["after_mb"] / figures["before_mb"], 3)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="What the cockpit costs over a large swarm.")
    parser.add_argument("--quick", action="store_true", help="shorter, within a minute")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--part", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.part:
        name, number = asked.part
        part: Any = PARTS[name]
        print(json.dumps(asyncio.run(part(float(number) if name in (*ON_KEYS, "idle") else int(float(number))))))
        return 0
    print(f"machine   {json.dumps(machine())}", flush=True)
    found = measure(asked.only.split(","), asked.quick)
    print(f"machine   {json.dumps(machine())}")
    return judge(found, GOALS)


if __name__ == "__main__":
    sys.exit(main())
