"""Deferred work that is cancelled before it began gives no warning."""

from __future__ import annotations

import gc
import inspect
import warnings

from zoea.tui.state.deferred_work import DeferredWork

YOUNG = 1
"""The generations that hold what a test has just made; to look through all objects takes a second."""


async def _double(number: int) -> int:
    return number * 2


async def test_it_returns_the_result_of_the_coroutine() -> None:
    assert await DeferredWork(_double(21)) == 42


def test_work_that_is_never_awaited_is_closed_without_a_warning() -> None:
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
    for _ in range(10):
        _Holding()
    with warnings.catch_warnings(record=True) as reported_defects:
        warnings.simplefilter("always")
        gc.collect(YOUNG)
    assert not reported_defects


async def test_it_makes_the_coroutine_when_it_is_awaited() -> None:
    assert await DeferredWork(lambda: _double(4)) == 8
