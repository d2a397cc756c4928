"""Measure the time of `zoea run` to its first frame, beside an empty Textual app.

    python -m benchmarks.first_paint [--quick]

Both begin as processes, alternately, with their bytecode in place as after an installation;
a frame has come when its first words are read from the terminal. The figures are medians of
the rounds. The exit code is 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks.cost import child_cpu, judge, machine
from benchmarks.terminal import Terminal

ROOT = Path(__file__).parents[1]
GOALS = {"beyond_empty_ms": 350.0, "from_start_ms": 1100.0}
EMPTY = """
from textual.app import App
from textual.widgets import Static

class Empty(App):
    def compose(self):
        yield Static("nothing here")

Empty().run()
"""
COMMANDS = {
    "empty": ([sys.executable, "-c", EMPTY], "nothing here"),
    "zoea": ([sys.executable, "-m", "zoea", "run"], "Z O E A"),
}


class Paint(NamedTuple):
    """Hold ms since the start of the process: wall clock, and CPU in steps of 10."""

    clock: float
    cpu: float


def first_paint(name: str, place: Path) -> Paint:
    """Start with an empty workspace, wait for the first frame, end it."""
    command, marker = COMMANDS[name]
    with tempfile.TemporaryDirectory(dir=place) as home:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(place / "bytecode"), "LANG": "C.UTF-8"}
        environment |= {"ZOEA_DATA_DIR": f"{home}/data", "ZOEA_CONFIG_DIR": f"{home}/config", "XDG_RUNTIME_DIR": home}
        terminal = Terminal(command, environment=environment, screen_is_stdout=True)
        try:
            at = terminal.wait_for(marker)
            return Paint((at - terminal.begun) * 1e3, child_cpu(terminal.process.pid) * 1e3)
        finally:
            terminal.close()


def measure(rounds: int) -> dict[str, float]:
    """Return medians over the rounds, after a first one that writes bytecode."""
    found: dict[str, list[Paint]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory(prefix="zoea-bench-") as place:
        for number in range(rounds + 1):
            for name in COMMANDS:
                paint = first_paint(name, Path(place))
                if number:
                    found[name].append(paint)
    clock = {name: statistics.median(paint.clock for paint in paints) for name, paints in found.items()}
    cpu = {name: statistics.median(paint.cpu for paint in paints) for name, paints in found.items()}
    return {
        "empty_ms": round(clock["empty"]),
        "from_start_ms": round(clock["zoea"]),
        "beyond_empty_ms": round(clock["zoea"] - clock["empty"]),
        "empty_cpu_ms": round(cpu["empty"]),
        "zoea_cpu_ms": round(cpu["zoea"]),
        "times_empty": round(cpu["zoea"] / cpu["empty"], 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="How soon the cockpit is there.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    asked = parser.parse_args()
    print(f"machine   {json.dumps(machine())}", flush=True)
    figures = measure(4 if asked.quick else 12)
    print(f"paint     {json.dumps(figures)}")
    print(f"machine   {json.dumps(machine())}")
    return judge({name: figures[name] for name in GOALS}, GOALS)


if __name__ == "__main__":
    sys.exit(main())
