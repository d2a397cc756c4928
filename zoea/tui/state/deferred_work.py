"""Work for Textual's workers that may be cancelled before it began.

Textual cancels a worker when its widget is removed or a newer one replaces it, even before its first step. A coroutine
made for it would warn that it was never awaited, so it is made when it is awaited, or closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import wraps
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from textual.dom import DOMNode

Node = TypeVar("Node", bound=DOMNode)
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


def reread(work: Callable[[Node], Work[None]]) -> Callable[[Node], None]:
    """Make a method start a worker; while that runs, calls let it run once more.

    An exclusive worker cancels the one before. What is asked for each second and takes longer would never be shown.
    """
    wanted: WeakSet[Node] = WeakSet()
    running: WeakSet[Node] = WeakSet()

    async def run(node: Node) -> None:
        try:
            while node in wanted:
                wanted.discard(node)
                await work(node)
        finally:
            running.discard(node)

    @wraps(work)
    def want(node: Node) -> None:
        wanted.add(node)
        if node not in running:
            running.add(node)
            node.run_worker(DeferredWork(lambda: run(node)), exit_on_error=False)

    return want


class WorkQueue:
    """Starts work that must not be lost: one after another, in the order in which it came.

    An exclusive worker would be cancelled by the next one, and each worker of a screen when that screen is left.

    Args:
        start: Starts a coroutine that outlives the screen.
    """

    def __init__(self, start: Callable[[Callable[[], Work[None]]], None]) -> None:
        self._start = start
        self._lock = asyncio.Lock()
        self.waiting = 0
        """The number of works that are not done."""

    def put(self, work: Callable[[], Work[None]]) -> None:
        """Start a work once those before it are done, also where one of them failed."""
        self.waiting += 1

        async def run() -> None:
            try:
                async with self._lock:
                    await work()
            finally:
                self.waiting -= 1

        self._start(run)
