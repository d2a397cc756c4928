"""Acknowledged writes survive kills, full disks and concurrent processes."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.conftest import SettableClock
from tests.store.writing_process import pair
from zoea.model.errors import StoreFull, StoreMissing, StoreMoved
from zoea.model.values import Event
from zoea.process.lock import OwnerLock
from zoea.process.open_files import OpenFiles
from zoea.store.database_file import open_reader
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection

pytestmark = pytest.mark.usefixtures("forked_programs")

ROOT = Path(__file__).parents[2]
KILLS = 200 if os.environ.get("ZOEA_SOAK") else 10


def child(mode: str, path: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.store.writing_process", mode, str(path), *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> list[str]:
    said, _ = process.communicate(timeout=50)
    assert process.returncode == 0
    return said.split("\n")[:-1]


def sound(path: Path) -> set[str]:
    """Check the database, and return its keys."""
    with closing(open_reader(path)) as reader:
        assert reader.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert reader.execute("PRAGMA foreign_key_check").fetchall() == []
        keys = {row[0] for row in reader.execute("SELECT key FROM setting")}
        assert keys == {row[0] for row in reader.execute("SELECT data ->> 'key' FROM event")}
    return keys


@pytest.mark.timeout(600)
def test_a_kill_at_any_moment_loses_no_acknowledged_write(path: Path) -> None:
    chance = random.Random(1)
    acknowledged: set[str] = set()
    for kill in range(KILLS):
        with child("for-ever", path, str(kill), str(chance.choice([1, 8, 64]))) as process:
            assert process.stdout is not None
            for _ in range(chance.randrange(1, 600)):
                acknowledged.add(process.stdout.readline().strip())
            process.send_signal(signal.SIGKILL)
            acknowledged.update(line.strip() for line in process.stdout if line.endswith("\n"))
        assert process.returncode == -signal.SIGKILL
        assert acknowledged <= sound(path)
    assert len(acknowledged) > KILLS


def test_writes_fail_without_loss_when_files_cannot_grow(path: Path) -> None:
    said = finish(child("fill", path, "600000"))
    stored = {line.split()[1] for line in said if line.startswith("stored")}
    refused = {line.split()[1] for line in said if line.startswith("refused")}
    assert len(refused) > 10
    assert len(stored) > 10
    assert any(line.startswith("full ") and "Free some space" in line for line in said)
    assert "after" in stored
    assert sound(path) == stored


def test_two_processes_can_write_at_the_same_time(path: Path, clock: SettableClock) -> None:
    asyncio.run(_make(path, clock))
    processes = [child("some", path, name, "100") for name in ("left", "right")]
    for process in processes:
        finish(process)
    assert len(sound(path)) == 200


async def _make(path: Path, clock: SettableClock) -> None:
    await (await Store.open(path, clock_now=clock.now)).close()


async def limit_pages(store: Store, spare: int) -> None:
    """Let the database grow by this many pages only."""
    pages = (await store.read("PRAGMA page_count"))[0][0]
    await store.write(lambda connection: connection.execute(f"PRAGMA max_page_count = {pages + spare}"))


async def test_a_full_disk_refuses_only_writes_that_do_not_fit(store: Store, path: Path) -> None:
    published: list[Event] = []
    store.on_events = published.extend
    await limit_pages(store, 40)
    outcomes = await asyncio.gather(
        *(store.write(pair(str(n), 60_000 if n % 3 else 10)) for n in range(30)), return_exceptions=True
    )
    kept = {str(n) for n, outcome in enumerate(outcomes) if isinstance(outcome, int)}
    assert {str(n) for n in range(0, 30, 3)} <= kept
    assert {type(outcome) for outcome in outcomes} == {int, StoreFull}
    assert {event.data["key"] for event in published} == kept
    assert sound(path) == kept


async def test_a_probe_fails_until_writing_works_again(store: Store, path: Path) -> None:
    await limit_pages(store, 1)
    with pytest.raises(StoreFull, match="full"):
        await store.probe()
    await limit_pages(store, 1000)
    await store.probe()
    assert sound(path) == set()


async def test_a_group_is_acknowledged_only_after_its_commit(store: Store) -> None:
    """If the commit fails, all ops of the group run again. Each is answered once."""
    runs: list[int] = []

    def op(number: int) -> Callable[[WriterConnection], int]:
        def run(connection: WriterConnection) -> int:
            runs.append(number)
            connection.execute("INSERT INTO setting VALUES (?, '1', 0)", (str(number),))
            if number == 5:
                connection.execute("PRAGMA defer_foreign_keys = ON")
                connection.execute("INSERT INTO mysis_tag VALUES (404, 'x')")
            return number

        return run

    outcomes = await asyncio.gather(*(store.write(op(number)) for number in range(10)), return_exceptions=True)
    assert [outcome for outcome in outcomes if isinstance(outcome, int)] == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert runs.count(5) == 2
    assert len(await store.read("SELECT 1 FROM setting")) == 9


def remove(file: Path) -> None:
    file.rename(file.with_name(f"{file.name}.away"))


def replace(file: Path) -> None:
    away = file.with_name(f"{file.name}.away")
    file.rename(away)
    shutil.copyfile(away, file)


def put_back(file: Path) -> None:
    file.with_name(f"{file.name}.away").replace(file)


@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
@pytest.mark.parametrize("move", [remove, replace])
async def test_a_database_that_was_moved_acknowledges_nothing_until_it_is_back(
    store: Store, path: Path, move: Callable[[Path], None], ending: str
) -> None:
    await store.write(pair("before", 1))
    heard: list[Event] = []
    store.on_events = heard.extend
    file = path.with_name(path.name + ending)
    move(file)
    refused = await asyncio.gather(
        *(store.write(pair(f"moved {n}", 1)) for n in range(3)), store.probe(), return_exceptions=True
    )
    for error in refused:
        assert isinstance(error, StoreMoved)
        assert str(file) in error.what
        assert "back" in error.hint
    assert not heard
    put_back(file)
    await store.probe()
    await store.write(pair("after", 1))
    assert sound(path) == {"before", "after"}


@pytest.fixture
def moves_in_the_commit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the database between the first COMMIT and the check behind it."""
    checks: list[int] = []

    def check(files: OpenFiles, usual: Callable[[OpenFiles], None] = OpenFiles.check) -> None:
        checks.append(len(checks))
        if len(checks) == 2:
            remove(path)
        usual(files)

    monkeypatch.setattr(OpenFiles, "check", check)


@pytest.mark.usefixtures("moves_in_the_commit")
async def test_what_is_committed_while_the_database_is_moved_waits_for_it_and_is_stored_once(
    path: Path, clock: SettableClock
) -> None:
    store = await Store.open(path, clock_now=clock.now)
    try:
        heard: list[Event] = []
        moved: asyncio.Future[StoreMoved] = asyncio.get_running_loop().create_future()
        store.on_events, store.on_moved = heard.extend, moved.set_result
        waiting = asyncio.gather(*(store.write(pair(name, 1)) for name in ("one", "two")))
        async with asyncio.timeout(20):
            assert (await moved).what == f"{path} was removed while Zoea has it open."
        with pytest.raises(StoreMoved):
            await store.write(pair("refused", 1))
        assert not waiting.done()
        assert not heard
        put_back(path)
        await store.write(pair("after", 1))
        await waiting
        assert [event.data["key"] for event in heard] == ["one", "two", "after"]
    finally:
        await store.close()
    assert sound(path) == {"one", "two", "after"}


@pytest.mark.usefixtures("moves_in_the_commit")
@pytest.mark.parametrize("is_back", [True, False])
async def test_a_store_that_closes_says_whether_what_waits_is_stored(
    path: Path, clock: SettableClock, is_back: bool
) -> None:
    store = await Store.open(path, clock_now=clock.now)
    moved = asyncio.Event()
    store.on_moved = lambda _: moved.set()
    waiting = asyncio.create_task(store.write(pair("one", 1)))
    await moved.wait()
    if is_back:
        put_back(path)
    await store.close()
    if is_back:
        await waiting
        assert sound(path) == {"one"}
    else:
        with pytest.raises(StoreMoved):
            await waiting


def test_a_reader_of_a_moved_database_does_not_take_it_for_a_new_workspace(tmp_path: Path) -> None:
    path = tmp_path / "zoea.db"
    with pytest.raises(StoreMissing):
        open_reader(path)
    with OwnerLock(tmp_path, tmp_path / "socket"), pytest.raises(StoreMoved, match="a swarm has it open"):
        open_reader(path)
