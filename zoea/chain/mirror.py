"""Copies the blobs of commits to a second folder, such as on another disk.

The folder has the layout of the files beside the database: `blobs/ab/abcd….zst`. It has to exist,
because a disk that is not mounted must not become an empty folder.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from zoea.chain.commit_rows import BLOB_IDS
from zoea.model.errors import StoreError, StoreFull
from zoea.store.blobs import (
    PackedBlob,
    blob_directory,
    blob_path,
    has_any_text,
    list_blob_files,
    read_blob_file,
    remove_blob_file,
    restore_blob,
    unpack_blob,
    write_blob_file,
)
from zoea.store.writer_connection import WriterConnection

SETTING = "chain.mirror"
"""The key under which the database knows the folder, so that readers find it."""
_OF_COMMITS = """
SELECT b.id, b.hash, b.place, b.data, b.size FROM blob b WHERE b.place <> 'redacted' AND (
  b.id IN (SELECT blob_id FROM ctx_commit WHERE seq > :after)
  OR b.id IN (SELECT blob_id FROM ctx_blob WHERE commit_seq > :after)) AND (:all OR b.released_at IS NULL) ORDER BY b.id
"""


class FetchedBlobs(Struct, frozen=True):
    """The number of blobs that came back, and the hashes of those that did not."""

    restored: int
    missing: tuple[str, ...]


def remember_mirror(conn: WriterConnection, folder: Path | None) -> None:
    """Store where the mirror is; None for no mirror. For use in an op."""
    conn.execute("DELETE FROM setting WHERE key = ?", (SETTING,))
    if folder is not None:
        conn.execute("INSERT INTO setting VALUES (?, ?, ?)", (SETTING, json.dumps(str(folder)), conn.now()))


def find_mirror(conn: sqlite3.Connection) -> Path | None:
    """Return the folder that was stored last, or None."""
    row = conn.execute("SELECT value FROM setting WHERE key = ?", (SETTING,)).fetchone()
    return None if row is None else Path(json.loads(row[0]))


def copy_blobs(conn: sqlite3.Connection, folder: Path, after: int) -> tuple[int, int]:
    """Copy the blobs of commits after a number that the mirror does not have.

    Returns:
        The number of the newest commit, and how many blobs were copied. A damaged blob is left out.

    Raises:
        StoreFull: The folder is not there, or cannot be written.
    """
    _require(folder)
    newest: int = conn.execute("SELECT coalesce(max(seq), 0) FROM ctx_commit").fetchone()[0]
    if newest <= after:
        return after, 0
    own, copied = blob_directory(conn), 0
    for blob_id, digest, place, data, size in map(tuple, conn.execute(_OF_COMMITS, {"after": after, "all": False})):
        target = blob_path(folder, digest)
        if target.exists():
            continue
        with suppress(StoreError, OSError):  # damaged here: `zoea ctx fsck` says so
            unpack_blob(own, blob_id, [(digest, place, data, size)])
            packed = data if data is not None else read_blob_file(blob_path(own, digest), size)
            write_blob_file(target, packed)
            copied += 1
    return newest, copied


def read_mirrored(folder: Path, digest: bytes, size: int) -> bytes:
    """Return the bytes of a blob from the mirror. Raises StoreError where it is missing or damaged there."""
    return unpack_blob(folder, 0, [(digest, "file", None, size)])


def fetch_blobs(conn: WriterConnection, folder: Path, seqs: Iterable[int] | None = None) -> FetchedBlobs:
    """Write missing or damaged blobs of commits again from the mirror. For use in an op.

    Args:
        seqs: Only of these commits, also what was let go of them on purpose.

    Raises:
        StoreFull: The folder is not there.
    """
    _require(folder)
    own, restored, missing = blob_directory(conn), 0, list[str]()
    wanted = None if seqs is None else {row[0] for row in conn.execute(BLOB_IDS, (json.dumps(list(seqs)),))}
    for blob_id, digest, place, data, size in map(
        tuple, conn.execute(_OF_COMMITS, {"after": 0, "all": wanted is not None}).fetchall()
    ):
        if wanted is not None and blob_id not in wanted:
            continue
        with suppress(StoreError):
            unpack_blob(own, blob_id, [(digest, place, data, size)])
            continue
        try:
            read_mirrored(folder, digest, size)
        except StoreError:
            missing.append(digest.hex())
            continue
        restored += restore_blob(conn, PackedBlob(digest, size, read_blob_file(blob_path(folder, digest), size)))
    return FetchedBlobs(restored, tuple(missing))


def stored_digests(conn: sqlite3.Connection) -> frozenset[bytes]:
    """Return the hashes of all blobs with bytes, to see which an op removes."""
    return frozenset(row[0] for row in conn.execute("SELECT hash FROM blob WHERE place <> 'redacted'"))


def find_mirrored(folder: Path, forms: Iterable[bytes]) -> frozenset[bytes]:
    """Return the hashes of mirrored blobs that hold one of these byte strings. The database may know them or not."""
    hashes, forms = set[bytes](), list(forms)
    for file in list_blob_files(folder, "*.zst"):
        with suppress(OSError, ValueError):  # damaged, or its name is no hash, so that no one can read it
            if has_any_text(file, forms):
                hashes.add(bytes.fromhex(file.stem))
    return frozenset(hashes)


def forget_mirrored(folder: Path, digests: Iterable[bytes]) -> int:
    """Delete blobs from the mirror; return how many were there."""
    count = 0
    for digest in digests:
        file = blob_path(folder, digest)
        count += file.exists()
        remove_blob_file(file)
    return count


def _require(folder: Path) -> None:
    if not folder.is_dir():
        raise StoreFull(
            f"the mirror {folder} is not there", hint="Mount its disk, make the folder, or change chain.mirror."
        )
