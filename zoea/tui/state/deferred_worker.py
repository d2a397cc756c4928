"""Work beside the screen that may be given up before it began.

Textual cancels a worker whose widget goes, or that a newer one replaces, even
before its first step; a coroutine made for it would then be complained of as never
awaited. So it is made when it is awaited, or, where it was made already, closed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")
Work = Coroutine[Any, Any, Result]


class Beside(Awaitable[Result], Generic[Result]):
    """What `run_worker` is given.

    Args:
        work: Makes the coroutine; or the coroutine, where nothing that it holds leads back to the worker.
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
