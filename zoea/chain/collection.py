"""Removes the commits that no ref reaches, and the blobs that only they needed."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from msgspec import Struct

from zoea.store.retention import is_unused, remove_unused_blobs
from zoea.store.table_schema import read_tables, write_removal
from zoea.store.writer_connection import WriterConnection

DAY = 24 * 3600 * 1_000_000
REFLOG_DAYS = 30
"""Days in which a commit that a ref left can still be found by its reflog."""

_REACHED = """
WITH RECURSIVE reached(seq) AS (
  SELECT commit_seq FROM ctx_ref
  UNION SELECT commit_seq FROM ctx_origin
  UNION SELECT birth_seq FROM ctx_origin WHERE birth_seq IS NOT NULL
  UNION SELECT commit_seq FROM ctx_policy WHERE policy = 'pin'
  UNION SELECT new FROM ctx_reflog WHERE created_at >= :since AND new IN (SELECT seq FROM ctx_commit)
  UNION SELECT old FROM ctx_reflog WHERE created_at >= :since AND old IN (SELECT seq FROM ctx_commit)
  UNION SELECT c.parent FROM reached JOIN ctx_commit c ON c.seq = reached.seq WHERE c.parent IS NOT NULL
)
"""
_UNREACHED = f"{_REACHED} SELECT seq FROM ctx_commit WHERE seq NOT IN (SELECT seq FROM reached)"


class CollectedChains(Struct, frozen=True):
    """Numbers of removed commits and blobs, and the uncompressed bytes of the blobs."""

    commits: int = 0
    blobs: int = 0
    bytes: int = 0


def find_unreached(conn: sqlite3.Connection, since: int) -> list[int]:
    """Return the commits that no ref reaches or named since a time, µs UTC."""
    return [row[0] for row in conn.execute(f"{_UNREACHED} ORDER BY seq", {"since": since}).fetchall()]


def estimate_collection(conn: sqlite3.Connection, since: int) -> CollectedChains:
    """Return what `collect` would remove now, without a change.

    Blobs that no row at all refers to are not counted, because they are not of commits.
    """
    sql = f"""
{_REACHED},
gone(seq) AS MATERIALIZED (SELECT seq FROM ctx_commit WHERE seq NOT IN (SELECT seq FROM reached)),
freed(id) AS (
  SELECT blob_id FROM ctx_commit WHERE seq IN (SELECT seq FROM gone)
  UNION SELECT blob_id FROM ctx_blob WHERE commit_seq IN (SELECT seq FROM gone))
SELECT (SELECT count(*) FROM gone), count(b.id), coalesce(sum(b.size), 0) FROM freed JOIN blob b ON b.id = freed.id
WHERE b.id NOT IN (SELECT blob_id FROM ctx_commit WHERE seq NOT IN (SELECT seq FROM gone))
AND b.id NOT IN (SELECT blob_id FROM ctx_blob WHERE commit_seq NOT IN (SELECT seq FROM gone))
"""
    others = is_unused(conn, "b", but=("ctx_commit", "ctx_blob"))
    return CollectedChains(*conn.execute(f"{sql} AND {others}", {"since": since}).fetchone())


def collect(conn: WriterConnection, since: int) -> CollectedChains:
    """Remove what `find_unreached` finds. For use in an op."""
    count, size = _blob_totals(conn)
    unreached = find_unreached(conn, since)
    _remove_commits(conn, unreached)
    conn.execute("DELETE FROM ctx_reflog WHERE created_at < ?", (since,))
    remove_unused_blobs(conn)
    count_after, size_after = _blob_totals(conn)
    return CollectedChains(len(unreached), count - count_after, size - size_after)


def forget_branches(conn: sqlite3.Connection, names: Sequence[str], since: int) -> None:
    """Remove branches for good, with the commits that nothing else reaches. For use in a transaction.

    Blobs stay until `remove_unused_blobs`. Commits that another branch reaches stay.
    """
    for name in names:
        conn.execute("DELETE FROM ctx_ref WHERE name = ?", (name,))
        conn.execute("DELETE FROM ctx_reflog WHERE name = ?", (name,))
    _remove_commits(conn, find_unreached(conn, since))


def _remove_commits(conn: sqlite3.Connection, unreached: Sequence[int]) -> None:
    statements = tuple(write_removal(read_tables(conn), "ctx_commit", stays=("ctx_ref", "ctx_origin")))
    for seq in reversed(unreached):  # children first
        for statement in statements:
            conn.execute(statement, {"root": seq})


def _blob_totals(conn: sqlite3.Connection) -> tuple[int, int]:
    row = conn.execute("SELECT count(*), coalesce(sum(size), 0) FROM blob").fetchone()
    return row[0], row[1]
