"""World file: the ordered log of calls and ticks, and snapshots.

Replaying the whole log gives the same state hash; a snapshot only saves time. Rows are committed before a call is
acknowledged, so that a killed process loses no acknowledged call.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import IO, Any

from zoea.model.errors import StoreMoved, WorldError
from zoea.process.open_files import OpenFiles
from zoea.settings.paths import make_private_folder
from zoea.settings.private_file import describe_failure, open_private
from zoea.world.reef import Reef
from zoea.world.refusal import ReefRefusal
from zoea.world.state import World, digest
from zoea.world.world_map import WorldMap

VERSION = 1
APPLICATION = 0x52454546
SNAPSHOT_EVERY = 20_000

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE log (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('register','claim','call','ticks')),
  name TEXT NOT NULL DEFAULT '', tool TEXT NOT NULL DEFAULT '',
  args TEXT NOT NULL DEFAULT '', count INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE TABLE snapshot (log_id INTEGER PRIMARY KEY, hash TEXT NOT NULL, state BLOB NOT NULL) STRICT;
"""


class WorldInUse(WorldError):
    """Raised when another process has the world file open."""


class WorldLog:
    """Keep one world file open.

    Args:
        path: `reef.db`; created if missing.
        seed: Seed of a new world, 0 if None; an existing one must have the same.
        systems: Size of a new world, 40 if None; an existing one must have the same.

    Raises WorldInUse if another process holds the file, WorldError if it is foreign or was made with other values.
    """

    def __init__(self, path: Path, *, seed: int | None = None, systems: int | None = None) -> None:
        try:
            make_private_folder(path.parent)
            self._lock = _lock_file(path.with_suffix(".lock"))
        except OSError as error:
            raise WorldError(
                f"{path} cannot be used: {describe_failure(error)}.", hint="Give another --data directory."
            ) from error
        with ExitStack() as opened:
            opened.callback(self._lock.close)
            self._db = _open(path, seed, systems)
            opened.callback(self._db.close)
            self._files = OpenFiles(path)
            self.reef = load_world(self._db, whole=False)
            opened.pop_all()
        self._last_ticks: int | None = None
        self._rows = 0

    def register(self, name: str, secret: str) -> None:
        self._append("register", name, "", secret)

    def claim(self, name: str) -> None:
        self._append("claim", name, "", "")

    def call(self, name: str, tool: str, args: dict[str, Any]) -> None:
        self._append("call", name, tool, json.dumps(args, separators=(",", ":")))

    def tick(self) -> None:
        """Log one tick; ticks without a call between them share a row."""
        if self._last_ticks is not None:
            self._begin()
            self._db.execute("UPDATE log SET count = count + 1 WHERE id = ?", (self._last_ticks,))
        else:
            self._append("ticks", "", "", "")
            self._last_ticks = self._last

    def why_moved(self) -> str:
        """Return why nothing can be stored: the file was removed or replaced. Empty where it is in its place."""
        try:
            self._files.check()
        except StoreMoved as error:
            return f"{error.what} {error.hint}"
        return ""

    def commit(self) -> bool:
        """Commit the log. Return False where its file was moved: then nothing is stored for sure until it is back.

        Ends the process if it fails, because its memory would be ahead of its file.
        """
        if self.why_moved():
            return False
        try:
            if self._db.in_transaction:
                self._db.execute("COMMIT")
        except sqlite3.Error as error:
            sys.stderr.write(f"The world cannot write its file and ends: {error}\n")
            sys.stderr.flush()
            os._exit(WorldError.exit_code)
        if self.why_moved():
            return False
        if self._rows >= SNAPSHOT_EVERY:
            self.snapshot()
        return True

    def snapshot(self) -> None:
        """Store the state, so that the next start replays only later rows."""
        last = self._db.execute("SELECT coalesce(max(id), 0) FROM log").fetchone()[0]
        text = self.reef.world.to_json()
        self._last_ticks = None
        self._rows = 0
        with self._db:
            self._db.execute("BEGIN")
            self._db.execute(
                "INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?)",
                (last, digest(text), zlib.compress(text.encode(), 1)),
            )
            self._db.execute("DELETE FROM snapshot WHERE log_id < ?", (last,))

    def close(self) -> None:
        """Commit, store a snapshot and release the file."""
        if self.commit():
            self.snapshot()
        self._db.close()
        self._lock.close()

    def _begin(self) -> None:
        if not self._db.in_transaction:
            self._db.execute("BEGIN")

    def _append(self, kind: str, name: str, tool: str, args: str) -> None:
        self._begin()
        row = self._db.execute("INSERT INTO log (kind, name, tool, args) VALUES (?, ?, ?, ?)", (kind, name, tool, args))
        self._last = row.lastrowid
        self._last_ticks = None
        self._rows += 1


def _lock_file(path: Path) -> IO[str]:
    handle = open(path, "a", encoding="utf-8", opener=open_private)  # noqa: SIM115  held as long as the world
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        handle.close()
        raise WorldInUse(
            f"{path.with_suffix('.db')} is open in another process.",
            hint="Stop the other world, or give this one another --data directory.",
        ) from None
    return handle


def _open(path: Path, seed: int | None, systems: int | None) -> sqlite3.Connection:
    if path.is_symlink():
        raise WorldError(
            f"{path} is a symbolic link, which Zoea does not follow.", hint="Give another --data directory."
        )
    if path.exists() and not path.is_file():
        raise WorldError(f"{path} is not a file.", hint="Move it away to begin a new world.")
    with ExitStack() as opened:
        try:
            db = opened.enter_context(closing(sqlite3.connect(path, isolation_level=None)))
            path.chmod(0o600)
        except (sqlite3.Error, OSError) as error:
            raise WorldError(f"{path} cannot be opened: {error}.", hint="Give another --data directory.") from error
        try:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            _prepare(db, path, seed, systems)
        except sqlite3.DatabaseError as error:
            raise WorldError(f"{path} cannot be opened: {error}.", hint="Move it away to begin a new world.") from error
        opened.pop_all()
    return db


def _prepare(db: sqlite3.Connection, path: Path, seed: int | None, systems: int | None) -> None:
    version = db.execute("PRAGMA user_version").fetchone()[0]
    tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if version == 0 and not tables:
        db.executescript(
            f"BEGIN; {_SCHEMA} PRAGMA application_id={APPLICATION}; PRAGMA user_version={VERSION};"
            f"INSERT INTO meta VALUES ('seed', '{int(seed or 0)}'), ('systems', '{int(systems or 40)}'); COMMIT;"
        )
        return
    if version != VERSION or db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        raise WorldError(f"{path} is not a world this Zoea can open.", hint="Move it away to begin a new world.")
    kept = dict(db.execute("SELECT key, value FROM meta").fetchall())
    for key, given in (("seed", seed), ("systems", systems)):
        if given is not None and int(kept[key]) != given:
            raise WorldError(
                f"{path} was made with {key} {kept[key]}, not {given}.",
                hint=f"Leave --{key} out, or give another --data directory.",
            )


def _rows(db: sqlite3.Connection, after: int) -> Iterator[tuple[str, str, str, str, int]]:
    yield from db.execute("SELECT kind, name, tool, args, count FROM log WHERE id > ? ORDER BY id", (after,))


def load_world(db: sqlite3.Connection, *, whole: bool) -> Reef:
    """Load a world from its file; `whole` replays the log from its beginning.

    Raises WorldError if the file is damaged.
    """
    try:
        return _replay(db, whole)
    except (sqlite3.Error, zlib.error, LookupError, TypeError, ValueError) as error:
        raise WorldError(f"The world's file is damaged: {error}.", hint="Move it away to begin a new world.") from error


def _replay(db: sqlite3.Connection, whole: bool) -> Reef:
    kept = dict(db.execute("SELECT key, value FROM meta").fetchall())
    world_map = WorldMap(int(kept["seed"]), int(kept["systems"]))
    newest = None if whole else db.execute("SELECT log_id, state FROM snapshot ORDER BY log_id DESC LIMIT 1").fetchone()
    after, world = (newest[0], World.from_json(zlib.decompress(newest[1]).decode())) if newest else (0, None)
    reef = Reef(world_map, world)
    for kind, name, tool, args, count in _rows(db, after):
        match kind:
            case "ticks":
                for _ in range(count):
                    reef.tick()
            case "register":
                reef.register(name, args)
            case "claim":
                reef.claim(name)
            case _:
                try:
                    reef.call(name, tool, json.loads(args))
                except ReefRefusal as refused:
                    raise WorldError(f"The log cannot be replayed: {name} {tool}: {refused}.") from refused
    return reef


def connect_read_only(path: Path) -> sqlite3.Connection:
    """Open a world file for reading, also beside a running world. Raises WorldError if there is no world."""
    if not path.is_file():
        raise WorldError(f"There is no world at {path}.", hint="Run zoea run --world reef, or zoea world, first.")
    return sqlite3.connect(f"{Path(os.path.realpath(path)).as_uri()}?mode=ro", uri=True)
