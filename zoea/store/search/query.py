"""Search queries and results: plain values, validated when created."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import force_setattr

from zoea.model.enums import Role, SenderKind, Source
from zoea.model.errors import UsageError
from zoea.text import clean

LIMIT = 20
LIMIT_RANGE = (1, 100)
MAX_CHARS = 2_000
MAX_CHARS_RANGE = (100, 10_000)


SEARCH_TOOLS = (
    "zoea_recall",
    "zoea_read_memory",
    "zoea_search_broadcasts",
    "zoea_search_messages",
    "zoea_search_reasoning",
)
"""Zoea's own tools whose results repeat stored memories."""


class SearchColumn(StrEnum):
    """The text to search: content with an answer's calls, reasoning, or both."""

    CONTENT = "content"
    REASONING = "reasoning"
    ANY = "any"


class MatchMode(StrEnum):
    """EXACT finds the text as it is, newest first. RANKED finds its words in any case, best first."""

    EXACT = "exact"
    RANKED = "ranked"


class HitPlace(StrEnum):
    """The part of a memory with the match."""

    CONTENT = "content"
    REASONING = "reasoning"
    CALL = "call"


class MemoryQuery(Struct, frozen=True):
    """A search among memories.

    Attributes:
        text: Taken literally.
        fold: Match A to Z in any case; words always do.
        mysis_ids: None searches the whole swarm.
        since, until: µs UTC; `until` is exclusive.
        before_id: A memory id, exclusive.
        asking_call: The tool call of a mysis that searches. It does not find the answer that holds it, the prompts of
            its turn, which it sees anyway, and earlier searches with their results, which repeat other memories.

    Raises:
        UsageError: The query is empty or a number is out of range.
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
    asking_call: int | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "text", _check_query(self.text, self.limit, self.max_chars))


class BroadcastQuery(Struct, frozen=True):
    """A search among broadcasts; `mysis_id` limits it to those it sent or received. See `MemoryQuery`."""

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
        force_setattr(self, "text", _check_query(self.text, self.limit, self.max_chars))


class Excerpt(Struct, frozen=True):
    """A part of a text around its matches, in characters.

    Attributes:
        start: Where `text` begins in the whole text.
        total: The length of the whole text.
        marks: (place, length) of the matches in `text`, ascending, not overlapping.
    """

    text: str
    start: int = 0
    total: int = 0
    marks: tuple[tuple[int, int], ...] = ()

    @property
    def is_cut(self) -> bool:
        return len(self.text) < self.total


class MemoryHit(Struct, frozen=True):
    """A memory that matches.

    Attributes:
        spot: The part of the memory with the match.
        excerpt: The match in its place; a call is shown as `name(json arguments)`.
        content: The beginning of the content, or `excerpt` if the match is there.
        sender: The sender of a prompt; empty for the commander and for other memories.
        tool: The tool's name, for a call or a result.
        call_id: The call with the match, or the call that this result answers.
        position: The index of the call with the match among the answer's calls.
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


class MemoryHits(Struct, frozen=True):
    """A page of hits. `before_id` asks for the next page, None at the end; `note` is for a person."""

    hits: tuple[MemoryHit, ...] = ()
    before_id: int | None = None
    note: str = ""


class BroadcastHit(Struct, frozen=True):
    """A broadcast that matches; `sender` is empty for the commander."""

    message_id: int
    sender_kind: SenderKind
    sender_id: int | None
    sender: str
    created_at: int
    excerpt: Excerpt


class BroadcastHits(Struct, frozen=True):
    """A page of broadcasts; see `MemoryHits`."""

    hits: tuple[BroadcastHit, ...] = ()
    before_id: int | None = None
    note: str = ""


def _check_query(text: str, limit: int, max_chars: int) -> str:
    text = clean(text)
    if not text:
        raise UsageError("query cannot be empty")
    for name, value, (least, most) in (("limit", limit, LIMIT_RANGE), ("max_chars", max_chars, MAX_CHARS_RANGE)):
        if not least <= value <= most:
            raise UsageError(f"{name} must be from {least} to {most}, not {value}")
    return text
