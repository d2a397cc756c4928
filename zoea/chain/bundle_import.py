"""Check bundles whole, then store them in one op.

Commits keep their ids. What their ids are made of and has no meaning here (the number, session and
template of another database) stands in `ctx_import`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from msgspec import Struct, field

from zoea.chain.bundle_export import BundleCounts
from zoea.chain.bundle_file import (
    MOST_BLOBS,
    MOST_COMMITS,
    VERSION,
    BundleCommit,
    BundleHeader,
    FrameKind,
    check_part,
    read_frames,
    read_record,
    split_blob,
    unpack_part,
)
from zoea.chain.commit import CommitIdentity, CommitNote, ContextCommit, Provenance, commit_digest
from zoea.chain.commit_ops import insert_imported, move_ref
from zoea.chain.commit_rows import find_common, find_digest, read_commit, read_ref
from zoea.chain.entries import FetchBlob, check_delta_size, is_newer_delta, lifted_hashes
from zoea.chain.formats import ZOEA, known_formats
from zoea.chain.ref_names import BRANCH, IMPORTED, TAG, TICKET
from zoea.chain.revisions import is_ref_name
from zoea.model.errors import ContextFormatError
from zoea.store.blobs import PackedBlob, put_packed, put_redacted, restore_blob
from zoea.store.writer_connection import WriterConnection
from zoea.text.control_characters import clean
from zoea.text.sentences import count_of

MOST_DELTA = 8 * 1024 * 1024
"""Bytes of the longest delta of format `zoea-v1`; its long texts are blobs of their own."""
MOST_BYTES = 8 * 1024**3
"""Uncompressed bytes of all blobs of a bundle."""
AHEAD = 24 * 3600 * 1_000_000
"""A commit that was made later than this after now has a wrong time."""
_KEPT = (IMPORTED, TAG, TICKET)
"""Beginnings of the refs that keep their names."""


class _Part(Struct, frozen=True):
    """The place of a blob in the file. Its length is -1 where it was redacted."""

    offset: int
    length: int
    size: int
    is_text: bool


class CheckedBundle(Struct, frozen=True):
    """A bundle that may be stored. `stream` has to be open until then."""

    stream: BinaryIO
    commits: tuple[BundleCommit, ...]
    refs: dict[str, str]
    parts: dict[bytes, _Part]

    def read_packed(self, digest: bytes) -> bytes:
        """Return the compressed bytes of a blob."""
        part = self.parts[digest]
        self.stream.seek(part.offset)
        return self.stream.read(part.length)

    def read_blob(self, digest: bytes) -> bytes:
        """Return the bytes of a blob. Raises ContextFormatError."""
        return unpack_part(digest, self.parts[digest].size, self.read_packed(digest))

    def is_redacted(self, digest: bytes) -> bool:
        """Return whether the bundle holds only the hash of a blob."""
        return self.parts[digest].length < 0


class StoredBundle(Struct):
    """The result of an import: new commits, refs with their commits, and renamed refs.

    Attributes:
        kept: Tags and tickets that stay, by the commit that the bundle has for them.
        moved: Those that were moved, by the commit that they named before.
    """

    counts: BundleCounts = field(default_factory=BundleCounts)
    known: int = 0
    refs: dict[str, str] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)


def check_bundle(stream: BinaryIO, *, now: int) -> CheckedBundle:
    """Read and check a bundle whole, without storing anything.

    Raises:
        ContextFormatError: It is no bundle, is damaged, too large, or does not fit together.
    """
    header: BundleHeader | None = None
    commits: dict[str, BundleCommit] = {}
    parts: dict[bytes, _Part] = {}
    total = 0
    for frame in read_frames(stream):
        if (header is None) is not (frame.kind is FrameKind.HEADER):
            raise ContextFormatError("the bundle does not begin with one header")
        match frame.kind:
            case FrameKind.HEADER:
                header = read_record(frame.data, BundleHeader)
            case FrameKind.COMMIT:
                if len(commits) >= MOST_COMMITS:
                    raise ContextFormatError(f"the bundle has more than {MOST_COMMITS:,} commits")
                commit = read_record(frame.data, BundleCommit)
                _check_commit(commit, commits, now)
                commits[commit.id] = commit
            case _:
                digest, size, packed = split_blob(frame)
                if digest in parts:
                    raise ContextFormatError(f"blob {digest.hex()[:16]} stands twice in the bundle")
                is_redacted = frame.kind is FrameKind.REDACTED
                total += 0 if is_redacted else size
                if total > MOST_BYTES:
                    raise ContextFormatError(f"the blobs of the bundle have more than {MOST_BYTES:,} bytes")
                if len(parts) >= MOST_BLOBS:
                    raise ContextFormatError(f"the bundle has more than {MOST_BLOBS:,} blobs")
                is_text = is_redacted or check_part(digest, size, packed)
                length = -1 if is_redacted else len(packed)
                parts[digest] = _Part(frame.offset + len(frame.data) - len(packed), length, size, is_text)
    if header is None or header.v != VERSION:
        raise ContextFormatError("the bundle has no header of this version", hint="Upgrade Zoea to read it.")
    if (header.commits, header.blobs) != (len(commits), len(parts)):
        said = f"{count_of(header.commits, 'commit')} and {count_of(header.blobs, 'blob')}"
        raise ContextFormatError(f"the bundle announces {said}, and has {len(commits):,} and {len(parts):,}")
    bundle = CheckedBundle(stream, tuple(commits.values()), header.refs, parts)
    for name, commit_id in bundle.refs.items():
        if commit_id not in commits:
            raise ContextFormatError(f"ref {name!r:.60} names a commit that is not in the bundle")
        if not is_ref_name(name.removeprefix(BRANCH)):
            raise ContextFormatError(f"{name!r:.60} cannot be the name of a commit")
    _check_blobs(bundle)
    return bundle


def store_bundle(conn: WriterConnection, bundle: CheckedBundle, *, moves_names: bool = False) -> StoredBundle:
    """Store the new commits of a bundle and set its refs. For use in an op.

    A ref of a mysis, and one whose name is taken by another chain, gets a name of its own. An imported conversation
    goes forward with its chain. Tags and tickets that are here stay, unless `moves_names`.
    """
    done = StoredBundle()
    seqs: dict[str, int] = {}
    blobs = size = 0
    for digest, part in bundle.parts.items():
        if bundle.is_redacted(digest):
            put_redacted(conn, digest, part.size)
            continue
        packed = PackedBlob(digest, part.size, bundle.read_packed(digest))
        before = conn.execute("SELECT 1 FROM blob WHERE hash = ?", (digest,)).fetchone()
        if before is None:
            put_packed(conn, packed)
            blobs, size = blobs + 1, size + part.size
        else:
            restore_blob(conn, packed)
    for one in bundle.commits:
        known = find_digest(conn, bytes.fromhex(one.id))
        if known is None:
            parent = None if one.parent is None else seqs[one.parent]
            known = insert_imported(conn, _commit(one, parent), _identity(one), _lifted(one))
        else:
            done.known += 1
        seqs[one.id] = known
    done.counts = BundleCounts(len(bundle.commits) - done.known, blobs, size)
    for name, commit_id in bundle.refs.items():
        # Branches of the other database's myses become imported contexts.
        wanted = name if name.startswith(_KEPT) else IMPORTED + name.removeprefix(BRANCH)
        is_fixed = wanted.startswith((TAG, TICKET))
        old = read_ref(conn, wanted) if is_fixed else None
        if old is not None and old != seqs[commit_id] and moves_names:
            commit = read_commit(conn, old)
            done.moved[wanted] = commit.id if commit is not None else ""
            move_ref(conn, wanted, seqs[commit_id], "import")
        ref = _set_ref(conn, wanted, seqs[commit_id], goes_forward=not is_fixed)
        if read_ref(conn, ref) != seqs[commit_id] and is_fixed:
            done.kept[ref] = f"ctx-{commit_id}"
            continue
        done.refs[ref] = f"ctx-{commit_id}"
        if ref != name:
            done.renamed[name] = ref
    return done


def _check_commit(one: BundleCommit, before: dict[str, BundleCommit], now: int) -> None:
    name = f"ctx-{one.id[:16]}"
    if one.id in before:
        raise ContextFormatError(f"commit {name} stands twice in the bundle")
    if one.parent is not None and one.parent not in before:
        raise ContextFormatError(f"the parent of commit {name} does not stand before it in the bundle")
    texts = (one.format, one.principal, one.machine, one.ticket or "", one.thread or "", one.model)
    if any(clean(text) != text for text in texts):
        raise ContextFormatError(f"a field of commit {name} has control characters")
    if any(len(digest) != 64 or set(digest) - set("0123456789abcdef") for digest in one.lifted):
        raise ContextFormatError(f"commit {name} names a blob that is no hash")
    if one.created_at > now + AHEAD:
        raise ContextFormatError(
            f"commit {name} was made in the future", hint="Check the clocks of this and the other machine."
        )
    identity = _identity(one)
    digest = commit_digest(
        parent=None if one.parent is None else bytes.fromhex(one.parent),
        blob=bytes.fromhex(one.blob),
        principal=one.principal,
        identity=identity,
        created_at=one.created_at,
    )
    if digest.hex() != one.id:
        raise ContextFormatError(f"the id of commit {name} does not follow from its parent, blob, origin and time")


def _check_blobs(bundle: CheckedBundle) -> None:
    """Check that each commit parses whole and has its blobs, and each blob a commit."""
    used: set[bytes] = set()
    needs: dict[tuple[str, bytes], frozenset[bytes]] = {}

    def fetch(digest: bytes) -> bytes:
        """Return an empty text, because only the presence of a text is checked."""
        if not bundle.parts[digest].is_text:
            raise ContextFormatError(f"blob {digest.hex()[:16]} of the bundle is no text")
        return b""

    for one in bundle.commits:
        own, lifted = bytes.fromhex(one.blob), _lifted(one)
        for digest in (own, *lifted):
            if digest not in bundle.parts:
                raise ContextFormatError(f"blob {digest.hex()[:16]} of commit ctx-{one.id[:16]} is not in the bundle")
        used.update((own, *lifted))
        if bundle.is_redacted(own):
            continue
        key = one.format, own
        if key not in needs:  # many commits may have one blob, and each check takes time
            needs[key] = _check_delta(bundle, one, fetch)
        if not needs[key] <= set(lifted):
            raise ContextFormatError(f"commit ctx-{one.id[:16]} needs a blob that it does not name")
    if used != bundle.parts.keys():
        raise ContextFormatError("the bundle has blobs that no commit needs")


def _check_delta(bundle: CheckedBundle, one: BundleCommit, fetch: FetchBlob) -> frozenset[bytes]:
    """Check that the delta of a commit parses whole; return the blobs that it needs."""
    own = bytes.fromhex(one.blob)
    size = bundle.parts[own].size
    needed: frozenset[bytes] = frozenset()
    if one.format == ZOEA:
        if size > MOST_DELTA:
            raise ContextFormatError(
                f"the delta of commit ctx-{one.id[:16]} has {size:,} bytes, more than {MOST_DELTA:,}"
            )
        data = bundle.read_blob(own)
        check_delta_size(data)
        needed = lifted_hashes(data)
        if not needed <= bundle.parts.keys():
            raise ContextFormatError(f"commit ctx-{one.id[:16]} needs a blob that it does not name")
        if is_newer_delta(data):
            return needed  # kept as it is, and shown as far as it is understood
    known = known_formats().get(one.format)
    if known is not None:
        known.read(bundle.read_blob(own), fetch)
    return needed


def _identity(one: BundleCommit) -> CommitIdentity:
    template = None if one.template is None else bytes.fromhex(one.template)
    return CommitIdentity(one.seq, template, one.session)


def _lifted(one: BundleCommit) -> list[bytes]:
    return [bytes.fromhex(digest) for digest in one.lifted]


def _commit(one: BundleCommit, parent: int | None) -> ContextCommit:
    about = Provenance(one.principal, one.machine, ticket_id=one.ticket, thread_id=one.thread)
    return ContextCommit(
        0,
        bytes.fromhex(one.id),
        parent,
        one.type,
        bytes.fromhex(one.blob),
        one.format,
        one.checkpoint,
        about,
        one.messages,
        one.tokens,
        one.created_at,
        CommitNote(clean(one.summary), tuple(clean(tag) for tag in one.tags), one.model),
    )


def _names(wanted: str) -> Iterator[str]:
    yield wanted
    number = 2
    while True:
        yield f"{wanted}-{number}"
        number += 1


def _set_ref(conn: WriterConnection, wanted: str, seq: int, *, goes_forward: bool) -> str:
    """Set a ref to a commit without leaving one behind. Return the name that it got, or that stays where it is."""
    for name in _names(wanted):
        old = read_ref(conn, name)
        if old == seq:
            return name
        if old is not None:
            common = find_common(conn, old, seq)
            if common is None or common.seq not in (old, seq):
                continue  # another conversation has the name
            if common.seq == seq or not goes_forward:
                return name  # it is ahead already, or a person chose its commit
        move_ref(conn, name, seq, "import")
        return name
    raise AssertionError("names do not end")
