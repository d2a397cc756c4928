"""`zoea ctx annotate`: summaries and tags of commits, with their history."""

from __future__ import annotations

from typing import Annotated

import typer

from zoea.chain.commit_rows import read_notes, shortest_id
from zoea.chain.context_edits import annotate_commit
from zoea.cli.commands.context_access import Revision, find_commit, open_contexts
from zoea.cli.options import AsJson, Workspace, write_json
from zoea.cli.output import moment
from zoea.cli.swarm_access import edit
from zoea.model.errors import UsageError
from zoea.text.control_characters import clean, strip

_LONGEST_SUMMARY = 20_000
_LONGEST_TAG = 80


def annotate(
    revision: Revision,
    summary: Annotated[str | None, typer.Option(metavar="TEXT", help="The new summary.")] = None,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="Add a tag; may be repeated.")] = None,
    untag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="Remove a tag; may be repeated.")] = None,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Change the summary or tags of a commit; without options, list all it had.

    Example: zoea ctx annotate alpha~3 --summary "Knows the parser, not yet the tests" --tag parser
    """
    added, removed = tag or [], untag or []
    if summary is not None and len(summary) > _LONGEST_SUMMARY:
        raise UsageError(f"the summary has {len(summary):,} characters", hint=f"Write at most {_LONGEST_SUMMARY:,}.")
    for one in added:
        if not one.strip() or len(one) > _LONGEST_TAG or clean(one) != one:
            raise UsageError(f"{one!r:.60} cannot be a tag", hint=f"Use 1 to {_LONGEST_TAG} characters.")

    with open_contexts(workspace) as conn:
        commit = find_commit(conn, revision)
        missing = [one for one in removed if one not in commit.note.tags]
        if missing:
            has = ", ".join(commit.note.tags) or "none"
            raise UsageError(f"the commit has no tag {missing[0]!r:.60}", hint=f"Its tags: {has}.")
    changed = tuple(sorted((set(commit.note.tags) | set(added)) - set(removed)))
    if summary is not None or added or removed:
        edit(
            workspace,
            lambda swarm: swarm.annotate(commit.id, summary=summary, tags=changed),
            lambda store: annotate_commit(store, commit.id, summary, changed),
        )
    with open_contexts(workspace) as conn:
        commit = find_commit(conn, revision)
        notes = read_notes(conn, commit.seq)
        if as_json:
            history = [
                {"at": at, "summary": note.summary, "tags": list(note.tags), "model": note.model} for at, note in notes
            ]
            write_json({"id": commit.id, "summary": commit.note.summary, "tags": commit.note.tags, "history": history})
            return
        typer.echo(shortest_id(conn, commit))
        for at, note in notes:
            by = f"  by {note.model}" if note.model else ""
            tags = f"  [{', '.join(note.tags)}]" if note.tags else ""
            typer.echo(strip(f"{moment(at)}{by}{tags}  {note.summary}"))
