"""The newcomer's way: keys and seconds of each step, from an empty directory to a reviewed task.

`python -m benchmarks.newcomer [--install] [--size 80x24]` drives `zoea run` on a pseudo-terminal beside a fake model
server. `--install` also builds a wheel and times `pip install` of it into a fresh environment. Nothing is asserted but
that the screen names each key before it is pressed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.e2e.newcomer_way import MODELS, NewcomerWay, answer_newcomer
from tests.fakes.openai_server import OpenAIServer

ROOT = Path(__file__).parents[1]


def time_install(folder: Path) -> float:
    """Return the seconds of `pip install` of a wheel built from this checkout into a fresh environment."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description="The newcomer's way, timed over a terminal.")
    parser.add_argument("--install", action="store_true", help="time `pip install` of a wheel too")
    parser.add_argument("--size", default="120x40", help="columns x lines of the terminal")
    asked = parser.parse_args()
    columns, _, lines = asked.size.partition("x")
    with tempfile.TemporaryDirectory(prefix="zoea-") as name:
        folder = Path(name)
        if asked.install:
            print(f"{'install a wheel':<44} {'':>4}      {'':>4}      {time_install(folder):6.1f} s")
        use_folder(folder)
        way = asyncio.run(go((int(columns), int(lines))))
    for step in way.steps:
        print(f"{step.title:<44} {step.keys:>4} keys {step.characters:>4} typed {step.seconds:6.1f} s")
    keys, typed = sum(step.keys for step in way.steps), sum(step.characters for step in way.steps)
    print(f"{'in all':<44} {keys:>4} keys {typed:>4} typed {sum(step.seconds for step in way.steps):6.1f} s")


if __name__ == "__main__":
    main()
