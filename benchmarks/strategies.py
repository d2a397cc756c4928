"""What each way to compose requests costs and earns: the same Reef seeds, played by the autopilot.

Run: `python -m benchmarks.strategies [--seeds 10] [--ticks 300] [--myses 5] [--jobs N] [--only NAME …]`. Every way
plays the same seeds, `--jobs` games at once (as many as there are cores). For each it prints mean and spread of:

- credits that the captains earned;
- tokens of all requests (characters / 4, tools included), and those that are an exact prefix of the request before of
  the same mysis, which a provider may cache;
- credits per 1,000 tokens, and the price in plain tokens: cached ones read at 0.1, others written at 1.25;
- the share of the request before that is repeated, within a turn and by the first request of the next turn;
- requests over their budget of 50,000 tokens, of which there must be none (exit code 1 otherwise).

A way is a strategy with its settings. Two are special:

- `topics`: Reef has no topics, so each captain works on one ISSUE_OPENED and is nudged from then on. Its requests show
  that message and the state snapshot, and no earlier turn.
- `whole, no compression`: an agent without any planner. Each request holds the conversation of its mysis from the first
  message on, word for word. Nothing bounds it, so that its requests over 50,000 tokens are counted and allowed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from benchmarks.prefix import READ, WRITTEN, SentRequest, common_chars, read_parts
from benchmarks.rig import Rig, rig
from benchmarks.world_play import PROMPT, SETTINGS, MemoryAccounts
from zoea.context.forms import FULL, render_memory
from zoea.model.enums import Role, ToolShow
from zoea.model.errors import WorldError
from zoea.model.ports import Provider
from zoea.model.request import ModelInfo, ModelRequest, RequestMessage, StreamItem
from zoea.queries.stored_swarm import read_memories
from zoea.runtime.world_scores import compute_scores
from zoea.settings.endpoints import LoginSettings
from zoea.settings.template import Template
from zoea.text.estimate import CHARS_PER_TOKEN
from zoea.tools import Toolbox, ToolPolicy, UpstreamConfig
from zoea.world import INJECT, command
from zoea.world.autopilot import AutopilotProvider
from zoea.world.autopilot.request_facts import is_nudge
from zoea.world.world_log import connect_read_only, load_world

BUDGET = 50_000
TOPIC = "ISSUE_OPENED"
WHOLE = "whole, no compression"


def _turns(keep: int, show: str) -> Mapping[str, Any]:
    return {"context": {"keep_turns": keep}, "tool": {"show": show}}


WAYS: Mapping[str, Mapping[str, Any]] = {
    **{f"turns, keep {keep}, {show}": _turns(keep, show) for keep in (0, 2, 5) for show in ("all", "search")},
    **{f"window, {show}": {"context": {"strategy": "window"}, "tool": {"show": show}} for show in ("all", "search")},
    **{f"topics, {show}": {"context": {"strategy": "topics"}, "tool": {"show": show}} for show in ("all", "search")},
    WHOLE: {**_turns(0, "all"), "budget": {"token_budget_per_agent": 200_000, "token_budget_per_task": 200_000}},
}
"""Settings by the name of the way."""

PLAYER = Template(name="default", prompt=PROMPT, send="none")
TOPICS_PLAYER = Template.model_validate(
    {
        "name": "default",
        "prompt": PROMPT,
        "send": "none",
        "subscribes": [TOPIC],
        "role": "worker",
        "context_strategy": {
            "max_tokens": BUDGET,
            "sources": [
                {"topic": TOPIC, "strategy": "latest", "amount": 1},
                {"topic": "STATE_SNAPSHOT", "strategy": "latest", "amount": 1},
            ],
        },
    }
)


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


class WholeConversations:
    """Replaces the messages of a request by its mysis's whole conversation in the database."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._nudges: dict[tuple[str, int], RequestMessage] = {}

    async def extend(self, request: ModelRequest) -> ModelRequest:
        """Return the request with all earlier messages, word for word."""
        memories = await asyncio.to_thread(read_memories, self._database, request.mysis, last=1_000_000)
        number = memories[-1].turn_number if memories else 0
        nudge = next((message for message in reversed(request.messages) if is_nudge(message)), None)
        messages = [message for message in request.messages if message.role is Role.SYSTEM]
        opened = 0
        for memory in memories:
            if memory.turn_number != opened:
                opened = memory.turn_number
                messages += self._kept_nudge(request.mysis, opened)
            messages.append(render_memory(memory, FULL))
        if nudge is not None and (request.mysis, number) not in self._nudges and request.messages[-1] is nudge:
            self._nudges[request.mysis, number + 1] = nudge
            messages.append(nudge)
        return replace(request, messages=tuple(messages))

    def _kept_nudge(self, mysis: str, turn: int) -> Iterable[RequestMessage]:
        nudge = self._nudges.get((mysis, turn))
        return () if nudge is None else (nudge,)


class CountedModel:
    """The autopilot, with the sizes of its requests counted into a game."""

    kind = "autopilot"
    metered = False

    def __init__(self, game: Game, whole: WholeConversations | None) -> None:
        self._inner: Provider = AutopilotProvider(pace=0)
        self.name, self.label = self._inner.name, self._inner.label
        self._game, self._whole = game, whole
        self._before: dict[str, SentRequest] = {}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        if self._whole is not None:
            request = await self._whole.extend(request)
        self._count(request)
        async for item in self._inner.stream(request):
            yield item

    def _count(self, request: ModelRequest) -> None:
        [sent] = read_parts([request])
        game, before = self._game, self._before.get(request.mysis)
        self._before[request.mysis] = sent
        common = common_chars(before, sent) if before is not None else 0
        game.requests += 1
        game.tokens += sent.chars / CHARS_PER_TOKEN
        game.cacheable += common / CHARS_PER_TOKEN
        tokens = sent.chars / CHARS_PER_TOKEN if self._whole is not None else request.estimated_tokens
        game.over_budget += tokens > BUDGET
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
    reef = UpstreamConfig("reef", command=program, args=tuple(arguments), inject=INJECT, login=LoginSettings())
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


async def play(name: str, seed: int, ticks: int, myses: int) -> Game:
    """Play one seed until its tick."""
    way = WAYS[name]
    settings = merge_settings(SETTINGS, {"budget": {"token_budget_per_agent": BUDGET}}, way)
    is_of_topics = way["context"].get("strategy") == "topics"
    game = Game()
    with tempfile.TemporaryDirectory(prefix="zoea-strategies-") as place:
        folder = Path(place)
        model = CountedModel(game, WholeConversations(folder / "zoea.db") if name == WHOLE else None)
        toolbox = reef_toolbox(folder, seed, settings["tool"]["show"])
        player = TOPICS_PLAYER if is_of_topics else PLAYER
        async with rig(model, toolbox, settings=settings, templates=[player], folder=folder) as found:
            await toolbox.settled()  # a mysis without tools says nothing new, and comes to rest
            await found.create(myses)
            await give_orders(found, myses, is_of_topics=is_of_topics)
            while (await asyncio.to_thread(read_world, folder))[0] < ticks:
                await found.run_for(0.25)
        _, game.credits = read_world(folder)
    return game


async def give_orders(found: Rig, myses: int, *, is_of_topics: bool) -> None:
    """Tell all myses what to do. Each gets a message of its own, or all get one on their topic."""
    for number in range(myses):
        if is_of_topics:
            await found.commander.start(f"m{number}")
        else:
            await found.commander.send(f"m{number}", PROMPT, is_task=True)
    if is_of_topics:
        await found.commander.publish(TOPIC, PROMPT)


def run_game(name: str, seed: int, ticks: int, myses: int) -> Game:
    """Play one game in a process of its own."""
    return asyncio.run(play(name, seed, ticks, myses))


def spread(values: list[float], digits: int = 0) -> str:
    """Format the mean of values, and their standard deviation."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):,.{digits}f} ±{deviation:,.{digits}f}"


def share(values: list[float]) -> str:
    return f"{statistics.mean(values):.0%}" if values else "-"


def build_row(name: str, games: list[Game]) -> dict[str, Any]:
    """Return what one way did with all seeds."""
    return {
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--ticks", type=int, default=300)
    parser.add_argument("--myses", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="games played at once")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="play the ways with these names only")
    asked = parser.parse_args()
    if unknown := [name for name in asked.only if name not in WAYS]:
        parser.error(f"there is no way {unknown[0]!r}; the ways are: {'; '.join(WAYS)}")
    over = 0
    with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        games: dict[str, list[Future[Game]]] = {
            name: [pool.submit(run_game, name, seed, asked.ticks, asked.myses) for seed in range(1, asked.seeds + 1)]
            for name in asked.only or WAYS
        }
        for name, played in games.items():
            row = build_row(name, [game.result() for game in played])
            over += row["over_budget"] if name != WHOLE else 0
            print(json.dumps(row, ensure_ascii=False), flush=True)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
