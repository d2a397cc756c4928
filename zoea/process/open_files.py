"""Find out whether the files of an open database were removed or replaced."""

from __future__ import annotations

import os
from pathlib import Path

from zoea.model.errors import StoreMoved


class OpenFiles:
    """The files of an open database, by device and inode.

    SQLite goes on writing to files that were unlinked or replaced, and whoever opens the path sees nothing of it.

    Args:
        path: The database, which exists.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = {str(path): _identify(str(path))}
        self._coming = [f"{path}{suffix}" for suffix in ("-wal", "-shm")]

    def check(self) -> None:
        """Check that all files are those that were opened. Takes a few microseconds.

        Raises:
            StoreMoved: One was removed or replaced.
        """
        for file in tuple(self._coming):  # SQLite creates them at the first write
            if (identity := _identify(file)) is not None:
                self._known[file] = identity
                self._coming.remove(file)
        for file, opened in self._known.items():
            if (now := _identify(file)) != opened:
                what = "was removed" if now is None else "was replaced by another file"
                raise StoreMoved(
                    f"{file} {what} while Zoea has it open.",
                    hint=f"Put the file that was there back to {self._path.parent}, and Zoea goes on by itself within "
                    "seconds. If it is lost, `zoea stop --swarm` ends the swarm: then restore a backup.",
                )


def _identify(file: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(file)
    except OSError:  # also where its directory is gone
        return None
    return status.st_dev, status.st_ino
