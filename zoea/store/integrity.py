"""Check a database for damage, for `zoea doctor`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from zoea.store.blobs import blob_path
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
        "references",
        _shorten_list(lost),
        "Restore a backup; rows with broken references cannot be shown.",
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
    gone = [digest.hex() for digest in _file_hashes(connection) if not blob_path(directory, digest).is_file()]
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
    known = {blob_path(directory, digest).stem for digest in _file_hashes(connection)}
    found = (directory / "blobs").glob("??/*")
    return [file for file in found if file.is_file() and file.stem not in known]


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
