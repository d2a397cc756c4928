"""`zoea ctx log`: commits as a list or as a graph."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterable, Iterator
from itertools import islice

from zoea.chain.commit import ContextCommit
from zoea.chain.commit_lanes import Lane, draw_row, lay_out
from zoea.chain.commit_rows import read_newest, read_refs, shortest_id, walk_chain, walk_newest
from zoea.cli import output
from zoea.cli.commands.context_access import describe_commit, find_commit, name_commits, open_contexts
from zoea.cli.output import Output, moment
from zoea.model.errors import UsageError
from zoea.process.clock import SystemClock
from zoea.process.command_line import argument, flag, option, whole_number
from zoea.queries.commit_history import find_tips
from zoea.queries.written_times import read_written_time
from zoea.settings.paths import Places
from zoea.text.control_characters import prose_line
from zoea.text.shorten import head

TEXT = 100
_LANES = 20
_PAGE = 1_000
_ASCII = str.maketrans({"│": "|", "─": "-", "╯": "'", "┴": "+", "┼": "+", "…": "~"})


def log(
    where: Places,
    revision: str = argument("COMMIT", "Show this commit and those before it; a mysis is its newest commit.", ""),
    limit: int = option("-n, --limit N", "Show at most so many commits.", 50, whole_number(1, 100000)),
    graph: bool = flag("--graph", "Draw branches as lanes; of a mysis also those of its forks."),
    since: str = option("--since TIME", "Only commits made since then: 10:30, 2h (ago), 2026-01-31 or ISO 8601."),
    by: str = option("--by NAME", "Only commits of this mysis or program."),
    grep: str = option("--grep TEXT", "Only commits with this text in their summary or tags."),
    oneline: bool = flag("--oneline", "Show only the id, names and summary of each."),
) -> Output:
    """List the newest commits; with COMMIT, that one and those before it.

    Example: zoea ctx log alpha --graph
    """
    if graph and (since or by or grep):
        raise UsageError("--graph shows all commits", hint="Leave out --since, --by and --grep, or --graph.")
    with open_contexts(where) as conn:
        first = find_commit(conn, revision) if revision else None
        if graph:
            commits = _read_branches(conn, first, limit)
        else:
            wanted = _select(_read_pages(conn, first, limit), since, by.removeprefix("@"), grep)
            commits = list(islice(wanted, limit))
        names = name_commits(conn, commits)
        kept = () if first is None else (Lane(first.seq, is_drawn=False),)
        rows, _ = lay_out([(one.seq, one.parent) for one in commits], kept) if graph else ([], ())
        described = [describe_commit(conn, one, names[one.seq]) for one in commits] if output.is_json else []
        for shown, row in zip(described, rows, strict=False):
            shown |= {"lane": row.column, "joined": list(row.joined)}
        drawn = ["".join(text for text, _ in draw_row(row, "*", _LANES)).rstrip() for row in rows]
        if not (sys.stdout.encoding or "").lower().startswith("utf"):
            drawn = [lanes.translate(_ASCII) for lanes in drawn]
        widest = max((len(lanes) for lanes in drawn), default=0)
        texts = [_describe(conn, one, names[one.seq], is_short=oneline) for one in commits]
        if graph:
            texts = [f"{lanes:<{widest}}  {text}" for lanes, text in zip(drawn, texts, strict=True)]
        nothing = "There are no commits yet; `zoea ctx import FILE` makes one."
        return Output(described, texts or ("There is no such commit." if since or by or grep else nothing))


def _read_pages(conn: sqlite3.Connection, first: ContextCommit | None, limit: int) -> Iterator[ContextCommit]:
    """Yield all commits, or one and those before it, newest first, in pages."""
    page = walk_chain(conn, first.seq, limit=limit)[::-1] if first is not None else read_newest(conn, limit)
    while page:
        yield from page
        if first is None:
            page = read_newest(conn, _PAGE, before=page[-1].seq)
        else:
            parent = page[-1].parent
            page = [] if parent is None else walk_chain(conn, parent, limit=_PAGE)[::-1]


def _select(commits: Iterable[ContextCommit], since: str, by: str, grep: str) -> Iterator[ContextCommit]:
    """Yield the commits that options choose; "" for any."""
    oldest = read_written_time(since, SystemClock().now()) if since else 0
    for one in commits:
        texts = (one.note.summary, *one.note.tags)
        is_by = not by or one.provenance.principal.casefold() == by.casefold()
        if (
            one.created_at >= oldest
            and is_by
            and (not grep or any(grep.casefold() in text.casefold() for text in texts))
        ):
            yield one


def _describe(conn: sqlite3.Connection, commit: ContextCommit, names: list[str], *, is_short: bool) -> str:
    refs = f"({', '.join(names)})  " if names else ""
    about = head(prose_line(commit.note.summary), TEXT)
    if is_short:
        return f"{shortest_id(conn, commit)}  {refs}{about}"
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
