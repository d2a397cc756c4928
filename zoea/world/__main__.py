"""Run the world as a process: `python -m zoea.world`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoea.model.errors import ZoeaError
from zoea.process.gc_tuning import short_gc

if TYPE_CHECKING:
    from zoea.world.world_server import WorldOptions


def parse(argv: Sequence[str]) -> WorldOptions:
    """Parse the command line."""
    from zoea.world.world_server import WorldOptions

    parser = argparse.ArgumentParser(prog="python -m zoea.world", description="Serve Reef over MCP: stdio, or --http.")
    default = os.environ.get("ZOEA_DATA_DIR", ".")
    parser.add_argument("--data", type=Path, default=Path(default), help="directory of reef.db")
    parser.add_argument("--http", default="", metavar="ADDR", help="serve streamable HTTP at HOST:PORT")
    parser.add_argument("--seed", type=int, help="seed of a new world")
    parser.add_argument("--systems", type=int, choices=range(10, 1001), metavar="N", help="size of a new world (40)")
    parser.add_argument("--tick", type=_positive, default=2.0, metavar="S", help="seconds per tick (2)")
    parser.add_argument("--turbo", action="store_true", help="run ticks as fast as the players act")
    parser.add_argument(
        "--faults", default="", help="rates of injected faults, such as latency=0.1:0.5,error=0.05,lose_session=0.01"
    )
    parser.add_argument("--fault-seed", type=int, default=0)
    return WorldOptions(**vars(parser.parse_args(argv)))


def _positive(text: str) -> float:
    value = float(text)
    if not 0.01 <= value <= 3_600:
        raise argparse.ArgumentTypeError("must be from 0.01 to 3600 seconds")
    return value


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until the client leaves or a signal comes; return the exit code."""
    from zoea.world.world_server import run

    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    options = parse(sys.argv[1:] if argv is None else argv)
    try:
        asyncio.run(run(options))
    except ZoeaError as error:
        sys.stderr.write(f"{error.title}: {error.what}\n{error.hint}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    with short_gc():  # also while the SDK is imported
        sys.exit(main())
