"""Autopilot myses that play Reef, whose world is a process of its own; and where their CPU goes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from zoea.context import FrozenTurn, Plan, TurnReplay, plan_next
from zoea.model.ports import Provider
from zoea.model.request import ModelInfo, ModelRequest, StreamItem
from zoea.settings import Template
from zoea.swarm.turn import request_preparation
from zoea.tools import LoginTools, Toolbox, ToolPolicy, UpstreamConfig
from zoea.world import INJECT, AutopilotProvider, command

SETTINGS: Mapping[str, Any] = {
    "swarm": {"max_myses": 2000},
    "budget": {"swarm_per_day": "none"},
    "nudge": {"idle_interval": 0.05, "wait_interval": 0.5, "max_per_hour": 0},
    "wait": {"default_tick": 0.05},
    "loop": {"exempt": ["*"]},
}
"""Nobody rests for long, and nobody is stopped for repeating itself: as busy as a swarm can be."""

PROMPT = "You play Reef. Earn credits: mine ore where it is worth most, and sell it."
PLAYER = Template(name="default", prompt=PROMPT, send="none")
PROBE = Template.model_validate({"name": "probe", "prompt": PROMPT, "send": "none", "nudge": {"enabled": False}})


class _Accounts:
    """Accounts for as long as the benchmark runs."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Mapping[str, str]] = {}

    async def load(self, upstream: str, uid: str, name: str) -> Mapping[str, str] | None:
        return self._kept.get((upstream, uid))

    async def save(self, upstream: str, uid: str, fields: Mapping[str, str]) -> None:
        self._kept[upstream, uid] = fields


def toolbox(folder: Path) -> Toolbox:
    """The toolbox of a swarm that plays in a world of its own, with ticks as fast as the players act."""
    program, *arguments = command(folder, turbo=True)
    reef = UpstreamConfig(
        "reef", command=program, args=tuple(arguments), inject=INJECT, login=LoginTools(), max_parallel=512
    )
    only = ToolPolicy(deny=("zoea_*",))
    return Toolbox([reef], policies=lambda template: only, logs=folder, accounts=_Accounts())


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

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
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


class PlanWatch:
    """When each mysis last had a plan made; put in the driver's way while the block runs."""

    def __init__(self) -> None:
        self.waiting: dict[int, float] = {}
        self.delays: list[float] = []

    def __enter__(self) -> PlanWatch:
        request_preparation.plan_next = self._plan  # type: ignore[attr-defined]  # the seam is that module's own import
        return self

    def __exit__(self, *_: object) -> None:
        request_preparation.plan_next = plan_next  # type: ignore[attr-defined]  # as above

    def sent(self, mysis_id: int) -> None:
        """A prompt is on its way, from now."""
        self.waiting[mysis_id] = time.perf_counter()

    def _plan(self, frozen: FrozenTurn, answers: Any, earlier: TurnReplay | None) -> tuple[Plan, TurnReplay]:
        planned = plan_next(frozen, answers, earlier)
        begun = self.waiting.pop(frozen.mysis_id, None)
        if begun is not None:
            self.delays.append(time.perf_counter() - begun)
        return planned
