"""Builds the conversation of a commit from its chain, in any format.

What lies between two commits is deltas, compactions and snapshots. A compaction or snapshot counts
only where it is the oldest commit of the range; everywhere else the deltas say the same in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum

from msgspec import Struct
from msgspec.structs import replace

from zoea.chain.commit import CommitType, ContextCommit
from zoea.chain.entries import ContextEntry, FetchBlob, answer_open_calls
from zoea.chain.formats import ZOEA, ContextFormat, known_formats
from zoea.model.enums import Role
from zoea.model.errors import ContextFormatError
from zoea.store.redaction import REDACTED
from zoea.text.sentences import count_of

ReadBytes = Callable[[ContextCommit], bytes]
"""Return the bytes of a commit. Raises MissingBlob."""


class Tier(IntEnum):
    """The fidelity of a translation; a lower one is better.

    NATIVE: the same bytes. MAPPED: every message, field by field. NARRATIVE: the texts as one
    message. RAW: only a description of the bytes.
    """

    NATIVE = 1
    MAPPED = 2
    NARRATIVE = 3
    RAW = 4


class MaterializedContext(Struct, frozen=True):
    """The conversation up to a commit.

    Attributes:
        entries: Its messages in order, each call with a result.
        tier: The worst tier of its commits.
        repaired: How many results were added for calls that had none.
    """

    entries: tuple[ContextEntry, ...]
    tier: Tier
    repaired: int

    @property
    def token_count(self) -> int:
        """The estimated tokens of all texts."""
        return sum(entry.token_count for entry in self.entries)


def contributing(chain: Sequence[ContextCommit]) -> list[ContextCommit]:
    """Return the commits of a range that belong to its conversation, oldest first."""
    return [one for place, one in enumerate(chain) if place == 0 or one.kind is CommitType.DELTA]


def materialize(
    chain: Sequence[ContextCommit], read_bytes: ReadBytes, fetch: FetchBlob, *, repair: bool = True
) -> MaterializedContext:
    """Return the conversation of a range of commits, oldest first; empty for none.

    Args:
        repair: Give each call one result, and leave out results without a call, as providers demand.

    Raises:
        MissingBlob: Bytes of a commit, or a text that it refers to, are not there.
    """
    entries: list[ContextEntry] = []
    tier = Tier.NATIVE
    for commit in contributing(chain):
        found, used = _entries(commit, read_bytes(commit), fetch)
        entries.extend(found)
        tier = max(tier, used)
    if not repair:
        return MaterializedContext(tuple(entries), tier, 0)
    repaired, added = answer_open_calls(entries)
    return MaterializedContext(repaired, tier, added)


def write_as(context: MaterializedContext, format_name: str) -> bytes:
    """Return a conversation in a format. Raises ContextFormatError for an unknown one."""
    return find_format(format_name).write(context.entries)


def join_native(chain: Iterable[ContextCommit], read_bytes: ReadBytes) -> bytes | None:
    """Return the joined bytes of a range in its own format, unchanged. None where formats differ or are unknown."""
    parts = contributing(list(chain))
    names = {one.format for one in parts}
    if len(names) != 1 or (found := known_formats().get(names.pop())) is None:
        return None
    return found.join([read_bytes(one) for one in parts])


def find_format(name: str) -> ContextFormat:
    """Return the format with a name. Raises ContextFormatError."""
    found = known_formats().get(name)
    if found is None:
        names = ", ".join(sorted(known_formats()))
        raise ContextFormatError(f"there is no format {name!r}", hint=f"Formats: {names}.")
    return found


def _entries(commit: ContextCommit, data: bytes, fetch: FetchBlob) -> tuple[tuple[ContextEntry, ...], Tier]:
    """Return the entries of one commit by the most faithful way that works."""
    if data == REDACTED.encode():
        told = f"{count_of(commit.message_count, 'message')} of the previous session: {REDACTED}"
        return (ContextEntry(Role.USER, told, "system", at=commit.created_at, is_synthetic=True),), Tier.NARRATIVE
    known = known_formats().get(commit.format)
    if known is not None:
        try:
            found = known.read(data, fetch)
            if commit.format == ZOEA:
                return found, Tier.NATIVE
            return tuple(one if one.at else replace(one, at=commit.created_at) for one in found), Tier.MAPPED
        except ContextFormatError as error:
            why = str(error)
    else:
        why = f"format {commit.format} is unknown"
    summary = f"\nIts summary: {commit.note.summary}" if commit.note.summary else ""
    try:
        text, tier = data.decode("utf-8"), Tier.NARRATIVE
        told = f"What the previous session knew, as it was written ({why}):{summary}\n\n{text}"
    except UnicodeDecodeError:
        tier = Tier.RAW
        told = (
            f"A part of the previous session cannot be shown ({why}): {count_of(commit.message_count, 'message')},"
            f" {len(data):,} bytes, blob {commit.blob.hex()[:16]}.{summary}"
        )
    return (ContextEntry(Role.USER, told, "system", at=commit.created_at, is_synthetic=True),), tier
