"""What each way to compose requests costs and earns: the same Reef seeds, played by the autopilot.

Run: `python -m benchmarks.strategies [--seeds 10] [--ticks 300] [--myses 5] [--only NAME …]`. Every way plays the same
seeds. For each it prints mean and spread of:

- credits that the captains earned;
- tokens of all requests (characters / 4, tools included), and those that are an exact prefix of the request before of
  the same mysis, which a provider may cache;
- credits per 1,000 tokens, and the price in plain tokens: cached ones read at 0.1, others written at 1.25;
- the share of the request before that is repeated, within a turn and by the first request of the next turn;
- requests over their budget, of which there must be none (exit code 1 otherwise).

A way is a strategy with its settings; `whole` keeps all that a budget of 200,000 tokens holds, without compaction.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.prefix import READ, WRITTEN, SentRequest, common_chars, read_parts
from benchmarks.rig import rig
from benchmarks.world_play import PROMPT, SETTINGS, MemoryAccounts
from zoea.model.enums import ToolShow
from zoea.model.errors import WorldError
from zoea.model.ports import Provider
from zoea.model.request import ModelInfo, ModelRequest, StreamItem
from zoea.settings import Template
from zoea.text.estimate import CHARS_PER_TOKEN
from zoea.tools import LoginTools, Toolbox, ToolPolicy, UpstreamConfig
from zoea.world import INJECT, AutopilotProvider, command
from zoea.world.score import compute_scores
from zoea.world.world_log import connect_read_only, load_world

BUDGET = 50_000
WAYS: Mapping[str, Mapping[str, Any]] = {
    "turns, keep 0, all tools": {"context": {"keep_turns": 0}, "tool": {"show": "all"}},
    "turns, keep 0, search": {"context": {"keep_turns": 0}, "tool": {"show": "search"}},
    "turns, keep 2, search": {"context": {"keep_turns": 2}, "tool": {"show": "search"}},
    "turns, keep 5, search": {"context": {"keep_turns": 5}, "tool": {"show": "search"}},
    "window, all tools": {"context": {"strategy": "window"}, "tool": {"show": "all"}},
    "window, search": {"context": {"strategy": "window"}, "tool": {"show": "search"}},
    "whole": {
        "context": {"strategy": "window", "context_window": 1_000_000},
        "session": {"context_window_default": 200, "compression_trigger_ratio": 0.95},
        "budget": {"token_budget_per_agent": 200_000, "token_budget_per_task": 200_000},
        "tool": {"show": "all"},
    },
}
"""Ways by name. The strategy topics is left out: it works on messages of topics, and Reef has none."""


@dataclass(slots=True)
class Game:
    """What one way did with one seed."""

    credits: int = 0
    tokens: float = 0.0
    cacheable: float = 0.0
    requests: int = 0
    over_budget: int = 0
    within: list[float] = field(default_factory=list)
    between: list[float] = field(default_factory=list)

    @property
    def price(self) -> float:
        return self.cacheable * READ + (self.tokens - self.cacheable) * WRITTEN

    @property
    def credits_per_1000(self) -> float:
        return self.credits / self.tokens * 1000 if self.tokens else 0.0


class CountedModel:
    """The autopilot, with the sizes of its requests counted into a game."""

    kind = "autopilot"
    metered = False

    def __init__(self, game: Game, budget: int) -> None:
        self._inner: Provider = AutopilotProvider(pace=0)
        self.name, self.label = self._inner.name, self._inner.label
        self._game, self._budget = game, budget
        self._before: dict[str, SentRequest] = {}

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        self._count(request)
        async for item in self._inner.stream(request):
            yield item

    def _count(self, request: ModelRequest) -> None:
        game, sent, before = self._game, read_parts(request), self._before.get(request.mysis)
        self._before[request.mysis] = sent
        common = common_chars(before, sent) if before is not None else 0
        game.requests += 1
        game.tokens += sent.chars / CHARS_PER_TOKEN
        game.cacheable += common / CHARS_PER_TOKEN
        game.over_budget += request.estimated_tokens > self._budget
        if before is not None:
            (game.between if sent.is_first else game.within).append(common / before.chars)

    async def models(self) -> tuple[ModelInfo, ...]:
        return await self._inner.models()

    async def info(self, model: str) -> ModelInfo:
        return await self._inner.info(model)

    async def close(self) -> None:
        await self._inner.close()


def reef_toolbox(folder: Path, seed: int, show: str) -> Toolbox:
    """The toolbox of a swarm in the world of a seed. No mysis may write to others: games differ by requests only."""
    program, *arguments = command(folder, turbo=True, seed=seed)
    reef = UpstreamConfig("reef", command=program, args=tuple(arguments), inject=INJECT, login=LoginTools())
    policy = ToolPolicy(deny=("zoea_broadcast", "zoea_send*", "zoea_publish", "zoea_ask*"), show=ToolShow(show))
    return Toolbox([reef], policies=lambda template: policy, logs=folder, accounts=MemoryAccounts())


def merge_settings(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Join settings of several layers; the last value of a key counts."""
    found: dict[str, Any] = {}
    for layer in layers:
        for section, values in layer.items():
            found[section] = {**found.get(section, {}), **values}
    return found


def read_world(folder: Path) -> tuple[int, int]:
    """Return the tick of the world and the credits that all captains earned."""
    file = folder / "reef.db"
    if not file.exists():
        return 0, 0
    try:
        with closing(connect_read_only(file)) as db:
            world = load_world(db, whole=False).world
    except WorldError:  # it is being made
        return 0, 0
    return world.tick, sum(score.earned for score in compute_scores(world, {}))


async def play(way: Mapping[str, Any], seed: int, ticks: int, myses: int) -> Game:
    """Play one seed until its tick."""
    settings = merge_settings(SETTINGS, {"budget": {"token_budget_per_agent": BUDGET}}, way)
    game = Game()
    model = CountedModel(game, settings["budget"]["token_budget_per_agent"])
    player = Template(name="default", prompt=PROMPT, send="none")
    with tempfile.TemporaryDirectory(prefix="zoea-strategies-") as place:
        folder = Path(place)
        async with rig(
            model,
            reef_toolbox(folder, seed, settings["tool"]["show"]),
            settings=settings,
            templates=[player],
            folder=folder,
        ) as found:
            await found.create(myses)
            for number in range(myses):
                await found.commander.send(f"m{number}", PROMPT, is_task=True)
            while (await asyncio.to_thread(read_world, folder))[0] < ticks:
                await found.run_for(0.25)
        _, game.credits = read_world(folder)
    return game


def spread(values: list[float], digits: int = 0) -> str:
    """Format the mean of values, and their standard deviation."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):,.{digits}f} ±{deviation:,.{digits}f}"


def share(values: list[float]) -> str:
    return f"{statistics.mean(values):.0%}" if values else "-"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--ticks", type=int, default=300)
    parser.add_argument("--myses", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="play these ways only")
    asked = parser.parse_args()
    over = 0
    for name, way in WAYS.items():
        if asked.only and name not in asked.only:
            continue
        games = [asyncio.run(play(way, seed, asked.ticks, asked.myses)) for seed in range(1, asked.seeds + 1)]
        over += sum(game.over_budget for game in games)
        row = {
            "way": name,
            "credits": spread([game.credits for game in games]),
            "requests": spread([game.requests for game in games]),
            "tokens": spread([game.tokens for game in games]),
            "cacheable": spread([game.cacheable for game in games]),
            "credits_per_1000_tokens": spread([game.credits_per_1000 for game in games], 2),
            "price": spread([game.price for game in games]),
            "repeated_within_turns": share([one for game in games for one in game.within]),
            "repeated_across_turns": share([one for game in games for one in game.between]),
            "over_budget": sum(game.over_budget for game in games),
        }
        print(json.dumps(row, ensure_ascii=False), flush=True)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
