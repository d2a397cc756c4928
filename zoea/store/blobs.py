"""Store bytes once, by content: images, long requests, parts of commits.

A blob is identified by its BLAKE3 hash and compressed with zstd. Up to 1 MiB it is kept in its row,
else in a file beside the database (`blobs/ab/abcd….zst`), which is synced before the row is written.
A file left by a rolled-back op is unused and harmless.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import zstandard
from blake3 import blake3
from msgspec import Struct

from zoea.model.errors import StoreError, StoreFull
from zoea.settings.private_file import describe_failure, open_private
from zoea.settings.small_file import open_regular
from zoea.store.sqlite_errors import FREE_SPACE

_THREAD = threading.local()
"""Holds a compressor and a decompressor for each thread, because making one costs more than a short text."""
ROW_BYTES = 1024 * 1024
FOLDER = "blobs"
MAX_BLOB_BYTES = 1024**3
"""The longest blob, as of a value of SQLite. What a file announces above it is no blob of Zoea's."""
_CHUNK_BYTES = 1024 * 1024
_HEAD_BYTES = 64
SELECT = "SELECT hash, place, data, size FROM blob WHERE id = ?"


class PackedBlob(Struct, frozen=True):
    """Bytes ready to be stored: their BLAKE3 hash, length, and compressed form."""

    digest: bytes
    size: int
    packed: bytes


def pack_blob(data: bytes) -> PackedBlob:
    """Hash and compress bytes; costly for large ones, so before an op where possible."""
    compressor: zstandard.ZstdCompressor | None = getattr(_THREAD, "compressor", None)
    if compressor is None:
        compressor = _THREAD.compressor = zstandard.ZstdCompressor()
    return PackedBlob(blake3(data).digest(), len(data), compressor.compress(data))


def _decompressor() -> zstandard.ZstdDecompressor:
    decompressor: zstandard.ZstdDecompressor | None = getattr(_THREAD, "decompressor", None)
    if decompressor is None:
        decompressor = _THREAD.decompressor = zstandard.ZstdDecompressor()
    return decompressor


def put_blob(connection: sqlite3.Connection, data: bytes) -> int:
    """Return the id of the blob with these bytes, storing it if it is new. For use in an op.

    A redacted blob stays redacted: its id is returned and the bytes are not kept.

    Raises:
        StoreFull: The file cannot be written.
    """
    blob = _find_blob(connection, blake3(data).digest())
    return blob[0] if blob is not None and not blob[1] else put_packed(connection, pack_blob(data))


def put_packed(connection: sqlite3.Connection, blob: PackedBlob) -> int:
    """Store bytes that are packed already, as `put_blob` does."""
    known = _find_blob(connection, blob.digest)
    if known is not None:
        if known[1]:
            _write_again(connection, known[0], blob)
        return known[0]
    place, row = _place(connection, blob)
    cursor = connection.execute(
        "INSERT INTO blob(hash, size, place, data) VALUES (?, ?, ?, ?)", (blob.digest, blob.size, place, row)
    )
    assert cursor.lastrowid is not None, "an INSERT into a rowid table has a row id"
    return cursor.lastrowid


def put_redacted(connection: sqlite3.Connection, digest: bytes, size: int) -> None:
    """Store that the blob with a hash was redacted elsewhere, unless its bytes are here."""
    connection.execute(
        "INSERT INTO blob(hash, size, place) VALUES (?, ?, 'redacted') ON CONFLICT(hash) DO NOTHING", (digest, size)
    )


def restore_blob(connection: sqlite3.Connection, blob: PackedBlob) -> bool:
    """Write the bytes of a blob again where they are gone or damaged. Return whether they were.

    A redacted blob stays redacted. For use in an op.
    """
    row = connection.execute("SELECT id, place FROM blob WHERE hash = ?", (blob.digest,)).fetchone()
    if row is None or row[1] == "redacted":
        return False
    with suppress(StoreError):
        get_blob(connection, row[0])
        return False
    _write_again(connection, row[0], blob)
    return True


def release_blob(connection: sqlite3.Connection, blob_id: int, now: int) -> None:
    """Release the bytes of a blob; its row stays. The caller deletes its file after the COMMIT."""
    sql = "UPDATE blob SET place = 'file', data = NULL, released_at = ? WHERE id = ?"
    connection.execute(sql, (now, blob_id))


def _place(connection: sqlite3.Connection, blob: PackedBlob) -> tuple[str, bytes | None]:
    """Return where the bytes are kept and what its row holds. Write the file."""
    if blob.size <= ROW_BYTES:
        return "row", blob.packed
    write_blob_file(blob_path(blob_directory(connection), blob.digest), blob.packed)
    return "file", None


def _write_again(connection: sqlite3.Connection, blob_id: int, blob: PackedBlob) -> None:
    sql = "UPDATE blob SET size = ?, place = ?, data = ?, released_at = NULL WHERE id = ?"
    connection.execute(sql, (blob.size, *_place(connection, blob), blob_id))


def _find_blob(connection: sqlite3.Connection, digest: bytes) -> tuple[int, bool] | None:
    """Return the id of a blob, and whether its bytes were let go."""
    sql = "SELECT id, released_at FROM blob WHERE hash = ?"
    row = connection.execute(sql, (digest,)).fetchone()
    return None if row is None else (row[0], row[1] is not None)


def get_blob(connection: sqlite3.Connection, blob_id: int) -> bytes:
    """Return the bytes of a blob, or their replacement after a redaction. Raises as `unpack_blob`."""
    blob_id = connection.execute(
        "SELECT coalesce(max(replaced_by), ?1) FROM blob WHERE id = ?1", (blob_id,)
    ).fetchone()[0]
    return unpack_blob(blob_directory(connection), blob_id, connection.execute(SELECT, (blob_id,)).fetchall())


def unpack_blob(directory: Path, blob_id: int, rows: Sequence[Sequence[Any]]) -> bytes:
    """Return the bytes of the blob from the rows of `SELECT`.

    Raises:
        StoreError: The blob is missing, redacted, unreadable, or does not match its hash.
    """
    if not rows:
        raise StoreError(f"there is no blob {blob_id}")
    digest, place, packed, size = rows[0]
    if place == "redacted":
        raise StoreError(f"blob {blob_id} was redacted")
    try:
        packed = read_blob_file(blob_path(directory, digest), size) if packed is None else packed
        # A damaged head can announce terabytes, which would be allocated before a byte is decompressed.
        announced = zstandard.get_frame_parameters(packed).content_size
        if announced != size:
            raise StoreError(f"blob {blob_id} is damaged: it announces {announced:,} bytes instead of {size:,}")
        data = _decompressor().decompress(packed)
    except OSError as error:
        raise StoreError(f"the file of blob {blob_id} cannot be read: {describe_failure(error)}") from error
    except zstandard.ZstdError as error:
        raise StoreError(f"blob {blob_id} is damaged: {error}") from error
    if blake3(data).digest() != digest:
        raise StoreError(f"blob {blob_id} is damaged: its bytes are not those that were stored")
    return data


def blob_directory(connection: sqlite3.Connection) -> Path:
    """Return the directory of the database, beside which the files of blobs lie."""
    name: str = connection.execute("SELECT file FROM pragma_database_list WHERE name = 'main'").fetchone()[0]
    return Path(name).parent


def blob_path(directory: Path, digest: bytes) -> Path:
    """Return the file of a blob over 1 MiB; `directory` is the database's."""
    name = digest.hex()
    return directory / FOLDER / name[:2] / f"{name}.zst"


def read_blob_file(path: Path, size: int) -> bytes:
    """Read the file of a blob with `size` bytes. Raises OSError, also for a symbolic link or a far longer file."""
    most = size + size // 100 + 1024
    with _open_blob_file(path) as file:
        packed = file.read(most + 1)
    if len(packed) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most:,} bytes", str(path))
    return packed


def has_any_text(path: Path, texts: Sequence[bytes]) -> bool:
    """Return whether a blob's file holds one of these texts, reading it in pieces.

    A damaged one, which nobody can read, holds none. Raises OSError as `read_blob_file`.
    """
    kept, longest = b"", max(map(len, texts), default=0)
    with _open_blob_file(path) as file:
        try:
            if zstandard.get_frame_parameters(file.read(_HEAD_BYTES)).content_size > MAX_BLOB_BYTES:
                return False
            file.seek(0)
            with zstandard.ZstdDecompressor().stream_reader(file) as reader:
                while chunk := reader.read(_CHUNK_BYTES):
                    kept += chunk
                    if any(text in kept for text in texts):
                        return True
                    kept = kept[max(0, len(kept) - longest) :]
        except zstandard.ZstdError:
            return False
    return False


def remove_blob_file(path: Path) -> None:
    """Remove the file of a blob, if it is there. Raises StoreError where a folder of it is a symbolic link."""
    try:
        _refuse_links(path)
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"{path} cannot be removed: {describe_failure(error)}") from error


def list_blob_files(directory: Path, pattern: str = "*") -> list[Path]:
    """List the blob files of a directory. Symbolic links are not followed."""
    root = directory / FOLDER
    folders = [] if root.is_symlink() else [folder for folder in root.glob("??") if not folder.is_symlink()]
    files = [file for folder in folders for file in folder.glob(pattern)]
    return sorted(file for file in files if file.is_file() and not file.is_symlink())


def _open_blob_file(path: Path) -> BinaryIO:
    _refuse_links(path)
    return open_regular(path, os.O_NOFOLLOW)


def _refuse_links(path: Path) -> None:
    """Refuse symbolic links in the place of the two folders of a blob. Raises OSError."""
    for folder in (path.parent.parent, path.parent):
        if folder.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(folder))


def write_blob_file(path: Path, packed: bytes) -> None:
    """Write and sync a file under a temporary name, then rename it."""
    unfinished = path.with_suffix(".unfinished")
    try:
        _refuse_links(path)
        for folder in (path.parent.parent, path.parent):
            folder.mkdir(mode=0o700, exist_ok=True)
        with open(unfinished, "wb", opener=open_private) as file:
            file.write(packed)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        for folder in (path.parent, path.parent.parent, path.parent.parent.parent):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise StoreFull(f"{path}: {describe_failure(error)}", hint=f"Move it away from {path.parent}.") from error
        with suppress(OSError):  # the first error is the one to report
            unfinished.unlink()
        raise StoreFull(f"{path}: {error.strerror}", hint=FREE_SPACE) from error
