"""Every benchmark with goals, one after another: `python -m benchmarks [--quick]`.

Each runs in a process of its own. The exit code is 1 where one of them missed a goal.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BENCHMARKS = (
    "planning",
    "planner",
    "prefix",
    "sessions",
    "store_writes",
    "chain",
    "history",
    "search",
    "mcp_search",
    "swarm_scale",
    "admission",
    "gateway",
    "loop_stalls",
    "first_paint",
    "large_start",
    "tui_load",
    "transcript",
    "files",
)
WITH_QUICK = ("planner", "swarm_scale", "first_paint", "large_start", "tui_load", "files")


def main() -> int:
    parser = argparse.ArgumentParser(description="The measurements that the performance claims rest on.")
    parser.add_argument("--quick", action="store_true", help="shorter where that is possible")
    asked = parser.parse_args()
    missed = []
    for name in BENCHMARKS:
        print(f"== {name}", flush=True)
        more = ["--quick"] if asked.quick and name in WITH_QUICK else []
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *more], cwd=ROOT).returncode:
            missed.append(name)
    if missed:
        print(f"Not as it should be: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
