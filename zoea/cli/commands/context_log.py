"""`zoea ctx log`: commits as a list or as a graph."""

from __future__ import annotations

import sqlite3
import sys
from typing import Annotated

import typer

from zoea.chain.commit import ContextCommit
from zoea.chain.commit_lanes import Lane, draw_row, lay_out
from zoea.chain.commit_rows import read_newest, read_refs, shortest_id, walk_chain, walk_newest
from zoea.cli.commands.context_access import describe_commit, find_commit, name_commits, open_contexts
from zoea.cli.local_time import moment
from zoea.cli.options import AsJson, Workspace, write_json
from zoea.queries.context_history import find_tips
from zoea.text.control_characters import prose_line, strip
from zoea.text.shorten import head

TEXT = 100
_LANES = 20
_ASCII = str.maketrans({"│": "|", "─": "-", "╯": "'", "┴": "+", "┼": "+", "…": "~"})


def log(
    revision: Annotated[
        str,
        typer.Argument(metavar="COMMIT", help="Show this commit and those before it; a mysis is its newest commit."),
    ] = "",
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=1, max=100_000, help="Show at most so many commits.")
    ] = 50,
    graph: Annotated[
        bool, typer.Option("--graph", help="Draw branches as lanes; of a mysis also those of its forks.")
    ] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """List the newest commits; with COMMIT, that one and those before it.

    Example: zoea ctx log alpha --graph
    """
    with open_contexts(workspace) as conn:
        first = find_commit(conn, revision) if revision else None
        if graph:
            commits = _read_branches(conn, first, limit)
        elif first is not None:
            commits = walk_chain(conn, first.seq, limit=limit)[::-1]
        else:
            commits = read_newest(conn, limit)
        names = name_commits(conn, commits)
        kept = () if first is None else (Lane(first.seq, is_drawn=False),)
        rows, _ = lay_out([(one.seq, one.parent) for one in commits], kept) if graph else ([], ())
        if as_json:
            found = [describe_commit(conn, one, names[one.seq]) for one in commits]
            for shown, row in zip(found, rows, strict=False):
                shown |= {"lane": row.column, "joined": list(row.joined)}
            write_json(found)
            return
        drawn = ["".join(text for text, _ in draw_row(row, "*", _LANES)).rstrip() for row in rows]
        if not (sys.stdout.encoding or "").lower().startswith("utf"):
            drawn = [lanes.translate(_ASCII) for lanes in drawn]
        widest = max((len(lanes) for lanes in drawn), default=0)
        for place, one in enumerate(commits):
            lanes = f"{drawn[place]:<{widest}}  " if graph else ""
            typer.echo(strip(f"{lanes}{_describe(conn, one, names[one.seq])}"))
        if not commits:
            typer.echo("There are no commits yet; `zoea ctx import FILE` makes one.")


def _describe(conn: sqlite3.Connection, commit: ContextCommit, names: list[str]) -> str:
    refs = f"({', '.join(names)})  " if names else ""
    about = head(prose_line(commit.note.summary), TEXT)
    return (
        f"{shortest_id(conn, commit)}  {moment(commit.created_at)}  {commit.kind:<10}  {commit.message_count:>5} msgs"
        f"  {commit.token_count:>8,} tok  {commit.provenance.principal}  {refs}{about}"
    )


def _read_branches(conn: sqlite3.Connection, first: ContextCommit | None, limit: int) -> list[ContextCommit]:
    """Return the newest commits of all branches, or of one mysis and its forks."""
    if first is None:
        return walk_newest(conn, read_refs(conn).values(), limit)
    maker = first.provenance.mysis_id
    tips = {first.seq, *(find_tips(conn, maker) if maker is not None else ())}
    return walk_newest(conn, tips, limit)
