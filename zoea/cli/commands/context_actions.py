"""`zoea ctx` commands that write: through the running swarm, or to the database where none runs."""

from __future__ import annotations

from typing import Annotated

import typer

from zoea.chain import context_edits
from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit import SUMMARY_TOKENS
from zoea.chain.commit_rows import read_refs, shortest_id
from zoea.chain.ref_names import find_branch
from zoea.cli.commands.context_access import (
    Revision,
    describe_commit,
    find_commit,
    locate_commit,
    name_commits,
    open_contexts,
)
from zoea.cli.context_cost import estimate_first_request
from zoea.cli.options import AsJson, Workspace, write_json
from zoea.cli.swarm_access import command, edit
from zoea.model.errors import UsageError
from zoea.runtime.first_request_estimate import describe_price
from zoea.store import Store
from zoea.text.control_characters import prose_line, strip
from zoea.text.shorten import head

_TEXT = 100


def tag(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="The name to give, shown as tag/NAME; with --delete any name that `zoea ctx refs` shows.",
        ),
    ],
    revision: Annotated[str, typer.Argument(metavar="COMMIT", help="The commit that it names.")] = "",
    delete: Annotated[
        bool, typer.Option("--delete", help="Remove the name; the commit stays until `zoea ctx gc`.")
    ] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Name a commit, so that it outlives its mysis.

    A name such as tkt-7 is a ticket; it stands for its newest commit wherever a commit is named.

    Example: zoea ctx tag before-the-storm alpha~3
    """
    if delete is bool(revision):
        raise UsageError("give a commit, or --delete", hint="`zoea ctx refs` lists names.")
    found = locate_commit(workspace, revision).id if revision else ""
    ref = edit(
        workspace,
        lambda swarm: swarm.name_context(name, found),
        lambda store: context_edits.name_commit(store, name, found),
    )
    if as_json:
        write_json({"ref": ref, "context": found or None})
    else:
        typer.echo(strip(f"{ref} is removed" if delete else f"{ref} names {revision}"))


def checkpoint(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A mysis, as @alpha.")],
    message: Annotated[
        str,
        typer.Option(
            "-m", "--message", metavar="TEXT", help="The summary of the commit; if not given, Zoea makes one."
        ),
    ] = "",
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, max=3_600, help="Longest time to wait for that answer or result.")
    ] = 20.0,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Make a commit of what a mysis knows now. During a turn it is made with the next answer or result.

    Example: zoea ctx checkpoint @alpha -m "Knows the parser"
    """
    made = command(workspace, lambda swarm: swarm.checkpoint(name, summary=message, timeout_s=timeout))
    _tell(workspace, made, f"nothing is new since the newest commit of {name}", as_json)


def snapshot(revision: Revision, as_json: AsJson = False, workspace: Workspace = "") -> None:
    """Store the conversation up to a commit as one commit.

    Reading it is then fast, however many commits are before it.

    After the newest commit of a mysis, the snapshot is its newest one; elsewhere it gets the name snapshot/ID.
    """
    found = locate_commit(workspace, revision).id

    async def store(opened: Store) -> str:
        return (await context_edits.take_snapshot(opened, found)).id

    _tell(workspace, edit(workspace, lambda swarm: swarm.snapshot(found), store), "", as_json)


def pick(
    revision: Revision,
    to: Annotated[str, typer.Option(metavar="NAME", help="The mysis that gets them.")],
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Add the messages of one commit to what a mysis knows. Its next turn begins with its whole conversation.

    Example: zoea ctx pick alpha~2 --to beta
    """
    chosen = locate_commit(workspace, revision).id
    _tell(workspace, command(workspace, lambda swarm: swarm.pick(chosen, to.removeprefix("@"))), "", as_json)


def compact(
    revision: Revision,
    extract: Annotated[
        bool,
        typer.Option("--extract", help="Choose lines of the conversation instead, without a model and at no cost."),
    ] = False,
    payer: Annotated[
        str, typer.Option("--by", metavar="NAME", help="The mysis whose model writes it; the cost counts as its own.")
    ] = "",
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, max=3_600, help="Longest time to wait for the model.")
    ] = 300.0,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Store a summary of the conversation up to a commit. It is a new commit with the name compact/ID.

    A model writes it, as background work (budget.background); the cost is said first, on stderr.

    Example: zoea ctx compact alpha
    """
    with open_contexts(workspace) as conn:
        is_branch = find_branch(read_refs(conn), revision).startswith("@")
        found = find_commit(conn, revision)
        size = ChainReader(conn).materialize(found).token_count
    if not extract:
        said = estimate_first_request(workspace, revision, "")
        price = describe_price(said.price_of(size, SUMMARY_TOKENS))
        typer.echo(strip(f"{said.short_id}: a summary of about {size:,} tokens, {price}"), err=True)
    asked = revision if is_branch else found.id
    made = command(workspace, lambda swarm: swarm.compact(asked, extract=extract, payer=payer, timeout_s=timeout))
    _tell(workspace, made, "", as_json)


def _tell(workspace: str, commit_id: str, nothing: str, as_json: bool) -> None:
    """Write a new commit, or that there is none."""
    if not commit_id:
        typer.echo("null" if as_json else strip(nothing))
        return
    with open_contexts(workspace) as conn:
        commit = find_commit(conn, commit_id)
        names = name_commits(conn, [commit])[commit.seq]
        if as_json:
            write_json(describe_commit(conn, commit, names))
            return
        about = head(prose_line(commit.note.summary), _TEXT)
        typer.echo(strip(f"{shortest_id(conn, commit)}  {commit.kind}  {', '.join(names)}  {about}"))
