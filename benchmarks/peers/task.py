"""The work that every contestant does, and how it is measured. Standard library alone.

An agent has one tool. A turn is a prompt, a call of that tool, and an answer: two
requests. Each contestant remembers the conversation in the way its documentation
shows first, keeps nothing on disk (but for Zoea, which cannot do otherwise), and is
measured from the first prompt to the last answer; imports, agents and connections'
pools are made before.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
from collections.abc import Awaitable, Callable

from benchmarks.cost import measured, peak

MODEL = "reef-1"
SYSTEM = "You are a scout in the reef. Look before you answer, and answer briefly."
LOOK = "Look at one sector of the reef."


def prompt(agent: int, turn: int) -> str:
    return f"Scout {agent}, report on sector {turn}: what is there, and is it worth the fuel?"


looks: list[str] = []
"""Every sector that was looked at, so that nobody is praised for a tool that was not called."""


def seen(sector: str) -> str:
    """What the tool gives, the same for everyone."""
    looks.append(sector)
    return f"Sector {sector}: three belts with iron, one station 4 jumps away, two other ships, no storm in sight."


Turn = Callable[[int, int], Awaitable[str]]
"""Lets one agent take one turn; gives the answer's text."""


async def run(turn: Turn, agents: int, turns: int) -> None:
    """Let every agent take its turns, all agents at once, and print what that cost as one line of JSON."""
    # One agent beyond the counted ones pays for lazy imports, templates and the first connection.
    await turn(agents, 0)

    async def one(agent: int) -> int:
        return sum([bool(await turn(agent, number)) for number in range(turns)])

    gc.collect()
    with measured() as cost:
        answered = sum(await asyncio.gather(*(one(agent) for agent in range(agents))))
    total = agents * turns
    if answered != total or len(looks) != total + 1:
        raise SystemExit(f"{answered} answers and {len(looks) - 1} tool calls in {total} turns")
    line = {
        "cpu_ms_per_turn": round(cost.cpu_ms(total), 2),
        "turns_per_second": round(total / cost.seconds, 1),
        "peak_mb": round(peak() / 1e6),
    }
    print(json.dumps(line), flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("base_url")
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--turns", type=int, default=5)
    return parser.parse_args()
