"""Which commits a mysis reaches: its own, those before them, and those of its threads."""

from __future__ import annotations

import sqlite3

from zoea.chain.commit import ContextCommit

_THREADS = """
SELECT thread_id FROM ctx_origin WHERE thread_id IS NOT NULL AND (mysis_id = :mysis OR (
  SELECT m.sender_id FROM delivery d JOIN message m ON m.id = d.message_id WHERE d.mysis_id = ctx_origin.mysis_id
  ORDER BY d.id LIMIT 1) = :mysis)
"""
"""The threads that a mysis answers in, and those that it began: their first message is its question."""
_REACHES = f"""
WITH RECURSIVE tip(seq) AS (
  SELECT r.commit_seq FROM ctx_ref r JOIN mysis y ON r.name = '@' || y.name WHERE y.id = :mysis
  UNION SELECT commit_seq FROM ctx_origin WHERE mysis_id = :mysis
  UNION SELECT seq FROM ctx_commit WHERE seq = :seq AND mysis_id = :mysis
  UNION SELECT r.commit_seq FROM ({_THREADS}) t JOIN ctx_ref r
    ON substr(r.name, 1, length(t.thread_id) + 8) = 'thread/' || t.thread_id || '/'
), walk(seq) AS (
  SELECT seq FROM tip WHERE seq >= :seq
  UNION SELECT c.parent FROM walk JOIN ctx_commit c ON c.seq = walk.seq WHERE c.parent >= :seq
)
SELECT EXISTS (SELECT 1 FROM walk WHERE seq = :seq)
"""


def has_reach(conn: sqlite3.Connection, mysis_id: int, commit: ContextCommit) -> bool:
    """Return whether a mysis made, inherited or discussed a commit."""
    return bool(conn.execute(_REACHES, {"mysis": mysis_id, "seq": commit.seq}).fetchone()[0])


def has_thread(conn: sqlite3.Connection, mysis_id: int, thread: str) -> bool:
    """Return whether a thread belongs to a mysis, or is new."""
    sql = f"SELECT :thread IN ({_THREADS}) OR NOT EXISTS (SELECT 1 FROM ctx_origin WHERE thread_id = :thread)"
    return bool(conn.execute(sql, {"mysis": mysis_id, "thread": thread}).fetchone()[0])


def answers_in(conn: sqlite3.Connection, mysis_id: int, thread: str) -> bool:
    """Return whether a mysis was made to answer in a thread."""
    sql = "SELECT 1 FROM ctx_origin WHERE mysis_id = ? AND thread_id = ?"
    return conn.execute(sql, (mysis_id, thread)).fetchone() is not None
