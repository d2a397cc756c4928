"""How long dense answers hold up the event loop of a swarm.

    python -m benchmarks.loop_stalls [--only json,stdio,…]

A whole swarm runs on the loop; its servers are processes of their own. A beat every millisecond measures the
longest time that the loop did not run. On a machine with other work the loop also waits for a core, so that a time
counts only as far as this process used CPU in it: its own work, and that of threads that keep the interpreter's lock.

The exit code is 1 where a line is over the goal, or a turn did not end as it should.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.cost import machine
from benchmarks.rig import PLENTY, rig
from zoea.llm.provider_config import ProviderConfig
from zoea.llm.registry import make
from zoea.model.enums import Finish, Role
from zoea.model.ports import Provider
from zoea.model.request import Answer, AnswerCall, Delta, ModelInfo, ModelRequest, StreamItem
from zoea.model.values import Usage
from zoea.process.clock import SystemClock
from zoea.tools import Toolbox, ToolPolicy, UpstreamConfig

ROOT = Path(__file__).parents[1]
GOAL_MS = 50.0
BEAT_S = 0.001
SERVER = (sys.executable, "-m", "benchmarks.dense_server")
TOOLS = ("parts:300000", "values:200000", "values:300000", "text:20000000", "marks:1000000", "image:20000000")
MODELS = ("event:15000000", "event:50000000", "tokens:200000")
PROVIDERS = {"openai": "/v1", "anthropic": "", "ollama": ""}


@dataclass(slots=True)
class StallMeter:
    """The longest time that the loop did not run: in all, and as far as this process worked in it. Seconds."""

    longest: float = 0.0
    busy: float = 0.0

    async def watch(self) -> None:
        at, cpu = time.perf_counter(), time.process_time()
        while True:
            await asyncio.sleep(BEAT_S)
            now, used = time.perf_counter(), time.process_time()
            late = now - at - BEAT_S
            self.longest = max(self.longest, late)
            self.busy = max(self.busy, min(late, used - cpu))
            at, cpu = now, used


class CallingModel:
    """Calls `dense` with the text of the prompt, and ends the turn after its result."""

    name = "calling"
    kind = "scripted"
    label = "calling"
    metered = True

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        usage = Usage(100, 0, 10, 0)
        last = request.messages[-1]
        if last.role is Role.TOOL:
            yield Delta(text="Seen.")
            yield Answer(text="Seen.", usage=usage)
        else:
            what = next(word for word in last.content.split() if word.partition(":")[2].isdigit())
            yield Answer(calls=(AnswerCall("dense", json.dumps({"what": what})),), usage=usage, finish=Finish.CALLS)

    async def models(self) -> tuple[ModelInfo, ...]:
        return ()

    async def info(self, model: str) -> ModelInfo:
        return ModelInfo(model, 100_000)

    async def close(self) -> None:
        return None


@contextmanager
def dense_server() -> Iterator[str]:
    """Run the server; yield its address."""
    with subprocess.Popen(SERVER, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


@asynccontextmanager
async def metered() -> AsyncIterator[StallMeter]:
    meter = StallMeter()
    watching = asyncio.create_task(meter.watch())
    try:
        yield meter
    finally:
        watching.cancel()
        await asyncio.wait({watching})


def upstream(wire: str, address: str, tools: int = 0) -> UpstreamConfig:
    if wire == "stdio":
        _, *arguments = SERVER
        stdio = (*arguments, "--stdio", "--tools", str(tools))
        return UpstreamConfig("dense", command=sys.executable, args=stdio, cwd=str(ROOT))
    return UpstreamConfig("dense", url=f"{address}/{wire}")


async def measure(what: str, provider: Provider, config: UpstreamConfig | None, folder: Path) -> tuple[StallMeter, str]:
    """Give one prompt to a warm swarm, and measure until its turn is over."""
    only = ToolPolicy(deny=("zoea_*",))
    tools = None if config is None else Toolbox([config], policies=lambda template: only, logs=folder)
    async with rig(provider, tools, settings=PLENTY, folder=folder) as swarm:
        (mysis_id,) = await swarm.create(1)
        await swarm.turn(mysis_id, "tokens:1" if config is None else "nothing:0")
        async with metered() as meter:
            outcome = await swarm.turn(mysis_id, what)
    return meter, outcome


async def open_tools(folder: Path, tools: int) -> tuple[StallMeter, str]:
    """Measure a swarm while it opens an upstream with `tools` tools and creates a mysis."""
    only = ToolPolicy(deny=("zoea_*",))
    config = upstream("stdio", "", tools)
    async with rig(CallingModel(), settings=PLENTY, folder=folder) as swarm, metered() as meter:
        box = Toolbox([config], policies=lambda template: only, logs=folder)
        box.open()
        found = await box.session(1, "m0", "").catalogue()
        assert len(await swarm.create(1)) == 1
        await box.close()
    return meter, f"{len(found.tools)} tools"


async def run(wanted: list[str]) -> int:
    """Measure every line of the wanted wires; return how many were over the goal."""
    over = 0

    async def line(wire: str, what: str, measuring: Any) -> None:
        nonlocal over
        meter, outcome = await measuring
        is_over = meter.busy * 1e3 > GOAL_MS
        over += is_over
        late = f"{meter.busy * 1e3:7.1f} ms busy, {meter.longest * 1e3:7.1f} ms in all"
        print(f"{wire:10} {what:16} {late}  {outcome}{'  OVER' * is_over}", flush=True)

    with dense_server() as address:
        for wire in ("stdio", "json", "events"):
            for what in TOOLS if wire in wanted else ():
                with tempfile.TemporaryDirectory(prefix="zoea-bench-") as place:
                    config = upstream(wire, address)
                    await line(wire, what, measure(what, CallingModel(), config, Path(place)))
        for kind, path in PROVIDERS.items():
            for what in (*MODELS, *(("call:5000000",) if kind == "openai" else ())) if kind in wanted else ():
                with tempfile.TemporaryDirectory(prefix="zoea-bench-") as place:
                    settings = ProviderConfig(kind, base_url=address + path, api_key="k", model="m")
                    provider = make("dense", settings, clock=SystemClock())
                    await line(kind, what, measure(what, provider, None, Path(place)))
        if "stdio" in wanted:
            with tempfile.TemporaryDirectory(prefix="zoea-bench-") as place:
                await line("stdio", "tools:10000", open_tools(Path(place), 10_000))
    return over


def main() -> int:
    parser = argparse.ArgumentParser(description="How long dense answers hold up the event loop.")
    parser.add_argument("--only", default="stdio,json,events,openai,anthropic,ollama")
    asked = parser.parse_args()
    print(f"machine   {json.dumps(machine())}")
    over = asyncio.run(run(asked.only.split(",")))
    print(f"{over} lines over {GOAL_MS:g} ms" if over else f"none over {GOAL_MS:g} ms")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
