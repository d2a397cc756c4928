"""The mirror: blobs of commits are copied to a folder, and read and brought back from there."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
import zstandard

from tests.chain.test_collection_and_verification import grow, long
from tests.fakes.import_bombs import read_peak
from tests.waiting import until
from zoea.chain.chain_reader import ChainReader
from zoea.chain.mirror import copy_blobs, fetch_blobs, find_mirrored, forget_mirrored, remember_mirror
from zoea.chain.verification import verify_chains
from zoea.model.errors import MissingBlob, StoreError, StoreFull
from zoea.process.clock import SystemClock
from zoea.runtime.periodic_tasks import run_mirror
from zoea.store.database_file import connect_reader
from zoea.store.store import Store

LOSE = "UPDATE blob SET data = x'00' WHERE size > 1000"


def files_in(folder: Path, pattern: str) -> list[Path]:
    return list(folder.glob(pattern))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "disk"
    made.mkdir()
    return made


async def test_new_blobs_are_copied_once(store: Store, folder: Path) -> None:
    await grow(store, ["one", long("two")], None, "@alpha")
    with closing(connect_reader(store.path)) as conn:
        newest, copied = copy_blobs(conn, folder, 0)
        assert (newest, copied) == (2, 3)
        assert copy_blobs(conn, folder, newest) == (2, 0)
        assert copy_blobs(conn, folder, 0) == (2, 0)


async def test_a_swarm_mirrors_while_it_runs_and_a_reader_finds_what_is_lost_here(store: Store, folder: Path) -> None:
    async with run_mirror(store, SystemClock(), folder):
        made = await grow(store, ["one", long("two")], None, "@alpha")
        await until(lambda: len(list(folder.rglob("*.zst"))) == 3)
    await store.write(lambda conn: conn.execute(LOSE))
    with closing(connect_reader(store.path)) as conn:
        whole = ChainReader(conn).materialize(made[-1], to_root=True)
        assert [one.content for one in whole.entries] == ["one", long("two")]
        assert len(list(verify_chains(conn))) == 1, "the check says what is lost here"
    await store.write(partial(remember_mirror, folder=None))
    with closing(connect_reader(store.path)) as conn, pytest.raises(MissingBlob):
        ChainReader(conn).materialize(made[-1], to_root=True)


async def test_lost_texts_come_back_and_those_that_are_gone_everywhere_are_named(store: Store, folder: Path) -> None:
    made = await grow(store, [long("one"), long("two")], None, "@alpha")
    with closing(connect_reader(store.path)) as conn:
        copy_blobs(conn, folder, 0)
        digests = [row[0] for row in conn.execute("SELECT hash FROM blob WHERE size > 1000 ORDER BY id")]
    await store.write(lambda conn: conn.execute(LOSE))
    name = digests[0].hex()
    (folder / "blobs" / name[:2] / f"{name}.zst").write_bytes(b"damaged too")
    found = await store.write(partial(fetch_blobs, folder=folder))
    assert (found.restored, found.missing) == (1, (name,))
    only = await store.write(partial(fetch_blobs, folder=folder, seqs=[made[1].seq]))
    assert (only.restored, only.missing) == (0, ())
    with closing(connect_reader(store.path)) as conn:
        assert [one.blob for one in verify_chains(conn)] == [name]


async def test_a_disk_that_is_not_mounted_gets_no_folder(store: Store, folder: Path, tmp_path: Path) -> None:
    await grow(store, ["one"], None, "@alpha")
    shutil.rmtree(folder)
    with closing(connect_reader(store.path)) as conn, pytest.raises(StoreFull, match="is not there"):
        copy_blobs(conn, folder, 0)
    assert files_in(tmp_path, "disk") == []


MEGABYTES = 1_000 if os.environ.get("ZOEA_SOAK") else 250
"""What a small file unpacks to; much more than the memory that is allowed."""


def pack(data: bytes, times: int, *, is_announced: bool) -> bytes:
    """Return a frame of zstd that unpacks to `times` the data. It is made piece by piece."""
    packer = zstandard.ZstdCompressor().compressobj(size=len(data) * times if is_announced else -1)
    return b"".join([packer.compress(data) for _ in range(times)]) + packer.flush()


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_small_file_that_unpacks_to_gigabytes_takes_no_memory(folder: Path, is_announced: bool) -> None:
    bomb = folder / "blobs" / "aa" / f"{'aa' * 32}.zst"
    bomb.parent.mkdir(parents=True)
    bomb.write_bytes(pack(bytes(2**20), MEGABYTES, is_announced=is_announced))
    assert bomb.stat().st_size < 200_000
    before = read_peak()
    assert find_mirrored(folder, [b"secret"]) == frozenset()
    assert read_peak() - before < 64 * 2**20


def test_a_text_is_found_where_two_pieces_meet_and_not_behind_a_link(folder: Path, tmp_path: Path) -> None:
    data = bytes(2**20 - 3) + b"secret" + bytes(2**20)
    for name in ("aa", "bb"):
        file = folder / "blobs" / name / f"{name * 32}.zst"
        file.parent.mkdir(parents=True)
        file.write_bytes(zstandard.compress(data))
    (folder / "blobs" / "bb").rename(tmp_path / "mine")
    (folder / "blobs" / "bb").symlink_to(tmp_path / "mine")
    assert find_mirrored(folder, [b"secret"]) == {bytes.fromhex("aa" * 32)}
    with pytest.raises(StoreError, match="symbolic link"):
        forget_mirrored(folder, [bytes.fromhex("bb" * 32)])
    assert list((tmp_path / "mine").iterdir())
