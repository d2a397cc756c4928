"""`zoea ctx resume` and `ask`: sessions that begin with a conversation of a commit."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from zoea.chain.commit_rows import read_refs
from zoea.chain.ref_names import find_branch
from zoea.cli.commands.context_access import open_contexts
from zoea.cli.context_cost import estimate_first_request
from zoea.cli.options import AllowFresh, AsJson, Workspace, write_json
from zoea.cli.swarm_access import command
from zoea.cli.terminal_rows import state_word
from zoea.model.errors import MissingBlob, RevisionError, UsageError
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import ContextQuestion, MysisView
from zoea.queries.newest_answer import NewestAnswer, read_newest_answer
from zoea.runtime.first_request_estimate import describe_first_request
from zoea.settings.paths import places
from zoea.text.control_characters import strip


def resume(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A mysis, as @alpha, also a deleted one; or deleted/alpha-3.")
    ],
    message: Annotated[str, typer.Option("-m", "--message", metavar="TEXT", help="Its first message.")] = "",
    new_name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The name of the new mysis, if the old one was deleted.")
    ] = "",
    allow_fresh: AllowFresh = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would cost.")] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Start a mysis again with its whole conversation, up to its newest commit. The cost is said first.

    `zoea start` instead continues with what the strategy of its template shows of its memories.

    Example: zoea ctx resume @alpha -m "Where were we?"
    """
    with open_contexts(workspace) as conn:
        branch = find_branch(read_refs(conn), name)
    if not branch:
        raise RevisionError(f"{name} has no commits", hint="`zoea ctx refs` lists branches; `zoea start` starts it.")
    try:
        said = estimate_first_request(workspace, branch, message)
    except MissingBlob as gone:
        if not allow_fresh:
            raise MissingBlob(gone.what, hint="With --allow-fresh it starts without the conversation.") from gone
        said = None
        typer.echo(strip(f"It starts without its conversation: {gone.what}"), err=True)
    micros = None if said is None else said.price()
    if said is not None and not as_json:
        typer.echo(strip(describe_first_request(said, 1, micros)))

    async def work(swarm: SwarmApi) -> MysisView:
        made = await swarm.resume(name, name=new_name, allow_fresh=allow_fresh)
        if message:
            await swarm.send(made.name, message)
        return made

    view = None if dry_run else command(workspace, work)
    if as_json:
        cost = (
            {} if said is None else {"messages": said.cost.messages, "shown": said.cost.shown, "tier": said.cost.tier}
        )
        tokens = None if said is None else said.cost.tokens
        context = None if said is None else said.commit.id
        write_json({"context": context, **cost, "tokens": tokens, "cost_micros": micros, "mysis": view})
    elif view is not None:
        typer.echo(strip(f"{view.name} is {state_word(view)}"))


def ask(
    revision: Annotated[
        str,
        typer.Argument(metavar="COMMIT", help="Whom to ask: a mysis, or a commit such as alpha~3 or ctx-1a2b3c4d."),
    ],
    question: Annotated[str, typer.Option("-m", "--message", metavar="TEXT", help="The question.")],
    thread: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Name of a discussion: another question with this name goes on from the answer."
        ),
    ] = "",
    ticket: Annotated[
        str,
        typer.Option(
            metavar="ID", help="The ticket of a new discussion, such as tkt-7; if not given, that of the commit."
        ),
    ] = "",
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, max=86_400, help="Longest time to wait for the answer.")
    ] = 300.0,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Ask what a mysis knew at a commit, and print the answer. The mysis itself learns nothing of it.

    A mysis with the commit's template answers and then rests. The cost is said first, on stderr.

    Example: zoea ctx ask alpha~3 -m "Why did you choose this plan?"
    """
    said = estimate_first_request(workspace, revision, question, thread=thread)
    micros = said.price()
    typer.echo(strip(describe_first_request(said, 1, micros)), err=True)
    begun: list[ContextQuestion] = []

    async def work(swarm: SwarmApi) -> MysisView:
        begun.append(await swarm.ask(said.commit.id, question, thread=thread, ticket=ticket))
        return await swarm.wait(begun[0].mysis.name, timeout_s=timeout)

    try:
        view = command(workspace, work)
    except KeyboardInterrupt:
        if begun:
            typer.echo(strip(_goes_on(begun[0])), err=True)
        raise
    except UsageError as error:
        if begun:
            raise UsageError(error.what, hint=_goes_on(begun[0])) from None
        raise
    asked = begun[0]
    found = read_newest_answer(places(workspace).database, view.id)
    if as_json:
        write_json(
            {
                "thread": asked.thread,
                "ticket": ticket or said.commit.provenance.ticket_id,
                "ref": asked.ref,
                "context": asked.context,
                "mysis": view,
                "outcome": found.outcome,
                "answer": found.text,
                "tokens": said.cost.tokens,
                "cost_micros": micros,
            }
        )
    elif found.text:
        typer.echo(strip(found.text))
    _check_answered(asked, view, found)
    if not as_json:
        again = f"zoea ctx ask {shlex.quote(revision)} --thread {shlex.quote(asked.thread)} -m TEXT"
        typer.echo(strip(f"{asked.mysis.name} answered. Ask again: {again}"), err=True)


def _check_answered(asked: ContextQuestion, view: MysisView, found: NewestAnswer) -> None:
    if found.outcome == "answered":
        return
    why = view.failure.what if view.failure is not None else f"the turn ended: {found.outcome or 'not yet'}"
    raise UsageError(
        f"{asked.mysis.name} gave no answer: {why}",
        hint=f"`zoea show {asked.mysis.name}` says more, `zoea log` what it did.",
    )


def _goes_on(asked: ContextQuestion) -> str:
    name = shlex.quote(asked.mysis.name)
    return f"{asked.mysis.name} goes on: zoea log {name} shows its answer, zoea stop {name} stops it."
