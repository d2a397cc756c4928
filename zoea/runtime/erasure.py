"""Remove archived myses and texts for good, for `zoea purge` and `zoea redact`.

Both need the workspace for themselves, because a running swarm holds texts in its memory. The change is one
transaction; then the indexes are merged and freed pages overwritten, so that the text leaves the files too.
"""

from __future__ import annotations

import getpass
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from zoea.chain.collection import DAY, REFLOG_DAYS, forget_branches
from zoea.chain.entries import rewrite_texts
from zoea.chain.mirror import find_mirror, find_mirrored, forget_mirrored, stored_digests
from zoea.model.errors import StoreFull
from zoea.process.clock import SystemClock
from zoea.runtime.maintenance import Say, open_alone, optimize
from zoea.runtime.unsent_texts import change_unsent, name_identity, name_limits, name_recipient, read_unsent
from zoea.settings.paths import Places
from zoea.settings.small_file import open_regular
from zoea.store.blobs import remove_blob_file
from zoea.store.integrity import compact, empty_log, prepare_erasure, unused_files
from zoea.store.redaction import REDACTED, RedactedCounts, redact_released, redact_text, written_forms
from zoea.store.retention import RemovedCounts, RetentionRule, remove_mysis, remove_unused
from zoea.store.sqlite_errors import translate_errors
from zoea.store.writer_connection import transaction
from zoea.swarm.persistence.capture_ops import branches_of

_CHUNK = 1 << 20


class Declined(Exception):
    """Raised inside the transaction where the person does not confirm; nothing is changed then."""


class RedactionResult(Struct, frozen=True):
    """Counts of replaced texts, and other files that still hold the text."""

    occurrences: int
    memories: int
    turns: int
    blobs: int
    remaining: tuple[str, ...]


def purge(places: Places, myses: Sequence[int], confirm: Callable[[RemovedCounts], bool], say: Say) -> RemovedCounts:
    """Remove archived myses for good.

    Args:
        confirm: Called with what would be removed, before it is.

    Raises:
        Declined: `confirm` returned False.
        WorkspaceHeld: A swarm runs.
        StoreError: The database cannot be read or written.
        SettingsError: The unsent texts cannot be read or written.
    """
    now = SystemClock().now()
    whom = [name_recipient(one, is_task=is_task) for one in myses for is_task in (False, True)]
    gone = {key for one in whom for key in (one, name_limits(one), name_identity(one))}
    with open_alone(places) as connection, translate_errors():
        has_unsent = bool(gone & read_unsent(places.drafts).keys())
        prepare_erasure(connection)
        before = stored_digests(connection)
        with transaction(connection):
            removed = RemovedCounts()
            for mysis_id in myses:
                removed += remove_mysis(connection, mysis_id, now=now, who=f"zoea purge, {getpass.getuser()}")
            branches = [name for one in myses for name in branches_of(connection, one)]
            forget_branches(connection, branches, now - REFLOG_DAYS * DAY)
            remove_unused(connection, RetentionRule(), now=now, who="")
            if not confirm(removed):
                raise Declined
        _erase_mirrored(connection, before - stored_digests(connection))
        _clean_up(connection, unused_files(connection, places.data), say)
        if has_unsent:
            change_unsent(places.drafts, lambda kept: {key: text for key, text in kept.items() if key not in gone})
    return removed


def redact(places: Places, text: str, confirm: Callable[[RedactedCounts], bool], say: Say) -> RedactionResult:
    """Replace a text in everything that is stored. Arguments and errors as `purge`, and UsageError."""
    with open_alone(places) as connection, translate_errors():
        prepare_erasure(connection)
        say("Looking through everything that is stored")
        before = stored_digests(connection)
        with transaction(connection):
            who = f"zoea redact, {getpass.getuser()}"
            counts = redact_text(connection, places.data, text, rewrite_texts, now=SystemClock().now(), who=who)
            mirrored = _find_mirrored(connection, text)
            redact_released(connection, mirrored)
            unsent = sum(typed.count(text) for typed in read_unsent(places.drafts).values())
            counts = replace(counts, occurrences=counts.occurrences + unsent)
            if not confirm(counts):
                raise Declined
        _erase_mirrored(connection, (before - stored_digests(connection)) | mirrored)
        _clean_up(connection, counts.files, say)
        if unsent:
            change_unsent(
                places.drafts, lambda kept: {key: typed.replace(text, REDACTED) for key, typed in kept.items()}
            )
        if _holds(places.database, [text.encode()]):
            say("Rewriting the database")
            compact(connection)
    # What the database has of it now are words of Zoea's own, or of other texts: its index holds all in small letters.
    forms = [form.encode() for form in written_forms(text)]
    remaining = [
        str(file.relative_to(places.data))
        for file in sorted(places.data.rglob("*"))
        if file != places.database
        and file.is_file()
        and not file.is_symlink()
        and file.suffix != ".zst"
        and _holds(file, forms)
    ]
    return RedactionResult(counts.occurrences, counts.memories, counts.turns, counts.blobs, tuple(remaining))


def _find_mirrored(connection: sqlite3.Connection, text: str) -> frozenset[bytes]:
    """Return the mirrored blobs that hold a text, also those that are gone here."""
    folder = find_mirror(connection)
    if folder is None or not folder.is_dir():
        return frozenset()
    return find_mirrored(folder, [form.encode() for form in written_forms(text)])


def _erase_mirrored(connection: sqlite3.Connection, gone: frozenset[bytes]) -> None:
    """Delete the blobs from the mirror too. Raises StoreFull where it is not there, so that no text stays unnoticed."""
    folder = find_mirror(connection)
    if folder is None or not gone:
        return
    if not folder.is_dir():
        raise StoreFull(
            f"the text is erased here, but the mirror {folder} is not there and may still hold it",
            hint="Mount its disk, and delete the files of its folder blobs.",
        )
    forget_mirrored(folder, gone)


def _clean_up(connection: sqlite3.Connection, files: Sequence[Path], say: Say) -> None:
    """Erase the removed text from the indexes, the write-ahead log and the files of blobs."""
    for file in files:
        remove_blob_file(file)
    say("Merging the indexes")
    optimize(connection)
    empty_log(connection)


def _holds(file: Path, texts: Sequence[bytes]) -> bool:
    """Return whether a file holds one of these texts."""
    kept, longest = b"", max(map(len, texts))
    with open_regular(file) as stream:
        while chunk := stream.read(_CHUNK):
            if any(text in kept + chunk for text in texts):
                return True
            kept = (kept + chunk)[-longest:]
    return False
