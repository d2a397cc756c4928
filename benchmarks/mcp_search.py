"""How fast an external MCP client finds things while a swarm writes: another process, over HTTP, search after search.

    python -m benchmarks.mcp_search [--memories N] [--myses N] [--searches N]

The swarm remembers 100,000 memories when it starts, and 100 of its myses write as fast as
their model lets them: each is written to again as soon as it has answered, and its model
takes 0.5 to 1.5 s for an answer, which no paid model is quicker than. The client is the
SDK's own. The exit code is 1 where a goal is missed, or where anything was locked.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cost import machine, measured, quantile
from benchmarks.search import COMMON, RARE, Words, build, rows
from zoea.mcp_server.tokens import Tokens, TokenScope
from zoea.model.enums import Finish
from zoea.model.request import Answer, ModelInfo, ModelRequest, StreamItem
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import Usage
from zoea.runtime.compose import SwarmOptions, running_swarm
from zoea.settings.credentials import Credentials
from zoea.settings.paths import Places

GOALS = {"rare_p99_ms": 20.0, "common_p99_ms": 20.0, "phrase_p95_ms": 50.0, "failed": 0, "locked": 0}
SETTINGS = {
    "swarm.default_provider": "scripted",
    "swarm.max_myses": 2_000,
    "nudge.enabled": False,
    "budget.swarm_per_day": "none",
    "budget.mysis": "none",
    "mcp.http": True,
    "mcp.port": 0,
}


class SlowModel:
    """Answers in made-up words after a while, as a quick model does."""

    name = "slow"
    kind = "scripted"
    label = "slow"
    metered = False

    def __init__(self, words: Words) -> None:
        self._words = words
        self._dice = random.Random(5)
        self.answers = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        await asyncio.sleep(self._dice.uniform(0.5, 1.5))
        self.answers += 1
        yield Answer(
            text=self._words.text(25), reasoning=self._words.text(15), usage=Usage(800, 0, 40), finish=Finish.STOP
        )

    async def models(self) -> tuple[ModelInfo, ...]:
        return (await self.info("slow"),)

    async def info(self, model: str) -> ModelInfo:
        return ModelInfo(model or "slow", 100_000)

    async def close(self) -> None:
        """Nothing is held."""


def searches(words: Words, count: int) -> list[tuple[str, str]]:
    """Rare and common words, and phrases that were said, by turns."""
    dice = random.Random(3)
    said = [row.content for row in rows(Words(), 4_000) if row.role != "tool"]
    found = []
    for _ in range(count // 3):
        text = dice.choice(said)
        start, length = dice.randrange(max(1, len(text) - 10)), dice.randint(3, 40)
        phrase = text[start : start + length].strip() or text[:10]
        found += [("rare", RARE), ("common", dice.choice(words.all[:COMMON])), ("phrase", phrase)]
    return found


async def keep_writing(swarm: SwarmApi, mysis_id: int, words: Words) -> None:
    while True:
        await swarm.send(f"#{mysis_id}", words.text(20))
        await swarm.wait(f"#{mysis_id}", timeout_s=60)


async def client(url: str, token: str, asked: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """In a process of its own: the searches, and how long each took."""
    import httpx2
    from mcp.client import Client
    from mcp.client.streamable_http import streamable_http_client

    took: dict[str, list[float]] = {}
    failed = 0
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60.0, verify=False) as http,
        Client(streamable_http_client(url, http_client=http)) as session,
    ):
        for kind, query in asked:
            begun = time.perf_counter()
            result = await session.call_tool("zoea_search_messages", {"query": query, "limit": 20})
            took.setdefault(kind, []).append((time.perf_counter() - begun) * 1e3)
            failed += bool(result.is_error)
    return {"took": took, "failed": failed}


async def run(memories: int, myses: int, count: int) -> int:
    words = Words()
    model = SlowModel(words)
    with tempfile.TemporaryDirectory(prefix="zoea-bench-") as folder:
        where = Places(data=Path(folder) / "data", config=Path(folder) / "config", runtime=Path(folder))
        where.make_data()
        build(where.database, Words(), memories)
        swarm_options = SwarmOptions(providers={"scripted": model}, overrides=SETTINGS)
        async with running_swarm(where, lambda: None, options=swarm_options) as swarm:
            ids = [(await swarm.create(f"w{number}")).id for number in range(myses)]
            writing = [asyncio.create_task(keep_writing(swarm, mysis_id, words)) for mysis_id in ids]
            token = Tokens(Credentials(where.credentials)).new("bench", TokenScope.READ, 1)
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "benchmarks.mcp_search", "--client",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=2**24,
            )  # fmt: skip
            asked = json.dumps([(await swarm.serve_mcp(True)).url, token, searches(words, count)])
            answers = model.answers
            with measured() as cost:
                said, _ = await child.communicate(asked.encode())
            answers = model.answers - answers
            for task in writing:
                task.cancel()
            ended = await asyncio.gather(*writing, return_exceptions=True)
        locked = where.log.read_text(encoding="utf-8").count("locked")
    wrong = [error for error in ended if not isinstance(error, asyncio.CancelledError)]
    found = json.loads(said)
    took = found["took"]
    told = {
        "searches": sum(map(len, took.values())),
        "turns_per_second": round(answers / cost.seconds, 1),
        "cores_used": round(cost.cpu / cost.seconds, 2),
        **{f"{kind}_p50_ms": round(quantile(times, 0.5), 1) for kind, times in took.items()},
        "rare_p99_ms": round(quantile(took["rare"], 0.99), 1),
        "common_p99_ms": round(quantile(took["common"], 0.99), 1),
        "phrase_p95_ms": round(quantile(took["phrase"], 0.95), 1),
        "failed": found["failed"] + len(wrong),
        "locked": locked,
    }
    print(f"live      {json.dumps(told)}")
    missed = [name for name, most in GOALS.items() if told[name] > most]
    for name, most in GOALS.items():
        print(f"{'missed' if name in missed else 'met':7} {name} {told[name]:g} (the goal: at most {most:g})")
    return 1 if missed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="How fast an external client finds things in a swarm that writes.")
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--myses", type=int, default=100)
    parser.add_argument("--searches", type=int, default=1_500)
    parser.add_argument("--client", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.client:
        print(json.dumps(asyncio.run(client(*json.loads(sys.stdin.read())))))
        return 0
    print(f"machine   {json.dumps(machine())}", flush=True)
    return asyncio.run(run(asked.memories, asked.myses, asked.searches))


if __name__ == "__main__":
    sys.exit(main())
