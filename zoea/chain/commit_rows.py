"""Reads commits, refs and chains from any connection to the database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from functools import lru_cache
from operator import itemgetter
from typing import Any

from zoea.chain.commit import (
    COMMANDER,
    ID_PREFIX,
    Checkpoint,
    CommitIdentity,
    CommitNote,
    CommitType,
    ContextCommit,
    Provenance,
)

_NOTE = "LEFT JOIN ctx_note n ON n.id = (SELECT max(id) FROM ctx_note WHERE commit_seq = c.seq)"
# What many commits share is one text for all of them, because each value of a row costs as much as the walk to it.
_COLUMNS = """
  c.seq, c.hash, c.parent, json_array(c.type, c.format, c.checkpoint, c.principal, c.machine, hex(c.template_hash),
    c.mysis_id, c.session_id, c.ticket_id, c.thread_id, n.tags, n.model),
  b.hash, c.message_count, c.token_count, c.created_at, n.summary
"""
_FROM = f"SELECT {_COLUMNS} FROM ctx_commit c JOIN blob b ON b.id = c.blob_id {_NOTE}"
_WALK = f"""
WITH RECURSIVE walk(seq) AS (
  SELECT ?1 UNION ALL
  SELECT c.parent FROM walk JOIN ctx_commit c ON c.seq = walk.seq
  WHERE c.parent IS NOT NULL AND c.seq <> ?2 AND NOT (?3 AND c.type <> 'delta')
  LIMIT ?4
)
SELECT {_COLUMNS} FROM walk JOIN ctx_commit c ON c.seq = walk.seq JOIN blob b ON b.id = c.blob_id {_NOTE}
"""
_NEWEST_REACHED = f"""
WITH RECURSIVE walk(seq, parent) AS (
  SELECT c.seq, c.parent FROM json_each(?1) j JOIN ctx_commit c ON c.seq = j.value WHERE c.seq > ?2
  UNION
  SELECT c.seq, c.parent FROM walk JOIN ctx_commit c ON c.seq = walk.parent WHERE c.seq > ?2
  ORDER BY 1 DESC LIMIT ?3
)
SELECT {_COLUMNS} FROM walk JOIN ctx_commit c ON c.seq = walk.seq JOIN blob b ON b.id = c.blob_id {_NOTE}
"""
_SEQ = itemgetter(0)
_LONGEST_WALK = 1_000_000_000
_FURTHEST = 4
"""How many times the tokens that have room are passed over at most until a conversation begins."""


def read_commit(conn: sqlite3.Connection, seq: int) -> ContextCommit | None:
    """Return a commit, or None."""
    row = conn.execute(f"{_FROM} WHERE c.seq = ?", (seq,)).fetchone()
    return None if row is None else _commit(row)


def find_by_prefix(conn: sqlite3.Connection, digits: str, most: int = 2) -> list[ContextCommit]:
    """Return up to `most` commits by a hexadecimal prefix of their ids, oldest first.

    Raises ValueError if the prefix is not hexadecimal.
    """
    low, high = bytes.fromhex(digits.ljust(64, "0")), bytes.fromhex(digits.ljust(64, "f"))
    rows = conn.execute(f"{_FROM} WHERE c.hash BETWEEN ? AND ? ORDER BY c.seq LIMIT ?", (low, high, most))
    return [_commit(row) for row in rows.fetchall()]


def find_digest(conn: sqlite3.Connection, digest: bytes) -> int | None:
    """Return the row number of the commit with an id, or None."""
    row = conn.execute("SELECT seq FROM ctx_commit WHERE hash = ?", (digest,)).fetchone()
    return None if row is None else row[0]


def read_identity(conn: sqlite3.Connection, commit: ContextCommit) -> CommitIdentity:
    """Return the values that a commit's id is computed from."""
    sql = "SELECT seq, template_hash, session_id FROM ctx_import WHERE commit_seq = ?"
    row = conn.execute(sql, (commit.seq,)).fetchone()
    if row is not None:
        return CommitIdentity(*row)
    return CommitIdentity(commit.seq, commit.provenance.template_hash, commit.provenance.session_id)


def shortest_id(conn: sqlite3.Connection, commit: ContextCommit) -> str:
    """Return the shortest unique prefix of a commit's id, at least 8 digits."""
    digits = commit.digest.hex()
    neighbours = conn.execute(
        "SELECT (SELECT hex(hash) FROM ctx_commit WHERE hash < ?1 ORDER BY hash DESC LIMIT 1),"
        " (SELECT hex(hash) FROM ctx_commit WHERE hash > ?1 ORDER BY hash LIMIT 1)",
        (commit.digest,),
    ).fetchone()
    others = [(one or "").lower() for one in neighbours]
    shared = max(n for n in range(len(digits) + 1) if any(one.startswith(digits[:n]) for one in others))
    return ID_PREFIX + digits[: max(8, shared + 1)]


def walk_chain(
    conn: sqlite3.Connection, seq: int, *, stop: int = 0, to_compaction: bool = False, limit: int = _LONGEST_WALK
) -> list[ContextCommit]:
    """Return a commit and its ancestors, oldest first.

    Args:
        stop: The ancestor at which the walk ends, which is included; 0 for the root.
        to_compaction: End at the nearest compaction or snapshot, which is included.
        limit: The most commits, counted from `seq` backwards.
    """
    cursor = conn.cursor()
    cursor.row_factory = None  # plain tuples are unpacked faster than rows
    rows = cursor.execute(_WALK, (seq, stop, int(to_compaction), limit)).fetchall()
    rows.sort(key=_SEQ)  # here, because SQLite would copy whole rows into a temporary table
    return [_commit(row) for row in rows]


def read_notes(conn: sqlite3.Connection, seq: int) -> list[tuple[int, CommitNote]]:
    """Return all summaries and tags of a commit, oldest first, with times in µs UTC."""
    sql = "SELECT created_at, summary, tags, model FROM ctx_note WHERE commit_seq = ? ORDER BY id"
    rows = conn.execute(sql, (seq,)).fetchall()
    return [(at, CommitNote(summary, _read_tags(tags), model)) for at, summary, tags, model in map(tuple, rows)]


def read_unsummarised(conn: sqlite3.Connection, limit: int, tip: int | None = None) -> list[ContextCommit]:
    """Return the newest commits without a summary by a model, newest first.

    Args:
        tip: Only this commit and those before it.
    """
    where = "n.model IS NULL OR n.model = ''"
    if tip is not None:
        return [one for one in reversed(walk_chain(conn, tip)) if not one.note.model][:limit]
    rows = conn.execute(f"{_FROM} WHERE {where} ORDER BY c.seq DESC LIMIT ?", (limit,)).fetchall()
    return [_commit(row) for row in rows]


def count_commits(conn: sqlite3.Connection) -> int:
    """Return how many commits are stored."""
    count: int = conn.execute("SELECT count(*) FROM ctx_commit").fetchone()[0]
    return count


def count_known(conn: sqlite3.Connection, seq: int) -> tuple[int, int]:
    """Count messages and tokens from the nearest summary to a commit. Reads no blob."""
    sql = """
WITH RECURSIVE walk(seq, parent, type, messages, tokens) AS (
  SELECT seq, parent, type, message_count, token_count FROM ctx_commit WHERE seq = ?
  UNION ALL
  SELECT c.seq, c.parent, c.type, c.message_count, c.token_count FROM walk JOIN ctx_commit c ON c.seq = walk.parent
  WHERE walk.type = 'delta'
)
SELECT coalesce(sum(messages), 0), coalesce(sum(tokens), 0) FROM walk
"""
    messages, tokens = conn.execute(sql, (seq,)).fetchone()
    return messages, tokens


def find_whole(conn: sqlite3.Connection, seq: int, max_tokens: int) -> tuple[int, int] | None:
    """Return where a conversation begins without its own summaries, and its number of messages.

    It begins with the first commit, or with the newest own summary that more tokens than these follow. None where
    none is passed over, or where that is far away. What persons or other programs condensed stays so. Reads no blob.
    """
    own = "c.type = 'compaction' AND c.mysis_id IS NOT NULL AND c.principal <> ?3"
    is_passed = f"({own}) AND walk.tokens <= ?2"
    sql = f"""
WITH RECURSIVE walk(seq, parent, passed, is_end, messages, tokens) AS (
  SELECT c.seq, c.parent, {own}, c.type <> 'delta' AND NOT ({own}),
    iif({own}, 0, c.message_count), iif({own}, 0, c.token_count)
  FROM ctx_commit c WHERE c.seq = ?1
  UNION ALL
  SELECT c.seq, c.parent, walk.passed OR ({is_passed}), c.type <> 'delta' AND NOT ({is_passed}),
    walk.messages + iif({is_passed}, 0, c.message_count), walk.tokens + iif({is_passed}, 0, c.token_count)
  FROM walk JOIN ctx_commit c ON c.seq = walk.parent WHERE NOT walk.is_end
    AND walk.tokens <= ?2 * iif(walk.passed, {_FURTHEST}, 1)
)
SELECT min(seq), max(messages), max(passed) AND max(is_end OR parent IS NULL) FROM walk
"""
    first, messages, is_found = conn.execute(sql, (seq, max_tokens, COMMANDER)).fetchone()
    return (first, messages) if is_found else None


def count_redacted(conn: sqlite3.Connection) -> int:
    """Return the number of redacted parts of commits."""
    sql = """
SELECT count(*) FROM blob WHERE place = 'redacted'
AND (id IN (SELECT blob_id FROM ctx_commit) OR id IN (SELECT blob_id FROM ctx_blob))
"""
    count: int = conn.execute(sql).fetchone()[0]
    return count


def find_common(conn: sqlite3.Connection, one: int, other: int) -> ContextCommit | None:
    """Return the newest common commit of two chains, or None."""
    sql = """
WITH RECURSIVE first(seq) AS (
  SELECT ?1 UNION ALL SELECT c.parent FROM first JOIN ctx_commit c ON c.seq = first.seq WHERE c.parent IS NOT NULL
), second(seq) AS (
  SELECT ?2 UNION ALL SELECT c.parent FROM second JOIN ctx_commit c ON c.seq = second.seq WHERE c.parent IS NOT NULL
)
SELECT max(seq) FROM first WHERE seq IN (SELECT seq FROM second)
"""
    seq = conn.execute(sql, (one, other)).fetchone()[0]
    return None if seq is None else read_commit(conn, seq)


def read_children(conn: sqlite3.Connection, seq: int) -> list[ContextCommit]:
    """Return the commits with this parent, oldest first."""
    return [_commit(row) for row in conn.execute(f"{_FROM} WHERE c.parent = ? ORDER BY c.seq", (seq,)).fetchall()]


def read_descendants(conn: sqlite3.Connection, seq: int) -> set[int]:
    """Return a commit and its descendants."""
    sql = """
WITH RECURSIVE walk(seq) AS (
  SELECT ?1 UNION ALL SELECT c.seq FROM walk JOIN ctx_commit c ON c.parent = walk.seq
)
SELECT seq FROM walk
"""
    return {row[0] for row in conn.execute(sql, (seq,)).fetchall()}


def read_newest(conn: sqlite3.Connection, limit: int, before: int = 0) -> list[ContextCommit]:
    """Return the newest commits of all chains, newest first. With `before` only those older than it."""
    sql = f"{_FROM} WHERE ?1 = 0 OR c.seq < ?1 ORDER BY c.seq DESC LIMIT ?2"
    return [_commit(row) for row in conn.execute(sql, (before, limit)).fetchall()]


def walk_newest(
    conn: sqlite3.Connection, tips: Iterable[int], limit: int = _LONGEST_WALK, *, after: int = 0
) -> list[ContextCommit]:
    """Return the newest of some commits and their ancestors, newest first.

    It reads as many rows as it returns, however long the chains are.

    Args:
        after: Only commits with a greater number.
    """
    rows = conn.execute(_NEWEST_REACHED, (json.dumps(list(tips)), after, limit)).fetchall()
    rows.sort(key=_SEQ, reverse=True)
    return [_commit(row) for row in rows]


def resolve_time(conn: sqlite3.Connection, principal: str, at: int) -> ContextCommit | None:
    """Return the newest commit of a principal at or before a time, µs UTC."""
    sql = f"{_FROM} WHERE c.principal = ? AND c.created_at <= ? ORDER BY c.created_at DESC, c.seq DESC LIMIT 1"
    row = conn.execute(sql, (principal, at)).fetchone()
    return None if row is None else _commit(row)


def read_ref(conn: sqlite3.Connection, name: str) -> int | None:
    """Return the commit of a ref, or None."""
    row = conn.execute("SELECT commit_seq FROM ctx_ref WHERE name = ?", (name,)).fetchone()
    return None if row is None else row[0]


def read_refs(conn: sqlite3.Connection, seqs: Iterable[int] | None = None) -> dict[str, int]:
    """Return all refs and their commits, by name; only those of some commits if given."""
    if seqs is None:
        return dict(conn.execute("SELECT name, commit_seq FROM ctx_ref ORDER BY name").fetchall())
    chosen = json.dumps(list(seqs))
    sql = "SELECT name, commit_seq FROM ctx_ref WHERE commit_seq IN (SELECT value FROM json_each(?)) ORDER BY name"
    return dict(conn.execute(sql, (chosen,)).fetchall())


def ref_at(conn: sqlite3.Connection, name: str, at: int) -> int | None:
    """Return the commit that a ref had at a time, µs UTC. None if it had none then."""
    row = conn.execute(
        "SELECT new FROM ctx_reflog WHERE name = ? AND created_at <= ? ORDER BY id DESC LIMIT 1", (name, at)
    ).fetchone()
    return None if row is None else row[0]


def read_reason(conn: sqlite3.Connection, name: str) -> str:
    """Return why a ref was moved last; "" where it never was."""
    row = conn.execute("SELECT reason FROM ctx_reflog WHERE name = ? ORDER BY id DESC LIMIT 1", (name,)).fetchone()
    return "" if row is None else str(row[0])


def read_template_name(conn: sqlite3.Connection, template_hash: bytes | None) -> str:
    """Return the name of the template with a hash. It is empty where none is stored."""
    row = conn.execute("SELECT name FROM template WHERE hash = ?", (template_hash,)).fetchone()
    return "" if row is None else str(row[0])


BLOB_IDS = """
SELECT c.blob_id FROM json_each(?1) j JOIN ctx_commit c ON c.seq = j.value
UNION SELECT l.blob_id FROM json_each(?1) j JOIN ctx_blob l ON l.commit_seq = j.value
"""
"""The blobs of the commits with these numbers (JSON)."""


def read_lifted(conn: sqlite3.Connection, seq: int) -> dict[bytes, int]:
    """Return the hashes and ids of the blobs that a commit's bytes refer to."""
    sql = "SELECT b.hash, b.id FROM ctx_blob l JOIN blob b ON b.id = l.blob_id WHERE l.commit_seq = ?"
    return dict(conn.execute(sql, (seq,)).fetchall())


def _read_tags(tags: str) -> tuple[str, ...]:
    return () if tags == "[]" else tuple(json.loads(tags))


@lru_cache(1024)
def _read_shared(packed: str) -> tuple[CommitType, str, Checkpoint, Provenance, tuple[str, ...], str]:
    """Return the values that the commits of a session share.

    They are type, format, checkpoint and provenance, and tags and model of the note.
    """
    kind, format_name, checkpoint, principal, machine, template, *work, tags, model = json.loads(packed)
    about = Provenance(principal, machine, bytes.fromhex(template) or None, *work)
    return CommitType(kind), format_name, Checkpoint(checkpoint), about, _read_tags(tags or "[]"), model or ""


def _commit(row: Any) -> ContextCommit:
    seq, digest, parent, packed, blob, messages, tokens, created_at, summary = row
    kind, format_name, checkpoint, about, tags, model = _read_shared(packed)
    # Without the call of the class, which costs as much as all the rest of a walk in Python.
    return tuple.__new__(
        ContextCommit,
        (
            seq,
            digest,
            parent,
            kind,
            blob,
            format_name,
            checkpoint,
            about,
            messages,
            tokens,
            created_at,
            tuple.__new__(CommitNote, (summary or "", tags, model)),
        ),
    )
