"""Reads conversations of commits through one connection to the database."""

from __future__ import annotations

import sqlite3

from zoea.chain.commit import ContextCommit
from zoea.chain.commit_rows import walk_chain
from zoea.chain.entries import ContextEntry
from zoea.chain.materialize import MaterializedContext, join_native, materialize
from zoea.model.errors import MissingBlob, StoreError
from zoea.store.blobs import get_blob
from zoea.store.redaction import REDACTED


class ChainReader:
    """Reads the bytes of commits and their texts; each blob once while the reader lives.

    Args:
        connection: To the database; only its thread may use the reader.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._texts: dict[bytes, bytes] = {}

    def read_bytes(self, commit: ContextCommit) -> bytes:
        """Return the bytes of a commit. Raises MissingBlob."""
        return self.fetch(commit.blob)

    def fetch(self, digest: bytes) -> bytes:
        """Return the bytes with a BLAKE3 hash; `[REDACTED]` for those that were redacted.

        Raises MissingBlob, which says why they are not there.
        """
        found = self._texts.get(digest)
        if found is None:
            found = self._texts[digest] = self._read(digest)
        return found

    def is_redacted(self, digest: bytes) -> bool:
        """Return whether the bytes with a hash were redacted."""
        sql = "SELECT 1 FROM blob WHERE hash = ? AND place = 'redacted'"
        return self._connection.execute(sql, (digest,)).fetchone() is not None

    def _read(self, digest: bytes) -> bytes:
        row = self._connection.execute("SELECT id, place FROM blob WHERE hash = ?", (digest,)).fetchone()
        if row is not None and row[1] == "redacted":
            return REDACTED.encode()
        if row is None:
            raise MissingBlob(f"blob {digest.hex()} is not there", hint="`zoea ctx fsck` lists what is missing.")
        try:
            return get_blob(self._connection, row[0])
        except StoreError as error:
            hint = "`zoea ctx fsck` lists what is missing."
            raise MissingBlob(f"blob {digest.hex()}: {error}", hint=hint) from error

    def materialize(
        self, commit: ContextCommit, *, stop: ContextCommit | None = None, to_root: bool = False
    ) -> MaterializedContext:
        """Return the conversation up to a commit.

        Args:
            stop: The ancestor at which it begins, which is included.
            to_root: Begin with the first commit; else with the nearest compaction or snapshot.

        Raises:
            StoreError: `stop` is no ancestor of the commit.
            MissingBlob: A part of it is not there.
        """
        return materialize(self.select_range(commit, stop=stop, to_root=to_root), self.read_bytes, self.fetch)

    def read_messages(
        self, commit: ContextCommit, *, stop: ContextCommit | None = None, to_root: bool = False
    ) -> tuple[ContextEntry, ...]:
        """Return the messages of the same range as they are stored, also results without their call."""
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
        """Return the commits of a range, oldest first. Raises StoreError where `stop` is no ancestor."""
        if stop is None:
            return walk_chain(self._connection, commit.seq, to_compaction=not to_root)
        chain = walk_chain(self._connection, commit.seq, stop=stop.seq)
        if chain[0].seq != stop.seq:
            raise StoreError(f"{stop.id[:12]} is no ancestor of {commit.id[:12]}")
        return chain
