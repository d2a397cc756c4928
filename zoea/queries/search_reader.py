"""Searches the memories of all myses, or of one conversation, while a person types.

Searches content, reasoning and tool calls by the index (`zoea.store.search`). Words in
lower case match any case (A to Z); a capital letter makes the match exact. Without words
only the filters apply.
"""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from zoea.model.enums import Role, SenderKind
from zoea.model.errors import StoreError
from zoea.queries.written_times import parse_moment
from zoea.store import search as recall
from zoea.store.database_file import convert_row, open_reader
from zoea.store.search import HitPlace, MemoryQuery, SearchColumn, matching_ids, search_memories
from zoea.text import clean

__all__ = [
    "LIMIT",
    "PAGE",
    "ConversationFinder",
    "FindHit",
    "FindResult",
    "HitPlace",
    "MemorySearcher",
    "SwarmSearchHit",
    "SwarmSearchPage",
    "SwarmSearchQuery",
    "SwarmSearcher",
    "is_any_case",
    "parse_search",
]

PAGE = 100
"""Hits of a page."""
LIMIT = 1000
"""Hits in one conversation."""

T = TypeVar("T")
_AROUND = 680
_NEWEST = 1 << 50
_ROLES = {
    "user": Role.USER,
    "prompt": Role.USER,
    "assistant": Role.ASSISTANT,
    "answer": Role.ASSISTANT,
    "tool": Role.TOOL,
    "result": Role.TOOL,
}
_FILTER = re.compile(
    r'(?P<gap>\s*)(?<!\S)(?:"(?P<words>(?:@|role:|since:|until:)[^"]*)"|@(?P<mysis>\S+)'
    r"|(?P<name>role|since|until):(?P<value>\S*))(?!\S)"
)

_LISTED = """
SELECT m.id AS memory_id, m.mysis_id, y.name AS mysis, y.deleted_at IS NOT NULL AS is_deleted, t.number AS turn_number,
  m.role, m.created_at AS at, coalesce(iif(g.sender_kind = 'commander', 'you', g.sender_name), '') AS sender,
  r.id AS call_id, coalesce(r.name, '') AS tool, 'content' AS spot, 0 AS start, 0 AS length,
  iif(length(m.content) > :around, substr(m.content, 1, :around) || '…', m.content) AS text
FROM (SELECT * FROM memory WHERE id < :before {where} ORDER BY id DESC LIMIT :most) m
JOIN mysis y ON y.id = m.mysis_id JOIN turn t ON t.id = m.turn_id
LEFT JOIN message g ON g.id = m.message_id
LEFT JOIN tool_call r ON r.result_memory_id = m.id AND m.role = 'tool'
ORDER BY m.id DESC
"""
# The positions of the words `?1` in the memories `?2`, a JSON array. {fold} is lower() or empty.
_PLACES = """
SELECT m.id, m.seq, t.number,
  instr({fold}(m.content), {fold}(?1)) AS at, instr({fold}(m.reasoning), {fold}(?1)) AS thought,
  (SELECT k.id FROM tool_call k WHERE k.memory_id = m.id
    AND instr({fold}(k.name || '(' || k.arguments || ')'), {fold}(?1)) LIMIT 1) AS called,
  (SELECT r.id FROM tool_call r WHERE r.result_memory_id = m.id) AS answers
FROM memory m JOIN turn t ON t.id = m.turn_id WHERE m.id IN (SELECT value FROM json_each(?2))
"""


class SwarmSearchQuery(Struct, frozen=True):
    """A parsed search. `since` and `until` are in µs UTC; `problem` describes an invalid filter."""

    words: str = ""
    mysis: str = ""
    role: Role | None = None
    since: int | None = None
    until: int | None = None
    problem: str = ""

    @property
    def is_empty(self) -> bool:
        """True without words and filters."""
        return self == SwarmSearchQuery()


class SwarmSearchHit(Struct, frozen=True):
    """A memory that contains the words.

    Attributes:
        text: Excerpt around the words.
        start, length: Position of the words in `text` in characters; length 0 without words.
        call_id: The call that has them in its name, arguments or result; `tool` is its name.
        sender: Sender of a prompt: `you`, or a name.
    """

    memory_id: int
    mysis_id: int
    mysis: str
    is_deleted: bool
    turn_number: int
    role: Role
    spot: HitPlace
    at: int
    text: str
    start: int
    length: int
    sender: str = ""
    tool: str = ""
    call_id: int | None = None


class SwarmSearchPage(Struct, frozen=True):
    """A page of hits, newest first. `before` is the id for the next page; None at the end.

    `note` explains to the user how the search was limited.
    """

    hits: tuple[SwarmSearchHit, ...] = ()
    before: int | None = None
    note: str = ""


def parse_search(typed: str, now: int) -> SwarmSearchQuery:
    """Parse the text of the search field into words and filters.

    Filters: `@NAME` for one mysis; `role:user|assistant|tool`; `since:` and `until:` with
    a span (`2h`, `30m`, `1d`), a time today (`10:30`) or a date (`2026-01-31`). Filters in
    quotes are words. All other text is searched as typed, with spaces and quotes. `now` is
    in µs UTC.
    """
    wish = SwarmSearchQuery()

    def take(found: re.Match[str]) -> str:
        nonlocal wish
        if found["words"] is not None:
            return f"{found['gap']}{found['words']}"
        if found["mysis"] is not None:
            wish = replace(wish, mysis=found["mysis"])
        else:
            wish = _filtered(wish, found["name"], found["value"], now)
        return ""

    words = _FILTER.sub(take, typed)
    return replace(wish, words=clean(words.strip()))


def _filtered(wish: SwarmSearchQuery, name: str, value: str, now: int) -> SwarmSearchQuery:
    if name == "role":
        role = _ROLES.get(value.lower())
        return replace(wish, role=role) if role else replace(wish, problem="role: is user, assistant or tool")
    moment = parse_moment(value, now)
    if moment is None:
        return replace(wish, problem=f"{name}: takes 2h, 30m, 1d, 10:30 or 2026-01-31")
    return replace(wish, since=moment) if name == "since" else replace(wish, until=moment)


class MemorySearcher:
    """Runs one search at a time: a new one, or `stop`, ends the one before. Thread-safe."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._turn = 0
        self._running: sqlite3.Connection | None = None

    def begin(self) -> int:
        """End the running search and return the number of a new one."""
        with self._lock:
            self._turn += 1
            if self._running is not None:
                self._running.interrupt()
            return self._turn

    def stop(self) -> None:
        """End the running search."""
        self.begin()

    def _run(self, number: int, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Return what `work` reads; None if another search began since. Raises StoreError."""
        try:
            with closing(open_reader(self._database)) as reader:
                with self._lock:
                    if number != self._turn:
                        return None
                    self._running = reader
                try:
                    result = work(reader)
                    return result if number == self._turn else None
                finally:
                    with self._lock:
                        if self._running is reader:
                            self._running = None
        except sqlite3.Error as problem:
            if getattr(problem, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                return None
            raise StoreError(f"{self._database} cannot be searched: {problem}") from problem


class SwarmSearcher(MemorySearcher):
    """Searches the memories of all myses, newest first, by pages."""

    def search(self, number: int, wish: SwarmSearchQuery, before: int | None = None) -> SwarmSearchPage | None:
        """Return a page of hits before a memory's id; None if another search began. Raises StoreError.

        `number` is the one that `begin` returned.
        """
        read = _found if wish.words else _listed
        return self._run(number, lambda reader: read(reader, wish, before or _NEWEST))


def is_any_case(words: str) -> bool:
    """Return whether these words match in any case, because they have no capital letter."""
    return words == words.lower()


def _found(reader: sqlite3.Connection, wish: SwarmSearchQuery, before: int) -> SwarmSearchPage:
    query = MemoryQuery(
        wish.words,
        column=SearchColumn.ANY,
        fold=is_any_case(wish.words),
        mysis_ids=_owners(reader, wish),
        since=wish.since,
        until=wish.until,
        role=wish.role,
        before_id=before,
        limit=PAGE,
        max_chars=_AROUND,
    )
    page = search_memories(reader, query)
    return SwarmSearchPage(tuple(map(_hit, page.hits)), page.before_id, page.note)


def _hit(found: recall.MemoryHit) -> SwarmSearchHit:
    excerpt = found.excerpt
    lead = "…" if excerpt.start else ""
    (start, length), *_ = excerpt.marks or ((0, 0),)
    sender = ""
    if found.sender_kind is not None:
        sender = found.sender if found.sender_kind is not SenderKind.COMMANDER else "you"
    return SwarmSearchHit(
        memory_id=found.memory_id,
        mysis_id=found.mysis_id,
        mysis=found.mysis,
        is_deleted=found.is_deleted,
        turn_number=found.turn_number,
        role=found.role,
        spot=found.spot,
        at=found.created_at,
        text=lead + excerpt.text + ("…" if excerpt.start + len(excerpt.text) < excerpt.total else ""),
        start=len(lead) + start,
        length=length,
        sender=sender,
        tool=found.tool,
        call_id=found.call_id,
    )


def _owners(reader: sqlite3.Connection, wish: SwarmSearchQuery) -> tuple[int, ...] | None:
    """Return the id of the named mysis as a tuple; None without a name.

    A living mysis comes first; the tuple is empty if none has the name.
    """
    if not wish.mysis:
        return None
    rows = reader.execute("SELECT id FROM mysis WHERE name = ? ORDER BY deleted_at IS NOT NULL", (wish.mysis,))
    row = rows.fetchone()
    return (row[0],) if row is not None else ()


def _listed(reader: sqlite3.Connection, wish: SwarmSearchQuery, before: int) -> SwarmSearchPage:
    """List the newest memories that pass the filters, for a search without words."""
    where, values = "", dict[str, object](before=before, most=PAGE, around=_AROUND)
    owners = _owners(reader, wish)
    for name, condition, value in (
        ("mysis", "mysis_id = :mysis", owners if owners is None else next(iter(owners), -1)),
        ("role", "role = :role", wish.role),
        ("since", "created_at >= :since", wish.since),
        ("until", "created_at < :until", wish.until),
    ):
        if value is not None:
            where += f" AND {condition}"
            values[name] = value
    rows = reader.execute(_LISTED.format(where=where), values).fetchall()
    hits = tuple([convert_row(SwarmSearchHit, row) for row in rows])
    return SwarmSearchPage(hits, hits[-1].memory_id if len(rows) == PAGE else None)


class FindHit(Struct, frozen=True):
    """A memory that contains the words.

    `at` is their position in the content, `thought` in the reasoning, in characters
    from 0, or -1; `call_id` is the call that has them in its name, arguments or result.
    """

    memory_id: int
    turn_number: int
    seq: int
    at: int
    thought: int
    call_id: int | None


class FindResult(Struct, frozen=True):
    """Hits in conversation order; `is_cut` if there are older ones over the limit."""

    words: str
    hits: tuple[FindHit, ...] = ()
    is_cut: bool = False


class ConversationFinder(MemorySearcher):
    """Finds words in the conversation of one mysis."""

    def find(self, mysis_id: int, words: str, *, limit: int = LIMIT) -> FindResult | None:
        """Find the newest `limit` memories with the words; None if stopped. Raises StoreError."""
        words = clean(words)
        if not words.strip():
            return FindResult(words)
        query = MemoryQuery(words, column=SearchColumn.ANY, fold=is_any_case(words), mysis_ids=(mysis_id,))
        places = _PLACES.format(fold="lower" if query.fold else "")

        def read(reader: sqlite3.Connection) -> FindResult:
            ids = matching_ids(reader, query, limit + 1)
            rows = reader.execute(places, (words, json.dumps(ids[:limit]))).fetchall()
            hits = sorted(map(_find_hit, rows), key=lambda hit: (hit.turn_number, hit.seq))
            return FindResult(words, tuple(hits), len(ids) > limit)

        return self._run(self.begin(), read)


def _find_hit(row: sqlite3.Row) -> FindHit:
    call = row["answers"] if row["at"] else None
    return FindHit(row["id"], row["number"], row["seq"], row["at"] - 1, row["thought"] - 1, call or row["called"])
