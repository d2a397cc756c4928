"""Plays Reef with autopilot myses, and measures where CPU goes. The world is a process of its own."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from unittest.mock import patch

from zoea.context import FrozenTurn, Plan, TurnReplay, plan_next
from zoea.model.ports import Provider
from zoea.model.request import ModelInfo, ModelRequest, StreamItem
from zoea.settings.endpoints import LoginSettings
from zoea.settings.template import Template
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence import turn_ops
from zoea.swarm.resolved_template import MysisProfile, freezer
from zoea.swarm.services import Services
from zoea.swarm.turn import request_preparation, runner_base
from zoea.tools import Toolbox, ToolPolicy, UpstreamConfig
from zoea.world import INJECT, command
from zoea.world.autopilot import AutopilotProvider

SETTINGS: Mapping[str, Any] = {
    "swarm": {"max_myses": 2000},
    "budget": {"swarm_per_day": "none"},
    "nudge": {"idle_interval": 0.05, "wait_interval": 0.5, "max_per_hour": 0, "without_goal": True},
    "wait": {"default_tick": 0.05},
    "loop": {"exempt": ["*"]},
}
"""Nobody rests for long, and nobody is stopped for repeating itself: as busy as a swarm can be."""

PROMPT = "You play Reef. Earn credits: mine ore where it is worth most, and sell it."
PLAYER = Template(name="default", prompt=PROMPT, send="none")
PROBE = Template.model_validate({"name": "probe", "prompt": PROMPT, "send": "none", "nudge": {"enabled": False}})


class MemoryAccounts:
    """Accounts for as long as the benchmark runs."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Mapping[str, str]] = {}

    async def load(self, upstream: str, uid: str, name: str) -> Mapping[str, str] | None:
        return self._kept.get((upstream, uid))

    async def save(self, upstream: str, uid: str, fields: Mapping[str, str]) -> None:
        self._kept[upstream, uid] = fields


def toolbox(folder: Path) -> Toolbox:
    """Return the toolbox of a swarm in a world of its own. Ticks are as fast as the players act."""
    program, *arguments = command(folder, turbo=True)
    reef = UpstreamConfig(
        "reef", command=program, args=tuple(arguments), inject=INJECT, login=LoginSettings(), max_parallel=512
    )
    only = ToolPolicy(deny=("zoea_*",))
    return Toolbox([reef], policies=lambda template: only, logs=folder, accounts=MemoryAccounts())


class TimedModel:
    """A provider whose own CPU is counted apart."""

    kind = "autopilot"
    metered = False

    def __init__(self) -> None:
        self._inner: Provider = AutopilotProvider(pace=0)
        self.name = self._inner.name
        self.label = self._inner.label
        self.cpu = 0.0
        self.requests = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        self.requests += 1
        items = aiter(self._inner.stream(request))
        while True:
            begun = time.thread_time()
            item = await anext(items, None)
            self.cpu += time.thread_time() - begun
            if item is None:
                return
            yield item

    async def models(self) -> tuple[ModelInfo, ...]:
        return await self._inner.models()

    async def info(self, model: str) -> ModelInfo:
        return await self._inner.info(model)

    async def close(self) -> None:
        await self._inner.close()


write = Services.write


class PlanWatch:
    """Measures how long prompts take to their first plan, in parts. It watches turns while the block runs.

    The parts are seconds: until the message is stored (`store_s`), until the runner asks for a place (`steps_s`),
    until the turn gate gives it (`gate_s`), until the op that opens the turn runs (`writer_s`), and until the plan is
    made (`plan_s`).
    """

    def __init__(self) -> None:
        self.waiting: dict[int, list[float]] = {}
        self.delays: list[float] = []
        self.parts: dict[str, list[float]] = {
            part: [] for part in ("store_s", "steps_s", "gate_s", "writer_s", "plan_s")
        }
        self._opening: ContextVar[int] = ContextVar("opening", default=0)
        self._open_turn = turn_ops.open_turn
        self._patches = ExitStack()

    def __enter__(self) -> PlanWatch:
        self._patches.enter_context(patch.object(request_preparation, "plan_next", self._plan))
        self._patches.enter_context(patch.object(turn_ops, "open_turn", self._open))
        self._patches.enter_context(patch.object(runner_base, "freezer", self._freezer))
        self._patches.enter_context(patch.object(Services, "write", self._write()))
        return self

    def __exit__(self, *_: object) -> None:
        self._patches.close()

    def sent(self, mysis_id: int) -> None:
        """A prompt is on its way, from now."""
        self.waiting[mysis_id] = [time.perf_counter()]

    def stored(self, mysis_id: int) -> None:
        """The prompt is stored; its turn may even be open."""
        if mysis_id in self.waiting:
            self.waiting[mysis_id].insert(1, time.perf_counter())

    def _freezer(self, profile: MysisProfile, *given: Any, **more: Any) -> Any:
        """Note that the runner asks for a place. It writes in this task as soon as it has one."""
        if profile.mysis_id in self.waiting:
            self.waiting[profile.mysis_id].append(time.perf_counter())
            self._opening.set(profile.mysis_id)
        return freezer(profile, *given, **more)

    def _write(self) -> Any:
        async def write_noted(services: Services, op: Any, **how: bool) -> Any:
            mysis_id = self._opening.get()
            if mysis_id:
                self._opening.set(0)
                if mysis_id in self.waiting:
                    self.waiting[mysis_id].append(time.perf_counter())
            return await write(services, op, **how)

        return write_noted

    def _open(self, conn: WriterConnection, *, mysis_id: int, **more: Any) -> turn_ops.OpenedTurn | None:
        if mysis_id in self.waiting:
            self.waiting[mysis_id].append(time.perf_counter())
        return self._open_turn(conn, mysis_id=mysis_id, **more)

    def _plan(self, frozen: FrozenTurn, answers: Any, earlier: TurnReplay | None) -> tuple[Plan, TurnReplay]:
        planned = plan_next(frozen, answers, earlier)
        times = self.waiting.pop(frozen.mysis_id, None)
        if times is not None:
            times.append(time.perf_counter())
            self.delays.append(times[-1] - times[0])
            for part, begun, ended in zip(self.parts.values(), times, times[1:], strict=False):
                part.append(ended - begun)
        return planned
