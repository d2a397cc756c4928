"""Collection removes what no ref reaches and nothing else; verification finds every flipped byte."""

from __future__ import annotations

import os
import random
import sqlite3
from contextlib import closing
from functools import partial

import pytest

from tests.chain.test_chain_graphs import new_commit
from zoea.chain.chain_reader import ChainReader
from zoea.chain.collection import collect, estimate_collection, find_unreached
from zoea.chain.commit import ContextCommit
from zoea.chain.commit_ops import delete_ref, insert_commit, move_ref
from zoea.chain.commit_rows import read_commit, walk_chain
from zoea.chain.entries import LIFTED_BYTES, ContextEntry
from zoea.chain.verification import verify_chains
from zoea.model.enums import Role
from zoea.model.errors import MissingBlob, RevisionError
from zoea.store.database_file import connect_reader
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection

FLIPS = 500 if os.environ.get("ZOEA_SOAK") else 125


async def grow(store: Store, texts: list[str], parent: int | None, ref: str) -> list[ContextCommit]:
    """Add one commit for each text, and set a ref to the last."""
    made: list[ContextCommit] = []
    for text in texts:
        op = partial(insert_commit, new=new_commit([ContextEntry(Role.USER, text)], parent))
        stored = await store.write(op)
        made.append(stored)
        parent = stored.seq
    await store.write(lambda conn: move_ref(conn, ref, made[-1].seq, "test"))
    return made


def long(word: str) -> str:
    return f"{word} " * LIFTED_BYTES


async def test_collection_frees_what_no_ref_reaches_and_keeps_shared_texts(store: Store) -> None:
    trunk = await grow(store, [long("shared"), "trunk"], None, "@alpha")
    branch = await grow(store, [long("branch"), long("shared")], trunk[0].seq, "@beta")
    alone = await grow(store, [long("alone")], None, "import/alone")
    future = 2**60
    with closing(connect_reader(store.path)) as reader:
        assert find_unreached(reader, future) == []
    await store.write(lambda conn: delete_ref(conn, "@beta", "test"))
    await store.write(lambda conn: delete_ref(conn, "import/alone", "test"))
    with closing(connect_reader(store.path)) as reader:
        assert find_unreached(reader, 0) == [], "the reflog still knows them"
        sizes = {
            row[0]: row[1]
            for row in reader.execute(
                "SELECT hash, size FROM blob WHERE id NOT IN (SELECT blob_id FROM ctx_blob"
                " WHERE commit_seq <= 2) AND id NOT IN (SELECT blob_id FROM ctx_commit WHERE seq <= 2)"
            )
        }
    with closing(connect_reader(store.path)) as reader:
        announced = estimate_collection(reader, future)
    done = await store.write(lambda conn: collect(conn, future))
    assert announced == done
    assert (done.commits, done.blobs, done.bytes) == (3, len(sizes), sum(sizes.values()))
    with closing(connect_reader(store.path)) as reader:
        assert [read_commit(reader, one.seq) for one in (*branch, *alone)] == [None] * 3
        whole = ChainReader(reader).materialize(trunk[-1], to_root=True)
        assert [one.content for one in whole.entries] == [long("shared"), "trunk"]
        assert list(verify_chains(reader)) == []


async def test_numbers_of_collected_commits_are_not_used_again(store: Store) -> None:
    await grow(store, ["one", "two"], None, "@alpha")
    await store.write(lambda conn: delete_ref(conn, "@alpha", "test"))
    await store.write(lambda conn: collect(conn, 2**60))
    again = await grow(store, ["three"], None, "@alpha")
    assert again[0].seq == 3


async def test_every_flipped_byte_is_found_with_its_commit_and_blob(store: Store) -> None:
    chance = random.Random(7)
    texts = [long(f"word{n}") if n % 2 else f"short {n}" for n in range(20)]
    made = await grow(store, texts, None, "@alpha")
    await store.close()
    with closing(sqlite3.connect(store.path, isolation_level=None)) as writer:
        rows = writer.execute("SELECT id, hash, data FROM blob").fetchall()
        for _ in range(FLIPS):
            blob_id, digest, data = chance.choice(rows)
            place = chance.randrange(len(data))
            flipped = bytearray(data)
            flipped[place] ^= 1 << chance.randrange(8)
            writer.execute("UPDATE blob SET data = ? WHERE id = ?", (bytes(flipped), blob_id))
            defects = list(verify_chains(writer))
            users = {one.id for one in made if one.blob == digest} | {
                one.id
                for one in made
                for (found,) in writer.execute("SELECT blob_id FROM ctx_blob WHERE commit_seq = ?", (one.seq,))
                if found == blob_id
            }
            # zstd may decode a changed header to the same bytes: then nothing is lost.
            assert {one.commit for one in defects} in (users, set())
            if defects:
                assert {one.blob for one in defects} == {digest.hex()}
            else:
                assert ChainReader(writer).fetch(digest)
            writer.execute("UPDATE blob SET data = ? WHERE id = ?", (data, blob_id))
        assert list(verify_chains(writer)) == []


async def test_a_missing_text_is_named_and_the_rest_still_works(store: Store) -> None:
    made = await grow(store, ["begin", long("gone"), "end"], None, "@alpha")
    await store.write(lambda conn: conn.execute("UPDATE blob SET data = x'00' WHERE size >= ?", (LIFTED_BYTES,)))
    with closing(connect_reader(store.path)) as reader:
        assert [one.seq for one in walk_chain(reader, made[-1].seq)] == [one.seq for one in made]
        digest = reader.execute("SELECT hash FROM blob WHERE data = x'00'").fetchone()[0]
        with pytest.raises(MissingBlob, match=digest.hex()):
            ChainReader(reader).materialize(made[-1], to_root=True)
        assert [(one.commit, one.blob) for one in verify_chains(reader)] == [(made[1].id, digest.hex())]


async def test_all_texts_that_are_missing_are_named_at_once(store: Store) -> None:
    made = await grow(store, ["begin", long("gone"), long("there"), long("lost")], None, "@alpha")
    gone = [
        await store.read("SELECT hash FROM blob b JOIN ctx_blob l ON l.blob_id = b.id WHERE l.commit_seq = ?", (seq,))
        for seq in (2, 4)
    ]
    digests = [rows[0]["hash"] for rows in gone]
    for digest in digests:
        await store.write(partial(_damage, digest=digest))
    with closing(connect_reader(store.path)) as reader, pytest.raises(MissingBlob) as refused:
        ChainReader(reader).materialize(made[-1], to_root=True)
    assert all(digest.hex() in refused.value.what for digest in digests)
    assert "1 other part cannot be read either" in refused.value.what


def _damage(conn: WriterConnection, digest: bytes) -> None:
    conn.execute("UPDATE blob SET data = x'00' WHERE hash = ?", (digest,))


async def test_a_range_that_begins_elsewhere_is_refused_with_both_commits(store: Store) -> None:
    made = await grow(store, ["one", "two"], None, "@alpha")
    with closing(connect_reader(store.path)) as reader, pytest.raises(RevisionError) as refused:
        ChainReader(reader).materialize(made[0], stop=made[1])
    assert f"{made[1].id[:12]} is not before {made[0].id[:12]}" in refused.value.what


@pytest.mark.parametrize(
    "change",
    [
        "parent = NULL",
        "created_at = created_at + 1",
        "principal = 'beta'",
        "hash = zeroblob(32)",
        "blob_id = (SELECT min(id) FROM blob)",
    ],
)
async def test_a_changed_origin_of_a_commit_is_found_and_named(store: Store, change: str) -> None:
    made = await grow(store, ["one", "two", "three"], None, "@alpha")
    with closing(sqlite3.connect(store.path)) as writer, writer:
        writer.execute("DROP TRIGGER ctx_commit_immutable")
        writer.execute(f"UPDATE ctx_commit SET {change} WHERE seq = ?", (made[1].seq,))
    with closing(connect_reader(store.path)) as conn:
        found = list(verify_chains(conn))
        changed = read_commit(conn, made[1].seq)
    assert changed is not None
    assert (changed.id, "its id does not follow from its parent, blob, origin and time") in [
        (one.commit, one.what) for one in found
    ]


async def test_what_a_ref_left_lately_stays_however_long_ago_it_was_named(store: Store) -> None:
    left = await grow(store, ["one"], None, "@alpha")
    await store.write(lambda conn: conn.execute("UPDATE ctx_reflog SET created_at = 0"))
    await grow(store, ["two"], None, "@alpha")
    with closing(connect_reader(store.path)) as conn:
        assert find_unreached(conn, 1) == []
        assert find_unreached(conn, 1 << 60) == [left[0].seq]
