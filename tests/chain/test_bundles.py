"""Bundles: commits travel to another database unchanged, and hostile ones are refused whole."""

from __future__ import annotations

import io
import random
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import cbor2
import pytest
import zstandard
from blake3 import blake3
from msgspec.structs import replace

from tests.chain.test_chain_graphs import new_commit
from tests.chain.test_collection_and_verification import grow, long
from zoea.chain.bundle_export import write_bundle
from zoea.chain.bundle_file import (
    MAGIC,
    MOST_BLOB,
    BundleCommit,
    BundleHeader,
    BundleWriter,
    FrameKind,
    read_frames,
    read_record,
    split_blob,
)
from zoea.chain.bundle_import import StoredBundle, check_bundle, store_bundle
from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit import CommitIdentity, ContextCommit, commit_digest
from zoea.chain.commit_ops import append_commit, insert_commit, move_ref, prepare_blobs
from zoea.chain.commit_rows import read_commit, read_newest, read_refs, walk_chain
from zoea.chain.entries import MOST_ITEMS, MOST_LEVELS, ContextEntry
from zoea.chain.formats import ZOEA
from zoea.chain.verification import verify_chains
from zoea.model.enums import Role
from zoea.model.errors import ContextFormatError
from zoea.process.clock import SystemClock
from zoea.store.database_file import connect_reader
from zoea.store.store import Store

FUTURE = 2**60


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(tmp_path / "other" / "zoea.db", clock_now=SystemClock().now)
    yield opened
    await opened.close()


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()


def bundle(store: Store, *tips: ContextCommit, **refs: str) -> bytes:
    stream = io.BytesIO()
    named = refs or {"@alpha": tips[0].digest.hex()}
    with closing(connect_reader(store.path)) as conn:
        write_bundle(conn, stream, tips, named)
    return stream.getvalue()


async def store_in(store: Store, data: bytes) -> StoredBundle:
    checked = check_bundle(io.BytesIO(data), now=FUTURE)
    return await store.write(partial(store_bundle, bundle=checked))


def texts(store: Store, commit_id: bytes) -> list[str]:
    with closing(connect_reader(store.path)) as conn:
        commit = next(one for one in read_newest(conn, 1000) if one.digest == commit_id)
        return [one.content for one in ChainReader(conn).materialize(commit, to_root=True).entries]


async def test_a_chain_keeps_its_ids_and_texts_in_another_database(store: Store, other: Store) -> None:
    await grow(other, ["here before"], None, "@alpha")  # so that numbers differ
    made = await grow(store, ["begin", long("file"), "end"], None, "@alpha")
    done = await store_in(other, bundle(store, made[-1]))
    assert (done.counts.commits, done.known, done.renamed) == (3, 0, {"@alpha": "import/alpha"})
    assert texts(other, made[-1].digest) == ["begin", long("file"), "end"]
    with closing(connect_reader(other.path)) as conn:
        assert list(verify_chains(conn)) == []
        tip = read_commit(conn, read_refs(conn)["import/alpha"])
        assert tip is not None
        assert [one.digest for one in walk_chain(conn, tip.seq)] == [one.digest for one in made]
        assert (tip.created_at, tip.provenance.principal) == (made[-1].created_at, made[-1].provenance.principal)


async def test_a_bundle_imported_twice_changes_nothing(store: Store, other: Store) -> None:
    made = await grow(store, ["one", long("two")], None, "@alpha")
    data = bundle(store, made[-1])
    await store_in(other, data)
    with closing(connect_reader(other.path)) as conn:
        before = [conn.execute(f"SELECT count(*) FROM {one}").fetchone()[0] for one in ("blob", "ctx_commit")]
        refs = read_refs(conn)
    again = await store_in(other, data)
    assert (again.counts.commits, again.counts.blobs, again.known) == (0, 0, 2)
    with closing(connect_reader(other.path)) as conn:
        assert [conn.execute(f"SELECT count(*) FROM {one}").fetchone()[0] for one in ("blob", "ctx_commit")] == before
        assert read_refs(conn) == refs


async def test_a_longer_chain_moves_the_name_forward_and_an_older_one_leaves_it(store: Store, other: Store) -> None:
    made = await grow(store, ["one", "two", "three"], None, "@alpha")
    await store_in(other, bundle(store, made[1]))
    longer = await store_in(other, bundle(store, made[2]))
    assert longer.refs == {"import/alpha": made[2].id}
    older = await store_in(other, bundle(store, made[0]))
    assert list(older.refs) == ["import/alpha"]
    with closing(connect_reader(other.path)) as conn:
        assert list(read_refs(conn)) == ["import/alpha"]
        tip = read_commit(conn, read_refs(conn)["import/alpha"])
        assert tip is not None
        assert tip.digest == made[2].digest


async def test_a_name_of_another_conversation_stays_and_the_new_one_is_numbered(store: Store, other: Store) -> None:
    mine = await grow(other, ["mine"], None, "import/alpha")
    made = await grow(store, ["theirs"], None, "@alpha")
    data = bundle(store, made[-1])
    assert (await store_in(other, data)).renamed == {"@alpha": "import/alpha-2"}
    assert (await store_in(other, data)).renamed == {"@alpha": "import/alpha-2"}
    with closing(connect_reader(other.path)) as conn:
        assert read_refs(conn)["import/alpha"] == mine[0].seq
        assert sorted(read_refs(conn)) == ["import/alpha", "import/alpha-2"]


@pytest.mark.parametrize("name", ["tag/good", "ticket/7"])
@pytest.mark.parametrize("theirs", [0, 2])
async def test_a_tag_or_ticket_that_is_here_moves_only_by_force(
    store: Store, other: Store, name: str, theirs: int
) -> None:
    made = await grow(store, ["one", "two", "three"], None, "@alpha")
    await store_in(other, bundle(store, made[2], **{name: made[1].digest.hex()}))
    data = bundle(store, made[2], **{name: made[theirs].digest.hex()})
    kept = await store_in(other, data)
    assert (kept.kept, kept.moved, kept.refs) == ({name: made[theirs].id}, {}, {})
    with closing(connect_reader(other.path)) as conn:
        assert read_refs(conn)[name] == 2
    moved = await other.write(
        partial(store_bundle, bundle=check_bundle(io.BytesIO(data), now=FUTURE), moves_names=True)
    )
    assert (moved.kept, moved.moved, moved.refs) == ({}, {name: made[1].id}, {name: made[theirs].id})
    with closing(connect_reader(other.path)) as conn:
        assert list(read_refs(conn)) == [name]
        assert read_refs(conn)[name] == theirs + 1


async def test_what_came_in_a_bundle_goes_on_and_comes_back_unchanged(store: Store, other: Store) -> None:
    made = await grow(store, ["one"], None, "@alpha")
    await store_in(other, bundle(store, made[-1]))
    new = new_commit([ContextEntry(Role.USER, "there")], None, principal="beta")
    added = await other.write(lambda conn: append_commit(conn, "import/alpha", new, "test"))
    back = await store_in(store, bundle(other, added))
    assert (back.counts.commits, back.known) == (1, 1)
    assert texts(store, added.digest) == ["one", "there"]
    with closing(connect_reader(store.path)) as conn:
        assert list(verify_chains(conn)) == []


async def test_a_redacted_text_stays_redacted_on_its_way(store: Store, other: Store) -> None:
    made = await grow(store, ["one", long("secret")], None, "@alpha")
    await store.write(lambda conn: conn.execute("UPDATE blob SET place = 'redacted', data = NULL WHERE size > 999"))
    await store_in(other, bundle(store, made[-1]))
    assert texts(other, made[-1].digest) == ["one", "[REDACTED]"]


async def test_a_bundle_brings_back_bytes_that_are_damaged_here(store: Store) -> None:
    made = await grow(store, ["one", long("gone")], None, "@alpha")
    data = bundle(store, made[-1])
    await store.write(lambda conn: conn.execute("UPDATE blob SET data = x'00'"))
    with closing(connect_reader(store.path)) as conn:
        assert list(verify_chains(conn))
    await store_in(store, data)
    with closing(connect_reader(store.path)) as conn:
        assert list(verify_chains(conn)) == []


async def test_a_blob_over_a_mebibyte_lies_beside_the_other_database(store: Store, other: Store) -> None:
    text = "".join(random.Random(1).choices("abcdefgh", k=1_200_000))
    made = await grow(store, [text], None, "@alpha")
    await store_in(other, bundle(store, made[-1]))
    assert len(list((other.path.parent / "blobs").rglob("*.zst"))) == 1
    assert texts(other, made[-1].digest) == [text]


async def test_every_changed_or_missing_byte_of_a_bundle_is_refused_and_nothing_is_stored(
    store: Store, other: Store
) -> None:
    made = await grow(store, ["one", long("two")], None, "@alpha")
    data = bundle(store, made[-1])
    chance = random.Random(3)
    places = chance.sample(range(len(data)), 200)
    for place in places:
        changed = bytearray(data)
        changed[place] ^= 1 << chance.randrange(8)
        with pytest.raises(ContextFormatError):
            check_bundle(io.BytesIO(bytes(changed)), now=FUTURE)
        with pytest.raises(ContextFormatError):
            check_bundle(io.BytesIO(data[:place]), now=FUTURE)
    with pytest.raises(ContextFormatError, match="goes on"):
        check_bundle(io.BytesIO(data + b"x"), now=FUTURE)


def rewrite(
    data: bytes,
    *,
    commit: Callable[[BundleCommit], BundleCommit | None] = lambda one: one,
    blob: Callable[[bytes, int, bytes], tuple[bytes, int, bytes] | None] = lambda *one: one,
    header: Callable[[BundleHeader], BundleHeader] = lambda one: one,
) -> bytes:
    """Return a bundle with changed records and the right last hash. An attacker would write it so."""
    stream = io.BytesIO()
    writer = BundleWriter(stream)
    for frame in read_frames(io.BytesIO(data)):
        match frame.kind:
            case FrameKind.HEADER:
                writer.write_record(frame.kind, header(read_record(frame.data, BundleHeader)))
            case FrameKind.COMMIT:
                if (changed := commit(read_record(frame.data, BundleCommit))) is not None:
                    writer.write_record(frame.kind, changed)
            case _:
                if (part := blob(*split_blob(frame))) is not None:
                    writer.write_blob(*part)
    writer.finish()
    return stream.getvalue()


def rebuild(data: bytes, change: Callable[[list[BundleCommit], list[tuple[bytes, int, bytes]]], object]) -> bytes:
    """Return a bundle whose commits and blobs `change` has changed. Its header and last hash fit to them."""
    commits: list[BundleCommit] = []
    blobs: list[tuple[bytes, int, bytes]] = []
    header, *frames = read_frames(io.BytesIO(data))
    for frame in frames:
        if frame.kind is FrameKind.COMMIT:
            commits.append(read_record(frame.data, BundleCommit))
        else:
            blobs.append(split_blob(frame))
    change(commits, blobs)
    stream = io.BytesIO()
    writer = BundleWriter(stream)
    names = read_record(header.data, BundleHeader).refs
    counts = {"v": 1, "commits": len(commits), "blobs": len(blobs), "refs": dict.fromkeys(names, commits[-1].id)}
    writer.write_record(header.kind, BundleHeader.model_validate(counts))
    for commit in commits:
        writer.write_record(FrameKind.COMMIT, commit)
    for blob in blobs:
        writer.write_blob(*blob)
    writer.finish()
    return stream.getvalue()


def with_id(one: BundleCommit) -> BundleCommit:
    """Return a commit with the id that follows from its fields."""
    digest = commit_digest(
        parent=None if one.parent is None else bytes.fromhex(one.parent),
        blob=bytes.fromhex(one.blob),
        principal=one.principal,
        identity=CommitIdentity(one.seq, None, one.session),
        created_at=one.created_at,
    )
    return one.model_copy(update={"id": digest.hex()})


def bomb(digest: bytes, size: int, packed: bytes) -> tuple[bytes, int, bytes]:
    """Return a small frame that decompresses to 16 MiB. It bears the announced length of the blob."""
    large = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(2**24))
    return digest, size, large


OTHER = (blake3(b"x").digest(), 1, zstandard.ZstdCompressor().compress(b"x"))
HOSTILE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "another id": (
        lambda data: rewrite(
            data, commit=lambda one: one.model_copy(update={"tokens": one.tokens, "seq": one.seq + 1})
        ),
        "does not follow",
    ),
    "a cycle": (
        lambda data: rewrite(data, commit=lambda one: with_id(one.model_copy(update={"parent": "ab" * 32}))),
        "parent of commit",
    ),
    "a missing blob": (lambda data: rewrite(data, blob=lambda *one: None), "announces"),
    "a bomb": (lambda data: rewrite(data, blob=bomb), "announces"),
    "a huge announced blob": (
        lambda data: rewrite(data, blob=lambda digest, size, packed: (digest, 2**40, packed)),
        "more than",
    ),
    "other bytes": (
        lambda data: rewrite(
            data, blob=lambda digest, size, packed: (digest, size, zstandard.ZstdCompressor().compress(bytes(size)))
        ),
        "does not match its hash",
    ),
    "the future": (
        lambda data: rewrite(data, commit=lambda one: with_id(one.model_copy(update={"created_at": 2**61}))),
        "future",
    ),
    "a ref to nothing": (
        lambda data: rewrite(data, header=lambda one: one.model_copy(update={"refs": {"@x": "ab" * 32}})),
        "not in the bundle",
    ),
    "a ref that no revision can name": (
        lambda data: rewrite(
            data, header=lambda one: one.model_copy(update={"refs": {"a~3": next(iter(one.refs.values()))}})
        ),
        "cannot be the name",
    ),
    "control characters": (
        lambda data: rewrite(
            data, commit=lambda one: with_id(one.model_copy(update={"principal": "a\x00b", "parent": one.parent}))
        ),
        "control characters",
    ),
    "a blob for no commit": (lambda data: rebuild(data, lambda _, blobs: blobs.append(OTHER)), "no commit needs"),
    "a blob twice": (lambda data: rebuild(data, lambda _, blobs: blobs.append(blobs[0])), "twice"),
    "a commit twice": (lambda data: rebuild(data, lambda commits, _: commits.append(commits[0])), "twice"),
    "a delta that is missing": (
        lambda data: rebuild(
            data, lambda commits, blobs: blobs.remove(next(one for one in blobs if one[0].hex() == commits[-1].blob))
        ),
        "is not in the bundle",
    ),
    "a text that is missing": (
        lambda data: rebuild(
            data,
            lambda commits, blobs: blobs.remove(next(one for one in blobs if one[0].hex() in commits[-1].lifted)),
        ),
        "is not in the bundle",
    ),
    "a text that is not named": (
        lambda data: rebuild(
            data, lambda commits, _: commits.append(with_id(commits.pop().model_copy(update={"lifted": []})))
        ),
        "does not name",
    ),
    "a blob that is too large": (
        lambda data: rewrite(data, blob=lambda digest, _, packed: (digest, MOST_BLOB + 1, packed)),
        "has 134,217,729 bytes",
    ),
    "more names than a bundle may have": (
        lambda data: rewrite(
            data,
            header=lambda one: one.model_copy(
                update={"refs": {f"a{number}": next(iter(one.refs.values())) for number in range(10_001)}}
            ),
        ),
        "refs",
    ),
    "no header": (lambda data: MAGIC + data[data.index(b"C{") - 4 :], "does not begin with one header"),
    "a changed count, of which no id is made": (
        lambda data: data.replace(b'"messages":1', b'"messages":2', 1),
        "bytes are not those",
    ),
}
LIMITS = {
    "MOST_BYTES": "bytes",
    "MOST_COMMITS": "commits",
    "MOST_BLOBS": "blobs",
    "MOST_DELTA": "bytes, more than",
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_bundle_is_refused_whole(store: Store, name: str) -> None:
    made = await grow(store, ["one", long("two")], None, "@alpha")
    change, says = HOSTILE[name]
    with pytest.raises(ContextFormatError, match=says):
        check_bundle(io.BytesIO(change(bundle(store, made[-1]))), now=SystemClock().now())


@pytest.mark.parametrize("name", LIMITS)
async def test_a_bundle_that_is_larger_than_a_bound_is_refused(
    store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await grow(store, ["one", long("two")], None, "@alpha")
    data = bundle(store, made[-1])
    monkeypatch.setattr(f"zoea.chain.bundle_import.{name}", 1)
    with pytest.raises(ContextFormatError, match=f"more than 1 {LIMITS[name]}|{LIMITS[name]} 1$"):
        check_bundle(io.BytesIO(data), now=FUTURE)


def entry(**fields: object) -> bytes:
    """Return a delta of one entry as CBOR."""
    return cbor2.dumps({"v": 1, "entries": [{"r": "user", "c": "hi", **fields}]}, canonical=True)


def delta(inside: bytes) -> bytes:
    """Return a delta with one item of raw CBOR instead of an entry."""
    return b"\xa2\x61v\x01\x67entries\x81" + inside


SHARED = b"".join(b"\xd8\x1c\x84" + (b"\xd8\x1d\x18" + bytes([at])) * 4 for at in range(40))
DELTAS = {
    "a value that is its own part": (delta(b"\xd8\x1c\x81\xd8\x1d\x00"), "semantic tag 29"),
    "a map that is its own part": (delta(b"\xd8\x1c\xa1\x61c\xd8\x1d\x00"), "semantic tag 29"),
    "few bytes that are billions of values": (delta(b"\x98\x29\xd8\x1c\x81\x00" + SHARED), "semantic tag 28"),
    "a message as MIME": (delta(b"\xa1\x61c\xd8\x24\x61a"), "semantic tag 36"),
    "a time that no calendar has": (entry(t=2**63), "holds the number 9223372036854775808"),
    "a time before all": (entry(t=-(2**63)), "holds the number -9223372036854775808"),
    "a time of a thousand digits": (entry(t=10**1_000), "semantic tag 2"),
    "a place before the first": (entry(a=-1), "holds the number -1"),
    "a key twice": (delta(b"\xa2\x61r\x64user\x61r\x64user"), "Duplicate map key"),
    "more values than it may have": (
        delta(b"\xa1\x61c\x9a" + (MOST_ITEMS + 1).to_bytes(4, "big") + bytes(MOST_ITEMS + 1)),
        f"more than {MOST_ITEMS:,} values",
    ),
    "more values than there are bytes": (
        delta(b"\xa1\x61c\x9b" + (2**40).to_bytes(8, "big")),
        f"more than {MOST_ITEMS:,} values",
    ),
    "more levels than it may have": (
        delta(b"\xa1\x61c" + b"\x81" * (MOST_LEVELS + 1) + b"\x00"),
        f"nested more than {MOST_LEVELS} levels",
    ),
}
"""Each with what is said, because a bundle may be refused for many reasons."""


def bundle_of_delta(data: bytes, delta: bytes, format_name: str = ZOEA) -> bytes:
    """Return a bundle of one commit with these bytes, sound in all else."""
    digest = blake3(delta).digest()

    def change(commits: list[BundleCommit], blobs: list[tuple[bytes, int, bytes]]) -> None:
        fields = {"blob": digest.hex(), "lifted": [], "format": format_name}
        commits[:] = [with_id(commits[0].model_copy(update=fields))]
        blobs[:] = [(digest, len(delta), zstandard.ZstdCompressor().compress(delta))]

    return rebuild(data, change)


@pytest.mark.parametrize("name", DELTAS)
async def test_a_hostile_delta_with_the_right_hashes_is_refused_at_once(store: Store, name: str) -> None:
    made = await grow(store, ["one"], None, "@alpha")
    hostile = bundle_of_delta(bundle(store, made[-1]), DELTAS[name][0])
    with pytest.raises(ContextFormatError, match=DELTAS[name][1]):
        check_bundle(io.BytesIO(hostile), now=FUTURE)


@pytest.mark.parametrize(("format_name", "data"), [("openai-chat-v1", b"[{]"), ("claude-code-v1", b"{\n")])
async def test_a_delta_of_another_program_that_cannot_be_read_is_refused(
    store: Store, format_name: str, data: bytes
) -> None:
    made = await grow(store, ["one"], None, "@alpha")
    with pytest.raises(ContextFormatError, match=r"JSON|line 1"):
        check_bundle(io.BytesIO(bundle_of_delta(bundle(store, made[-1]), data, format_name)), now=FUTURE)


async def test_a_delta_in_its_place_is_taken(store: Store) -> None:
    made = await grow(store, ["one"], None, "@alpha")
    assert check_bundle(io.BytesIO(bundle_of_delta(bundle(store, made[-1]), entry())), now=FUTURE).commits


async def test_counts_that_no_sum_could_hold_are_refused(store: Store) -> None:
    made = await grow(store, ["one"], None, "@alpha")
    for name in ("tokens", "messages"):
        hostile = rewrite(bundle(store, made[-1]), commit=lambda one: one.model_copy(update={name: 2**62}))  # noqa: B023  called in this round
        with pytest.raises(ContextFormatError, match=name):
            check_bundle(io.BytesIO(hostile), now=FUTURE)


def test_a_frame_that_announces_gigabytes_is_refused_before_it_is_read() -> None:
    data = MAGIC + b"\xff\xff\xff\xffB"
    with pytest.raises(ContextFormatError, match="announces a part"):
        check_bundle(io.BytesIO(data), now=FUTURE)


async def test_a_delta_of_a_newer_version_is_kept_and_never_changed(store: Store, other: Store) -> None:
    newer = cbor2.dumps({"v": 2, "entries": [], "extra": "of a later Zoea"}, canonical=True)
    blob, _ = prepare_blobs(newer, {})
    new = replace(new_commit([ContextEntry(Role.USER, "x")], None), blob=blob, lifted=())
    stored = await store.write(lambda conn: insert_commit(conn, new))
    await store.write(lambda conn: move_ref(conn, "@alpha", stored.seq, "test"))
    await store_in(other, bundle(store, stored))
    with closing(connect_reader(other.path)) as conn:
        commit = read_newest(conn, 1)[0]
        assert ChainReader(conn).read_bytes(commit) == newer
        shown = ChainReader(conn).materialize(commit)
        assert "version 2" in shown.entries[0].content
