"""The newcomer's way and six jobs: keys and seconds of each step.

`python -m benchmarks.newcomer [--install] [--size 80x24] [--only way,jobs]` drives `zoea run` on a pseudo-terminal
beside a fake model server. The way leads from an empty directory to a reviewed task; each job begins in a directory of
its own: five agents on five tasks, sixty with three of ten told, a budget hit and raised, faults, a fork into three,
and theme, key and export. `--install` also builds a wheel and times `pip install` of it into a fresh environment.
Nothing is asserted but that the screen names each key before it is pressed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from tests.e2e.counted_terminal import CountedTerminal
from tests.e2e.newcomer_jobs import JOBS, NewcomerJobs, answer_jobs, write_settings
from tests.e2e.newcomer_way import MODELS, NewcomerWay, answer_newcomer
from tests.fakes.openai_server import OpenAIServer

ROOT = Path(__file__).parents[1]


def time_install(folder: Path) -> float:
    """Return the seconds of `pip install` of this checkout's wheel into a fresh environment."""
    wheels, fresh = folder / "wheels", folder / "fresh"
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)]
    subprocess.run(build, check=True)
    begun = time.monotonic()
    subprocess.run([sys.executable, "-m", "venv", str(fresh)], check=True)
    wheel = next(wheels.glob("*.whl"))
    subprocess.run([str(fresh / "bin" / "python"), "-m", "pip", "install", "--quiet", str(wheel)], check=True)
    return time.monotonic() - begun


def use_folder(folder: Path) -> None:
    """Keep settings, data and sockets of this process and its children in this folder."""
    for name in ("home", "run"):
        (folder / name).mkdir()
    os.environ |= {
        "HOME": str(folder / "home"),
        "ZOEA_DATA_DIR": str(folder / "data"),
        "ZOEA_CONFIG_DIR": str(folder / "config"),
        "XDG_RUNTIME_DIR": str(folder / "run"),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
    }


async def go(size: tuple[int, int]) -> NewcomerWay:
    async with OpenAIServer(otherwise=answer_newcomer) as server:
        server.models = [{"id": name, "object": "model"} for name in MODELS]
        way = NewcomerWay(server.base_url, size)
        try:
            await asyncio.to_thread(way.go)
        finally:
            way.close()
    return way


async def play(job: str, size: tuple[int, int]) -> NewcomerJobs:
    """Play one job in the folders of this process."""
    async with OpenAIServer(otherwise=answer_jobs) as server:
        write_settings(Path(os.environ["ZOEA_CONFIG_DIR"]), server, job)
        jobs = NewcomerJobs(server, size)
        await asyncio.to_thread(jobs.play, job)
    return jobs


def in_folder(work: Callable[[], Coroutine[Any, Any, CountedTerminal]], *, install: bool = False) -> None:
    """Do the counted work in its own folder, and print a line for each step."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="zoea-") as name:
        folder = Path(name)
        if install:
            print(f"{'install a wheel':<44} {'':>4}      {'':>4}      {time_install(folder):6.1f} s")
        use_folder(folder)
        os.chdir(folder)  # an export is written here
        try:
            steps = asyncio.run(work()).steps
        finally:
            os.chdir(before)
    for step in steps:
        print(f"{step.title:<44} {step.keys:>4} keys {step.characters:>4} typed {step.seconds:6.1f} s", flush=True)
    if len(steps) > 1:
        keys, typed = sum(step.keys for step in steps), sum(step.characters for step in steps)
        print(f"{'in all':<44} {keys:>4} keys {typed:>4} typed {sum(step.seconds for step in steps):6.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description="The newcomer's way and six jobs, timed over a terminal.")
    parser.add_argument("--install", action="store_true", help="time `pip install` of a wheel too")
    parser.add_argument("--size", default="120x40", help="columns x lines of the terminal")
    parser.add_argument("--only", default="way,jobs", help=f"way, jobs, or some of {', '.join(JOBS)}")
    asked = parser.parse_args()
    columns, _, lines = asked.size.partition("x")
    size, wanted = (int(columns), int(lines)), asked.only.split(",")
    if "way" in wanted:
        in_folder(partial(go, size), install=asked.install)
    for job in JOBS:
        if job in wanted or "jobs" in wanted:
            in_folder(partial(play, job, size))


if __name__ == "__main__":
    main()
