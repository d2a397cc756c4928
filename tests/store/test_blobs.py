"""Blobs are stored once, and read whole or not at all."""

from __future__ import annotations

import errno
import os
import random
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from blake3 import blake3

from zoea.model.errors import StateRefused, StoreError, StoreFull
from zoea.store.blobs import ROW_BYTES, get_blob, put_blob, remove_blob_file, write_blob_file
from zoea.store.database_file import open_reader
from zoea.store.integrity import unused_files
from zoea.store.sqlite_errors import translate_error
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection

SMALL = b"a picture" * 100
LARGE = random.Random(2).randbytes(ROW_BYTES + 1)


async def put(store: Store, data: bytes) -> int:
    return await store.write(lambda connection: put_blob(connection, data))


def file_of(path: Path, data: bytes) -> Path:
    name = blake3(data).hexdigest()
    return path.parent / "blobs" / name[:2] / f"{name}.zst"


@pytest.mark.parametrize("data", [b"", SMALL, LARGE], ids=["empty", "small", "large"])
async def test_a_blob_is_read_unchanged(store: Store, path: Path, data: bytes) -> None:
    blob_id = await put(store, data)
    assert await store.blob(blob_id) == data
    assert await store.write(lambda connection: get_blob(connection, blob_id)) == data
    with closing(open_reader(path)) as reader:
        assert get_blob(reader, blob_id) == data


async def test_the_same_bytes_are_stored_once(store: Store) -> None:
    ids = [await put(store, data) for data in (SMALL, LARGE, SMALL, LARGE)]
    assert ids[:2] == ids[2:]
    assert len(await store.read("SELECT 1 FROM blob")) == 2


async def test_a_large_blob_is_a_file_for_its_owner_only(store: Store, path: Path) -> None:
    await put(store, SMALL)
    assert not file_of(path, SMALL).exists()
    await put(store, LARGE)
    assert {tuple(row) for row in await store.read("SELECT place, data IS NULL FROM blob")} == {("row", 0), ("file", 1)}
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (file_of(path, LARGE), file_of(path, LARGE).parent)]
    assert modes == [0o600, 0o700]


async def test_a_blob_of_a_failed_op_is_absent_and_can_be_stored_again(store: Store) -> None:
    def op(connection: WriterConnection) -> None:
        put_blob(connection, LARGE)
        raise StateRefused("no")

    with pytest.raises(StateRefused):
        await store.write(op)
    assert await store.read("SELECT 1 FROM blob") == []
    assert await store.blob(await put(store, LARGE)) == LARGE


async def test_a_missing_or_redacted_blob_is_a_clear_error(store: Store) -> None:
    with pytest.raises(StoreError, match="no blob 9"):
        await store.blob(9)
    blob_id = await put(store, SMALL)
    await store.write(lambda c: c.execute("UPDATE blob SET place = 'redacted', data = NULL"))
    with pytest.raises(StoreError, match="redacted"):
        await store.blob(blob_id)
    assert await put(store, SMALL) == blob_id


async def test_a_damaged_blob_is_an_error(store: Store, path: Path) -> None:
    small, large = await put(store, SMALL), await put(store, LARGE)
    other = await store.write(
        lambda c: c.execute("UPDATE blob SET hash = zeroblob(32) WHERE place = 'row' RETURNING id").fetchone()[0]
    )
    assert other == small
    with pytest.raises(StoreError, match="not those that were stored"):
        await store.blob(small)
    os.truncate(file_of(path, LARGE), 100)
    with pytest.raises(StoreError, match="damaged"):
        await store.blob(large)
    file_of(path, LARGE).unlink()
    with pytest.raises(StoreError, match="cannot be read"):
        await store.blob(large)


async def test_a_file_that_cannot_be_written_is_a_full_store(store: Store, path: Path) -> None:
    (path.parent / "blobs").touch()
    with pytest.raises(StoreFull):
        await put(store, LARGE)
    assert await store.read("SELECT 1 FROM blob") == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
async def test_a_file_that_finds_no_space_or_quota_raises_store_full(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr("zoea.store.blobs.os.fsync", fail)
        with pytest.raises(StoreFull, match=os.strerror(code)):
            await put(store, LARGE)
    assert not list((path.parent / "blobs").rglob("*.unfinished"))
    assert await store.blob(await put(store, LARGE)) == LARGE


def test_a_write_of_sqlite_that_finds_no_quota_is_a_full_store() -> None:
    # SQLite reports ENOSPC as SQLITE_FULL and any other failed write, EDQUOT among them, as SQLITE_IOERR_WRITE.
    for code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE):
        problem = sqlite3.OperationalError("disk I/O error")
        problem.sqlite_errorcode = code
        assert isinstance(translate_error(problem), StoreFull)


@pytest.mark.parametrize("place", ["folder", "file"])
async def test_no_link_in_the_place_of_a_blob_is_followed(store: Store, path: Path, tmp_path: Path, place: str) -> None:
    blob_id, file = await put(store, LARGE), file_of(path, LARGE)
    link = file.parent if place == "folder" else file
    target = tmp_path / "elsewhere"
    link.rename(target)
    link.symlink_to(target)
    mine = tmp_path / "elsewhere" / "mine" if place == "folder" else target
    if place == "folder":
        mine.write_text("a file of the person's own")
    with pytest.raises(StoreError, match="symbolic link"):
        await store.blob(blob_id)
    if place == "folder":
        with pytest.raises(StoreFull, match="symbolic link"):
            write_blob_file(file, b"data")
        with pytest.raises(StoreError, match="symbolic link"):
            remove_blob_file(file)
    with closing(open_reader(path)) as reader:
        assert unused_files(reader, path.parent) == []
    assert mine.exists()


async def test_a_file_that_is_far_longer_than_its_blob_is_not_read_whole(store: Store, path: Path) -> None:
    blob_id = await put(store, LARGE)
    os.truncate(file_of(path, LARGE), 2**40)
    with pytest.raises(StoreError, match="larger than"):
        await store.blob(blob_id)
