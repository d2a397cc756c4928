"""`zoea ctx` commands that write: through the running swarm, or to the database where none runs."""

from __future__ import annotations

from typing import Annotated

import typer

from zoea.chain import context_edits
from zoea.chain.commit import ContextCommit
from zoea.cli.commands.context_access import find_commit, open_contexts
from zoea.cli.options import AsJson, Workspace, write_json
from zoea.cli.swarm_access import edit
from zoea.model.errors import UsageError
from zoea.text.control_characters import strip


def tag(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the ref, after tag/.")],
    revision: Annotated[str, typer.Argument(metavar="[REV]", help="The commit that it names.")] = "",
    delete: Annotated[
        bool, typer.Option("--delete", help="Remove the name; commits stay until they are collected.")
    ] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Name a commit, so that it outlives its mysis.

    Example: zoea ctx tag before-the-storm alpha~3
    """
    if delete is bool(revision):
        raise UsageError("give a revision, or --delete", hint="`zoea ctx refs` lists names.")
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


def locate_commit(workspace: str, revision: str) -> ContextCommit:
    """Return the commit that a person named, also by a time. Raises RevisionError, StoreMissing."""
    with open_contexts(workspace) as conn:
        return find_commit(conn, revision)
