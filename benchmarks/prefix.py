"""Measure how much of a request is an exact prefix of the one before. `context.keep_turns` is 0, 2, 5 and `auto`.

`python -m benchmarks.prefix` plays 30 turns of one mysis with the default template and its own tools, each with one
call, and prices the requests as a provider with a cache does: read at 0.1, written at 1.25 of the price of a plain
token, for prompts of at least the cache minimum. Sizes are in characters of the serialized request, tools first.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import asdict, replace

from tests.swarm.harness import call, swarm
from zoea.llm.providers.scripted import ScriptedProvider
from zoea.model.enums import Role
from zoea.model.request import Answer, ModelInfo, ModelRequest
from zoea.settings.schema import Settings

TURNS = 30
READ, WRITTEN = 0.1, 1.25
CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class SentRequest:
    """The parts of a request in the order in which a provider reads them. `is_first` is of its turn."""

    parts: tuple[str, ...]
    is_first: bool

    @property
    def chars(self) -> int:
        return sum(map(len, self.parts))


@dataclass(frozen=True, slots=True)
class PrefixReport:
    """Shares of the requests that repeat the one before, and their price in plain tokens.

    Attributes:
        within: The least share of the request before that a later request of its turn repeats.
        between: The share that the first request of each turn has from the request before it.
    """

    keep: str
    within: float
    between: tuple[float, ...]
    share: float
    price: float


def common_chars(one: SentRequest, other: SentRequest) -> int:
    """Count the characters of the parts that two requests begin with."""
    chars = 0
    for left, right in zip(one.parts, other.parts, strict=False):
        if left != right:
            break
        chars += len(left)
    return chars


def read_parts(requests: Sequence[ModelRequest]) -> list[SentRequest]:
    """Serialize requests; most messages and tools are in many of them."""
    written: dict[int, str] = {}

    def write(part: Any) -> str:
        if id(part) not in written:
            written[id(part)] = json.dumps(part, default=asdict, sort_keys=True)
        return written[id(part)]

    return [
        SentRequest((write(one.tools), *map(write, one.messages)), one.messages[-1].role is not Role.TOOL)
        for one in requests
    ]


def measure(keep: str, sent: Sequence[SentRequest], cache_minimum: int) -> PrefixReport:
    """Compare each request with the one before it."""
    within, between, shared, price = 1.0, list[float](), 0, sent[0].chars * WRITTEN
    for before, after in itertools.pairwise(sent):
        common = common_chars(before, after)
        shared += common
        if after.is_first:
            between.append(common / after.chars)
        else:
            within = min(within, common / before.chars)
        cached = common if common >= cache_minimum * CHARS_PER_TOKEN else 0
        fresh = after.chars - cached
        is_written = after.chars >= cache_minimum * CHARS_PER_TOKEN
        price += cached * READ + fresh * (WRITTEN if is_written else 1.0)
    total = sum(one.chars for one in sent[1:])
    return PrefixReport(keep, within, tuple(between), shared / total, price / CHARS_PER_TOKEN)


class CachingProvider(ScriptedProvider):
    """A script whose model caches prompts of `cache_minimum` tokens or more. None is not known."""

    def __init__(self, reply: Callable[[ModelRequest], Answer], *, cache_minimum: int | None, **more: Any) -> None:
        super().__init__(reply, **more)
        self._cache_minimum = cache_minimum

    async def info(self, model: str) -> ModelInfo:
        return replace(await super().info(model), cache_minimum=self._cache_minimum)


async def play(folder: Path, keep: int | str, *, cache_minimum: int = 1_024, recall: int = 3) -> list[SentRequest]:
    """Play the turns of one mysis; return its requests."""

    def answer(request: ModelRequest) -> Answer:
        if request.messages[-1].role is Role.TOOL:
            return Answer(text="It is calm there. " * 8)
        return Answer(calls=(call("look", f"harbour {len(request.messages)} " + "wind and tide " * 40),))

    settings = Settings.model_validate(
        {
            "context": {"keep_turns": keep, "recall_items": recall},
            "budget": {"swarm_per_day": "none"},
            "nudge": {"without_goal": False},
        }
    )
    provider = CachingProvider(answer, metered=True, context_window=64_000, cache_minimum=cache_minimum)
    async with swarm(folder, provider=provider, settings=settings) as s:
        await s.commander.create("alpha", provider="scripted", start=False)
        for number in range(TURNS):
            await s.commander.send("alpha", f"What is it like in harbour {number}?")
            await s.settled()
    return read_parts(provider.requests)


def main() -> None:
    print(f"{'minimum':>8} {'keep_turns':>10} {'within':>7} {'between':>8} {'all':>6} {'price':>9}")
    for minimum in (4_096, 1_024):
        for keep in (0, 2, 5, "auto"):
            with tempfile.TemporaryDirectory() as folder:
                sent = asyncio.run(play(Path(folder), keep, cache_minimum=minimum))
            found = measure(str(keep), sent, minimum)
            between = sum(found.between) / len(found.between)
            print(
                f"{minimum:>8,} {found.keep:>10} {found.within:>7.0%} {between:>8.0%} {found.share:>6.0%}"
                f" {found.price:>9,.0f}"
            )


if __name__ == "__main__":
    main()
