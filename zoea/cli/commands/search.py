"""`zoea search`: search all stored messages, with or without a running swarm."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Any

from zoea.cli import output
from zoea.cli.output import Output, moment
from zoea.model.enums import Role, SenderKind, Source
from zoea.model.errors import StoreError, UsageError
from zoea.process.command_line import arguments, choice, flag, option, options, row_id, whole_number
from zoea.queries.search_reader import is_any_case
from zoea.queries.written_times import parse_moment
from zoea.settings.paths import Places
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
from zoea.text.control_characters import reveal, split_lines

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


def search(
    where: Places,
    words: tuple[str, ...] = arguments("WORDS", "Text to find; small letters match both cases."),
    myses: tuple[str, ...] = options("-m, --mysis NAME", "Only messages of this mysis; may be repeated."),
    part: SearchPlace = option(
        "--in PART", "Part to search: all, content, reasoning or broadcasts.", SearchPlace.ALL, choice(SearchPlace)
    ),
    role: Role | None = option(
        "--role ROLE", "Only prompts (user), answers (assistant) or results (tool).", None, choice(Role)
    ),
    source: Source | None = option(
        "--source SOURCE",
        "Only messages from this source: direct, broadcast, topic, llm or tool.",
        None,
        choice(Source),
    ),
    since: str = option("--since TIME", f"Only messages since {_WHEN}"),
    until: str = option("--until TIME", f"Only messages before {_WHEN}"),
    exact: bool = flag("--exact", "Match upper and lower case as given."),
    ranked: bool = flag("--ranked", "Match any of the words in any case; best matches first."),
    limit: int = option("-n, --limit N", "Number of hits.", 20, whole_number(*LIMIT_RANGE)),
    before: int | None = option("--before ID", "Only messages older than this id, for the next page.", None, row_id),
) -> Output:
    """Search messages, tool calls, results and reasoning, newest first.

    Example: zoea search "iron ore" --mysis alpha --since 2h
    """
    if exact and ranked:
        raise UsageError(
            "--exact and --ranked exclude each other", hint="Ranked search ignores case: leave out --exact."
        )
    text = " ".join(words)
    asked: dict[str, Any] = {
        "text": text,
        "match": MatchMode.RANKED if ranked else MatchMode.EXACT,
        "fold": not exact and is_any_case(text),
        "since": _moment("--since", since),
        "until": _moment("--until", until),
        "before_id": before,
        "limit": limit,
        "max_chars": _SHOWN_JSON if output.is_json else SHOWN,
    }
    owners = _read_ids(where.database, myses) if myses else ()
    query: MemoryQuery | BroadcastQuery
    if part is SearchPlace.BROADCASTS:
        if role or source or len(owners) > 1:
            raise UsageError("--in broadcasts takes no --role, no --source and at most one --mysis")
        query = BroadcastQuery(**asked, mysis_id=owners[0] if owners else None)
    else:
        column = SearchColumn.ANY if part is SearchPlace.ALL else SearchColumn(part)
        query = MemoryQuery(**asked, column=column, mysis_ids=owners or None, role=role, source=source)
    page = _find(where.database, query)
    rows = [_broadcast_row(hit) if isinstance(hit, BroadcastHit) else _row(hit) for hit in page.hits]
    return Output({"results": rows, "next_before_id": page.before_id, "note": page.note}, _lines(page))


def _read_ids(database: Path, refs: tuple[str, ...]) -> tuple[int, ...]:
    from zoea.queries.stored_swarm import read_mysis_view  # costs as much as the rest of this command

    return tuple(read_mysis_view(database, ref).id for ref in refs)


def _find(database: Path, query: MemoryQuery | BroadcastQuery) -> MemoryHits | BroadcastHits:
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
    parsed = parse_moment(text, time.time_ns() // 1000)
    if parsed is None:
        raise UsageError(f"{option} {text} is not a time", hint=f"Give {_WHEN}")
    return parsed


def _lines(page: MemoryHits | BroadcastHits) -> Iterator[str]:
    bright = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for hit in page.hits:
        yield _title(hit)
        sys.stdout.write(f"{_indented(format_excerpt(hit.excerpt, bright))}\n")  # it has terminal styles
    if not page.hits:
        yield "Nothing was found" + ("" if page.note else "; try fewer words, or --ranked")
    if page.note:
        yield page.note[:1].upper() + page.note[1:]
    if page.hits and isinstance(page.hits[0], MemoryHit):
        first = page.hits[0]
        yield f"`zoea log {first.mysis} --turn {first.turn_number}` shows the turn of the first one"
    if page.before_id is not None:
        yield f"{'There is more' if page.hits else 'To look further'}: --before {page.before_id}"


def _title(hit: MemoryHit | BroadcastHit) -> str:
    if isinstance(hit, BroadcastHit):
        return reveal(f"{moment(hit.created_at)}  {hit.sender or 'you'} to all  #{hit.message_id}")
    who = {Role.USER: "", Role.ASSISTANT: "answers", Role.TOOL: f"⚙ {hit.tool}"}.get(hit.role, hit.role)
    if hit.role is Role.USER:
        who = "you say" if hit.sender_kind in (None, SenderKind.COMMANDER) else f"{hit.sender} says"
    if hit.spot is HitPlace.CALL:
        who = f"calls ⚙ {hit.tool}"
    if hit.spot is HitPlace.REASONING:
        who = "reasons"
    gone = " (deleted)" if hit.is_deleted else ""
    return reveal(f"{moment(hit.created_at)}  {hit.mysis}{gone}  turn {hit.turn_number}  {who}  #{hit.memory_id}")


def format_excerpt(excerpt: Excerpt, bright: bool) -> str:
    """Format an excerpt; with `bright`, mark its hits by terminal styles."""
    parts, at = ["… " if excerpt.start else ""], 0
    for start, length in excerpt.marks if bright else ():
        parts += [reveal(excerpt.text[at:start]), _BOLD, reveal(excerpt.text[start : start + length]), _PLAIN]
        at = start + length
    parts.append(reveal(excerpt.text[at:]))
    parts.append(" …" if excerpt.start + len(excerpt.text) < excerpt.total else "")
    return "".join(parts)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in split_lines(text))


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


def _broadcast_row(hit: BroadcastHit) -> dict[str, Any]:
    return {"id": hit.message_id, "sender": hit.sender, **_excerpt_row(hit.excerpt), "created_at": hit.created_at}


def _excerpt_row(excerpt: Excerpt) -> dict[str, Any]:
    return {
        "text": excerpt.text,
        "from_char": excerpt.start,
        "total_chars": excerpt.total,
        "marks": [list(mark) for mark in excerpt.marks],
    }
