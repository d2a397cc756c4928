"""What a mysis asks of its memory through Zoea's own tools, and what it gets: values, no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from zoea.model.words import Role, Source

SEARCHED = ("content", "reasoning", "broadcasts")
"""What can be searched: a memory's content with its calls, its reasoning, or what was said to all."""


@dataclass(frozen=True, slots=True)
class DeskSearch:
    """A search on behalf of a mysis.

    `whose` is the mysis whose memories are looked through, None for all of them;
    whoever builds this has checked that the caller may. For broadcasts it is who
    sent or received them. Times are µs UTC, `since` inclusive, `until` and
    `before_id` exclusive. `ranked` searches words, the best first. `max_chars` cuts
    what a row shows around its hit.
    """

    column: str
    query: str
    whose: int | None
    limit: int = 20
    ranked: bool = False
    role: Role | None = None
    source: Source | None = None
    since: int | None = None
    until: int | None = None
    before_id: int | None = None
    max_chars: int = 2_000


@dataclass(frozen=True, slots=True)
class DeskFound:
    """Rows as the caller gets them, each with its `id` and short enough for an answer of its own.

    `before_id` asks for the next page, None where there is none; `note` says what
    the caller should know of how it was searched.
    """

    rows: tuple[dict[str, Any], ...] = ()
    before_id: int | None = None
    note: str = ""
