"""Commits of myses, written in the op of their contents or from stored memories afterwards."""

from __future__ import annotations

import json
import logging
import sqlite3

from msgspec import Struct

from zoea.chain.commit import Checkpoint, ContextCommit
from zoea.chain.commit_ops import BY_HAND, NewCommit, append_commit, move_ref, rename_ref
from zoea.chain.commit_rows import read_commit, read_reason, read_ref, read_template_name
from zoea.chain.entries import ContextMedia
from zoea.chain.ref_names import branch_ref, deleted_ref, thread_ref, ticket_ref
from zoea.context import Note
from zoea.model.enums import OpenedBy
from zoea.model.errors import ZoeaError
from zoea.model.values import Mysis
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.memory_entries import PlacedEntry, build_entry, build_notes, build_nudge
from zoea.swarm.persistence import row_values

_log = logging.getLogger(__name__)

_COMMITTED = """
SELECT last_memory_id FROM ctx_commit WHERE principal = :name AND mysis_id = :mysis AND last_memory_id IS NOT NULL
ORDER BY created_at DESC, seq DESC LIMIT 1
"""
ORIGIN = f"""
SELECT coalesce(({_COMMITTED}), 0) AS committed, coalesce((SELECT max(id) FROM memory WHERE mysis_id = :mysis), 0) AS
  newest, (SELECT ticket_id FROM ctx_origin WHERE mysis_id = :mysis) AS ticket_id,
  (SELECT thread_id FROM ctx_origin WHERE mysis_id = :mysis) AS thread_id,
  coalesce((SELECT commit_seq FROM ctx_origin WHERE mysis_id = :mysis AND fresh_at IS NULL), 0) AS inherited,
  EXISTS (SELECT 1 FROM ctx_origin WHERE mysis_id = :mysis AND fresh_at >= coalesce((SELECT max(created_at)
    FROM ctx_commit WHERE principal = :name AND mysis_id = :mysis), 0)) AS is_fresh,
  coalesce((SELECT after_memory FROM ctx_origin WHERE mysis_id = :mysis), 0) AS upto,
  coalesce((SELECT after_turn FROM ctx_origin WHERE mysis_id = :mysis), 0) AS turn,
  coalesce((SELECT max(id) FROM session WHERE mysis_id = :mysis), 0) AS session_id
"""
"""What a mysis committed last and has stored, and for what it works."""
LEFT = """
SELECT y.id FROM mysis y JOIN ctx_ref r ON r.name = '@' || y.name
WHERE y.deleted_at IS NULL
AND (SELECT max(id) FROM memory WHERE mysis_id = y.id) > coalesce((SELECT last_memory_id FROM ctx_commit
  WHERE principal = y.name AND mysis_id = y.id AND last_memory_id IS NOT NULL
  ORDER BY created_at DESC, seq DESC LIMIT 1), 0)
"""
"""The myses that have committed before, and with memories that the process before did not commit.

That a session ended in order says nothing: its last turn may have gone on after it.
"""
MADE_BY = """
SELECT (SELECT body FROM template WHERE hash = ?1), (SELECT provider FROM mysis WHERE id = ?2),
  (SELECT model FROM mysis WHERE id = ?2), (SELECT name FROM mysis WHERE id = ?2)
"""
"""The template of a commit, and the provider, model and name of the mysis that made it."""
NEWEST_TURN = "SELECT frozen FROM turn WHERE mysis_id = ? ORDER BY id DESC LIMIT 1"
_TURN_OF = """
SELECT coalesce((SELECT t.number FROM memory m JOIN turn t ON t.id = m.turn_id WHERE m.id = ?1),
  (SELECT max(number) FROM turn WHERE mysis_id = ?2 AND ?1 > 0), 0)
"""
IN_THREAD = """
SELECT o.mysis_id FROM ctx_origin o JOIN mysis y ON y.id = o.mysis_id JOIN template p ON p.hash = y.template_hash
WHERE o.thread_id = ? AND p.name = ? AND y.deleted_at IS NULL ORDER BY y.id DESC LIMIT 1
"""
"""The mysis that answers in a thread, by the thread and the name of its template."""
_TAIL = f"{row_values.MEMORY} WHERE m.mysis_id = ? AND m.id > ? AND m.id <= ? ORDER BY m.id LIMIT ?"
_POSITIONS = """
SELECT id, position FROM tool_call WHERE result_memory_id IN (SELECT value FROM json_each(?))
"""
_NEWEST_CALLS = """
SELECT id, position, name FROM tool_call WHERE memory_id =
  (SELECT id FROM memory WHERE mysis_id = ? AND role = 'assistant' ORDER BY id DESC LIMIT 1)
"""
_MEDIA = """
SELECT x.memory_id, b.hash, x.media_type, x.note FROM memory_blob x JOIN blob b ON b.id = x.blob_id
WHERE x.memory_id IN (SELECT value FROM json_each(?)) ORDER BY x.memory_id, x.position
"""
_NUDGES = """
SELECT number, opened_at, frozen ->> '$.nudge_text' AS text FROM turn
WHERE opened_by = ? AND id IN (SELECT value FROM json_each(?))
"""
_NOTES = """
SELECT t.number, n.after_seq, n.kind, n.content, t.opened_at FROM turn_note n JOIN turn t ON t.id = n.turn_id
WHERE n.turn_id IN (SELECT value FROM json_each(?))
"""


class StoredTail(Struct, frozen=True):
    """Entries of uncommitted memories in conversation order, with first and last memory id."""

    entries: tuple[PlacedEntry, ...]
    first: int
    last: int


def record_commit(conn: WriterConnection, name: str, new: NewCommit) -> ContextCommit | None:
    """Store a commit on the branch of a mysis; None where that failed.

    A failure is logged and leaves the op as it was: the next commit holds the same messages too.
    """
    conn.execute("SAVEPOINT capture")
    try:
        stored = append_commit(conn, branch_ref(name), new, new.checkpoint.value)
        if (thread_id := new.provenance.thread_id) is not None:
            template = read_template_name(conn, new.provenance.template_hash)
            move_ref(conn, thread_ref(thread_id, template), stored.seq, new.checkpoint.value)
        if new.provenance.ticket_id is not None:
            ticket = ticket_ref(new.provenance.ticket_id)
            if read_reason(conn, ticket) != BY_HAND:  # where a person put it, it stays
                move_ref(conn, ticket, stored.seq, new.checkpoint.value)
    except (ZoeaError, sqlite3.Error) as error:
        if not conn.in_transaction:
            raise  # SQLite gave up the whole op, which the writer reports or runs again
        conn.execute("ROLLBACK TO capture")
        conn.execute("RELEASE capture")
        _log.warning("a commit of mysis #%s was not stored: %s", new.provenance.mysis_id, error)
        return None
    conn.execute("RELEASE capture")
    if new.checkpoint is Checkpoint.SESSION_END:
        # A session that was stopped during a turn ends with the turn.
        session_id = new.provenance.session_id
        conn.execute("UPDATE ctx_session SET end_commit = ? WHERE session_id = ?", (stored.seq, session_id))
        conn.execute("UPDATE session SET ended_at = ? WHERE id = ? AND ended_at IS NOT NULL", (conn.now(), session_id))
    return stored


class Work(Struct, frozen=True):
    """The purpose that commits name for the work of a mysis; None without one.

    Attributes:
        moves_ticket: The ticket names its commits from now on, also where a person put the name elsewhere.
    """

    ticket_id: str | None = None
    thread_id: str | None = None
    moves_ticket: bool = False


def record_compaction(conn: WriterConnection, name: str, new: NewCommit, summary_id: int) -> None:
    """Store the commit of a summary, and which row of `summary` it holds. 0 for none."""
    stored = record_commit(conn, name, new)
    if stored is not None and summary_id:
        conn.execute("INSERT INTO ctx_compaction VALUES (?, ?)", (stored.seq, summary_id))


def is_tip(conn: WriterConnection, name: str, seq: int) -> bool:
    """Return whether the branch of a mysis ends with a commit."""
    return read_ref(conn, branch_ref(name)) == seq


def begin_branch(conn: WriterConnection, mysis: Mysis, seq: int, work: Work) -> None:
    """Begin the branch of a new mysis, and that of its thread, at a commit."""
    sql = (
        "INSERT INTO ctx_origin(mysis_id, commit_seq, ticket_id, thread_id, created_at, birth_seq)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?2)"
    )
    conn.execute(sql, (mysis.id, seq, work.ticket_id, work.thread_id, conn.now()))
    move_ref(conn, branch_ref(mysis.name), seq, "fork" if work.thread_id is None else "ask")
    if work.thread_id is not None:
        move_ref(conn, thread_ref(work.thread_id, mysis.template), seq, "ask")
    if work.ticket_id is not None and work.moves_ticket:
        move_ref(conn, ticket_ref(work.ticket_id), seq, "ask")


def begin_again(conn: WriterConnection, mysis: Mysis) -> bool:
    """Let the next session of a mysis begin with what its own branch holds. False where it holds nothing.

    Its memories up to the newest commit are then shown as the commit tells them, and by nothing else.
    """
    name = branch_ref(mysis.name)
    tip = read_ref(conn, name)
    if tip is None:
        return False
    about = {"name": mysis.name, "mysis": mysis.id}
    committed = conn.execute(f"SELECT coalesce(({_COMMITTED}), 0)", about).fetchone()[0]
    number = conn.execute(_TURN_OF, (committed, mysis.id)).fetchone()[0]
    conn.execute(
        "INSERT INTO ctx_origin(mysis_id, commit_seq, created_at, after_memory, after_turn) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT(mysis_id) DO UPDATE SET commit_seq = excluded.commit_seq, created_at = excluded.created_at,"
        " after_memory = excluded.after_memory, after_turn = excluded.after_turn, fresh_at = NULL",
        (mysis.id, tip, conn.now(), committed, number),
    )
    move_ref(conn, name, tip, "resume")
    return True


def begin_fresh(conn: WriterConnection, mysis_id: int, seq: int, birth: int | None = None) -> None:
    """Note that a mysis begins without the unreadable conversation up to a commit.

    Args:
        birth: The commit, where the mysis was made from it.
    """
    conn.execute(
        "INSERT INTO ctx_origin(mysis_id, commit_seq, created_at, birth_seq, fresh_at) VALUES (?1, ?2, ?3, ?4, ?3)"
        " ON CONFLICT(mysis_id) DO UPDATE SET commit_seq = excluded.commit_seq, fresh_at = excluded.fresh_at,"
        " after_memory = 0, after_turn = 0",
        (mysis_id, seq, conn.now(), birth),
    )


def find_thread(
    conn: sqlite3.Connection, commit: ContextCommit, thread_id: str, default_template: str
) -> tuple[str, ContextCommit]:
    """Return a discussion's branch and newest commit. At first that is the commit itself."""
    ref = thread_ref(thread_id, read_template_name(conn, commit.provenance.template_hash) or default_template)
    tip = read_ref(conn, ref)
    return ref, commit if tip is None else read_commit(conn, tip) or commit


def archive_branch(conn: WriterConnection, mysis_id: int, name: str) -> None:
    """Rename the branch of a deleted mysis, so that its name is free."""
    rename_ref(conn, branch_ref(name), deleted_ref(name, mysis_id), "deleted")


def restore_branch(conn: WriterConnection, mysis_id: int, name: str) -> None:
    """Undo `archive_branch`."""
    rename_ref(conn, deleted_ref(name, mysis_id), branch_ref(name), "undeleted")


def branches_of(conn: sqlite3.Connection, mysis_id: int) -> list[str]:
    """Return the refs of a mysis that was deleted."""
    (name,) = conn.execute("SELECT name FROM mysis WHERE id = ?", (mysis_id,)).fetchone()
    return [deleted_ref(name, mysis_id)]


def read_state(
    conn: WriterConnection, name: str, mysis_id: int, most: int
) -> tuple[StoredTail, list[tuple[int, int, str]]]:
    """Read uncommitted entries and the calls of the newest answer, in an op. Each call is its id, position and tool."""
    origin = conn.execute(ORIGIN, {"name": name, "mysis": mysis_id}).fetchone()
    tail = read_tail(conn, mysis_id, origin["committed"], origin["newest"], most)
    return tail, list(map(tuple, conn.execute(_NEWEST_CALLS, (mysis_id,)).fetchall()))


def read_tail(conn: sqlite3.Connection, mysis_id: int, after: int, upto: int, most: int) -> StoredTail:
    """Read the oldest memories after an id as entries, with the notes between them."""
    memories = [row_values.memory(row) for row in conn.execute(_TAIL, (mysis_id, after, upto, most))]
    if not memories:
        return StoredTail((), after, after)
    ids = json.dumps([memory.id for memory in memories])
    positions = dict(map(tuple, conn.execute(_POSITIONS, (ids,)).fetchall()))
    media: dict[int, tuple[ContextMedia, ...]] = {}
    for memory_id, digest, media_type, note in map(tuple, conn.execute(_MEDIA, (ids,)).fetchall()):
        media[memory_id] = (*media.get(memory_id, ()), ContextMedia(digest, media_type, note))
    entries = [build_entry(memory, positions, media.get(memory.id, ())) for memory in memories]
    begins = {one.turn_number: min(m.seq for m in memories if m.turn_number == one.turn_number) for one in memories}
    turns = json.dumps(sorted({memory.turn_id for memory in memories}))
    for number, after_seq, kind, content, at in map(tuple, conn.execute(_NOTES, (turns,)).fetchall()):
        if after_seq >= begins[number] - 1:
            entries += build_notes(number, [Note(after_seq, kind, content)], at)
    for number, at, text in map(tuple, conn.execute(_NUDGES, (OpenedBy.NUDGE, turns)).fetchall()):
        if text and begins[number] == 1:
            entries.append(build_nudge(number, text, at))
    entries.sort(key=lambda one: one.place)
    return StoredTail(tuple(entries), memories[0].id, memories[-1].id)


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
