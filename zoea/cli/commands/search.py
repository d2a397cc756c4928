"""`zoea search`: search all stored messages, with or without a running swarm."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from zoea.cli.options import AsJson, Workspace, row_ids, write_json
from zoea.cli.terminal_rows import moment
from zoea.model.enums import Role, SenderKind, Source
from zoea.model.errors import StoreError, UsageError
from zoea.queries.search_reader import is_any_case, parse_moment
from zoea.queries.stored_swarm import read_mysis_view
from zoea.settings.paths import places
from zoea.store.database_file import open_reader
from zoea.store.search import (
    LIMIT_RANGE,
    BroadcastHit,
    BroadcastHits,
    BroadcastQuery,
    Excerpt,
    HitPlace,
    MatchMode,
    MemoryHit,
    MemoryHits,
    MemoryQuery,
    SearchColumn,
    search_broadcasts,
    search_memories,
)
from zoea.text.control_characters import strip

SHOWN = 300
"""Characters shown around a hit; `--json` shows `_SHOWN_JSON`."""
_SHOWN_JSON = 2_000
_BOLD, _PLAIN = "\x1b[1;7m", "\x1b[0m"
_WHEN = "2h or 30m ago, 10:30 today, or 2026-01-31."


class SearchPlace(StrEnum):
    """Parts of the stored messages that can be searched."""

    ALL = "all"
    CONTENT = "content"
    REASONING = "reasoning"
    BROADCASTS = "broadcasts"


class RoleFilter(StrEnum):
    """Roles of a memory, as values of `--role`."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class SourceFilter(StrEnum):
    """Sources of a memory, as values of `--source`."""

    DIRECT = "direct"
    BROADCAST = "broadcast"
    TOPIC = "topic"
    TOOL = "tool"
    LLM = "llm"


def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="Text to find; small letters match both cases.")],
    mysis: Annotated[
        list[str], typer.Option("--mysis", "-m", metavar="NAME", help="Only messages of this mysis; repeatable.")
    ] = [],  # noqa: B006  # typer reads the default, which is never changed
    part: Annotated[SearchPlace, typer.Option("--in", help="Part to search.")] = SearchPlace.ALL,
    role: Annotated[
        RoleFilter | None, typer.Option(help="Only prompts (user), answers (assistant) or results (tool).")
    ] = None,
    source: Annotated[SourceFilter | None, typer.Option(help="Only messages from this source.")] = None,
    since: Annotated[str, typer.Option(metavar="WHEN", help=f"Only messages since {_WHEN}")] = "",
    until: Annotated[str, typer.Option(metavar="WHEN", help=f"Only messages before {_WHEN}")] = "",
    exact: Annotated[bool, typer.Option("--exact", help="Match upper and lower case as given.")] = False,
    ranked: Annotated[
        bool, typer.Option("--ranked", help="Match any of the words in any case; best matches first.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=LIMIT_RANGE[0], max=LIMIT_RANGE[1], help="Number of hits.")
    ] = 20,
    before: Annotated[
        int | None,
        typer.Option(
            "--before", metavar="ID", callback=row_ids, help="Only messages older than this id, for the next page."
        ),
    ] = None,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Search messages, tool calls, results and reasoning, newest first.

    Example: zoea search "iron ore" --mysis alpha --since 2h
    """
    if exact and ranked:
        raise UsageError(
            "--exact and --ranked exclude each other", hint="Ranked search ignores case: leave out --exact."
        )
    database = places(workspace).database
    text = " ".join(words)
    asked: dict[str, Any] = {
        "text": text,
        "match": MatchMode.RANKED if ranked else MatchMode.EXACT,
        "fold": not exact and is_any_case(text),
        "since": _moment("--since", since),
        "until": _moment("--until", until),
        "before_id": before,
        "limit": limit,
        "max_chars": _SHOWN_JSON if as_json else SHOWN,
    }
    owners = tuple(read_mysis_view(database, name).id for name in mysis)
    _write(_asked(database, _build_query(part, asked, owners, role, source)), as_json)


def _build_query(
    part: SearchPlace,
    asked: dict[str, Any],
    owners: tuple[int, ...],
    role: RoleFilter | None,
    source: SourceFilter | None,
) -> MemoryQuery | BroadcastQuery:
    """Build the query from the options; `asked` holds those that both kinds of query share."""
    if part is SearchPlace.BROADCASTS:
        if role or source or len(owners) > 1:
            raise UsageError("--in broadcasts takes no --role, no --source and at most one --mysis")
        return BroadcastQuery(**asked, mysis_id=owners[0] if owners else None)
    return MemoryQuery(
        **asked,
        column=SearchColumn.ANY if part is SearchPlace.ALL else SearchColumn(part.value),
        mysis_ids=owners or None,
        role=Role(role) if role else None,
        source=Source(source) if source else None,
    )


def _asked(database: Path, query: MemoryQuery | BroadcastQuery) -> MemoryHits | BroadcastHits:
    try:
        with closing(open_reader(database)) as reader:
            if isinstance(query, MemoryQuery):
                return search_memories(reader, query)
            return search_broadcasts(reader, query)
    except sqlite3.Error as problem:
        raise StoreError(f"{database} cannot be searched: {problem}", hint="Run `zoea doctor`.") from problem


def _moment(option: str, text: str) -> int | None:
    if not text:
        return None
    found = parse_moment(text, time.time_ns() // 1000)
    if found is None:
        raise UsageError(f"{option} {text} is not a time", hint=f"Give {_WHEN}")
    return found


def _write(page: MemoryHits | BroadcastHits, as_json: bool) -> None:
    if as_json:
        rows = [_said_row(hit) if isinstance(hit, BroadcastHit) else _row(hit) for hit in page.hits]
        write_json({"results": rows, "next_before_id": page.before_id, "note": page.note})
        return
    bright = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for hit in page.hits:
        typer.echo(f"{_title(hit)}\n{_indented(format_excerpt(hit.excerpt, bright))}")
    if not page.hits:
        typer.echo("Nothing was found" + ("" if page.note else "; try fewer words, or --ranked"))
    if page.note:
        typer.echo(page.note[:1].upper() + page.note[1:])
    if page.hits and isinstance(page.hits[0], MemoryHit):
        first = page.hits[0]
        typer.echo(f"`zoea log {strip(first.mysis)} --turn {first.turn_number}` shows the turn of the first one")
    if page.before_id is not None:
        typer.echo(f"{'There is more' if page.hits else 'To look further'}: --before {page.before_id}")


def _title(hit: MemoryHit | BroadcastHit) -> str:
    if isinstance(hit, BroadcastHit):
        return strip(f"{moment(hit.created_at)}  {hit.sender or 'you'} to all  #{hit.message_id}")
    who = {Role.USER: "", Role.ASSISTANT: "answers", Role.TOOL: f"⚙ {hit.tool}"}.get(hit.role, hit.role)
    if hit.role is Role.USER:
        who = "you say" if hit.sender_kind in (None, SenderKind.COMMANDER) else f"{hit.sender} says"
    if hit.spot is HitPlace.CALL:
        who = f"calls ⚙ {hit.tool}"
    if hit.spot is HitPlace.REASONING:
        who = "thinks"
    gone = " (archived)" if hit.is_deleted else ""
    return strip(f"{moment(hit.created_at)}  {hit.mysis}{gone}  turn {hit.turn_number}  {who}  #{hit.memory_id}")


def format_excerpt(excerpt: Excerpt, bright: bool) -> str:
    """Format an excerpt; with `bright`, mark its hits by terminal styles."""
    parts, at = ["… " if excerpt.start else ""], 0
    for start, length in excerpt.marks if bright else ():
        parts += [strip(excerpt.text[at:start]), _BOLD, strip(excerpt.text[start : start + length]), _PLAIN]
        at = start + length
    parts.append(strip(excerpt.text[at:]))
    parts.append(" …" if excerpt.start + len(excerpt.text) < excerpt.total else "")
    return "".join(parts)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _row(hit: MemoryHit) -> dict[str, Any]:
    return {
        "id": hit.memory_id,
        "mysis": hit.mysis,
        "mysis_id": hit.mysis_id,
        "turn": hit.turn_number,
        "role": hit.role.value,
        "source": hit.source.value,
        "sender": hit.sender,
        "tool": hit.tool,
        "found_in": hit.spot.value,
        **_excerpt_row(hit.excerpt),
        "created_at": hit.created_at,
    }


def _said_row(hit: BroadcastHit) -> dict[str, Any]:
    return {"id": hit.message_id, "sender": hit.sender, **_excerpt_row(hit.excerpt), "created_at": hit.created_at}


def _excerpt_row(excerpt: Excerpt) -> dict[str, Any]:
    return {
        "text": excerpt.text,
        "from_char": excerpt.start,
        "total_chars": excerpt.total,
        "marks": [list(mark) for mark in excerpt.marks],
    }
