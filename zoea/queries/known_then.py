"""Reads what each mysis knew at a moment. Synchronous; fronts call it in a thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from zoea.chain.commit import ContextCommit
from zoea.chain.commit_rows import resolve_time
from zoea.queries.stored_swarm import open_database

# The names in the index one after the other, without reading the commits of each.
_NEXT_NAME = "SELECT min(principal) FROM ctx_commit WHERE principal > ?"
_AFTER = "SELECT min(created_at) FROM ctx_commit WHERE principal = ? AND created_at > ?"
_BEFORE = "SELECT max(created_at) FROM ctx_commit WHERE principal = ? AND created_at < ?"


class KnownThen(Struct, frozen=True):
    """The newest commit of each mysis or program at a moment, and its neighbours' moments.

    Attributes:
        at: The moment, µs UTC.
        commits: By name of the mysis.
        before: Time of the newest commit of any before the moment; None if there is none.
        after: Time of the oldest commit of any after it.
    """

    at: int
    commits: tuple[ContextCommit, ...] = ()
    before: int | None = None
    after: int | None = None


def read_known_then(database: Path, at: int) -> KnownThen:
    """Read what each mysis knew at a moment. Reads few rows a mysis, however many commits. Raises StoreError."""
    newest: dict[object, ContextCommit] = {}
    earlier, later = [], []
    with open_database(database) as reader:
        for name in _read_principals(reader):
            if (commit := resolve_time(reader, name, at)) is not None:
                key = commit.provenance.mysis_id or name  # a mysis that was renamed is one
                if key not in newest or newest[key].seq < commit.seq:
                    newest[key] = commit
            earlier.append(reader.execute(_BEFORE, (name, at)).fetchone()[0])
            later.append(reader.execute(_AFTER, (name, at)).fetchone()[0])
    commits = sorted(newest.values(), key=lambda one: (one.provenance.principal.lower(), one.seq))
    before = max((one for one in earlier if one is not None), default=None)
    return KnownThen(at, tuple(commits), before, min((one for one in later if one is not None), default=None))


def _read_principals(reader: sqlite3.Connection) -> Iterator[str]:
    name = ""
    while (found := reader.execute(_NEXT_NAME, (name,)).fetchone()[0]) is not None:
        name = found
        yield name
