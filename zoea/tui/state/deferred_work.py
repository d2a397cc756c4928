"""Work for Textual's workers that may be cancelled before it began.

Textual cancels a worker when its widget is removed or a newer one replaces it, even before its first step. A coroutine
made for it would warn that it was never awaited, so it is made when it is awaited, or closed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")
Work = Coroutine[Any, Any, Result]


class DeferredWork(Awaitable[Result], Generic[Result]):
    """The awaitable for `run_worker`.

    Args:
        work: Makes the coroutine; or the coroutine, where it holds no reference to the worker.
    """

    def __init__(self, work: Callable[[], Work[Result]] | Work[Result]) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, Any, Result]:
        if isinstance(self._work, Coroutine):
            return (yield from self._work.__await__())
        return (yield from self._work().__await__())

    def __del__(self) -> None:
        if isinstance(self._work, Coroutine):
            self._work.close()
