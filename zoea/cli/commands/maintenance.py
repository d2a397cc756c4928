"""`zoea doctor` and `zoea vacuum`: is the database what it should be, and no larger than it must."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from zoea.cli.options import AsJson, Workspace, write_json
from zoea.runtime.maintenance import check_database, rebuild_indexes
from zoea.runtime.maintenance import vacuum as give_back
from zoea.settings.paths import places

_MB = 1_000_000


def doctor(
    anew: Annotated[
        bool, typer.Option("--rebuild", help="Make the search indexes anew; the swarm must not run.")
    ] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Check the database: the file, its references, the search indexes, the blobs."""
    where = places(workspace)
    if anew:
        rebuild_indexes(where, _say)
    wrong, found = 0, []
    for finding in check_database(where, lambda what: _say(f"Looking at {what}")):
        found.append(asdict(finding))
        wrong += bool(finding.problem) and finding.name != "unused files"
        if not as_json:
            typer.echo(f"{finding.name:<18}{finding.problem or 'good'}")
            if finding.problem:
                typer.echo(f"{'':<18}{finding.hint}")
    if as_json:
        write_json({"is_good": not wrong, "findings": found})
    if wrong:
        raise typer.Exit(4)


def vacuum(as_json: AsJson = False, workspace: Workspace = "") -> None:
    """Make the database as small as what it holds. The swarm must not run; it takes as much room again meanwhile."""
    done = give_back(places(workspace), _say)
    if as_json:
        write_json(asdict(done))
        return
    typer.echo(f"{done.before / _MB:,.1f} MB before, {done.after / _MB:,.1f} MB now")
    if done.files:
        typer.echo(f"{done.files} unused files are gone")


def _say(what: str) -> None:
    """Progress, for a person who watches."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{what}\n")
