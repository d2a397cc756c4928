"""Reads conversations of commits through one connection to the database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from zoea.chain.commit import ContextCommit
from zoea.chain.commit_rows import BLOB_IDS, shortest_id, walk_chain
from zoea.chain.entries import ContextEntry
from zoea.chain.materialize import MaterializedContext, contributing, join_native, materialize
from zoea.chain.mirror import find_mirror, read_mirrored
from zoea.model.errors import MissingBlob, RevisionError, StoreError
from zoea.store.blobs import blob_directory, unpack_blob
from zoea.store.redaction import REDACTED
from zoea.text.sentences import count_of

_BLOB = "SELECT id, hash, place, data, size, released_at, replaced_by FROM blob"
_BLOBS_OF = f"{_BLOB} WHERE id IN ({BLOB_IDS})"

_NAMED = 20
"""The most hashes that an error names."""
_LET_GO = (
    "`zoea ctx fetch COMMIT` brings it back if chain.mirror has it, `zoea ctx import` from a bundle that holds it."
)
_MISSING = "`zoea ctx fsck` lists what is missing, `zoea ctx fetch` brings back what chain.mirror has."


class ChainReader:
    """Reads the bytes of commits and their texts; each blob once while the reader lives.

    Args:
        connection: To the database; only its thread may use the reader.
        uses_mirror: Read from the mirror what is missing or damaged here.
    """

    def __init__(self, connection: sqlite3.Connection, *, uses_mirror: bool = True) -> None:
        self._connection = connection
        self._uses_mirror = uses_mirror
        self._texts: dict[bytes, bytes] = {}
        self._directory: Path | None = None

    def read_bytes(self, commit: ContextCommit) -> bytes:
        """Return the bytes of a commit. Raises MissingBlob."""
        return self.fetch(commit.blob)

    def fetch(self, digest: bytes) -> bytes:
        """Return the bytes with a BLAKE3 hash, or their replacement after a redaction.

        Raises MissingBlob, which says why they are not there.
        """
        text = self._texts.get(digest)
        if text is None:
            row = self._connection.execute(f"{_BLOB} WHERE hash = ?", (digest,)).fetchone()
            if row is None:
                raise MissingBlob(f"the text {digest.hex()} is not there", hint=_MISSING)
            text = self._texts[digest] = self._unpack(row)
        return text

    def is_redacted(self, digest: bytes) -> bool:
        """Return whether the bytes with a hash were redacted."""
        sql = "SELECT 1 FROM blob WHERE hash = ? AND place = 'redacted'"
        return self._connection.execute(sql, (digest,)).fetchone() is not None

    def is_released(self, digest: bytes) -> bool:
        """Return whether the bytes with a hash were let go on purpose."""
        sql = "SELECT 1 FROM blob WHERE hash = ? AND released_at IS NOT NULL"
        return self._connection.execute(sql, (digest,)).fetchone() is not None

    def _unpack(self, row: Any) -> bytes:
        """Return the bytes of a row of `_BLOB`. Raises MissingBlob."""
        blob_id, digest, place = row[0], row[1], row[2]
        if place == "redacted" and row[6] is None:
            return REDACTED.encode()
        if place == "redacted":
            instead = self._connection.execute("SELECT hash FROM blob WHERE id = ?", (row[6],)).fetchone()[0]
            return self.fetch(instead)
        if self._directory is None:
            self._directory = blob_directory(self._connection)
        try:
            return unpack_blob(self._directory, blob_id, [row[1:5]])
        except StoreError as error:
            folder = find_mirror(self._connection) if self._uses_mirror else None
            if folder is not None:
                with suppress(StoreError):
                    return read_mirrored(folder, digest, row[4])
            if row[5] is not None:
                raise MissingBlob(
                    f"the text {digest.hex()} was let go: its commits were ephemeral", hint=_LET_GO
                ) from error
            raise MissingBlob(f"the text {digest.hex()} cannot be read: {error}", hint=_MISSING) from error

    def materialize(
        self, commit: ContextCommit, *, stop: ContextCommit | None = None, to_root: bool = False
    ) -> MaterializedContext:
        """Return the conversation up to a commit.

        Args:
            stop: The ancestor at which it begins, which is included.
            to_root: Begin with the first commit; else with the nearest compaction or snapshot.

        Raises:
            RevisionError: `stop` is no ancestor of the commit.
            MissingBlob: Parts of it are not there; it names them.
        """
        chain = self.select_range(commit, stop=stop, to_root=to_root)
        # All blobs of the range by one query; one that cannot be read raises when it is needed.
        for row in self._connection.execute(_BLOBS_OF, (json.dumps([one.seq for one in contributing(chain)]),)):
            if row[1] not in self._texts:
                with suppress(MissingBlob):
                    self._texts[row[1]] = self._unpack(row)
        try:
            return materialize(chain, self.read_bytes, self.fetch)
        except MissingBlob as first:
            others = self._find_missing(chain)[1:]
            if not others:
                raise
            named = ", ".join(digest.hex() for digest in others[:_NAMED])
            more = f" and {len(others) - _NAMED:,} more" if len(others) > _NAMED else ""
            sentence = f"{first.what}; {count_of(len(others), 'other part')} cannot be read either: {named}{more}"
            raise MissingBlob(sentence, hint=first.hint) from first

    def _find_missing(self, chain: Sequence[ContextCommit]) -> list[bytes]:
        """Return the hashes of the unreadable blobs of a range, in order."""
        missing: dict[bytes, None] = {}

        def fetch(digest: bytes) -> bytes:
            try:
                return self.fetch(digest)
            except MissingBlob:
                missing[digest] = None
                return b""

        materialize(chain, lambda commit: fetch(commit.blob), fetch, repair=False)
        return list(missing)

    def read_messages(
        self, commit: ContextCommit, *, stop: ContextCommit | None = None, to_root: bool = False
    ) -> tuple[ContextEntry, ...]:
        """Return the messages of the same range as stored. Results without their call are among them."""
        chain = self.select_range(commit, stop=stop, to_root=to_root)
        return materialize(chain, self.read_bytes, self.fetch, repair=False).entries

    def join_native(
        self, commit: ContextCommit, *, stop: ContextCommit | None = None, to_root: bool = False
    ) -> bytes | None:
        """Return the same range as bytes of its own format, unchanged; None where formats differ."""
        return join_native(self.select_range(commit, stop=stop, to_root=to_root), self.read_bytes)

    def select_range(
        self, commit: ContextCommit, *, stop: ContextCommit | None = None, to_root: bool = False
    ) -> list[ContextCommit]:
        """Return the commits of a range, oldest first. Raises RevisionError where `stop` is no ancestor."""
        if stop is None:
            return walk_chain(self._connection, commit.seq, to_compaction=not to_root)
        chain = walk_chain(self._connection, commit.seq, stop=stop.seq)
        if chain[0].seq != stop.seq:
            one, other = (shortest_id(self._connection, each) for each in (stop, commit))
            raise RevisionError(
                f"{one} is not before {other}", hint=f"`zoea ctx log {other}` lists the commits before it."
            )
        return chain
