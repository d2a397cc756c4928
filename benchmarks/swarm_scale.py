"""What a swarm costs as it grows: turns per second, CPU, memory, and how long a person waits.

    python -m benchmarks.swarm_scale [--quick] [--full] [--only play,overhead,idle,history]

Each line is measured in a process of its own, so that none inherits another's memory:

- play: 10, 100 and 1,000 autopilot myses in Reef (the world is another process, its ticks
  as fast as the players act), each nudged again as soon as it rests. Meanwhile a person
  writes to myses that rest; `delay` is from the call of `send` to that prompt's first plan,
  with its parts: `store` until the message is stored, `steps` until its runner asks for a place,
  `gate` until the turn gate gives it, `writer` until the op that opens the turn runs (the writer's
  queue), `plan` until the plan is made.
- overhead: what Zoea itself costs per request: plan, store, events, the bookkeeping of one
  tool call in every second request; with a model and tools that cost nothing.
- idle: memory of 1,000 myses, created, and after each has had a turn.
- history: memory of a swarm and CPU of a turn over a long history against a short one. The first turn of each
  mysis also commits what no commit holds of it, so it is measured apart, for each 1,000 such memories.

`--quick` ends within a minute; `--full` has 10,000 memories for each of 1,000 myses and
takes 4 GB of disk. The exit code is 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.cost import child_cpu, judge, machine, measured, quantile, resident
from benchmarks.rig import PlainModel, Rig, rig
from benchmarks.world_play import PLAYER, PROBE, SETTINGS, PlanWatch, TimedModel, toolbox

MYSES = 1000
PROBES = 100
GOALS = {"delay_p99_ms": 250.0, "overhead_ms": 5.0, "idle_kb": 50.0, "growth": 1.1, "first_ms": 75.0}


async def play(myses: int, seconds: float) -> dict[str, Any]:
    """So many myses play; what that costs, and how long a person waits meanwhile."""
    model = TimedModel()
    with tempfile.TemporaryDirectory(prefix="zoea-bench-") as place, PlanWatch() as watch:
        before = resident()
        async with rig(
            model, toolbox(Path(place)), settings=SETTINGS, templates=[PLAYER, PROBE], folder=Path(place)
        ) as swarm:
            await swarm.create(myses)
            probes = await swarm.create(PROBES, template="probe", prefix="p")
            await swarm.commander.start_all()
            await _everybody_played(swarm, myses)
            world = _child()
            requests, cpu = model.requests, model.cpu
            world_cpu = child_cpu(world)
            with measured() as cost:
                await _write_to(swarm, probes, watch, seconds)
            asked = model.requests - requests
            # A thousand turns that began together also end together: requests are counted in the window, and
            # how many make a turn over the whole run.
            per_turn = model.requests / swarm.listener.ended
            return {
                "myses": myses,
                "turns_per_second": round(asked / per_turn / cost.seconds, 1),
                "requests_per_turn": round(per_turn, 1),
                "requests_per_second": round(asked / cost.seconds, 1),
                "cpu_ms_per_turn": round(cost.cpu_ms(asked) * per_turn, 2),
                "cpu_ms_per_request": round(cost.cpu_ms(asked), 2),
                "model_ms_per_request": round((model.cpu - cpu) / max(1, asked) * 1e3, 2),
                "world_ms_per_request": round((child_cpu(world) - world_cpu) / max(1, asked) * 1e3, 2),
                "cores_used": round(cost.cpu / cost.seconds, 2),
                "kb_per_mysis": round((resident() - before) / 1e3 / myses),
                "prompts": len(watch.delays),
                "delay_p50_ms": round(quantile(watch.delays, 0.5) * 1e3, 1),
                "delay_p99_ms": round(quantile(watch.delays, 0.99) * 1e3, 1),
                **{
                    f"{part.removesuffix('_s')}_p{share}_ms": round(quantile(times, share / 100) * 1e3, 1)
                    for part, times in watch.parts.items()
                    for share in (50, 99)
                },
            }


async def _everybody_played(swarm: Rig, myses: int) -> None:
    """Wait until each has had a turn: accounts are made, and nobody stands at the door any more."""
    async with asyncio.timeout(120):
        while True:
            found = await swarm.store.read("SELECT count(DISTINCT mysis_id) FROM turn WHERE outcome IS NOT NULL")
            if found[0][0] >= myses:
                return
            await asyncio.sleep(0.2)


async def _write_to(swarm: Rig, probes: list[int], watch: PlanWatch, seconds: float) -> None:
    """A person writes now to one resting mysis, now to another."""
    dice = random.Random(7)
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds

    async def one(mysis_id: int) -> None:
        await asyncio.sleep(dice.random() * seconds * 0.8)
        while loop.time() < until:
            watch.sent(mysis_id)
            ended = swarm.listener.next_end(mysis_id)
            await swarm.commander.send(f"#{mysis_id}", "Where are you, and what is in your hold?")
            watch.stored(mysis_id)
            await asyncio.wait({ended}, timeout=max(0.0, until - loop.time()))
            await asyncio.sleep(dice.random() * 0.2)

    await asyncio.gather(*(one(probe) for probe in probes))


def _child() -> int:
    """The world's process."""
    found = [pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]
    return int(found[0])


async def overhead(myses: int, turns: int) -> dict[str, Any]:
    """CPU of a request with everything left out that is not Zoea's."""
    async with rig(PlainModel()) as swarm:
        ids = await swarm.create(myses)
        await asyncio.gather(*(swarm.turn(mysis_id, "begin") for mysis_id in ids))

        async def one(mysis_id: int) -> None:
            for number in range(turns):
                assert await swarm.turn(mysis_id, f"go on with {number}") == "answered"

        ops = swarm.store.stats.ops
        with measured() as cost:
            await asyncio.gather(*(one(mysis_id) for mysis_id in ids))
        total = myses * turns
        return {
            "myses": myses,
            "turns_per_second": round(total / cost.seconds, 1),
            "overhead_ms": round(cost.cpu_ms(total * 2), 2),
            "ops_per_turn": round((swarm.store.stats.ops - ops) / total, 1),
        }


async def idle(myses: int) -> dict[str, Any]:
    """Memory that a mysis holds which does nothing."""
    async with rig(PlainModel()) as swarm:
        await swarm.turn((await swarm.create(1, prefix="first"))[0], "begin")
        before = _settled()
        ids = await swarm.create(myses)
        created = _settled() - before
        await asyncio.gather(*(swarm.turn(mysis_id, "begin") for mysis_id in ids))
        rested = _settled() - before
        return {
            "myses": myses,
            "created_kb": round(created / 1e3 / myses, 1),
            "idle_kb": round(rested / 1e3 / myses, 1),
        }


def _settled() -> int:
    gc.collect()
    return resident()


_LENGTHEN = (
    """WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < :turns)
    INSERT INTO turn(mysis_id, number, opened_by, frozen, outcome, opened_at, ended_at)
    SELECT y.id, n.n, 'prompt', '{}', 'answered', n.n, n.n FROM n, mysis y ORDER BY n.n, y.id""",
    """INSERT INTO memory(mysis_id, turn_id, seq, role, source, content, tokens, created_at)
    SELECT t.mysis_id, t.id, s.column1, s.column2, s.column3, s.column4 || t.number, 60, t.number FROM turn t,
    (VALUES (1, 'user', 'direct', :text), (2, 'assistant', 'llm', :text), (3, 'tool', 'tool', :text),
            (4, 'assistant', 'llm', :text)) s ORDER BY t.id, s.column1""",
    """INSERT INTO tool_call(memory_id, position, name, arguments, fingerprint, result_fingerprint, state,
                            result_memory_id)
    SELECT a.id, 0, 'look', '{}', randomblob(16), randomblob(16), 'done', r.id FROM memory a
    JOIN memory r ON r.turn_id = a.turn_id AND r.seq = 3 WHERE a.seq = 2""",
)


async def history(memories: int) -> dict[str, Any]:
    """Measure the memory of 1,000 myses with `memories` memories each. Before, a tenth of them had two turns."""
    with tempfile.TemporaryDirectory(prefix="zoea-bench-") as place:
        builder = [sys.executable, "-m", "benchmarks.swarm_scale", "--part", "build", str(memories), place]
        await asyncio.to_thread(subprocess.run, builder, check=True)
        async with rig(PlainModel(), folder=Path(place)) as swarm:
            numbers = range(1, MYSES // 10 + 1)  # ids count from 1: `build` made them
            with measured() as first:
                await asyncio.gather(*(swarm.turn(number, "commit what no commit holds") for number in numbers))
            with measured() as cost:
                await asyncio.gather(*(swarm.turn(number, "go on") for number in numbers))
            size = (Path(place) / "zoea.db").stat().st_size
            return {
                "memories_each": memories,
                "database_mb": round(size / 1e6),
                "resident_mb": round(_settled() / 1e6, 1),
                "cpu_ms_per_turn": round(cost.cpu_ms(len(numbers)), 2),
                "first_ms": round((first.cpu_ms(len(numbers)) - cost.cpu_ms(len(numbers))) / memories * 1e3, 2),
            }


async def build(memories: int, place: str) -> dict[str, Any]:
    """A workspace of 1,000 myses that remember so much each: four memories a turn."""
    async with rig(PlainModel(), folder=Path(place)) as swarm:
        await swarm.create(MYSES)
    with closing(sqlite3.connect(Path(place) / "zoea.db")) as db:
        db.execute("PRAGMA synchronous = OFF")
        parameters = {"turns": memories // 4, "text": "The belt of sector seven holds iron and little else. " * 3}
        for statement in _LENGTHEN:
            db.execute(statement, parameters)
        db.execute("UPDATE tally SET turns = ?", (memories // 4,))
        db.execute("DELETE FROM unindexed")  # nobody searches here, and the index is none of what is measured
        db.commit()
    return {}


def part(name: str, *numbers: float) -> dict[str, Any]:
    """Measure one line in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.swarm_scale", "--part", name, *map(str, numbers)]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=3600)
    figures: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    print(f"{name:9} {json.dumps(figures)}", flush=True)
    return figures


def run_part(name: str, numbers: list[str]) -> None:
    match name:
        case "play":
            figures = asyncio.run(play(int(numbers[0]), float(numbers[1])))
        case "overhead":
            figures = asyncio.run(overhead(int(numbers[0]), int(numbers[1])))
        case "idle":
            figures = asyncio.run(idle(int(numbers[0])))
        case "history":
            figures = asyncio.run(history(int(numbers[0])))
        case "build":
            figures = asyncio.run(build(int(numbers[0]), numbers[1]))
        case _:
            raise SystemExit(f"no part {name!r}")
    print(json.dumps(figures))


def main() -> int:
    parser = argparse.ArgumentParser(description="What a swarm costs as it grows.")
    parser.add_argument("--quick", action="store_true", help="shorter, within a minute")
    parser.add_argument("--full", action="store_true", help="10,000 memories for each of 1,000 myses")
    parser.add_argument("--only", default="play,overhead,idle,history")
    parser.add_argument("--part", nargs="+", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.part:
        run_part(asked.part[0], asked.part[1:])
        return 0
    print(f"machine   {json.dumps(machine())}", flush=True)
    wanted = asked.only.split(",")
    found: dict[str, float] = {}
    if "overhead" in wanted:
        found["overhead_ms"] = part("overhead", 100, 3 if asked.quick else 10)["overhead_ms"]
    if "idle" in wanted:
        found["idle_kb"] = part("idle", MYSES)["idle_kb"]
    if "history" in wanted:
        short = part("history", 20)
        long = part("history", 10_000 if asked.full else 60 if asked.quick else 400)
        found["growth"] = round(long["resident_mb"] / short["resident_mb"], 3)
        found["first_ms"] = long["first_ms"]
    if "play" in wanted:
        seconds = 4 if asked.quick else 15
        found["delay_p99_ms"] = [part("play", myses, seconds) for myses in (10, 100, MYSES)][-1]["delay_p99_ms"]
    print(f"machine   {json.dumps(machine())}")
    return judge(found, GOALS)


if __name__ == "__main__":
    sys.exit(main())
