"""Is the database what it should be? What `zoea doctor` looks at, read by read."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from zoea.store.blobs import blob_path
from zoea.store.search import fts_index

SAMPLE = 500
"""Memories that are compared with the index where it cannot be checked whole."""
_SHOWN = 5

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class IntegrityFinding:
    """One thing that was looked at: its name, what is wrong (empty where nothing is), and what to do."""

    name: str
    problem: str = ""
    hint: str = ""


def inspect_database(
    connection: sqlite3.Connection, directory: Path, *, whole: bool, say: Say
) -> Iterator[IntegrityFinding]:
    """Look at everything, one finding each.

    `whole` compares every indexed row, which needs a connection that may write.
    `directory` is where the database lies. `say` hears what is being looked at.
    Raises sqlite3.Error.
    """
    say("the file")
    broken = [row[0] for row in connection.execute(f"PRAGMA integrity_check({_SHOWN})")]
    yield IntegrityFinding(
        "file",
        "" if broken == ["ok"] else "; ".join(broken),
        "Restore a backup, or move the file away to start anew.",
    )
    say("the references")
    lost = [f"{row[0]} {row[1]} without its {row[2]}" for row in connection.execute("PRAGMA foreign_key_check")]
    yield IntegrityFinding(
        "references",
        _few(lost),
        "Restore a backup; what stands alone cannot be shown.",
    )
    say("the search indexes")
    if whole:
        wrong = fts_index.find_damaged(connection)
        yield IntegrityFinding(
            "search", f"not what is stored: {', '.join(wrong)}" if wrong else "", "Run `zoea doctor --rebuild`."
        )
    else:
        missing = fts_index.count_missing(connection, SAMPLE, seed=SAMPLE)
        yield IntegrityFinding(
            "search (a sample)",
            f"{missing} of {SAMPLE} memories are not in the index" if missing else "",
            "End the swarm, then run `zoea doctor --rebuild`.",
        )
    say("the blobs")
    gone = [digest.hex() for digest in _in_files(connection) if not blob_path(directory, digest).is_file()]
    yield IntegrityFinding(
        "blobs", f"files are gone: {_few(gone)}" if gone else "", "Restore the folder `blobs` from a backup."
    )
    orphans = len(unused_files(connection, directory))
    yield IntegrityFinding(
        "unused files",
        f"{orphans} in `blobs` belong to nothing" if orphans else "",
        "They do no harm; `zoea vacuum` removes them.",
    )


def unused_files(connection: sqlite3.Connection, directory: Path) -> list[Path]:
    """Files of blobs that no row knows: left by an op that was rolled back, or by a purge."""
    known = {blob_path(directory, digest).stem for digest in _in_files(connection)}
    found = (directory / "blobs").glob("??/*")
    return [file for file in found if file.is_file() and file.stem not in known]


def compact(connection: sqlite3.Connection) -> None:
    """Rewrite the database file without free pages and empty its write-ahead log."""
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _in_files(connection: sqlite3.Connection) -> list[bytes]:
    return [row[0] for row in connection.execute("SELECT hash FROM blob WHERE place = 'file'")]


def _few(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
