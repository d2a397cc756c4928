"""Reef, the embedded world, and the autopilot that plays it without any model.

The world is always a process of its own (`python -m zoea.world`); this face says
how to start it, and stays light: nothing of the server or the simulation is
imported here.
"""

from __future__ import annotations

import sys
from pathlib import Path

from zoea.world.autopilot import AutopilotProvider

__all__ = ["DATABASE", "INJECT", "AutopilotProvider", "command"]

DATABASE = "reef.db"
"""The world's own file in the data directory."""

INJECT = {"session_id": "account"}
"""What `[upstream.reef.inject]` holds: the one argument that Zoea fills in."""


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
    """The command line of a world that speaks MCP over stdio.

    Args:
        data_dir: Where `reef.db` lives; made if missing.
        seed: Of a new world; an existing one keeps its own and refuses another.
        systems: Size of a new world, likewise; 40 if None.
        tick: Seconds a tick takes; 2 if None.
        turbo: Ticks pass as fast as the players act.
        faults: As `--faults` takes them, such as `error=0.05,latency=0.1:0.5`.
        fault_seed: Of the faults' dice.
        http: `HOST:PORT` to serve streamable HTTP there instead of stdio.
    """
    argv = [sys.executable, "-m", "zoea.world", "--data", str(data_dir)]
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
