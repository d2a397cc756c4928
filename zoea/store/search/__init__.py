"""Search memories and broadcasts, by exact text or ranked words.

Synchronous functions over any reading connection; interrupting the connection ends a search with
`sqlite3.OperationalError`. The indexes only propose candidates; the stored text decides.
"""

from __future__ import annotations

from zoea.store.search.broadcast_search import search_broadcasts
from zoea.store.search.excerpts import fit_hit
from zoea.store.search.memory_search import matching_ids, search_memories
from zoea.store.search.query import (
    LIMIT,
    LIMIT_RANGE,
    MAX_CHARS,
    MAX_CHARS_RANGE,
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
)
from zoea.store.search.related_memories import find_related

__all__ = [
    "LIMIT",
    "LIMIT_RANGE",
    "MAX_CHARS",
    "MAX_CHARS_RANGE",
    "BroadcastHit",
    "BroadcastHits",
    "BroadcastQuery",
    "Excerpt",
    "HitPlace",
    "MatchMode",
    "MemoryHit",
    "MemoryHits",
    "MemoryQuery",
    "SearchColumn",
    "find_related",
    "fit_hit",
    "matching_ids",
    "search_broadcasts",
    "search_memories",
]
