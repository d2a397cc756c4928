"""Reads one commit with its messages and its origin, or those of a moment.

Synchronous; fronts call it in a thread.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit import ContextCommit
from zoea.chain.commit_rows import (
    count_known,
    find_common,
    read_children,
    read_commit,
    read_identity,
    resolve_time,
    shortest_id,
)
from zoea.chain.entries import ContextEntry
from zoea.chain.materialize import MaterializedContext
from zoea.model.errors import MissingBlob, RevisionError
from zoea.queries.stored_swarm import open_database

_MADE_BY = """
SELECT (SELECT body FROM template WHERE hash = :template) AS body,
  (SELECT provider || ' ' || model FROM request WHERE mysis_id = :mysis AND created_at <= :at ORDER BY id DESC LIMIT 1),
  (SELECT trim(provider || ' ' || model) FROM mysis WHERE id = :mysis)
"""


class CommitDetails(Struct, frozen=True):
    """A commit and what it holds.

    Attributes:
        short_id: The shortest unique prefix of its id; `parent` and `children` are such prefixes too.
        template: Name and hash of the template of its session, as `miner@1a2b3c4d`; empty if there is none.
        model: Provider and model of the newest request before it.
        known: Messages and tokens of the conversation up to it, from the nearest summary on.
        delta: Its own messages; empty where they cannot be read, and `missing` then says why.
    """

    commit: ContextCommit
    short_id: str
    parent: str
    children: tuple[str, ...]
    template: str
    model: str
    known: tuple[int, int]
    delta: tuple[ContextEntry, ...]
    missing: str = ""


class ComparedCommits(Struct, frozen=True):
    """Two commits: the newest that both chains have, and what each learned since."""

    commits: tuple[ContextCommit, ContextCommit]
    short_ids: tuple[str, str]
    common: ContextCommit | None
    common_id: str
    learned: tuple[tuple[ContextEntry, ...], tuple[ContextEntry, ...]]


def read_details(database: Path, seq: int) -> CommitDetails:
    """Read a commit. Raises RevisionError where it was collected, StoreError."""
    with open_database(database) as reader:
        commit = _find(reader, seq)
        body, model = _read_made_by(reader, commit)
        name = json.loads(body).get("name", "") if body else ""
        template = read_identity(reader, commit).template_hash
        try:
            delta, missing = ChainReader(reader).read_messages(commit, stop=commit), ""
        except MissingBlob as error:
            delta, missing = (), error.what
        parent = read_commit(reader, commit.parent) if commit.parent is not None else None
        return CommitDetails(
            commit,
            shortest_id(reader, commit),
            "" if parent is None else shortest_id(reader, parent),
            tuple(shortest_id(reader, one) for one in read_children(reader, seq)),
            f"{name}@{template.hex()[:8]}" if template else "",
            model,
            count_known(reader, seq),
            delta,
            missing,
        )


def read_model(reader: sqlite3.Connection, commit: ContextCommit) -> str:
    """Return provider and model of the newest request before a commit.

    Without a request those of its mysis count; empty texts stand for neither.
    """
    return _read_made_by(reader, commit)[1]


def _read_made_by(reader: sqlite3.Connection, commit: ContextCommit) -> tuple[str | None, str]:
    about = commit.provenance
    values = {"template": about.template_hash, "mysis": about.mysis_id, "at": commit.created_at}
    body, asked, configured = reader.execute(_MADE_BY, values).fetchone()
    return body, asked or configured or ""


def read_conversation_until(database: Path, seq: int) -> MaterializedContext:
    """Read the conversation up to a commit, from the nearest summary on.

    Raises:
        MissingBlob: A part of it is gone.
        RevisionError: The commit was collected.
    """
    with open_database(database) as reader:
        return ChainReader(reader).materialize(_find(reader, seq))


def compare_commits(database: Path, one: int, other: int) -> ComparedCommits:
    """Read what two commits have in common and what each learned since. Raises as `read_conversation_until`."""
    with open_database(database) as reader:
        commits = (_find(reader, one), _find(reader, other))
        common = find_common(reader, one, other)
        chains = ChainReader(reader)
        learned = [read_learned(chains, commit, common) for commit in commits]
        return ComparedCommits(
            commits,
            (shortest_id(reader, commits[0]), shortest_id(reader, commits[1])),
            common,
            "" if common is None else shortest_id(reader, common),
            (learned[0], learned[1]),
        )


def read_learned(chains: ChainReader, commit: ContextCommit, common: ContextCommit | None) -> tuple[ContextEntry, ...]:
    """Return the messages of a commit's chain after a common commit; all without one."""
    if common is None:
        return chains.read_messages(commit, to_root=True)
    messages_before = len(chains.read_messages(common, stop=common))
    return chains.read_messages(commit, stop=common)[messages_before:]


def _find(reader: sqlite3.Connection, seq: int) -> ContextCommit:
    commit = read_commit(reader, seq)
    if commit is None:
        raise RevisionError(
            "this commit was removed by `zoea ctx gc`",
            hint="Choose another one. A commit with a name (`zoea ctx note --name`) is never removed.",
        )
    return commit


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
    while (principal := reader.execute(_NEXT_NAME, (name,)).fetchone()[0]) is not None:
        name = principal
        yield name
