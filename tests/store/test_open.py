"""Opening a database: checks, creation, permissions, migrations."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.store.conftest import SettableClock
from zoea.model.errors import StoreConflict, StoreError, StoreForeign, StoreFull, StoreMissing, StoreOutdated
from zoea.store.database_file import (
    APPLICATION_ID,
    BEFORE_RELEASES_ID,
    MIGRATIONS,
    newest_version,
    open_reader,
    read_version,
    require_sqlite,
)
from zoea.store.migrate import migrate, split_statements
from zoea.store.sqlite_errors import translate_error, translate_errors
from zoea.store.store import READERS, Store
from zoea.store.writer_connection import WriterConnection


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def place(path: Path, content: bytes, *, permissions: int = 0o600) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    path.chmod(permissions)


def damage(path: Path) -> None:
    """Damage the schema but not the header."""
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * 3996 + content[4096:])


def file_state(path: Path) -> tuple[bytes, int]:
    """Return everything that opening could change."""
    return path.read_bytes(), mode(path)


def foreign(path: Path, *pragmas: str) -> None:
    path.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")
        connection.commit()
    path.chmod(0o644)


async def test_a_new_store_has_the_newest_schema_and_application_id(store: Store) -> None:
    async def pragma(name: str) -> object:
        return (await store.read(f"PRAGMA {name}"))[0][0]

    assert await pragma("application_id") == APPLICATION_ID == int.from_bytes(b"ZOEA")
    assert await pragma("user_version") == newest_version() >= 1
    assert await pragma("journal_mode") == "wal"
    assert await store.read("SELECT * FROM mysis") == []


async def test_the_writer_syncs_fully_and_checks_references(store: Store) -> None:
    def pragmas(connection: sqlite3.Connection) -> list[int]:
        names = ("synchronous", "foreign_keys", "busy_timeout")
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    assert await store.write(pragmas) == [2, 1, 5000]


async def test_directory_and_files_are_for_their_owner_only(store: Store, path: Path) -> None:
    await store.write(lambda connection: connection.emit("state", None))
    assert mode(path.parent) == 0o700
    assert {file.name: mode(file) for file in path.parent.iterdir()} == dict.fromkeys(
        ["zoea.db", "zoea.db-wal", "zoea.db-shm"], 0o600
    )


async def test_a_readable_file_is_restricted_to_its_owner(path: Path, clock: SettableClock) -> None:
    place(path, b"", permissions=0o644)
    await (await Store.open(path, clock_now=clock.now)).close()
    assert mode(path) == 0o600


async def test_paths_may_contain_special_characters(tmp_path: Path, clock: SettableClock) -> None:
    path = tmp_path / "a b?c#d%20" / "zoea ü.db"
    store = await Store.open(path, clock_now=clock.now)
    await store.write(lambda connection: connection.emit("state", None))
    assert len(await store.read("SELECT 1 FROM event")) == 1
    await store.close()
    assert path.is_file()


async def test_written_rows_are_there_after_reopening(path: Path, clock: SettableClock) -> None:
    for count in range(3):
        store = await Store.open(path, clock_now=clock.now)
        assert len(await store.read("SELECT 1 FROM event")) == count
        await store.write(lambda connection: connection.emit("state", None))
        await store.close()


async def test_an_empty_file_becomes_a_database(path: Path, clock: SettableClock) -> None:
    place(path, b"")
    await (await Store.open(path, clock_now=clock.now)).close()
    open_reader(path).close()


async def test_a_foreign_database_is_refused_unchanged(path: Path, clock: SettableClock) -> None:
    foreign(path)
    before = file_state(path)
    with pytest.raises(StoreForeign, match="another program"):
        await Store.open(path, clock_now=clock.now)
    with pytest.raises(StoreForeign, match="another program"):
        open_reader(path)
    assert file_state(path) == before


async def test_a_file_that_is_not_a_database_is_refused_unchanged(path: Path, clock: SettableClock) -> None:
    place(path, b"a shopping list, long enough to be a header" * 100, permissions=0o644)
    before = file_state(path)
    with pytest.raises(StoreForeign, match="is not a database"):
        await Store.open(path, clock_now=clock.now)
    with pytest.raises(StoreForeign, match="is not a database"):
        open_reader(path)
    assert file_state(path) == before


UNKNOWN = {
    "newer": (APPLICATION_ID, 9999, r"newer Zoea \(schema 9999; this one knows \d+\)", "Update Zoea"),
    "without a number": (APPLICATION_ID, 0, "has schema 0, which no Zoea writes", "Restore a backup"),
    "below all numbers": (APPLICATION_ID, -3, "has schema -3, which no Zoea writes", "Restore a backup"),
    "before the releases": (BEFORE_RELEASES_ID, 21, "a Zoea before release 0.1.0", "zoea export --all"),
    "before the releases, with the number of a release": (
        BEFORE_RELEASES_ID,
        1,
        "before release 0.1.0",
        "import that file here",
    ),
}


@pytest.mark.parametrize(("application", "version", "words", "remedy"), UNKNOWN.values(), ids=UNKNOWN)
@pytest.mark.parametrize("is_killed", [False, True], ids=["closed", "killed"])
async def test_a_database_of_an_unknown_schema_is_refused_byte_for_byte_as_it_is(
    path: Path, clock: SettableClock, application: int, version: int, words: str, remedy: str, is_killed: bool
) -> None:
    made = path.parent.with_name("made") / path.name
    made.parent.mkdir()
    with closing(sqlite3.connect(made, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA application_id = {application}")
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.execute("CREATE TABLE theirs (x)")
        if is_killed:  # the files as they are while it is open, with a write-ahead log
            shutil.copytree(made.parent, path.parent)
    if not is_killed:
        shutil.copytree(made.parent, path.parent)
    (path.parent / "zoea.db-shm").unlink(missing_ok=True)
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    assert (len(before["zoea.db-wal"]) > 0) if is_killed else list(before) == ["zoea.db"]

    with pytest.raises(StoreForeign, match=words) as refused:
        await Store.open(path, clock_now=clock.now)
    after = {file.name: file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith("-shm")}
    assert after == before
    assert str(path) in refused.value.what
    assert re.search(remedy, refused.value.hint)

    with pytest.raises(StoreForeign, match=words):
        open_reader(path)
    assert {name: (path.parent / name).read_bytes() for name in before} == before


async def test_a_directory_that_cannot_be_created_is_a_store_error(tmp_path: Path, clock: SettableClock) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="Not a directory"):
        await Store.open(tmp_path / "file" / "zoea.db", clock_now=clock.now)


async def test_a_directory_in_place_of_the_file_is_a_store_error(tmp_path: Path, clock: SettableClock) -> None:
    path = tmp_path / "zoea.db"
    path.mkdir(mode=0o700)
    with pytest.raises(StoreError):
        await Store.open(path, clock_now=clock.now)
    with pytest.raises(StoreMissing):
        open_reader(path)


async def test_a_file_system_without_shared_memory_is_a_store_error(clock: SettableClock) -> None:
    with pytest.raises(StoreError, match="cannot have a write-ahead log"):
        await Store.open(Path(":memory:"), clock_now=clock.now)


def test_a_database_whose_creation_was_killed_is_missing_for_readers(tmp_path: Path) -> None:
    (tmp_path / "zoea.db").touch()
    with pytest.raises(StoreMissing, match="is empty"):
        open_reader(tmp_path / "zoea.db")


async def test_opening_read_only_creates_nothing(path: Path, clock: SettableClock) -> None:
    with pytest.raises(StoreMissing, match="does not exist"):
        await Store.open(path, clock_now=clock.now, read_only=True)
    assert not path.parent.exists()


async def test_a_store_opened_for_reading_reads_beside_a_writer_and_writes_nothing(
    store: Store, path: Path, clock: SettableClock
) -> None:
    reader = await Store.open(path, clock_now=clock.now, read_only=True)
    await store.write(lambda connection: connection.emit("state", None))
    assert len(await reader.read("SELECT 1 FROM event")) == 1
    with pytest.raises(StoreError, match="for reading only"):
        await reader.write(lambda connection: connection.emit("state", None))
    await reader.close()


async def test_a_direct_reader_works_beside_a_live_writer_and_cannot_write(store: Store, path: Path) -> None:
    with closing(open_reader(path)) as reader:
        for count in range(3):
            assert reader.execute("SELECT count(*) AS n FROM event").fetchone()["n"] == count
            await store.write(lambda connection: connection.emit("state", None))
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader.execute("DELETE FROM event")


async def test_a_direct_reader_works_after_the_owner_was_closed(store: Store, path: Path) -> None:
    await store.write(lambda connection: connection.emit("state", None))
    await store.close()
    with closing(open_reader(path)) as reader:
        assert reader.execute("SELECT count(*) FROM event").fetchone()[0] == 1


async def test_a_direct_reader_refuses_an_older_database_until_it_is_migrated(
    store: Store, path: Path, clock: SettableClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.write(lambda connection: connection.emit("state", None))
    await store.close()
    folder, oldest = tmp_path / "m", newest_version()
    shutil.copytree(MIGRATIONS, folder)
    (folder / f"{oldest + 1:04}.sql").write_text("ALTER TABLE event ADD COLUMN word TEXT NOT NULL DEFAULT 'new';")
    monkeypatch.setattr("zoea.store.database_file.newest_version", lambda: oldest + 1)
    monkeypatch.setattr("zoea.store.store.newest_version", lambda: oldest + 1)
    monkeypatch.setattr("zoea.store.store.migrate", partial(migrate, folder=folder))
    with pytest.raises(StoreOutdated, match=rf"older Zoea \(schema {oldest}; this one reads {oldest + 1}\)"):
        open_reader(path)
    await (await Store.open(path, clock_now=clock.now)).close()
    with closing(open_reader(path)) as reader:
        assert reader.execute("SELECT word FROM event").fetchone()[0] == "new"
    assert (path.parent / f"zoea.db.schema-{oldest}.backup").is_file()


def test_the_direct_reader_loads_nothing_heavy() -> None:
    code = (
        "import sys, zoea.store.database_file\n"
        "heavy = {'aiosqlite', 'asyncio', 'pydantic', 'zstandard', 'blake3', 'zoea.model.values'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2], timeout=30)


def test_an_old_sqlite_is_refused_by_version() -> None:
    with pytest.raises(StoreError, match=r"3\.37 or later; this Python has 3\.36\.0"):
        require_sqlite((3, 36, 0))


def test_a_sqlite_without_trigrams_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bare(sqlite3.Connection):
        def execute(self, sql: str, parameters: object = (), /) -> sqlite3.Cursor:
            raise sqlite3.OperationalError("no such module: fts5")

    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda name: real(name, factory=Bare))
    require_sqlite.cache_clear()  # what this process has is known
    with pytest.raises(StoreError, match="FTS5 and its trigram"):
        require_sqlite()


def scripts(folder: Path, *bodies: str) -> Path:
    folder.mkdir(exist_ok=True)
    for number, body in enumerate(bodies, 1):
        (folder / f"{number:04}.sql").write_text(body)
    return folder


FIRST = "CREATE TABLE a (x INTEGER PRIMARY KEY);"
SECOND = "CREATE TABLE b (a INTEGER REFERENCES a(x)); INSERT INTO a VALUES (2);"


def connect(path: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(path, isolation_level=None))


def tables(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1")]


def test_a_database_is_migrated_step_by_step_with_a_backup(tmp_path: Path) -> None:
    path = tmp_path / "zoea.db"
    with connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        migrate(connection, path, folder=scripts(tmp_path / "m", FIRST))
        assert not list(tmp_path.glob("*.backup"))
        connection.execute("INSERT INTO a VALUES (1)")
        migrate(connection, path, folder=scripts(tmp_path / "m", FIRST, SECOND))
        assert tables(connection) == ["a", "b"]
        assert connection.execute("SELECT x FROM a").fetchall() == [(1,), (2,)]
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
        migrate(connection, path, folder=tmp_path / "m")
    copy = tmp_path / "zoea.db.schema-1.backup"
    assert mode(copy) == 0o600
    with connect(copy) as old:
        assert tables(old) == ["a"]
        assert old.execute("SELECT x FROM a").fetchall() == [(1,)]
        assert old.execute("PRAGMA user_version").fetchone() == (1,)


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "zoea.db"
    with connect(path) as connection:
        migrate(connection, path, folder=scripts(tmp_path / "m", FIRST))
        with pytest.raises(sqlite3.OperationalError, match="nowhere"):
            migrate(connection, path, folder=scripts(tmp_path / "m", FIRST, SECOND + "INSERT INTO nowhere VALUES (1);"))
        assert not connection.in_transaction
        assert tables(connection) == ["a"]
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        migrate(connection, path, folder=scripts(tmp_path / "m", FIRST, SECOND))
        assert tables(connection) == ["a", "b"]


def test_a_migration_that_loses_its_transaction_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "zoea.db"
    losing = "INSERT INTO a VALUES (5); INSERT OR ROLLBACK INTO a VALUES (5);"
    with connect(path) as connection:
        migrate(connection, path, folder=scripts(tmp_path / "m", FIRST))
        with pytest.raises(sqlite3.IntegrityError):
            migrate(connection, path, folder=scripts(tmp_path / "m", FIRST, losing))
        assert connection.execute("SELECT * FROM a").fetchall() == []
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)


def test_a_new_database_is_created_in_one_transaction(tmp_path: Path) -> None:
    path = tmp_path / "zoea.db"
    with connect(path) as connection:
        with pytest.raises(sqlite3.OperationalError, match="nowhere"):
            migrate(connection, path, folder=scripts(tmp_path / "m", FIRST, "INSERT INTO nowhere VALUES (1);"))
        assert tables(connection) == []
        assert connection.execute("PRAGMA user_version").fetchone() == (0,)


def test_concurrent_migrations_keep_one_backup(tmp_path: Path) -> None:
    path = tmp_path / "zoea.db"
    with connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        migrate(connection, path, folder=scripts(tmp_path / "m", FIRST))
        connection.execute("INSERT INTO a VALUES (1)")
    folder = scripts(tmp_path / "m", FIRST, SECOND)
    together = threading.Barrier(8)

    def bring() -> list[str]:
        with connect(path) as connection:
            together.wait(30)
            migrate(connection, path, folder=folder)
            return tables(connection)

    with ThreadPoolExecutor(8) as pool:
        brought = [pool.submit(bring) for _ in range(8)]
        assert [found.result(30) for found in brought] == [["a", "b"]] * 8
    (copy,) = tmp_path.glob("*backup*")
    with connect(copy) as old:
        assert tables(old) == ["a"]


def test_a_migration_that_breaks_a_reference_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "zoea.db"
    with connect(path) as connection, pytest.raises(StoreError, match="migration 3 leaves a row of 'b'"):
        migrate(connection, path, folder=scripts(tmp_path / "m", FIRST, SECOND, "INSERT INTO b VALUES (9);"))


def test_statements_are_split_as_sqlite_does() -> None:
    script = (
        "-- a; comment\nCREATE TABLE t (x TEXT DEFAULT 'a;b'); INSERT INTO t VALUES (1);\n"
        "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; SELECT 2; END;\nSELECT 3"
    )
    ends = [part.strip()[-6:] for part in split_statements(script)]
    assert ends == ["a;b');", "S (1);", "; END;", "LECT 3"]


async def test_two_processes_can_open_a_new_store_at_once(path: Path, clock: SettableClock) -> None:
    stores = await asyncio.gather(*(Store.open(path, clock_now=clock.now) for _ in range(4)))
    for store in stores:
        await store.write(lambda connection: connection.emit("state", None))
    assert len(await stores[0].read("SELECT 1 FROM event")) == 4
    for store in stores:
        await store.close()


def test_a_file_that_is_filled_while_its_version_is_read_belongs_to_no_other_program(path: Path) -> None:
    place(path, b"")
    with closing(sqlite3.connect(path)) as reader, closing(sqlite3.connect(path, timeout=0)) as other:

        def fill(statement: str) -> None:
            if "user_version" in statement:
                with suppress(sqlite3.OperationalError):  # locked, where it is read as one
                    other.executescript("CREATE TABLE t (x); PRAGMA application_id = 7")

        reader.set_trace_callback(fill)
        assert read_version(reader, path, newest=1) == 0


async def test_opening_waits_for_another_process_that_creates_the_file(
    path: Path, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    place(path, b"")
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            other.execute("ROLLBACK")

        monkeypatch.setattr("zoea.store.store.time.sleep", pause)
        await (await Store.open(path, clock_now=clock.now)).close()
    assert len(pauses) == 1


async def test_opening_gives_up_on_a_file_that_stays_locked(
    path: Path, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoea.store.store.BUSY_SECONDS", 0.02)
    place(path, b"")
    with connect(path) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked"):
            await Store.open(path, clock_now=clock.now)


async def test_a_cancelled_open_leaves_no_thread(
    path: Path, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoea.store.store.CLOSE_SECONDS", 0.01)
    entered, leave = threading.Event(), threading.Event()

    def pause(seconds: float) -> None:
        entered.set()
        leave.wait(10)

    monkeypatch.setattr("zoea.store.store.time.sleep", pause)
    place(path, b"")
    with connect(path) as other:
        other.execute("BEGIN IMMEDIATE")
        opening = asyncio.create_task(Store.open(path, clock_now=clock.now))
        await asyncio.to_thread(entered.wait, 10)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        other.execute("ROLLBACK")
        leave.set()
        writer = next((thread for thread in threading.enumerate() if thread.name == "zoea-writer"), None)
        if writer is not None:
            await asyncio.to_thread(writer.join, 10)
            assert not writer.is_alive()


async def test_a_damaged_database_is_a_store_error(path: Path, clock: SettableClock) -> None:
    await (await Store.open(path, clock_now=clock.now)).close()
    damage(path)
    with pytest.raises(StoreError, match="malformed") as raised:
        await Store.open(path, clock_now=clock.now)
    assert "damaged" in raised.value.hint


async def test_a_file_of_another_user_is_a_store_error(
    path: Path, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chmod(self: Path, permissions: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", chmod)
    with pytest.raises(StoreError, match="Operation not permitted"):
        await Store.open(path, clock_now=clock.now)


def test_each_kind_of_sqlite_error_has_its_own_translation() -> None:
    def error(code: int) -> sqlite3.Error:
        made = sqlite3.OperationalError("it failed")
        made.sqlite_errorcode = code
        return made

    kinds = {
        sqlite3.SQLITE_FULL: StoreFull,
        sqlite3.SQLITE_IOERR_WRITE: StoreFull,
        sqlite3.SQLITE_CONSTRAINT_UNIQUE: StoreConflict,
        sqlite3.SQLITE_NOTADB: StoreForeign,
        sqlite3.SQLITE_BUSY_SNAPSHOT: StoreError,
        sqlite3.SQLITE_CORRUPT: StoreError,
        sqlite3.SQLITE_READONLY: StoreError,
        sqlite3.SQLITE_ERROR: StoreError,
    }
    for code, kind in kinds.items():
        assert type(translate_error(error(code))) is kind
    assert translate_error(error(sqlite3.SQLITE_CORRUPT)).hint
    with pytest.raises(StoreError, match="MemoryError"), translate_errors():
        raise MemoryError


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """Let this process open nothing in the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        with suppress(OSError):
            while True:
                held.append(os.dup(0))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for one in held:
            os.close(one)


def test_a_process_without_a_descriptor_left_cannot_read_a_database_and_says_so(store: Store) -> None:
    open_reader(store.path).close()  # a process that runs for long has read one before
    with no_descriptor_left(), pytest.raises(StoreError):
        open_reader(store.path)


async def test_an_open_store_is_read_without_a_descriptor_left(store: Store) -> None:
    with no_descriptor_left():
        found = await asyncio.gather(*(store.read("SELECT count(*) FROM mysis") for _ in range(READERS)))
    assert [tuple(rows[0]) for rows in found] == [(0,)] * READERS


async def test_a_file_that_the_writer_cannot_open_is_tried_again_like_a_full_disk(store: Store) -> None:
    def op(_: WriterConnection) -> None:
        error = sqlite3.OperationalError("unable to open database file")
        error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
        raise error

    with pytest.raises(StoreFull, match="unable to open database file") as caught:
        await store.write(op)
    assert "too many files open" in caught.value.hint
