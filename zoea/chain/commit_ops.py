"""Writes commits, notes and refs, as parts of an op.

Blobs are hashed and compressed before the op (`prepare_blobs`); inside it they are only inserted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from zoea.chain.blob_policies import DAY_SECONDS, set_policy
from zoea.chain.commit import (
    Checkpoint,
    CommitIdentity,
    CommitNote,
    CommitType,
    ContextCommit,
    Provenance,
    commit_digest,
)
from zoea.chain.commit_rows import read_commit, read_ref
from zoea.model.errors import StoreConflict, UsageError
from zoea.store.blobs import PackedBlob, pack_blob, put_packed
from zoea.store.writer_connection import WriterConnection
from zoea.text.control_characters import clean

BY_HAND = "tag"
"""The reason of a ref's move that a person made."""
# The hash of the parent, the number of the newest commit, and the time of the principal's newest.
_BEFORE = """
SELECT (SELECT hash FROM ctx_commit WHERE seq = ?1),
  coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'ctx_commit'), 0),
  coalesce((SELECT max(created_at) FROM ctx_commit WHERE principal = ?2), 0)
"""


class NewCommit(Struct, frozen=True):
    """A commit that is to be stored, with its blobs ready.

    Attributes:
        parent: The commit before it; None for the first of a chain.
        lifted: Blobs that the blob refers to.
        media: Hashes of blobs that it refers to and that are stored already.
        memories: First and last memory id that it covers, if it covers stored ones.
        days: After so many days its bytes are let go; 0 for never.
        at: When it was made elsewhere, µs UTC; 0 for now.
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
    media: tuple[bytes, ...] = ()
    days: float = 0.0
    at: int = 0


def prepare_blobs(data: bytes, lifted: Mapping[bytes, bytes]) -> tuple[PackedBlob, tuple[PackedBlob, ...]]:
    """Hash and compress the bytes of a commit; for use in a thread."""
    return pack_blob(data), tuple(pack_blob(one) for one in lifted.values())


def insert_commit(conn: WriterConnection, new: NewCommit) -> ContextCommit:
    """Store a commit with its blobs and its first note.

    Raises:
        StoreConflict: There is no such parent.
        StoreFull: A blob cannot be written.
    """
    about = new.provenance
    parent, last, newest = conn.execute(_BEFORE, (new.parent, about.principal)).fetchone()
    if new.parent is not None and parent is None:
        raise StoreConflict(f"there is no context commit {new.parent} to be a parent")
    blob_id = put_packed(conn, new.blob)
    seq = last + 1  # numbers of removed commits are not used again
    created_at = min(new.at, conn.now()) or max(conn.now(), newest)
    digest = commit_digest(
        parent=parent,
        blob=new.blob.digest,
        principal=about.principal,
        identity=CommitIdentity(seq, about.template_hash, about.session_id),
        created_at=created_at,
    )
    stored = ContextCommit(
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
    _insert_row(conn, stored, blob_id, new.memories)
    lifted = {put_packed(conn, one) for one in new.lifted}
    for one in new.media:
        lifted.update(row[0] for row in conn.execute("SELECT id FROM blob WHERE hash = ?", (one,)))
    if lifted:
        conn.executemany("INSERT INTO ctx_blob VALUES (?, ?)", [(seq, one) for one in sorted(lifted)])
    add_note(conn, seq, new.note)
    if new.days:
        set_policy(conn, (seq,), "ephemeral", new.days * DAY_SECONDS)
    return stored


def insert_imported(
    conn: WriterConnection, commit: ContextCommit, identity: CommitIdentity, lifted: Iterable[bytes]
) -> int:
    """Store a commit of another database under its own id, with the next number. Return that.

    Its blobs are there already. It has a template only where the same one is stored here.
    """
    last = conn.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'ctx_commit'").fetchone()[0]
    template = conn.execute("SELECT hash FROM template WHERE hash = ?", (identity.template_hash,)).fetchone()
    about = replace(commit.provenance, template_hash=None if template is None else template[0])
    stored = commit._replace(seq=last + 1, provenance=about)
    (blob_id,) = conn.execute("SELECT id FROM blob WHERE hash = ?", (commit.blob,)).fetchone()
    _insert_row(conn, stored, blob_id, None)
    conn.execute(
        "INSERT INTO ctx_import VALUES (?, ?, ?, ?, ?)",
        (stored.seq, identity.seq, identity.session_id, identity.template_hash, conn.now()),
    )
    conn.executemany(
        "INSERT INTO ctx_blob SELECT ?, id FROM blob WHERE hash = ?", [(stored.seq, one) for one in sorted(set(lifted))]
    )
    add_note(conn, stored.seq, commit.note)
    return stored.seq


def _insert_row(conn: WriterConnection, commit: ContextCommit, blob_id: int, memories: tuple[int, int] | None) -> None:
    about = commit.provenance
    conn.execute(
        "INSERT INTO ctx_commit VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            commit.seq,
            commit.digest,
            commit.parent,
            commit.kind.value,
            blob_id,
            commit.format,
            about.template_hash,
            about.principal,
            about.mysis_id,
            about.machine,
            about.session_id,
            commit.checkpoint.value,
            about.ticket_id,
            about.thread_id,
            *(memories or (None, None)),
            commit.message_count,
            commit.token_count,
            commit.created_at,
        ),
    )


def append_commit(conn: WriterConnection, ref: str, new: NewCommit, reason: str) -> ContextCommit:
    """Store a commit after the tip of a ref, and move the ref. Without the ref it begins a chain."""
    tip = read_ref(conn, ref)
    stored = insert_commit(conn, new if tip is None else replace(new, parent=tip))
    _set_ref(conn, ref, tip, stored.seq, reason)
    return stored


def add_note(conn: WriterConnection, seq: int, note: CommitNote) -> None:
    """Store a summary and tags, which count instead of the earlier ones."""
    tags = json.dumps(sorted(set(note.tags)), ensure_ascii=False) if note.tags else "[]"
    conn.execute(
        "INSERT INTO ctx_note(commit_seq, summary, tags, model, created_at) VALUES (?, ?, ?, ?, ?)",
        (seq, note.summary, tags, note.model, conn.now()),
    )


def update_note(
    conn: WriterConnection, seq: int, *, summary: str | None = None, tags: Iterable[str] | None = None, model: str = ""
) -> CommitNote:
    """Change the summary or tags of a commit.

    The earlier ones stay as its history.

    Args:
        model: The model that wrote the summary; empty for a person or Zoea.

    Raises:
        StoreConflict: There is no such commit.
        UsageError: The summary is empty.
    """
    if summary is not None and not summary.strip():
        raise UsageError("a summary cannot be empty", hint="Give its text, or leave it out to keep the present one.")
    commit = read_commit(conn, seq)
    if commit is None:
        raise StoreConflict(f"there is no context commit {seq} to be annotated")
    old = commit.note
    new = CommitNote(
        old.summary if summary is None else clean(summary),
        old.tags if tags is None else tuple(sorted({clean(one) for one in tags})),
        old.model if summary is None else clean(model),
    )
    if new != old:
        add_note(conn, seq, new)
    return new


def move_ref(conn: WriterConnection, name: str, seq: int, reason: str) -> None:
    """Set a ref to a commit, and note where it was in the reflog."""
    _set_ref(conn, name, read_ref(conn, name), seq, reason)


def _set_ref(conn: WriterConnection, name: str, old: int | None, seq: int, reason: str) -> None:
    conn.execute(
        "INSERT INTO ctx_ref VALUES (?, ?, ?)"
        " ON CONFLICT(name) DO UPDATE SET commit_seq = excluded.commit_seq, updated_at = excluded.updated_at",
        (name, seq, conn.now()),
    )
    _log_move(conn, name, old, seq, reason)


def rename_ref(conn: WriterConnection, old: str, new: str, reason: str) -> bool:
    """Rename a ref together with its reflog. False if there is none."""
    tip = read_ref(conn, old)
    if tip is None:
        return False
    conn.execute("UPDATE ctx_ref SET name = ?, updated_at = ? WHERE name = ?", (new, conn.now(), old))
    conn.execute("UPDATE ctx_reflog SET name = ? WHERE name = ?", (new, old))
    _log_move(conn, new, tip, tip, reason)
    return True


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
