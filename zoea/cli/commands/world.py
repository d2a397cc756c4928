"""`zoea world`: serve Reef to any MCP client, or show the score of its players."""

from __future__ import annotations

from typing import Any

from zoea.cli.output import Output
from zoea.model.errors import UsageError
from zoea.process.command_line import flag, number, option, whole_number
from zoea.settings.paths import Places

DATA_DIR = option("--data DIR", "Folder of reef.db; the workspace's data folder if not given.")


def serve(
    where: Places,
    http: str = option("--http ADDRESS", "Serve over HTTP at HOST:PORT or a port, not over stdin and stdout."),
    data: str = DATA_DIR,
    seed: int | None = option("--seed N", "Random seed of a new world.", None, whole_number()),
    systems: int | None = option(
        "--systems N", "Number of systems of a new world, 10 to 1000; 40 if not given.", None, whole_number()
    ),
    tick: float = option("--tick SECONDS", "Time of one tick, 0.01 to 3600 seconds.", 2.0, number()),
    turbo: bool = flag("--turbo", "Advance ticks as fast as the players act.", off="--no-turbo"),
    faults: str = option("--faults FAULTS", "Faults for tests, such as latency=0.1:0.5,error=0.05,restart=0.001."),
    fault_seed: int = option("--fault-seed N", "Random seed of the faults.", 0, whole_number()),
) -> None:
    """Serve the sandbox world Reef to MCP clients, or show its score.

    `zoea run --world reef` runs it beside a swarm; this serves it alone, over stdin and stdout or with --http.
    """
    if not 0.01 <= tick <= 3_600:
        raise UsageError(f"a tick of {tick:g} seconds is out of range", hint="Give 0.01 to 3600 seconds.")
    if systems is not None and not 10 <= systems <= 1_000:
        raise UsageError(f"{systems} systems are out of range", hint="Give 10 to 1000.")
    import asyncio
    from pathlib import Path

    from zoea.world.world_server import WorldOptions, run

    folder = Path(data) if data else where.data
    options = WorldOptions(folder, seed, systems, tick, turbo, http, faults, fault_seed)
    try:
        asyncio.run(run(options))
    except KeyboardInterrupt:
        return


def score(where: Places, data: str = DATA_DIR) -> Output:
    """Show credits, ore, distance, tokens and credits per 1,000 tokens of each player."""
    from pathlib import Path

    from zoea.runtime.world_scores import read_scores

    where = Places(Path(data), where.config, where.runtime) if data else where
    rows = [line.as_dict() for line in read_scores(where)]
    return Output(rows, _table(rows) if rows else "There are no players in this world yet.")


_COLUMNS = (
    ("name", "player"),
    ("credits", "credits"),
    ("earned", "earned"),
    ("ore", "ore"),
    ("distance", "distance"),
    ("tokens", "tokens"),
    ("credits_per_1000_tokens", "credits per 1,000 tokens"),
)


def _table(rows: list[dict[str, Any]]) -> list[str]:
    cells = [[title for _, title in _COLUMNS]]
    cells += [["-" if row[key] is None else str(row[key]) for key, _ in _COLUMNS] for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_COLUMNS))]
    return [_line(line, widths) for line in cells]


def _line(texts: list[str], widths: list[int]) -> str:
    """Join the cells of a row: the name left-aligned, numbers right-aligned."""
    name, *figures = zip(texts, widths, strict=True)
    return "  ".join([name[0].ljust(name[1]), *(text.rjust(width) for text, width in figures)])
