"""Children start one after the other; the event loop runs in between."""

from __future__ import annotations

import asyncio
import gc
import os
from asyncio.subprocess import DEVNULL, PIPE
from itertools import pairwise
from statistics import median
from typing import Any
from weakref import ref

import pytest

from tests.waiting import until
from zoea.process.group_guard import MARK, make_mark, start_child

_CHILDREN = 8


async def test_the_loop_runs_between_the_starts_of_many_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key takes about thirty turns until it is drawn."""
    turns = 0
    begun: list[int] = []
    start = asyncio.create_subprocess_exec

    async def create(*command: str, **options: Any) -> asyncio.subprocess.Process:
        begun.append(turns)
        return await start(*command, **options)

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", create)
    counting = asyncio.create_task(count_turns())
    children = await asyncio.gather(*(start_child("true", stdout=DEVNULL) for _ in range(_CHILDREN)))
    counting.cancel()
    assert [await child.wait() for child in children] == [0] * _CHILDREN
    between = [later - earlier for earlier, later in pairwise(begun)]
    assert median(between) > 30, between


async def test_a_start_that_fails_or_is_cancelled_lets_the_next_one_begin() -> None:
    starts = [asyncio.create_task(start_child(name, stdout=DEVNULL)) for name in ("true", "/no/such/program", "true")]
    await asyncio.sleep(0)
    starts[0].cancel()
    cancelled, failed, child = await asyncio.gather(*starts, return_exceptions=True)
    assert isinstance(cancelled, asyncio.CancelledError)
    assert isinstance(failed, FileNotFoundError)
    assert not isinstance(child, BaseException)
    assert await child.wait() == 0


async def test_a_start_that_never_ends_lets_the_next_one_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancelled one waits for pipes that a grandchild may hold for ever."""
    start = asyncio.create_subprocess_exec
    hangs = [True]

    async def create(*command: str, **options: Any) -> asyncio.subprocess.Process:
        if hangs.pop():
            await asyncio.Event().wait()
        return await start(*command, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", create)
    hangs.insert(0, False)
    hanging = asyncio.create_task(start_child("true", stdout=DEVNULL))
    child = await asyncio.create_task(start_child("true", stdout=DEVNULL))
    assert await child.wait() == 0
    assert not hanging.done()
    hanging.cancel()


async def test_a_mark_stands_in_the_environment_of_a_child_in_its_own_session() -> None:
    mark = make_mark()
    line = f"echo ${MARK}; read line"
    child = await start_child("sh", "-c", line, mark=mark, env=dict(os.environ), stdin=PIPE, stdout=PIPE)
    assert os.getsid(child.pid) == child.pid
    told, _ = await child.communicate(b"\n")
    assert await child.wait() == 0
    assert told.split() == [mark.encode()]


async def test_a_child_that_ends_before_it_has_read_its_input_is_no_error_of_the_loop() -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    child = await start_child("head", "-c", "1", stdin=PIPE, stdout=DEVNULL)
    assert child.stdin is not None
    child.stdin.write(b"x" * 1_000_000)
    with pytest.raises(ConnectionError):
        await _drain_until_lost(child.stdin)
    await child.wait()
    writer = ref(child.stdin)
    del child

    def is_collected() -> bool:
        gc.collect()
        return writer() is None

    await until(is_collected)
    assert told == []


async def _drain_until_lost(writer: asyncio.StreamWriter) -> None:
    while True:  # the first time it may end before the pipe is lost
        await writer.drain()
