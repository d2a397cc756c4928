"""Searching the whole swarm's memory as a person types: newest first, a page at a time, and easily stopped.

A plain look through content, reasoning and tool calls. Small letters find any case
(A to Z); a capital asks for exactly what was typed. Source: spec tui.md, "Search".
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from zoea.model.errors import StoreError
from zoea.model.words import Role, SenderKind
from zoea.store.direct import open_reader
from zoea.text import clean

PAGE = 100
SCAN = 2_000
SCANNED = 60_000
"""Hits of a page, memories looked through in one query, and at most for one page."""

_BEFORE_HIT, _AROUND = 80, 600
_NEWEST = 1 << 62
_SECOND = 1_000_000
_ROLES = {
    "user": Role.USER,
    "prompt": Role.USER,
    "assistant": Role.ASSISTANT,
    "answer": Role.ASSISTANT,
    "tool": Role.TOOL,
    "result": Role.TOOL,
}
_WORD = re.compile(r'"[^"]*"|\S+')
_SPANS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

# Newest first among the `SCAN` memories before an id. {fold} is lower() or nothing, {where} the filters.
_FIND = """
SELECT m.id, m.mysis_id, y.name AS mysis, y.deleted_at, t.number AS turn_number, m.role, m.created_at,
  g.sender_kind, g.sender_name, instr({fold}(m.content), :words) AS at,
  instr({fold}(m.reasoning), :words) AS thought, k.id AS call_id, k.name AS call_name, k.place AS called,
  r.id AS answers, r.name AS answered
FROM (SELECT * FROM memory WHERE id < :before AND id >= :down_to {where}) m
JOIN mysis y ON y.id = m.mysis_id JOIN turn t ON t.id = m.turn_id
LEFT JOIN message g ON g.id = m.message_id
LEFT JOIN tool_call r ON r.result_memory_id = m.id AND m.role = 'tool'
LEFT JOIN (SELECT id, memory_id, name, instr({fold}(name || arguments), :words) AS place FROM tool_call) k
  ON k.memory_id = m.id AND m.role = 'assistant' AND k.place
  AND k.id = (SELECT min(id) FROM tool_call WHERE memory_id = m.id AND instr({fold}(name || arguments), :words))
WHERE at OR thought OR called ORDER BY m.id DESC LIMIT :most
"""
_DOWN_TO = "SELECT id FROM memory WHERE id < :before {where} ORDER BY id DESC LIMIT 1 OFFSET :scan"
_TEXT = {
    "content": "SELECT substr(content, ?, ?), length(content) FROM memory WHERE id = ?",
    "reasoning": "SELECT substr(reasoning, ?, ?), length(reasoning) FROM memory WHERE id = ?",
    "call": "SELECT substr(name || arguments, ?, ?), length(name || arguments) FROM tool_call WHERE id = ?",
}


class Spot(StrEnum):
    """Where in a memory the words stand."""

    CONTENT = "content"
    REASONING = "reasoning"
    CALL = "call"


@dataclass(frozen=True, slots=True)
class Wish:
    """What is looked for. `since` and `until` are µs UTC; `problem` says what was not understood."""

    words: str = ""
    mysis: str = ""
    role: Role | None = None
    since: int | None = None
    until: int | None = None
    problem: str = ""

    @property
    def is_empty(self) -> bool:
        """True where nothing was asked for at all."""
        return self == Wish()


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that holds the words.

    `text` is what stands around them, `start` and `length` the words' place in it
    (in characters, length 0 where none were asked for). `call_id` is the call
    whose name, arguments or result hold them, `tool` its name. `sender` is who
    said a prompt: `you`, or a name.
    """

    memory_id: int
    mysis_id: int
    mysis: str
    is_deleted: bool
    turn_number: int
    role: Role
    spot: Spot
    at: int
    text: str
    start: int
    length: int
    sender: str = ""
    tool: str = ""
    call_id: int | None = None


@dataclass(frozen=True, slots=True)
class Hits:
    """A page, newest first. `before` is where the next one begins; None where there is no more."""

    hits: tuple[Hit, ...] = ()
    before: int | None = None


def wish_of(typed: str, now: int) -> Wish:
    """What a person typed: words, and filters among them.

    `@NAME` one mysis; `role:user|assistant|tool`; `since:` and `until:` with a span
    (`2h`, `30m`, `1d`), a time today (`10:30`) or a date (`2026-01-31`). In quotes
    everything is words. `now` is µs UTC.
    """
    wish, words = Wish(), []
    for word in _WORD.findall(typed):
        name, colon, value = word.partition(":")
        if word.startswith('"'):
            words.append(word.strip('"'))
        elif word.startswith("@") and len(word) > 1:
            wish = replace(wish, mysis=word[1:])
        elif colon and name in ("role", "since", "until"):
            wish = _filtered(wish, name, value, now)
        else:
            words.append(word)
    return replace(wish, words=clean(" ".join(words)))


def _filtered(wish: Wish, name: str, value: str, now: int) -> Wish:
    if name == "role":
        role = _ROLES.get(value.lower())
        return replace(wish, role=role) if role else replace(wish, problem="role: is user, assistant or tool")
    moment = moment_of(value, now)
    if moment is None:
        return replace(wish, problem=f"{name}: takes 2h, 30m, 1d, 10:30 or 2026-01-31")
    return replace(wish, since=moment) if name == "since" else replace(wish, until=moment)


def moment_of(text: str, now: int) -> int | None:
    """`2h` ago, `10:30` today, `2026-01-31`; in local time, as µs UTC. None where it is none of them."""
    today = datetime.fromtimestamp(now / _SECOND)
    if found := re.fullmatch(r"(\d{1,6})([smhdw])", text):
        ago = timedelta(**{_SPANS[found[2]]: int(found[1])})
        return now - round(ago.total_seconds() * _SECOND)
    try:
        if re.fullmatch(r"\d{1,2}:\d{2}", text):
            clock = datetime.strptime(text, "%H:%M")
            return round(today.replace(hour=clock.hour, minute=clock.minute, second=0).timestamp()) * _SECOND
        return round(datetime.strptime(text, "%Y-%m-%d").timestamp()) * _SECOND
    except ValueError:
        return None


class Searcher:
    """One search at a time: a new one, or `stop`, ends the one before. Called from threads."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._turn = 0
        self._running: sqlite3.Connection | None = None

    def begin(self) -> int:
        """Announce a search, which ends the one that runs: its number for `search`."""
        with self._lock:
            self._turn += 1
            if self._running is not None:
                self._running.interrupt()
            return self._turn

    def stop(self) -> None:
        """End the search that runs now."""
        self.begin()

    def search(self, number: int, wish: Wish, before: int | None = None) -> Hits | None:
        """A page of what the wish finds before a memory's id; None where another search began. Raises StoreError."""
        try:
            with self._reading(number) as reader:
                return None if reader is None else self._page(reader, number, wish, before or _NEWEST)
        except sqlite3.Error as problem:
            if getattr(problem, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                return None
            raise StoreError(f"{self._database} cannot be searched: {problem}") from problem

    @contextmanager
    def _reading(self, number: int) -> Iterator[sqlite3.Connection | None]:
        with closing(open_reader(self._database)) as reader:
            with self._lock:
                is_wanted = number == self._turn
                if is_wanted:
                    self._running = reader
            try:
                yield reader if is_wanted else None
            finally:
                with self._lock:
                    if self._running is reader:
                        self._running = None

    def _page(self, reader: sqlite3.Connection, number: int, wish: Wish, before: int) -> Hits | None:
        where, given = _conditions(reader, wish)
        fold = "lower" if wish.words == wish.words.lower() else ""
        hits: list[Hit] = []
        for _ in range(SCANNED // SCAN):
            if number != self._turn:
                return None
            row = reader.execute(_DOWN_TO.format(where=where), {**given, "before": before, "scan": SCAN - 1}).fetchone()
            down_to = row[0] if row is not None else 0
            asked = {**given, "words": wish.words, "before": before, "down_to": down_to, "most": PAGE - len(hits)}
            found = reader.execute(_FIND.format(fold=fold, where=where), asked).fetchall()
            hits += [_hit(reader, each, wish) for each in found]
            if len(hits) >= PAGE:
                return Hits(tuple(hits), hits[-1].memory_id)
            if row is None:
                return Hits(tuple(hits))
            before = down_to
        return Hits(tuple(hits), before)


def _conditions(reader: sqlite3.Connection, wish: Wish) -> tuple[str, dict[str, object]]:
    """The filters as SQL over `memory`, and their values."""
    where, given = "", dict[str, object]()
    if wish.mysis:
        found = reader.execute("SELECT id FROM mysis WHERE name = ? ORDER BY deleted_at IS NOT NULL", (wish.mysis,))
        row = found.fetchone()
        where, given["mysis"] = where + " AND mysis_id = :mysis", row[0] if row is not None else -1
    if wish.role is not None:
        where, given["role"] = where + " AND role = :role", wish.role.value
    if wish.since is not None:
        where, given["since"] = where + " AND created_at >= :since", wish.since
    if wish.until is not None:
        where, given["until"] = where + " AND created_at < :until", wish.until
    return where, given


def _hit(reader: sqlite3.Connection, row: sqlite3.Row, wish: Wish) -> Hit:
    spot = Spot.CONTENT if row["at"] else Spot.CALL if row["called"] else Spot.REASONING
    place = {Spot.CONTENT: row["at"], Spot.CALL: row["called"], Spot.REASONING: row["thought"]}[spot]
    first = max(1, place - _BEFORE_HIT)
    key = row["call_id"] if spot is Spot.CALL else row["id"]
    text, length = reader.execute(_TEXT[spot.value], (first, _AROUND, key)).fetchone()
    lead = "…" if first > 1 else ""
    sender = ""
    if row["sender_kind"] is not None:
        sender = "you" if row["sender_kind"] == SenderKind.COMMANDER else row["sender_name"]
    return Hit(
        memory_id=row["id"],
        mysis_id=row["mysis_id"],
        mysis=row["mysis"],
        is_deleted=row["deleted_at"] is not None,
        turn_number=row["turn_number"],
        role=Role(row["role"]),
        spot=spot,
        at=row["created_at"],
        text=lead + text + ("…" if first + _AROUND <= length else ""),
        start=len(lead) + place - first,
        length=len(wish.words),
        sender=sender,
        tool=(row["call_name"] if spot is Spot.CALL else row["answered"]) or "",
        call_id=row["call_id"] if spot is Spot.CALL else row["answers"],
    )
