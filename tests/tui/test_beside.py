"""Work that is given up before it began leaves no complaint behind."""

from __future__ import annotations

import gc
import inspect

from zoea.tui.beside import Beside


async def _double(number: int) -> int:
    return number * 2


async def test_it_gives_what_the_coroutine_gives() -> None:
    assert await Beside(_double(21)) == 42


def test_what_nobody_awaits_is_closed_without_a_warning() -> None:
    work = _double(1)
    beside = Beside(work)
    del beside
    gc.collect()
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED
