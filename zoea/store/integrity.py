"""Check a database for damage and its files for access by others, for `zoea doctor`."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from zoea.model.errors import StoreError
from zoea.store.blobs import list_blob_files
from zoea.store.search import fts_index

SAMPLE = 500
"""Memories compared with the index when it cannot be checked completely."""
_SHOWN = 5

Report = Callable[[str], None]


class IntegrityFinding(Struct, frozen=True):
    """The result of one check: its name, the problem (empty if none), and a hint."""

    name: str
    problem: str = ""
    hint: str = ""


def inspect_database(
    connection: sqlite3.Connection, directory: Path, *, whole: bool, report: Report
) -> Iterator[IntegrityFinding]:
    """Run all checks, and yield one finding for each.

    Args:
        whole: Compare every indexed row; this needs a connection that may write.
        report: Called with the name of each check before it starts.

    Raises:
        sqlite3.Error: A query failed.
    """
    report("the file")
    broken = [row[0] for row in connection.execute(f"PRAGMA integrity_check({_SHOWN})")]
    yield IntegrityFinding(
        "file",
        "" if broken == ["ok"] else "; ".join(broken),
        "Restore a backup, or move the file away to start with a new one.",
    )
    report("the references")
    lost = [f"{row[0]} {row[1]} without its {row[2]}" for row in connection.execute("PRAGMA foreign_key_check")]
    yield IntegrityFinding(
        "references", _shorten_list(lost), "Restore a backup; rows with broken references cannot be shown."
    )
    report("the search indexes")
    if whole:
        wrong = fts_index.find_damaged(connection)
        yield IntegrityFinding(
            "search",
            f"differ from the stored rows: {', '.join(wrong)}" if wrong else "",
            "Run `zoea doctor --rebuild`.",
        )
    else:
        missing = fts_index.count_missing(connection, SAMPLE, seed=SAMPLE)
        yield IntegrityFinding(
            "search (a sample)",
            f"{missing} of {SAMPLE} memories are not in the index" if missing else "",
            "End the swarm, then run `zoea doctor --rebuild`.",
        )
    report("the blobs")
    there = {file.stem for file in list_blob_files(directory)}
    gone = [name for digest in _file_hashes(connection) if (name := digest.hex()) not in there]
    yield IntegrityFinding(
        "blobs", f"files are gone: {_shorten_list(gone)}" if gone else "", "Restore the folder `blobs` from a backup."
    )
    orphans = len(unused_files(connection, directory))
    yield IntegrityFinding(
        "unused files",
        f"{orphans} in `blobs` belong to no blob" if orphans else "",
        "They are harmless; `zoea doctor --vacuum` removes them.",
    )


def unused_files(connection: sqlite3.Connection, directory: Path) -> list[Path]:
    """Return blob files without a row, left by a rolled-back op or a removal."""
    digests = {digest.hex() for digest in _file_hashes(connection)}
    return [file for file in list_blob_files(directory) if file.stem not in digests]


def compact(connection: sqlite3.Connection) -> None:
    """Rewrite the database file without free pages and empty its write-ahead log."""
    connection.execute("VACUUM")
    empty_log(connection)


def empty_log(connection: sqlite3.Connection) -> None:
    """Move the write-ahead log into the database file."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def prepare_erasure(connection: sqlite3.Connection) -> None:
    """Overwrite freed pages with zeros, and check references, on this connection."""
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")


def _file_hashes(connection: sqlite3.Connection) -> list[bytes]:
    return [row[0] for row in connection.execute("SELECT hash FROM blob WHERE place = 'file' AND released_at IS NULL")]


def _shorten_list(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


OTHERS = 0o077


def find_open_files(data: Path, *above: Path) -> IntegrityFinding:
    """Return a finding that names the data files if others may enter their directory.

    Args:
        above: Directories above it that others may not enter either.
    """
    lines = [f"{path} ({mode:04o})" for path, mode in _open_folders(above)]
    data = data.resolve()  # because a link has no mode of its own
    if data.is_dir() and data.stat().st_mode & OTHERS:
        lines += [f"{path.relative_to(data.parent)} ({mode:04o})" for path, mode in _open_files(data)]
    if not lines:
        return IntegrityFinding("modes")
    return IntegrityFinding(
        "modes", f"other users may enter or read {_shorten_list(lines)}", "Run `zoea doctor --fix`."
    )


def close_files(data: Path, *above: Path) -> int:
    """Make the data directory, its files and the directories `above` accessible to their owner alone.

    Returns how many were not.

    Raises:
        StoreError: One belongs to another user.
    """
    paths = [*_open_folders(above), *_open_files(data.resolve())]
    for path, mode in paths:
        try:
            path.chmod(mode & ~OTHERS)
        except OSError as error:
            raise StoreError(
                f"the mode of {path} cannot be changed: {error.strerror}", hint="The data directory must belong to you."
            ) from error
    return len(paths)


def _open_folders(folders: Iterable[Path]) -> Iterator[tuple[Path, int]]:
    """Yield the directories of this user that others may enter, each with its mode."""
    for folder in folders:
        if folder.is_dir() and (status := folder.stat()).st_mode & OTHERS and status.st_uid == os.getuid():
            yield folder, stat.S_IMODE(status.st_mode)


def _open_files(data: Path) -> Iterator[tuple[Path, int]]:
    """Yield the directory and its files, each with its mode. Links in it are left out."""
    for folder, folders, files in os.walk(data):
        at = Path(folder)
        for path in (at, *(at / name for name in files)):
            mode = path.lstat().st_mode
            if mode & OTHERS and (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                yield path, stat.S_IMODE(mode)
        folders.sort()
