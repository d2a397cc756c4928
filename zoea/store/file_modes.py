"""Find files of the data directory that other users may read, and take their access away."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from zoea.model.errors import StoreError
from zoea.store.integrity import IntegrityFinding

OTHERS = 0o077
_SHOWN = 5


def find_open_files(data: Path) -> IntegrityFinding:
    """Return a finding that names the data directory and its files if others may enter it."""
    data = data.resolve()  # because a link has no mode of its own
    if not data.is_dir() or not data.stat().st_mode & OTHERS:
        return IntegrityFinding("modes")
    found = [f"{path.relative_to(data.parent)} ({mode:04o})" for path, mode in _open_files(data)]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return IntegrityFinding(
        "modes",
        f"other users may enter or read {', '.join(found[:_SHOWN])}{more}" if found else "",
        "Run `zoea doctor --fix`.",
    )


def close_files(data: Path) -> int:
    """Make the data directory and its files accessible to their owner alone. Return how many were not.

    Raises:
        StoreError: One belongs to another user.
    """
    found = list(_open_files(data.resolve()))
    for path, mode in found:
        try:
            path.chmod(mode & ~OTHERS)
        except OSError as error:
            raise StoreError(
                f"the mode of {path} cannot be changed: {error.strerror}", hint="The data directory must belong to you."
            ) from error
    return len(found)


def _open_files(data: Path) -> Iterator[tuple[Path, int]]:
    """Yield the directory and its files, each with its mode. Links in it are left out."""
    for folder, folders, files in os.walk(data):
        at = Path(folder)
        for path in (at, *(at / name for name in files)):
            mode = path.lstat().st_mode
            if mode & OTHERS and (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                yield path, stat.S_IMODE(mode)
        folders.sort()
