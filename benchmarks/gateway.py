"""What the model gateway adds to a request of an external agent.

    python -m benchmarks.gateway [--requests 300] [--chars 40000] [--tools 20]

The same streamed request, with a conversation of so many characters and tools of 2 kB each, is sent straight to a
server in a process of its own and through the gateway, one after the other in turns. The client runs in this process,
so the CPU of the direct request is the client's, and the difference is the gateway's: reading, admission, reservation,
record, hand-on, settlement. The client does not wait for the settlement, but its CPU counts.
The exit code is 1 where a goal of the specification is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time

import aiohttp

from benchmarks.admission import openai
from benchmarks.cost import judge, machine, quantile
from benchmarks.model_server import model_server
from benchmarks.rig import rig
from zoea.web.gateway import GatewayServer

GOALS = {"cpu_ms": 2.0, "p50_ms": 5.0}
WARM_UP = 20
PLACES = 256
"""The gate lets so many requests through in 100 ms: it must not be what is measured."""


async def measure(requests: int, chars: int, tools: int) -> dict[str, float]:
    """Return the CPU and the median time that the gateway adds to a request, ms."""
    words = "The belt holds ore. " * (chars // 200)
    turns = [{"role": role, "content": words} for role in ("user", "assistant") for _ in range(5)]
    fields = {f"field_{number}": {"type": "string", "description": words[:100]} for number in range(12)}
    function = {"description": words[:400], "parameters": {"type": "object", "properties": fields}}
    body = {
        "tools": [{"type": "function", "function": {**function, "name": f"tool_{number}"}} for number in range(tools)],
        "model": "reef-1",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "system", "content": "You dig."}, *turns, {"role": "user", "content": "Dig."}],
    }
    with model_server() as server:
        async with rig(openai(server.base_url, PLACES)) as swarm, aiohttp.ClientSession() as http:
            [mysis_id] = await swarm.create(1)
            await swarm.commander.start(swarm.commander.swarm.runners[mysis_id].mysis.name)
            gateway = GatewayServer(swarm.commander.swarm)
            access = await gateway.open(mysis_id)
            paths = {"direct": server.base_url, "gateway": access.openai_url}
            seconds: dict[str, list[float]] = {name: [] for name in paths}
            cpu = dict.fromkeys(paths, 0.0)
            for number in range(requests + WARM_UP):
                for name, base in paths.items():
                    began, used = time.perf_counter(), time.process_time()
                    async with http.post(f"{base}/chat/completions", json=body) as reply:
                        assert reply.status == 200, await reply.text()
                        await reply.read()
                    taken = time.perf_counter() - began
                    while gateway._settling:
                        await asyncio.wait(gateway._settling)
                    if number >= WARM_UP:
                        seconds[name].append(taken)
                        cpu[name] += time.process_time() - used
            await gateway.shut_down()
    found = {f"{name}_p50_ms": round(1000 * quantile(times, 0.5), 2) for name, times in seconds.items()}
    found |= {f"{name}_cpu_ms": round(1000 * used / requests, 2) for name, used in cpu.items()}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="What the model gateway adds to a request.")
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--chars", type=int, default=40_000)
    parser.add_argument("--tools", type=int, default=20)
    asked = parser.parse_args()
    found = asyncio.run(measure(asked.requests, asked.chars, asked.tools))
    print(json.dumps({**found, **machine()}))
    added = {name: round(found[f"gateway_{name}"] - found[f"direct_{name}"], 2) for name in GOALS}
    return judge(added, GOALS)


if __name__ == "__main__":
    sys.exit(main())
