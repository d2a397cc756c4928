"""Work beside the screen that may be given up before it began.

Textual cancels a worker whose widget goes, or that a newer one replaces, even
before its first step; the coroutine it was given would then be complained of as
never awaited. What is handed over here is closed instead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class Beside(Awaitable[Result], Generic[Result]):
    """A coroutine for `run_worker`: begun where it is awaited, closed where nobody awaits it."""

    def __init__(self, work: Coroutine[Any, Any, Result]) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, Any, Result]:
        return (yield from self._work.__await__())

    def __del__(self) -> None:
        self._work.close()
