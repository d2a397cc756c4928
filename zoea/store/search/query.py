"""What can be asked of the memory and what it answers: plain values, checked where they are made."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from zoea.model.enums import Role, SenderKind, Source
from zoea.model.errors import UsageError
from zoea.text import clean

LIMIT = 20
LIMIT_RANGE = (1, 100)
MAX_CHARS = 2_000
MAX_CHARS_RANGE = (100, 10_000)


class SearchColumn(StrEnum):
    """Where is looked: content (with the calls of an answer), reasoning, or all of it."""

    CONTENT = "content"
    REASONING = "reasoning"
    ANY = "any"


class MatchMode(StrEnum):
    """EXACT: the text as it is, newest first. RANKED: its words in any case, the best first."""

    EXACT = "exact"
    RANKED = "ranked"


class HitPlace(StrEnum):
    """Where in a memory a hit stands."""

    CONTENT = "content"
    REASONING = "reasoning"
    CALL = "call"


@dataclass(frozen=True, slots=True)
class MemoryQuery:
    """A search among memories.

    `text` is taken literally. `fold` lets letters A to Z match in any case (exact
    only; words always do). `mysis_ids` None means the whole swarm. `since`
    (inclusive) and `until` (exclusive) are µs UTC; `before_id` is a memory's id,
    exclusive. `max_chars` cuts each excerpt around its hit.

    Raises UsageError where the query is empty or a number is out of its range.
    """

    text: str
    column: SearchColumn = SearchColumn.CONTENT
    match: MatchMode = MatchMode.EXACT
    fold: bool = False
    mysis_ids: tuple[int, ...] | None = None
    since: int | None = None
    until: int | None = None
    role: Role | None = None
    source: Source | None = None
    before_id: int | None = None
    limit: int = LIMIT
    max_chars: int = MAX_CHARS

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", _checked(self.text, self.limit, self.max_chars))


@dataclass(frozen=True, slots=True)
class BroadcastQuery:
    """A search among broadcasts; `mysis_id` narrows it to those it sent or received. See `MemoryQuery`."""

    text: str
    match: MatchMode = MatchMode.EXACT
    fold: bool = False
    mysis_id: int | None = None
    since: int | None = None
    until: int | None = None
    before_id: int | None = None
    limit: int = LIMIT
    max_chars: int = MAX_CHARS

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", _checked(self.text, self.limit, self.max_chars))


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a text around what was found, in characters.

    `start` is where `text` begins in the whole, `total` how long the whole is;
    `marks` are (place, length) of the hits within `text`, ascending, not overlapping.
    """

    text: str
    start: int = 0
    total: int = 0
    marks: tuple[tuple[int, int], ...] = ()

    @property
    def is_cut(self) -> bool:
        return len(self.text) < self.total


@dataclass(frozen=True, slots=True)
class MemoryHit:
    """A memory that holds what was looked for.

    `spot` says where it stands and `excerpt` shows it there: in the content, the
    reasoning, or a call as `name(json arguments)`. `content` is the beginning of
    the content, or the same excerpt where the hit is there. `call_id` is the call
    that holds the hit, or that this result answers; `tool` is its name, `position`
    which of the answer's calls it is where it holds the hit. `sender` is who said a
    prompt: empty for the commander and for what is no prompt.
    """

    memory_id: int
    mysis_id: int
    mysis: str
    is_deleted: bool
    turn_id: int
    turn_number: int
    role: Role
    source: Source
    created_at: int
    spot: HitPlace
    excerpt: Excerpt
    content: Excerpt
    sender_kind: SenderKind | None = None
    sender: str = ""
    tool: str = ""
    call_id: int | None = None
    position: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryHits:
    """A page. `before_id` asks for the next one; None where there is no more. `note` says what a person should know."""

    hits: tuple[MemoryHit, ...] = ()
    before_id: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class BroadcastHit:
    """A broadcast that holds what was looked for; `sender` is empty for the commander."""

    message_id: int
    sender_kind: SenderKind
    sender_id: int | None
    sender: str
    created_at: int
    excerpt: Excerpt


@dataclass(frozen=True, slots=True)
class BroadcastHits:
    """A page of broadcasts; see `MemoryHits`."""

    hits: tuple[BroadcastHit, ...] = ()
    before_id: int | None = None
    note: str = ""


def _checked(text: str, limit: int, max_chars: int) -> str:
    text = clean(text)
    if not text:
        raise UsageError("query cannot be empty")
    for name, value, (least, most) in (("limit", limit, LIMIT_RANGE), ("max_chars", max_chars, MAX_CHARS_RANGE)):
        if not least <= value <= most:
            raise UsageError(f"{name} must be from {least} to {most}, not {value}")
    return text
