"""Deferred work that is cancelled before it began gives no warning."""

from __future__ import annotations

import ast
import asyncio
import gc
import inspect
import threading
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import zoea.tui
from tests.tui.cockpit import answering, cockpit
from zoea.queries.events import read_log_tail
from zoea.queries.swarm_stats import read_stats
from zoea.tui.screens import charts, log
from zoea.tui.screens.base import BaseScreen
from zoea.tui.state.deferred_work import DeferredWork, WorkQueue

YOUNG = 0
"""The generation that holds what was made since the last collection; to look through all objects takes a second."""


async def _double(number: int) -> int:
    return number * 2


async def test_it_returns_the_result_of_the_coroutine() -> None:
    assert await DeferredWork(_double(21)) == 42


def test_work_that_is_never_awaited_is_closed_without_a_warning() -> None:
    gc.collect(YOUNG)
    work = _double(1)
    beside = DeferredWork(work)
    del beside
    gc.collect(YOUNG)
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED


class _Holding:
    """As a widget holds its workers, and they it."""

    def __init__(self) -> None:
        self.beside = DeferredWork(lambda: self.double(1))

    async def double(self, number: int) -> int:
        return number * 2


def test_deferred_work_gives_no_warning_in_any_order_of_deletion() -> None:
    gc.collect(YOUNG)
    for _ in range(10):
        _Holding()
    with warnings.catch_warnings(record=True) as reported_defects:
        warnings.simplefilter("always")
        gc.collect(YOUNG)
    assert not reported_defects


async def test_it_makes_the_coroutine_when_it_is_awaited() -> None:
    assert await DeferredWork(lambda: _double(4)) == 8


READS = {
    "context": {"history"},
    "cost": {"commit_forms"},
    "details": {"history"},
    "files": {"new_mysis"},
    "find": {"find", "review"},
    "folder": {"new_mysis"},
    "go": {"inspector"},
    "load": {"settings"},
    "log": {"log"},
    "look": {"welcome"},
    "marks": {"review"},
    "moment": {"history"},
    "older": {"history"},
    "providers": {"upstreams"},
    "review": {"review"},
    "arrange": {"review"},
    "search": {"search"},
    "whole": {"log"},
    "wrap": {"line_list"},
}
"""The groups of exclusive workers, with their modules. Each only reads or draws, so that the next one may cancel it.

What writes goes through a `WorkQueue`; what is read again and again, through `reread`.
"""


def test_exclusive_workers_only_read_because_the_next_one_cancels_them() -> None:
    found: dict[str, set[str]] = {}
    for file in Path(zoea.tui.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            more = {one.arg: one.value for one in node.keywords} if isinstance(node, ast.Call) else {}
            if isinstance(exclusive := more.get("exclusive"), ast.Constant) and exclusive.value:
                group = more.get("group")
                name = str(group.value) if isinstance(group, ast.Constant) else "none, which is that of all workers"
                found.setdefault(name, set()).add(file.stem)
    assert found == READS


async def test_works_in_a_queue_go_one_after_another_and_none_is_lost() -> None:
    done: list[int] = []
    tasks: list[asyncio.Task[None]] = []

    async def work(number: int) -> None:
        for _ in range(3 - number):
            await asyncio.sleep(0)
        if number == 1:
            raise ValueError
        done.append(number)

    queue = WorkQueue(lambda start: tasks.append(asyncio.create_task(start())))
    for number in range(3):
        queue.put(partial(work, number))
    assert queue.waiting == 3
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert done == [0, 2]
    assert [type(result) for result in results] == [type(None), ValueError, type(None)]
    assert queue.waiting == 0


@pytest.mark.parametrize(
    ("module", "query", "keys", "shown"),
    [
        (charts, read_stats, ("C",), "MYSES BY STATUS · 1 now"),
        (log, read_log_tail, ("l", "shift+tab"), "a line of the log"),
    ],
    ids=["charts", "log"],
)
async def test_what_is_read_each_second_is_shown_though_each_read_takes_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, query: Any, keys: tuple[str, ...], shown: str
) -> None:
    begun: list[int] = []
    may_end = threading.Semaphore(0)

    def read_slowly(*args: Any) -> Any:
        begun.append(len(begun))
        assert may_end.acquire(timeout=30)
        return query(*args)

    monkeypatch.setattr(module, query.__name__, read_slowly)
    async with cockpit(tmp_path, answering(), names=("alpha",)) as stage:
        stage.swarm.path.with_name("zoea.log").write_text("a line of the log\n")
        await stage.press(*keys, until=lambda: begun)
        for _ in range(20):
            stage.top(BaseScreen).tick()
        assert shown not in stage.text()
        may_end.release()
        await stage.until(lambda: shown in stage.text() and len(begun) == 2)
        may_end.release(2)
