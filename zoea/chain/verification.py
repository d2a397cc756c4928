"""Checks the id, the bytes and the blobs of every commit."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from msgspec import Struct

from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit import ContextCommit, commit_digest
from zoea.chain.commit_rows import read_commit, read_identity, read_lifted, read_refs
from zoea.chain.entries import lifted_hashes
from zoea.chain.formats import ZOEA, known_formats
from zoea.model.errors import ContextFormatError, MissingBlob


class ChainDefect(Struct, frozen=True):
    """A defect of a commit, with the blob if it concerns one."""

    commit: str
    blob: str
    what: str


def verify_chains(conn: sqlite3.Connection) -> Iterator[ChainDefect]:
    """Yield the defects of all commits in order, then refs without a commit."""
    for (seq,) in conn.execute("SELECT seq FROM ctx_commit ORDER BY seq").fetchall():
        commit = read_commit(conn, seq)
        if commit is None:
            row = conn.execute("SELECT hash, blob_id FROM ctx_commit WHERE seq = ?", (seq,)).fetchone()
            yield ChainDefect(f"ctx-{row[0].hex()}", "", f"its blob, row {row[1]}, is not there")
        else:
            yield from _verify(conn, commit)
    for name, seq in read_refs(conn).items():
        if read_commit(conn, seq) is None:
            yield ChainDefect(name, "", "the ref names a commit that is not there")


def _verify(conn: sqlite3.Connection, commit: ContextCommit) -> Iterator[ChainDefect]:
    parent = None
    if commit.parent is not None:
        row = conn.execute("SELECT hash FROM ctx_commit WHERE seq = ?", (commit.parent,)).fetchone()
        parent = None if row is None else row[0]
        if row is None:
            yield ChainDefect(commit.id, "", f"its parent, row {commit.parent}, is not there")
    digest = commit_digest(
        parent=parent,
        blob=commit.blob,
        principal=commit.provenance.principal,
        identity=read_identity(conn, commit),
        created_at=commit.created_at,
    )
    if digest != commit.digest:
        yield ChainDefect(commit.id, "", "its id does not follow from its parent, blob, origin and time")
    reader = ChainReader(conn, uses_mirror=False)
    if reader.is_released(commit.blob):
        return  # its text was removed on purpose; its id still follows from it
    try:
        data = reader.read_bytes(commit)
    except MissingBlob as error:
        yield ChainDefect(commit.id, commit.blob.hex(), error.what)
        return
    if not reader.is_redacted(commit.blob):  # else what stands instead has no hash in the id
        yield from _verify_texts(conn, commit, data, reader)


def _verify_texts(
    conn: sqlite3.Connection, commit: ContextCommit, data: bytes, reader: ChainReader
) -> Iterator[ChainDefect]:
    recorded = set(read_lifted(conn, commit.seq))
    try:
        needed = lifted_hashes(data) if commit.format == ZOEA else frozenset[bytes]()
    except ContextFormatError as error:
        yield ChainDefect(commit.id, commit.blob.hex(), error.what)
        return
    is_whole = True
    for digest in sorted(needed | recorded):
        if digest not in recorded:
            yield ChainDefect(commit.id, digest.hex(), "the commit needs it, and no row protects it from collection")
        if reader.is_released(digest):
            is_whole = False
            continue
        try:
            reader.fetch(digest)
        except MissingBlob as error:
            yield ChainDefect(commit.id, digest.hex(), error.what)
    own_format = known_formats().get(commit.format)
    if own_format is None or not is_whole:
        return  # shown and kept, but not understood
    try:
        own_format.read(data, reader.fetch)
    except MissingBlob:
        pass  # reported above, with its hash
    except ContextFormatError as error:
        yield ChainDefect(commit.id, commit.blob.hex(), error.what)
