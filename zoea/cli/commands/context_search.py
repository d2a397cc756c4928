"""The commands `zoea ctx grep`, `blame` and `at`, which search the texts and times of commits."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit import ContextCommit
from zoea.chain.commit_rows import read_descendants, read_refs, shortest_id, walk_newest
from zoea.chain.entries import ContextEntry
from zoea.chain.ref_names import branch_ref
from zoea.cli.commands.context_access import (
    describe_commit,
    describe_entry,
    find_commit,
    name_commits,
    open_contexts,
)
from zoea.cli.options import AsJson, Workspace, write_json
from zoea.cli.output import moment
from zoea.cli.typed_time import read_time
from zoea.model.errors import MissingBlob, RevisionError, UsageError
from zoea.queries.known_then import read_known_then
from zoea.settings.paths import places
from zoea.text.control_characters import prose_line, strip
from zoea.text.sentences import count_of
from zoea.text.shorten import head

_TEXT = 100

Text = Annotated[str, typer.Argument(metavar="TEXT", help="The text, exactly.")]


def grep(
    text: Text,
    revision: Annotated[
        str,
        typer.Argument(
            metavar="COMMIT", help="Search this commit and those before it; if not given, all that a name reaches."
        ),
    ] = "",
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Find messages that contain a text, also in reasoning and the arguments of calls."""
    hits = 0
    with open_contexts(workspace) as conn:
        tips = [find_commit(conn, revision).seq] if revision else list(read_refs(conn).values())
        for commit, entry, line in _find(conn, text, tips):
            hits += 1
            if as_json:
                write_json({"commit": commit.id, **describe_entry(entry), "line": line})
            else:
                typer.echo(strip(f"{shortest_id(conn, commit)}  {entry.role}  {_cut(line, text)}"))
    if not hits:
        raise typer.Exit(1)


def blame(text: Text, as_json: AsJson = False, workspace: Workspace = "") -> None:
    """Find the oldest message with a text, over all names, and who inherited it.

    Example: zoea ctx blame "port 8443"
    """
    with open_contexts(workspace) as conn:
        hits = list(_find(conn, text, list(read_refs(conn).values())))
        oldest = min(hits, key=lambda hit: (hit[1].at or hit[0].created_at, hit[0].seq), default=None)
        if oldest is None:
            raise typer.Exit(1)
        commit, entry, line = oldest
        holders = {one.seq for one, its_entry, _ in hits if its_entry == entry}  # that were picked for others too
        after = set[int]().union(*(read_descendants(conn, seq) for seq in holders))
        own = branch_ref(commit.provenance.principal)
        heirs = sorted(name for name, seq in read_refs(conn).items() if seq in after and name != own)
        who = entry.sender or {"user": "commander", "tool": "a tool"}.get(entry.role.value, commit.provenance.principal)
        who = "a note of Zoea or its program" if entry.is_synthetic else who
        if as_json:
            about = describe_commit(conn, commit, name_commits(conn, [commit])[commit.seq])
            write_json({"commit": about, "message": describe_entry(entry), "line": line, "inherited_by": heirs})
            return
        at = moment(entry.at or commit.created_at)
        typer.echo(strip(f"{shortest_id(conn, commit)}  {at}  {commit.provenance.principal}  {entry.role} by {who}"))
        typer.echo(strip(f"  {_cut(line, text)}"))
        if heirs:
            typer.echo(strip(f"inherited by  {', '.join(heirs)}"))


def at(
    time: Annotated[
        str, typer.Argument(metavar="TIME", help="10:30 today, 2h (two hours ago), 2026-01-31, or a time in ISO 8601.")
    ],
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Show which commit of each mysis was the newest at a time.

    Example: zoea ctx at 10:30
    """
    asked = read_time(time)
    with open_contexts(workspace) as conn:
        commits = read_known_then(places(workspace).database, asked).commits
        names = name_commits(conn, list(commits))
        if as_json:
            write_json([describe_commit(conn, one, names[one.seq]) for one in commits])
            return
        if not commits:
            raise RevisionError(f"no mysis has a commit at {time} or before", hint="`zoea ctx log` lists commits.")
        widest = max(len(one.provenance.principal) for one in commits)
        for one in commits:
            about = head(prose_line(one.note.summary), _TEXT)
            who = f"{one.provenance.principal:<{widest}}"
            typer.echo(strip(f"{who}  {shortest_id(conn, one)}  {moment(one.created_at)}  {about}"))


def _find(conn: sqlite3.Connection, text: str, tips: list[int]) -> Iterator[tuple[ContextCommit, ContextEntry, str]]:
    """Yield the messages that contain a text, with the line that does, oldest commit first.

    Say how many commits could not be read.
    """
    if not text:
        raise UsageError("the text is empty", hint="Give at least one character.")
    reader, missing = ChainReader(conn), 0
    for commit in reversed(walk_newest(conn, tips)):
        try:
            entries = reader.read_messages(commit, stop=commit)
        except MissingBlob:
            missing += 1
            continue
        for entry in entries:
            line = _find_line(entry, text)
            if line is not None:
                yield commit, entry, line
    if missing:
        sys.stderr.write(f"{count_of(missing, 'commit')} could not be read; `zoea ctx fsck` says why.\n")


def _find_line(entry: ContextEntry, text: str) -> str | None:
    """Return the first line of a message that contains a text; a call is one line. None where none does."""
    in_json = json.dumps(text, ensure_ascii=False)[1:-1]
    for call in entry.calls:
        if in_json in call.arguments or text in call.arguments or text in call.name:
            return f"{call.name}({call.arguments})"
    for part in (entry.content, entry.reasoning):
        if text in part:
            begin = part.rfind("\n", 0, part.find(text)) + 1
            end = part.find("\n", part.find(text) + len(text))
            return part[begin : end if end >= 0 else None]
    return None


def _cut(line: str, text: str) -> str:
    """Cut a line to the surroundings of a text."""
    begin = max(0, line.find(text) - _TEXT // 2)
    shown = prose_line(line[begin : begin + len(text) + 2 * _TEXT])
    return f"{'… ' if begin else ''}{shown}{' …' if begin + len(text) + 2 * _TEXT < len(line) else ''}"
