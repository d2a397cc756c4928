"""`zoea fork`: make myses that know a conversation up to a commit."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoea.cli.commands.myses import KeepModel, settle_model
from zoea.cli.context_cost import estimate_first_request
from zoea.cli.options import AsJson, Workspace, write_json
from zoea.cli.swarm_access import command
from zoea.model.errors import MissingBlob, UsageError
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import MysisOverrides, MysisView
from zoea.runtime.first_request_estimate import MOST_FORKS, describe_first_request
from zoea.text.control_characters import strip

if TYPE_CHECKING:
    from zoea.queries.fork_costs import ForkCost


def fork(
    revision: Annotated[
        str,
        typer.Argument(
            metavar="COMMIT",
            help="A mysis, for what it knows now; alpha~3, 3 commits earlier; or an id such as ctx-1a2b3c4d.",
        ),
    ],
    count: Annotated[
        int, typer.Option("-n", "--count", metavar="N", min=1, max=MOST_FORKS, help="How many myses to make.")
    ] = 1,
    message: Annotated[str, typer.Option("-m", "--message", metavar="TEXT", help="Their first message.")] = "",
    name: Annotated[
        str,
        typer.Option(metavar="NAME", help="Its name, if one is made; if not given, the origin's name and a number."),
    ] = "",
    template: Annotated[str, typer.Option(metavar="NAME", help="Another template than the commit's.")] = "",
    provider: Annotated[str, typer.Option(metavar="NAME", help="Another provider.")] = "",
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Another model.", show_default=False)] = None,
    keep_model: KeepModel = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would cost.")] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Make myses that know a conversation up to a commit. The cost of their first requests is said first.

    Example: zoea fork alpha -n 3 -m "Try it differently"
    """
    if name and count > 1:
        raise UsageError(f"one name cannot be that of {count} myses", hint="Leave out --name.")
    try:
        said = estimate_first_request(workspace, revision, message, MysisOverrides(template, provider, model or ""))
    except MissingBlob as gone:
        hint = "`zoea new --from COMMIT --allow-fresh` makes a mysis without the conversation."
        raise MissingBlob(gone.what, hint=hint) from gone
    cost, commit_id, short = said.cost, said.commit.id, said.short_id
    if not dry_run:
        settle_model(model, workspace, provider=cost.provider, template=template, keeps=keep_model, asks=not as_json)
    micros = said.price(count)
    if not as_json:
        typer.echo(strip(describe_first_request(said, count, micros)))

    made: list[MysisView] = []

    async def work(swarm: SwarmApi) -> None:
        for _ in range(count):
            one = await swarm.create(name, template=template, provider=provider, model=model or "", context=commit_id)
            made.append(one)
            if message:
                await swarm.send(one.name, message)

    try:
        if not dry_run:
            command(workspace, work)
    finally:
        # Those made before one was refused stay, and have to be named.
        if as_json and (made or sys.exc_info()[0] is None):
            write_json(_as_dict(commit_id, cost, count, micros, made))
        elif made:
            typer.echo(strip(f"{', '.join(one.name for one in made)}: made from {short}"))
            typer.echo(strip(f"Undo: zoea delete {' '.join(shlex.quote(one.name) for one in made)}"))


def _as_dict(commit_id: str, cost: ForkCost, count: int, micros: int | None, made: list[MysisView]) -> dict[str, Any]:
    return {
        "context": commit_id,
        "messages": cost.messages,
        "shown": cost.shown,
        "tier": cost.tier,
        "tokens_each": cost.tokens,
        "tokens": cost.tokens * count,
        "cost_micros": micros,
        "myses": made,
    }
