"""The cost of reading the end of a conversation, counted in steps of SQLite's machine."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.swarm.harness import script, swarm
from zoea.model.request import Answer
from zoea.queries import conversation, stored_swarm
from zoea.store.database_file import open_reader

TURNS = 400
EVERY = 100
"""Steps between two counts."""


async def make_conversation(folder: Path) -> Path:
    """A mysis alpha with three turns."""
    async with swarm(folder, script(Answer(text="done"))) as inner:
        await inner.commander.create("alpha", start=True)
        for number in range(3):
            await inner.commander.send("alpha", f"prompt {number}")
            await inner.settled()
        return inner.path


def lengthen(path: Path) -> None:
    """Copy the last turn and its memories `TURNS` times."""
    with closing(sqlite3.connect(path)) as con, con:
        last, number = con.execute("SELECT id, number FROM turn ORDER BY number DESC LIMIT 1").fetchone()
        for more in range(1, TURNS + 1):
            turn = copy_rows(con, "turn", f"id = {last}", number=number + more)
            copy_rows(con, "memory", f"turn_id = {last}", turn_id=turn)


def copy_rows(con: sqlite3.Connection, table: str, where: str, **changed: int | None) -> int | None:
    """Copy rows with new ids and with changed columns; return the last id."""
    names = [row[1] for row in con.execute(f"PRAGMA table_info({table})") if row[1] != "id"]
    values = [f":{name}" if name in changed else name for name in names]
    text = f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(values)} FROM {table} WHERE {where}"
    return con.execute(text, changed).lastrowid


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Count the steps of every reader that is opened in the block."""
    steps = [0]

    def count() -> int:
        steps[0] += EVERY
        return 0

    def opened(path: Path) -> sqlite3.Connection:
        reader = open_reader(path)
        reader.set_progress_handler(count, EVERY)
        return reader

    with monkeypatch.context() as patch:
        patch.setattr(stored_swarm, "open_reader", opened)
        yield steps


@pytest.mark.parametrize(
    "read",
    [
        lambda path: stored_swarm.read_memories(path, "alpha", last=4),
        lambda path: stored_swarm.read_memories(path, "alpha", turn=2),
        lambda path: stored_swarm.read_queued(path, "alpha"),
        lambda path: conversation.read_newest(path, 1, memories=4),
        lambda path: conversation.read_around(path, 1, 2, memories=4),
    ],
    ids=["newest memories", "one turn", "queue", "newest page", "page around a turn"],
)
async def test_the_cost_does_not_grow_with_the_conversation(
    read: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await make_conversation(tmp_path)
    with counted(monkeypatch) as short:
        read(path)
    lengthen(path)
    with counted(monkeypatch) as long:
        read(path)
    assert long[0] <= short[0] + 10 * EVERY


async def test_the_newest_memories_come_in_conversation_order(tmp_path: Path) -> None:
    path = await make_conversation(tmp_path)
    found = stored_swarm.read_memories(path, "alpha", last=3)
    assert [(memory.turn_number, memory.content) for memory in found] == [(2, "done"), (3, "prompt 2"), (3, "done")]
    assert [memory.turn_number for memory in stored_swarm.read_memories(path, "alpha", turn=2)] == [2, 2]
