"""Write commits, notes and refs, as parts of an op.

Blobs are hashed and compressed before the op (`prepare_blobs`); inside it they are only inserted.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field

from zoea.chain.commit import Checkpoint, CommitNote, CommitType, ContextCommit, Provenance, commit_digest
from zoea.chain.commit_rows import newest_time, read_commit, read_ref
from zoea.model.errors import StoreConflict
from zoea.store import WriterConnection
from zoea.store.blobs import PackedBlob, pack_blob, put_packed


@dataclass(frozen=True, slots=True)
class NewCommit:
    """A commit that is to be stored, with its blobs ready.

    Attributes:
        parent: The commit before it; None for the first of a chain.
        lifted: Blobs that the blob refers to.
        memories: First and last memory id that it covers, if it covers stored ones.
    """

    parent: int | None
    kind: CommitType
    format: str
    blob: PackedBlob
    lifted: tuple[PackedBlob, ...]
    checkpoint: Checkpoint
    provenance: Provenance
    message_count: int
    token_count: int
    note: CommitNote = field(default_factory=CommitNote)
    memories: tuple[int, int] | None = None


def prepare_blobs(data: bytes, lifted: Mapping[bytes, bytes]) -> tuple[PackedBlob, tuple[PackedBlob, ...]]:
    """Hash and compress the bytes of a commit; for use in a thread."""
    return pack_blob(data), tuple(pack_blob(one) for one in lifted.values())


def insert_commit(conn: WriterConnection, new: NewCommit) -> ContextCommit:
    """Store a commit with its blobs and its first note.

    Raises:
        StoreConflict: There is no such parent.
        StoreFull: A blob cannot be written.
    """
    parent = None if new.parent is None else read_commit(conn, new.parent)
    if new.parent is not None and parent is None:
        raise StoreConflict(f"there is no context commit {new.parent} to be a parent")
    blob_id = put_packed(conn, new.blob)
    seq = _next_seq(conn)
    created_at = max(conn.now(), newest_time(conn, new.provenance.principal))
    about = new.provenance
    digest = commit_digest(
        parent=None if parent is None else parent.digest,
        blob=new.blob.digest,
        provenance=about,
        seq=seq,
        created_at=created_at,
    )
    first, last = new.memories or (None, None)
    conn.execute(
        "INSERT INTO ctx_commit VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            seq,
            digest,
            new.parent,
            new.kind.value,
            blob_id,
            new.format,
            about.template_hash,
            about.principal,
            about.mysis_id,
            about.machine,
            about.session_id,
            new.checkpoint.value,
            about.ticket_id,
            about.thread_id,
            first,
            last,
            new.message_count,
            new.token_count,
            created_at,
        ),
    )
    lifted = {put_packed(conn, one) for one in new.lifted}
    conn.executemany("INSERT INTO ctx_blob VALUES (?, ?)", [(seq, one) for one in sorted(lifted)])
    add_note(conn, seq, new.note)
    return ContextCommit(
        seq,
        digest,
        new.parent,
        new.kind,
        new.blob.digest,
        new.format,
        new.checkpoint,
        about,
        new.message_count,
        new.token_count,
        created_at,
        new.note,
    )


def add_note(conn: WriterConnection, seq: int, note: CommitNote) -> None:
    """Store a summary and tags, which count instead of the earlier ones."""
    tags = json.dumps(sorted(set(note.tags)), ensure_ascii=False)
    conn.execute(
        "INSERT INTO ctx_note(commit_seq, summary, tags, model, created_at) VALUES (?, ?, ?, ?, ?)",
        (seq, note.summary, tags, note.model, conn.now()),
    )


def move_ref(conn: WriterConnection, name: str, seq: int, reason: str) -> None:
    """Set a ref to a commit, and note where it was in the reflog."""
    old = read_ref(conn, name)
    conn.execute(
        "INSERT INTO ctx_ref VALUES (?, ?, ?)"
        " ON CONFLICT(name) DO UPDATE SET commit_seq = excluded.commit_seq, updated_at = excluded.updated_at",
        (name, seq, conn.now()),
    )
    _log_move(conn, name, old, seq, reason)


def delete_ref(conn: WriterConnection, name: str, reason: str) -> bool:
    """Remove a ref; its commits stay until they are collected. False if there is none."""
    old = read_ref(conn, name)
    if old is None:
        return False
    conn.execute("DELETE FROM ctx_ref WHERE name = ?", (name,))
    _log_move(conn, name, old, None, reason)
    return True


def _log_move(conn: WriterConnection, name: str, old: int | None, new: int | None, reason: str) -> None:
    conn.execute(
        "INSERT INTO ctx_reflog(name, old, new, reason, created_at) VALUES (?, ?, ?, ?, ?)",
        (name, old, new, reason, conn.now()),
    )


def _next_seq(conn: sqlite3.Connection) -> int:
    """Return the sequence number that the next commit gets; numbers of removed commits are not used again."""
    row = conn.execute("SELECT seq FROM sqlite_sequence WHERE name = 'ctx_commit'").fetchone()
    return (row[0] if row is not None else 0) + 1
