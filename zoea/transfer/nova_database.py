"""Reads a Zoea Nova database without changing it; ignores unknown columns.

A database without a write-ahead log is opened as immutable; one with a log is copied
first, because reading the log writes to its directory. Accounts are read only to redact
their passwords in texts.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from msgspec import Struct

from zoea.model.errors import StoreForeign, UsageError
from zoea.settings.paths import is_file
from zoea.settings.small_file import open_regular
from zoea.store.database_file import APPLICATION_ID, BEFORE_RELEASES_ID

SCHEMA = 12
_NEEDED = {"myses": ("id", "name"), "memories": ("mysis_id", "role", "content")}
_MAGIC = b"SQLite format 3\0"
_SHORTEST_PASSWORD = 6
_LAST_YEAR = 9998
_TIME = re.compile(
    r"\s*(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9})\d*)?)?\s*(?:(Z)|([+-])(\d\d):?(\d\d))?"
)


class NovaMysis(Struct, frozen=True):
    """A row of `myses`. `created` is its time as stored, `created_at` in µs or None if it cannot be parsed."""

    id: str
    name: str
    provider: str = ""
    model: str = ""
    state: str = ""
    created: str = ""
    created_at: int | None = None
    is_gone: bool = False


class NovaMemory(Struct, frozen=True):
    """A row of `memories`. `at` is in µs UTC; `has_time` is False if its own time could not be parsed."""

    id: int
    role: str
    source: str
    sender: str
    content: str
    reasoning: str
    at: int
    has_time: bool = True


class NovaDatabase:
    """An open Zoea Nova database. Made by `open_nova`.

    Attributes:
        schema: The stored version of the schema; None if there is none.
        passwords: Passwords of its accounts, to be redacted in texts; never stored.
    """

    def __init__(self, conn: sqlite3.Connection, path: Path) -> None:
        self._conn = conn
        self.path = path
        self.schema = _schema(conn)
        self._columns = {table: _columns(conn, table) for table in _NEEDED}
        self._check()
        self.passwords = _passwords(conn)

    @property
    def description(self) -> str:
        """File name and schema, for the report."""
        said = f"of schema {self.schema}" if self.schema is not None else "without a schema version"
        return f"{self.path.name}, a Zoea Nova database {said}"

    def myses(self) -> list[NovaMysis]:
        """Read every mysis in stored order, and those of which only memories are left."""
        records = [self._mysis(row) for row in self._conn.execute("SELECT * FROM myses ORDER BY rowid")]
        there = {mysis.id for mysis in records}
        for (owner,) in self._conn.execute("SELECT DISTINCT mysis_id FROM memories ORDER BY 1").fetchall():
            if str(owner) not in there:
                records.append(NovaMysis(str(owner), former_name(str(owner)), is_gone=True))
        return records

    def count(self, mysis: NovaMysis) -> int:
        """Count its memories."""
        return int(self._conn.execute("SELECT count(*) FROM memories WHERE mysis_id = ?", (mysis.id,)).fetchone()[0])

    def system_prompt(self, mysis: NovaMysis) -> str:
        """Read its first system prompt; empty if there is none."""
        row = self._conn.execute(
            "SELECT content FROM memories WHERE mysis_id = ? AND lower(trim(role)) = 'system' ORDER BY rowid LIMIT 1",
            (mysis.id,),
        ).fetchone()
        return _text(row, "content") if row is not None else ""

    def memories(self, mysis: NovaMysis) -> Iterator[NovaMemory]:
        """Yield its memories by time, those of the same time in stored order."""
        times = self._times(mysis)
        for place in sorted(times, key=lambda rowid: (times[rowid][0], rowid)):
            row = self._conn.execute("SELECT * FROM memories WHERE rowid = ?", (place,)).fetchone()
            at, has_time = times[place]
            yield NovaMemory(
                id=place,
                role=_text(row, "role").strip().lower(),
                source=_text(row, "source").strip().lower(),
                sender=_text(row, "sender_id").strip(),
                content=_text(row, "content"),
                reasoning=_text(row, "reasoning"),
                at=at,
                has_time=has_time,
            )

    def _times(self, mysis: NovaMysis) -> dict[int, tuple[int, bool]]:
        """Return the time of each memory by row id; invalid ones get the previous time."""
        column = "created_at" if "created_at" in self._columns["memories"] else "NULL"
        last = mysis.created_at or 0
        times = {}
        for rowid, text in self._conn.execute(
            f"SELECT rowid, {column} FROM memories WHERE mysis_id = ? ORDER BY rowid", (mysis.id,)
        ).fetchall():
            at = parse_time(text)
            last = last if at is None else at
            times[rowid] = (last, at is not None)
        return times

    def _mysis(self, row: sqlite3.Row) -> NovaMysis:
        return NovaMysis(
            id=_text(row, "id"),
            name=_text(row, "name"),
            provider=_text(row, "provider").strip(),
            model=_text(row, "model").strip(),
            state=_text(row, "state").strip().lower(),
            created=_text(row, "created_at"),
            created_at=parse_time(row["created_at"]) if "created_at" in self._columns["myses"] else None,
        )

    def _check(self) -> None:
        """Refuse a database of another format or schema. Raises StoreForeign."""
        path, conn = self.path, self._conn
        if conn.execute("PRAGMA application_id").fetchone()[0] in (APPLICATION_ID, BEFORE_RELEASES_ID):
            raise StoreForeign(
                f"{path} is a database of this Zoea, not of Zoea Nova.",
                hint="Write it as a file with `zoea export --all --format jsonl -o FILE`, and import that.",
            )
        for table, needed in _NEEDED.items():
            missing = [name for name in needed if name not in self._columns[table]]
            if missing:
                there = sorted(row[0] for row in conn.execute("SELECT name FROM sqlite_schema WHERE type = 'table'"))
                what = f"no table {table}" if len(missing) == len(needed) else f"no {table}.{missing[0]}"
                raise StoreForeign(
                    f"{path} is no Zoea Nova database: it has {what} (tables: {', '.join(there)[:200] or 'none'}).",
                    hint="Name the database of Zoea Nova, usually zoea.db.",
                )
        if self.schema not in (None, SCHEMA):
            raise StoreForeign(
                f"{path} is a Zoea Nova database of schema {self.schema}; this Zoea reads schema {SCHEMA}.",
                hint="Open it once with the last version of Zoea Nova, then import it.",
            )


@contextmanager
def open_nova(path: Path) -> Iterator[NovaDatabase]:
    """Open a Zoea Nova database read-only.

    Raises:
        UsageError: if the file does not exist.
        StoreForeign: if it has another format or schema, or is damaged.
    """
    if not is_file(path):
        raise UsageError(f"there is no file {path}", hint="Name the database of Zoea Nova, usually zoea.db.")
    with ExitStack() as stack:
        try:
            with open_regular(path) as stream:
                if stream.read(len(_MAGIC)) != _MAGIC:
                    raise StoreForeign(
                        f"{path} is no SQLite database.", hint="For a file of `zoea export`: zoea import FILE.jsonl."
                    )
            conn = stack.enter_context(closing(_connect(path, stack)))
            yield NovaDatabase(conn, path)
        except (sqlite3.DatabaseError, UnicodeDecodeError) as problem:  # of a message that quotes the damage
            raise StoreForeign(
                f"{path} cannot be read: {problem}.",
                hint="It may be damaged; `.recover` of the sqlite3 shell can help.",
            ) from problem
        except OSError as problem:
            raise UsageError(f"{path} cannot be read: {problem.strerror}") from problem


def parse_time(value: Any) -> int | None:
    """Parse a time of Zoea Nova, Go or SQLite to µs UTC. None if it is invalid."""
    match value:
        case bool() | None:
            return None
        case int() | float():
            return _from_number(value)
        case str() if re.fullmatch(r"\s*\d{9,19}(?:\.\d{1,9})?\s*", value):
            return _from_number(float(value) if "." in value else int(value))
        case str():
            return _from_text(value)
    return None


def former_name(nova_id: str) -> str:
    """Return a name for a mysis of which only the id is known."""
    return f"nova-{re.sub(r'[^A-Za-z0-9]+', '', nova_id)[:8] or 'unknown'}"


def _from_number(value: float) -> int | None:
    """Interpret a number as s, ms, µs or ns by its size."""
    for limit, per_us in ((1e11, 1_000_000), (1e14, 1_000), (1e17, 1)):
        if 0 < value < limit:
            return int(value * per_us)
    return int(value) // 1_000 if 0 < value < 1e20 else None


def _from_text(value: str) -> int | None:
    match = _TIME.match(value)
    if match is None or int(match[1]) > _LAST_YEAR:
        return None
    year, month, day, hour, minute = (int(match[number]) for number in range(1, 6))
    zone = UTC
    if match[9]:
        offset = timedelta(hours=int(match[10]), minutes=int(match[11]))
        if offset < timedelta(hours=24):
            zone = timezone(-offset if match[9] == "-" else offset)
    try:
        whole = datetime(year, month, day, hour, minute, min(int(match[6] or 0), 59), tzinfo=zone)
    except ValueError:
        return None
    micros = int((match[7] or "0").ljust(9, "0")[:6])
    at = int((whole - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) * 1_000_000 + micros
    return at if at >= 0 else None


def _connect(path: Path, stack: ExitStack) -> sqlite3.Connection:
    """Open a connection for use in another thread. It is opened here and read in the op."""
    log = path.with_name(path.name + "-wal")
    if log.is_file() and log.stat().st_size:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zoea-import-")))
        copy = folder / "nova.db"
        shutil.copyfile(path, copy)
        shutil.copyfile(log, copy.with_name("nova.db-wal"))
        conn = sqlite3.connect(copy, check_same_thread=False)
    else:
        conn = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)
    conn.row_factory = sqlite3.Row
    conn.text_factory = lambda raw: raw.decode("utf-8", "replace")
    conn.execute("PRAGMA query_only = ON")
    return conn


def _schema(conn: sqlite3.Connection) -> int | None:
    if "version" in _columns(conn, "schema_version"):
        version = conn.execute("SELECT max(version) FROM schema_version").fetchone()[0]
        if isinstance(version, int):
            return version
    version = conn.execute("PRAGMA user_version").fetchone()[0]
    return int(version) or None


def _columns(conn: sqlite3.Connection, table: str) -> frozenset[str]:
    return frozenset(row["name"] for row in conn.execute(f"PRAGMA table_info({table})"))


def _passwords(conn: sqlite3.Connection) -> tuple[str, ...]:
    """Read the passwords that are long enough not to be common words, longest first."""
    if "password" not in _columns(conn, "accounts"):
        return ()
    passwords = {str(row[0]) for row in conn.execute("SELECT password FROM accounts") if row[0] is not None}
    return tuple(sorted((one for one in passwords if len(one) >= _SHORTEST_PASSWORD), key=lambda one: (-len(one), one)))


def _text(row: sqlite3.Row, name: str) -> str:
    """Return a column as text; empty if it is missing or NULL."""
    value = row[name] if name in row.keys() else None  # noqa: SIM118  a Row yields its values, not its names
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)
