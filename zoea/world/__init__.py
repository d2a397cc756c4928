"""Reef, the embedded world, and the autopilot that plays it without a model.

The world runs in a process of its own (`python -m zoea.world`). This module builds its command line and imports
nothing of the server, the simulation or the autopilot, to stay fast.
"""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["DATABASE", "INJECT", "command"]

DATABASE = "reef.db"
"""Name of the world's file in the data directory."""

INJECT = {"session_id": "account"}
"""Content of `[upstream.reef.inject]`: the argument that Zoea fills in."""


def command(
    data_dir: Path,
    *,
    seed: int | None = None,
    systems: int | None = None,
    tick: float | None = None,
    turbo: bool = False,
    faults: str = "",
    fault_seed: int | None = None,
    http: str = "",
) -> list[str]:
    """Build the command line of a world that speaks MCP over stdio.

    Args:
        data_dir: Directory of `reef.db`; created if missing.
        seed: Seed of a new world; an existing one refuses another seed.
        systems: Size of a new world; an existing one refuses another size. 40 if None.
        tick: Seconds per tick; 2 if None.
        turbo: Run ticks as fast as the players act.
        faults: Rates of injected faults, such as `error=0.05,latency=0.1:0.5`.
        fault_seed: Seed of the injected faults.
        http: `HOST:PORT` to serve streamable HTTP instead of stdio.
    """
    argv = [sys.executable, "-P", "-m", "zoea.world", "--data", str(data_dir)]
    if seed is not None:
        argv += ["--seed", str(seed)]
    if systems is not None:
        argv += ["--systems", str(systems)]
    if tick is not None:
        argv += ["--tick", str(tick)]
    if turbo:
        argv.append("--turbo")
    if faults:
        argv += ["--faults", faults]
    if fault_seed is not None:
        argv += ["--fault-seed", str(fault_seed)]
    if http:
        argv += ["--http", http]
    return argv
