"""Write bundles: commits with their ancestors, blobs and refs, for another database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import BinaryIO

from msgspec import Struct

from zoea.chain.bundle_file import MOST_BLOB, VERSION, BundleCommit, BundleHeader, BundleWriter, FrameKind
from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit import ContextCommit
from zoea.chain.commit_rows import BLOB_IDS, read_identity, read_lifted, walk_chain
from zoea.model.errors import StoreError
from zoea.store.blobs import pack_blob


class BundleCounts(Struct, frozen=True):
    """Numbers of written or stored commits and blobs, with the uncompressed bytes."""

    commits: int = 0
    blobs: int = 0
    bytes: int = 0


def write_bundle(
    conn: sqlite3.Connection, stream: BinaryIO, tips: Sequence[ContextCommit], refs: Mapping[str, str]
) -> BundleCounts:
    """Write commits with all their ancestors.

    Args:
        refs: The names in the bundle, with the ids of their commits in hexadecimal digits.

    Raises:
        MissingBlob: A part of a commit is not there.
        StoreError: A part is too large for a bundle.
    """
    commits = {one.seq: one for tip in tips for one in walk_chain(conn, tip.seq)}
    ordered = [commits[seq] for seq in sorted(commits)]
    sql = f"SELECT hash, size FROM blob WHERE id IN ({BLOB_IDS}) ORDER BY id"
    sizes: dict[bytes, int] = dict(map(tuple, conn.execute(sql, (json.dumps(list(commits)),)).fetchall()))
    writer = BundleWriter(stream)
    header = BundleHeader(v=VERSION, commits=len(ordered), blobs=len(sizes), refs=dict(refs))
    writer.write_record(FrameKind.HEADER, header)
    for one in ordered:
        parent = None if one.parent is None else commits[one.parent]
        writer.write_record(FrameKind.COMMIT, _describe(conn, one, parent))
    total = 0
    for digest, size in sizes.items():
        reader = ChainReader(conn)  # one for each, because it keeps what it read
        if reader.is_redacted(digest):
            writer.write_redacted(digest, size)
            continue
        if size > MOST_BLOB:
            raise StoreError(f"blob {digest.hex()[:16]} has {size:,} bytes, too many for a bundle ({MOST_BLOB:,})")
        blob = pack_blob(reader.fetch(digest))
        writer.write_blob(digest, blob.size, blob.packed)
        total += size
    writer.finish()
    return BundleCounts(len(ordered), len(sizes), total)


def _describe(conn: sqlite3.Connection, commit: ContextCommit, parent: ContextCommit | None) -> BundleCommit:
    about, identity = commit.provenance, read_identity(conn, commit)
    return BundleCommit(
        id=commit.digest.hex(),
        parent=None if parent is None else parent.digest.hex(),
        type=commit.kind,
        blob=commit.blob.hex(),
        lifted=sorted(digest.hex() for digest in read_lifted(conn, commit.seq)),
        format=commit.format,
        template=None if identity.template_hash is None else identity.template_hash.hex(),
        principal=about.principal,
        machine=about.machine,
        session=identity.session_id,
        seq=identity.seq,
        checkpoint=commit.checkpoint,
        ticket=about.ticket_id,
        thread=about.thread_id,
        messages=commit.message_count,
        tokens=commit.token_count,
        created_at=commit.created_at,
        summary=commit.note.summary,
        tags=list(commit.note.tags),
        model=commit.note.model,
    )
