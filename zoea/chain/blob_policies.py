"""How long the bytes of commits stay.

A pin keeps a commit and all before it. The bytes of an ephemeral commit are let go once its time is over, also where
refs reach it: its row, summary and id stay, and a mirror or bundle can bring the bytes back. Bytes stay that another
commit or a memory needs, and those of a commit that a living mysis began with.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from zoea.store.blobs import blob_directory, blob_path, release_blob
from zoea.store.retention import is_unused
from zoea.store.writer_connection import WriterConnection

DAY_SECONDS = 24 * 3600
_EXPIRED = """
WITH RECURSIVE held(seq) AS (
  SELECT commit_seq FROM ctx_policy WHERE policy = 'pin'
  UNION SELECT o.commit_seq FROM ctx_origin o JOIN mysis y ON y.id = o.mysis_id WHERE y.deleted_at IS NULL
  UNION SELECT c.parent FROM held JOIN ctx_commit c ON c.seq = held.seq WHERE c.parent IS NOT NULL
), expired(seq) AS MATERIALIZED (
  SELECT commit_seq FROM ctx_policy WHERE until <= :now AND commit_seq NOT IN (SELECT seq FROM held)
), used(id) AS (
  SELECT blob_id FROM ctx_commit WHERE seq IN (SELECT seq FROM expired)
  UNION SELECT blob_id FROM ctx_blob WHERE commit_seq IN (SELECT seq FROM expired)
)
SELECT b.id, b.hash, b.place, b.size FROM used JOIN blob b ON b.id = used.id
WHERE b.released_at IS NULL AND {state}
AND NOT EXISTS (SELECT 1 FROM ctx_commit c WHERE c.blob_id = b.id AND c.seq NOT IN (SELECT seq FROM expired))
AND NOT EXISTS (SELECT 1 FROM ctx_blob l WHERE l.blob_id = b.id AND l.commit_seq NOT IN (SELECT seq FROM expired))
"""


class ReleasedBlobs(Struct, frozen=True):
    """Number of released blobs, and their uncompressed bytes. The caller deletes the files once that is stored."""

    blobs: int = 0
    bytes: int = 0
    files: tuple[Path, ...] = ()


def set_policy(conn: WriterConnection, seqs: Iterable[int], policy: str, seconds: float = 0) -> None:
    """Set how long commits stay. For use in an op.

    Args:
        policy: `pin`, `ephemeral` for so many seconds from now, or empty for as long as a ref reaches them.
    """
    until = conn.now() + int(seconds * 1_000_000) if policy == "ephemeral" else None
    for seq in seqs:
        conn.execute("DELETE FROM ctx_policy WHERE commit_seq = ?", (seq,))
        if policy:
            conn.execute("INSERT INTO ctx_policy VALUES (?, ?, ?, ?)", (seq, policy, until, conn.now()))


def read_policy(conn: sqlite3.Connection, seq: int) -> tuple[str, int | None]:
    """Return the policy of a commit and when it ends, µs UTC. It is "" where there is none."""
    row = conn.execute("SELECT policy, until FROM ctx_policy WHERE commit_seq = ?", (seq,)).fetchone()
    return ("", None) if row is None else (row[0], row[1])


def estimate_release(conn: sqlite3.Connection, now: int) -> ReleasedBlobs:
    """Return what `release_expired` would let go now, without a change."""
    expired = _find_expired(conn, now)
    return ReleasedBlobs(len(expired), sum(size for *_, size in expired))


def release_expired(conn: WriterConnection) -> ReleasedBlobs:
    """Delete the bytes of ephemeral commits that have expired; runs within an op."""
    expired = _find_expired(conn, conn.now())
    folder = blob_directory(conn)
    for blob_id, *_ in expired:
        release_blob(conn, blob_id, conn.now())
    for blob_id, *_ in _find_expired(conn, conn.now(), "b.replaced_by IS NOT NULL"):
        conn.execute("UPDATE blob SET replaced_by = NULL WHERE id = ?", (blob_id,))
    files = tuple(blob_path(folder, digest) for _, digest, place, _ in expired if place == "file")
    return ReleasedBlobs(len(expired), sum(size for *_, size in expired), files)


def _find_expired(
    conn: sqlite3.Connection, now: int, state: str = "b.place <> 'redacted'"
) -> list[tuple[int, bytes, str, int]]:
    sql = f"{_EXPIRED.format(state=state)} AND {is_unused(conn, 'b', but=('ctx_commit', 'ctx_blob'))}"
    return list(map(tuple, conn.execute(sql, {"now": now}).fetchall()))
