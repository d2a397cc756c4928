"""`zoea fork`: make myses that know a conversation up to a commit."""

from __future__ import annotations

import shlex
import sys
from contextlib import closing
from functools import partial
from typing import Annotated, Any

import typer

from zoea.chain.commit_rows import shortest_id
from zoea.chain.revisions import resolve_revision
from zoea.cli.options import AsJson, Workspace, write_json
from zoea.cli.swarm_access import command
from zoea.cli.typed_time import read_time
from zoea.llm.prices import PriceList
from zoea.model.errors import StoreMissing, UsageError
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import MysisView
from zoea.queries.fork_costs import ForkCost, read_fork_cost
from zoea.runtime.provider_set import costs_nothing
from zoea.settings import Settings, load
from zoea.settings.paths import Places, places
from zoea.store.database_file import connect_reader
from zoea.store.sqlite_errors import translate_errors
from zoea.text.control_characters import strip

MOST = 50
_WHOLE_TIER = 2


def fork(
    revision: Annotated[
        str,
        typer.Argument(metavar="REV", help="A mysis, for what it knows now, or another commit: alpha~3, ctx-1a2b3c4d."),
    ],
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=MOST, help="How many myses to make.")] = 1,
    message: Annotated[str, typer.Option("-m", "--message", metavar="TEXT", help="Their first message.")] = "",
    name: Annotated[
        str, typer.Option(metavar="NAME", help="The name of one; else the origin's name and a number.")
    ] = "",
    template: Annotated[str, typer.Option(metavar="NAME", help="Another template than the commit's.")] = "",
    provider: Annotated[str, typer.Option(metavar="NAME", help="Another provider.")] = "",
    model: Annotated[str, typer.Option(metavar="NAME", help="Another model.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would cost.")] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Make myses that know a conversation up to a commit, and say first what their first requests cost.

    Example: zoea fork alpha -n 3 -m "Try it differently"
    """
    if name and count > 1:
        raise UsageError(f"one name cannot be that of {count} myses", hint="Leave out --name.")
    where = places(workspace)
    settings = load(where).settings
    commit_id, short, cost = _estimate(where, settings, revision, message)
    prices = PriceList(where.prices, partial(costs_nothing, settings))
    price = prices.find(provider or cost.provider, model or cost.model)
    micros = None if price is None else price.cost(cost.tokens * count, 0)
    if not as_json:
        typer.echo(strip(_describe(short, cost, count, micros)))

    made: list[MysisView] = []

    async def work(swarm: SwarmApi) -> None:
        for _ in range(count):
            one = await swarm.create(name, template=template, provider=provider, model=model, context=commit_id)
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


def _estimate(where: Places, settings: Settings, revision: str, message: str) -> tuple[str, str, ForkCost]:
    """Return the id of a commit, its short id, and what a fork of it costs."""
    if not where.database.exists():
        raise StoreMissing(f"there is no database at {where.database}", hint="`zoea run` starts a swarm.")
    with closing(connect_reader(where.database)) as conn, translate_errors():
        commit = resolve_revision(conn, revision, read_time)
        return commit.id, shortest_id(conn, commit), read_fork_cost(conn, commit, message, settings)


def _describe(short: str, cost: ForkCost, count: int, micros: int | None) -> str:
    shown = "" if cost.shown == cost.messages else f", the newest {cost.shown} as they were and a summary of the others"
    if cost.tier > _WHOLE_TIER:
        shown = ", told as one text, because its format is not understood message by message"
    money = f"about ${micros / 1_000_000:.4f}" if micros else "at no cost"
    if micros is None:
        money = "at a price that is not known"
    tools = "" if cost.has_tools else ", without the schemas of tools"
    each = f"about {cost.tokens:,} tokens{tools}"
    total = f"{each}, {money}" if count == 1 else f"{each} each, {cost.tokens * count:,} for {count}, {money}"
    return f"{short}: {cost.messages:,} messages{shown}. First request: {total}"


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
