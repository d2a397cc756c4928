"""The work that every contestant does, and how it is measured. Standard library alone.

An agent has one tool. A turn is a prompt, a call of that tool, and an answer: two
requests. Each contestant remembers the conversation in the way its documentation
shows first and keeps nothing on disk (except Zoea, which always stores).

Before the measured block the contestant imports its library and makes its agents, and
one agent more than the counted ones takes a warm-up turn, which pays for lazy imports,
templates and the first connection. The counted agents do not warm up, because the
measured turns would then have longer conversations, which cost the peers more.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
from collections.abc import Awaitable, Callable

from benchmarks.cost import measured, peak

MODEL = "reef-1"
SYSTEM = "You are a scout in the reef. Look before you answer, and answer briefly."
LOOK = "Look at one sector of the reef."


def prompt(agent: int, turn: int) -> str:
    return f"Scout {agent}, report on sector {turn}: what is there, and is it worth the fuel?"


looks: list[str] = []
"""Every sector that the tool was called for; `run` compares its length with the number of turns."""


def seen(sector: str) -> str:
    """Return the tool's result, the same for every contestant."""
    looks.append(sector)
    return f"Sector {sector}: three belts with iron, one station 4 jumps away, two other ships, no storm in sight."


Turn = Callable[[int, int], Awaitable[str]]
"""Lets one agent take one turn and returns the text of its answer."""

WARM_UP_TURNS = 1
"""Turns before the measured block, taken by the agent after the counted ones."""


async def run(turn: Turn, agents: int, turns: int) -> None:
    """Take the warm-up turn, measure `turns` turns of all agents at once, and print JSON.

    `modules_loaded` counts the modules imported within the measured block. Raises
    SystemExit if a turn has no answer or no call of the tool.
    """

    async def take_turns(agent: int, count: int) -> int:
        return sum([bool(await turn(agent, number)) for number in range(count)])

    answers = await take_turns(agents, WARM_UP_TURNS)
    gc.collect()
    modules = len(sys.modules)
    with measured() as cost:
        answers += sum(await asyncio.gather(*(take_turns(agent, turns) for agent in range(agents))))
    modules_loaded = len(sys.modules) - modules
    total = agents * turns
    wanted = total + WARM_UP_TURNS
    if answers != wanted or len(looks) != wanted:
        raise SystemExit(f"{answers} answers and {len(looks)} tool calls in {wanted} turns")
    line = {
        "cpu_ms_per_turn": round(cost.cpu_ms(total), 2),
        "turns_per_second": round(total / cost.seconds, 1),
        "peak_mb": round(peak() / 1e6),
        "modules_loaded": modules_loaded,
    }
    print(json.dumps(line), flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("base_url")
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--turns", type=int, default=5)
    return parser.parse_args()
