"""`zoea world`: serve Reef to any MCP client, or show the score of its players."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from zoea.cli.options import AsJson, Workspace, write_json
from zoea.model.errors import UsageError
from zoea.settings import Places, places
from zoea.text.control_characters import strip

app = typer.Typer(
    name="world",
    help="Serve the sandbox world Reef to MCP clients, or show its score.",
    add_completion=False,
    rich_markup_mode=None,
    invoke_without_command=True,
)

DataDir = Annotated[
    str, typer.Option("--data", metavar="DIR", help="Folder of reef.db; the workspace's data folder if not given.")
]


@app.callback()
def serve(
    context: typer.Context,
    http: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="Serve over HTTP at HOST:PORT or a port, not over stdin and stdout."),
    ] = "",
    data: DataDir = "",
    seed: Annotated[int | None, typer.Option(metavar="N", help="Random seed of a new world.")] = None,
    systems: Annotated[
        int | None, typer.Option(metavar="N", help="Number of systems of a new world, 10 to 1000; 40 if not given.")
    ] = None,
    tick: Annotated[float, typer.Option(metavar="SECONDS", help="Time of one tick, 0.01 to 3600 seconds.")] = 2.0,
    turbo: Annotated[bool, typer.Option(help="Advance ticks as fast as the players act.")] = False,
    faults: Annotated[
        str, typer.Option(metavar="FAULTS", help="Faults for tests, such as latency=0.1:0.5,error=0.05,restart=0.001.")
    ] = "",
    fault_seed: Annotated[int, typer.Option(metavar="N", help="Random seed of the faults.")] = 0,
    workspace: Workspace = "",
) -> None:
    """Serve the sandbox world Reef to MCP clients, or show its score.

    `zoea run --world reef` runs it beside a swarm; this serves it alone, over stdin and stdout or with --http.
    """
    if context.invoked_subcommand is not None:
        return
    if not 0.01 <= tick <= 3_600:
        raise UsageError(f"a tick of {tick:g} seconds is out of range", hint="Give 0.01 to 3600 seconds.")
    if systems is not None and not 10 <= systems <= 1_000:
        raise UsageError(f"{systems} systems are out of range", hint="Give 10 to 1000.")
    import asyncio
    from pathlib import Path

    from zoea.world.world_server import WorldOptions, run

    folder = Path(data) if data else places(workspace).data
    options = WorldOptions(folder, seed, systems, tick, turbo, http, faults, fault_seed)
    try:
        asyncio.run(run(options))
    except KeyboardInterrupt:
        return


@app.command("score")
def score(as_json: AsJson = False, data: DataDir = "", workspace: Workspace = "") -> None:
    """Show credits, ore, distance, tokens and credits per 1,000 tokens of each player."""
    from pathlib import Path

    from zoea.runtime.world_scores import read_scores

    found = places(workspace)
    where = Places(Path(data), found.config, found.runtime) if data else found
    rows = [line.as_dict() for line in read_scores(where)]
    if as_json:
        write_json(rows)
        return
    if not rows:
        typer.echo("There are no players in this world yet.")
        return
    for line in _table(rows):
        typer.echo(line)


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
    cells += [["-" if row[key] is None else strip(str(row[key])) for key, _ in _COLUMNS] for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_COLUMNS))]
    return [_line(line, widths) for line in cells]


def _line(texts: list[str], widths: list[int]) -> str:
    """Join the cells of a row: the name left-aligned, numbers right-aligned."""
    name, *figures = zip(texts, widths, strict=True)
    return "  ".join([name[0].ljust(name[1]), *(text.rjust(width) for text, width in figures)])
