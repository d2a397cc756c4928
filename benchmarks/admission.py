"""Measure many myses before a busy provider, and how slow or stopped calls affect others.

    python -m benchmarks.admission [--myses 500] [--concurrency 32]

- storm: so many myses are sent a prompt while the server, a process of its own, answers
  429 with `Retry-After: 2` for 5 s. By the server's clock no 100 ms hold more requests
  than the gate lets through, and every prompt is answered in its first turn.
- stop: a mysis is stopped in mid-stream: the server sees the connection close, and what
  was streamed by then is kept.
- overlap: four read-only calls of one answer run side by side by the tools' own clock;
  four others run one after another.
- slow: while one mysis waits for a call of 3 s, the turns of 50 others.

The exit code is 1 where one of them is not as it should be.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

from benchmarks.cost import machine, measured, quantile
from benchmarks.model_server import model_server
from benchmarks.rig import PLENTY, Rig, rig
from tests.fakes.openai_server import Call, Fail, OpenAIServer, Say
from tests.fakes.wire_server import Received
from zoea.llm.provider_config import ProviderConfig
from zoea.llm.registry import make
from zoea.model.ports import Provider
from zoea.process.clock import SystemClock
from zoea.tools import Toolbox, ToolPolicy, UpstreamConfig

OUTAGE_S = 5.0
SPAN_S = 0.1
SLACK = 1.1
SLOW_S = 60.0
CALL_S = 0.2


def openai(base_url: str, concurrency: int) -> Provider:
    config = ProviderConfig("openai", base_url=base_url, model="reef-1", concurrency=concurrency)
    return make("reefnet", config, clock=SystemClock())


async def storm(myses: int, concurrency: int, outage_s: float = OUTAGE_S) -> dict[str, Any]:
    with model_server() as server:
        async with rig(openai(server.base_url, concurrency)) as swarm:
            ids = await swarm.create(myses)
            server.ask("report")
            server.ask("outage", seconds=outage_s, retry_after="2")
            with measured() as cost:
                outcomes = await asyncio.gather(*(swarm.turn(mysis_id, "report") for mysis_id in ids))
            seen = server.ask("report")
            errored = await swarm.store.read(
                "SELECT count(*) FROM event WHERE kind = 'mysis.state' AND data LIKE ?", ('%"errored"%',)
            )
    return {
        "myses": myses,
        "gate": concurrency,
        "answered": outcomes.count("answered"),
        "errored": errored[0][0],
        "requests": len(seen["times"]),
        "busiest_100_ms": busiest(seen["times"]),
        "connections": seen["connections"],
        "seconds": round(cost.seconds, 1),
        "ok": outcomes.count("answered") == myses
        and not errored[0][0]
        and busiest(seen["times"]) <= concurrency * SLACK,
    }


def busiest(times: list[float]) -> int:
    """The most requests that came within any 100 ms."""
    return max(index - bisect_left(times, at - SPAN_S) + 1 for index, at in enumerate(times))


async def stop() -> dict[str, Any]:
    said = "The reef is quiet today, and the drones are back. "
    async with (
        OpenAIServer(Say(said * 4, chunk=10, stall_after=12)) as server,
        rig(openai(server.base_url, 8)) as swarm,
    ):
        (mysis_id,) = await swarm.create(1)
        await swarm.commander.send(f"#{mysis_id}", "report")
        async for view in swarm.commander.changes():
            if any(len(mysis.streaming) > 50 for mysis in view.myses):
                break
        (chat,) = server.chats
        begun = time.monotonic()
        await swarm.commander.stop(f"#{mysis_id}")
        async with asyncio.timeout(5):
            await chat.gone.wait()
        seconds = time.monotonic() - begun
        kept = await swarm.store.read("SELECT content, partial FROM memory WHERE role = 'assistant'")
    text, partial = (kept[0]["content"], bool(kept[0]["partial"])) if kept else ("", False)
    return {
        "closed_after_ms": round(seconds * 1e3),
        "kept_chars": len(text),
        "ok": bool(text) and partial and said.startswith(text[: len(said)]),
    }


class Workshop:
    """An MCP server with slow tools. It knows by its own clock when each call ran."""

    def __init__(self) -> None:
        self.spans: list[tuple[float, float]] = []

    def _tool(self, seconds: float) -> Callable[[str], Awaitable[str]]:
        async def work(sector: str) -> str:
            begun = time.monotonic()
            await asyncio.sleep(seconds)
            self.spans.append((begun, time.monotonic()))
            return f"{sector} done"

        return work

    def toolbox(self, logs: Path) -> Toolbox:
        server: MCPServer[Any] = MCPServer("workshop", log_level="ERROR")
        for name, seconds, reads in (("look", CALL_S, True), ("act", CALL_S, False), ("wait_long", SLOW_S, False)):
            hints = ToolAnnotations(read_only_hint=reads, destructive_hint=False)
            server.add_tool(self._tool(seconds), name=name, description="Works.", annotations=hints)
        every = ToolPolicy(deny=("zoea_*",))
        config = UpstreamConfig("workshop", server=server, max_parallel=64)
        return Toolbox([config], policies=lambda template: every, logs=logs)

    @property
    def together(self) -> int:
        """The most calls that ran at one moment."""
        return max(sum(begun <= at < ended for begun, ended in self.spans) for at, _ in self.spans)


def agentic(request: Received) -> Say | Fail:
    """Calls the tool that the prompt names, as often as it says; then answers."""
    last = request.json["messages"][-1]
    if last["role"] != "user":
        return Say("Done, all of it.")
    tool, _, times = last["content"].rpartition("\n")[2].partition(" ")
    calls = [Call(tool, json.dumps({"sector": f"s{number}"}), f"call_{number}") for number in range(int(times))]
    return Say(calls=tuple(calls))


@asynccontextmanager
async def workshop() -> AsyncIterator[tuple[Workshop, Rig]]:
    shop = Workshop()
    with tempfile.TemporaryDirectory() as logs:
        async with OpenAIServer(otherwise=agentic) as server:
            provider = openai(server.base_url, 64)
            async with rig(provider, shop.toolbox(Path(logs)), settings=PLENTY) as swarm:
                yield shop, swarm


async def overlap() -> dict[str, Any]:
    found = {}
    async with workshop() as (shop, swarm):
        (mysis_id,) = await swarm.create(1)
        for tool in ("look", "act"):
            shop.spans.clear()
            await swarm.turn(mysis_id, f"{tool} 4")
            found[tool] = shop.together
    return {"read_only_at_once": found["look"], "others_at_once": found["act"], "ok": found == {"look": 4, "act": 1}}


async def slow() -> dict[str, Any]:
    """Turns of others, without and with one mysis in a long call."""
    async with workshop() as (_, swarm):
        slowest, *ids = await swarm.create(51)

        async def crowd() -> float:
            async def one(mysis_id: int) -> float:
                begun = time.monotonic()
                await swarm.turn(mysis_id, "look 1")
                return time.monotonic() - begun

            return quantile(await asyncio.gather(*(one(mysis_id) for mysis_id in ids)), 0.99)

        await crowd()
        alone = await crowd()
        waiting = asyncio.ensure_future(swarm.turn(slowest, "wait_long 1"))
        beside = await crowd()
        was_waiting = not waiting.done()
        waiting.cancel()
        await asyncio.wait({waiting})
    return {
        "p99_alone_ms": round(alone * 1e3),
        "p99_beside_ms": round(beside * 1e3),
        # A count, not a time: every turn of the others was over while the long call still ran.
        "ok": was_waiting,
    }


async def measure(myses: int, concurrency: int) -> bool:
    print(f"machine   {json.dumps(machine())}", flush=True)
    fine = True
    for name, work in (
        ("storm", storm(myses, concurrency)),
        ("stop", stop()),
        ("overlap", overlap()),
        ("slow", slow()),
    ):
        figures = await work
        print(f"{name:9} {json.dumps(figures)}", flush=True)
        fine = fine and figures["ok"]
    return fine


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A crowd before a provider that says it is too much.")
    parser.add_argument("--myses", type=int, default=500)
    parser.add_argument("--concurrency", type=int, default=32)
    asked = parser.parse_args()
    sys.exit(0 if asyncio.run(measure(asked.myses, asked.concurrency)) else 1)
