"""Context commits: what an agent knew at a moment, as a chain of deltas.

The id of a commit is `ctx-` and the BLAKE3 hash of what it is made of; people use the shortest
unique prefix of at least 8 digits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from blake3 import blake3
from msgspec import Struct

ID_PREFIX = "ctx-"
COMMANDER = "commander"
"""The principal of commits that people make beside the branch of a mysis."""
SUMMARY_TOKENS = 2_000
"""The most a summary of the conversation up to a commit takes."""
NOTE_TOKENS = 300
"""The most a summary of one commit alone takes."""


class CommitType(StrEnum):
    """The types of commits, by the contents of their blobs.

    DELTA: the messages since the parent. COMPACTION: a summary that replaces all before it.
    SNAPSHOT: a whole context, from a cache or another program.
    """

    DELTA = "delta"
    COMPACTION = "compaction"
    SNAPSHOT = "snapshot"


class Checkpoint(StrEnum):
    """The reasons for a commit."""

    TURN_BOUNDARY = "turn_boundary"
    TOOL_CALL = "tool_call"
    COMPACTION = "compaction"
    SESSION_END = "session_end"
    EXPLICIT = "explicit"


class Provenance(Struct, frozen=True):
    """The origin of a commit: its maker, place and purpose.

    Attributes:
        template_hash: Of the resolved template; None for a context from another program.
        principal: Name of the mysis, or of the program the context came from.
        ticket_id: The piece of work elsewhere that it belongs to; an answer has that of the commit that was asked.
        thread_id: The discussion in which it was made, by a mysis that was asked.
    """

    principal: str
    machine: str = ""
    template_hash: bytes | None = None
    mysis_id: int | None = None
    session_id: int | None = None
    ticket_id: str | None = None
    thread_id: str | None = None


class CommitIdentity(Struct, frozen=True):
    """The parts of a commit's id that differ between databases: number, template and session."""

    seq: int
    template_hash: bytes | None
    session_id: int | None


class CommitNote(NamedTuple):
    """The text about a commit that may change: its newest summary and tags.

    Attributes:
        model: The model that wrote the summary; empty where none did.
    """

    summary: str = ""
    tags: tuple[str, ...] = ()
    model: str = ""


class ContextCommit(NamedTuple):
    """A stored commit; a tuple, because thousands are made in a walk.

    Attributes:
        seq: Its place in the order of all commits.
        digest: BLAKE3 of its id.
        blob: BLAKE3 of its bytes.
        message_count: Messages of this commit alone, not of the chain.
        created_at: µs UTC; never before the principal's commit before it.
    """

    seq: int
    digest: bytes
    parent: int | None
    kind: CommitType
    blob: bytes
    format: str
    checkpoint: Checkpoint
    provenance: Provenance
    message_count: int
    token_count: int
    created_at: int
    note: CommitNote

    @property
    def id(self) -> str:
        """The full id, `ctx-` and 64 digits."""
        return ID_PREFIX + self.digest.hex()


def commit_digest(
    *, parent: bytes | None, blob: bytes, principal: str, identity: CommitIdentity, created_at: int
) -> bytes:
    """Return the hash that identifies a commit."""
    hasher = blake3()
    fields: Iterable[bytes] = (
        parent or b"",
        blob,
        identity.template_hash or b"",
        principal.encode(),
        struct.pack(">qqq", identity.session_id or 0, identity.seq, created_at),
    )
    for field in fields:
        hasher.update(struct.pack(">I", len(field)))  # so that no two lists of fields give the same bytes
        hasher.update(field)
    return hasher.digest()
