"""`zoea preserve` and `zoea preserved`: messages that the strategy `window` always shows."""

from __future__ import annotations

from typing import Annotated

import typer

from zoea.cli.options import AsJson, MysisRef, Workspace, row_ids, write_json
from zoea.cli.output import moment
from zoea.cli.swarm_access import command
from zoea.model.swarm_api import SwarmApi
from zoea.queries.stored_swarm import read_preserved
from zoea.settings.paths import places
from zoea.text.control_characters import prose_line, strip
from zoea.text.shorten import head

_TEXT = 100


def preserve(
    ids: Annotated[
        list[int],
        typer.Argument(metavar="ID", callback=row_ids, help="Ids of messages, as `zoea search` shows them."),
    ],
    remove: Annotated[bool, typer.Option("--remove", help="Stop keeping them.")] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Keep messages word for word in each request, for templates with `strategy = "window"`.

    Other strategies do not show them.
    """

    async def work(swarm: SwarmApi) -> None:
        for memory in ids:
            await swarm.preserve(memory, not remove)

    command(workspace, work)
    if as_json:
        write_json({"released" if remove else "preserved": ids})
    else:
        typer.echo("\n".join(f"{memory} is kept{' no longer' if remove else ''}" for memory in ids))


def preserved(name: MysisRef, as_json: AsJson = False, workspace: Workspace = "") -> None:
    """List the messages of a mysis that are kept word for word."""
    found = read_preserved(places(workspace).database, name)
    if as_json:
        write_json(found)
        return
    if not found:
        typer.echo("No message is kept; `zoea preserve ID` keeps one")
    for one in found:
        text = head(prose_line(one.content), _TEXT)
        typer.echo(strip(f"{one.id}  {moment(one.created_at)}  turn {one.turn_number}  {one.role}: {text}"))
