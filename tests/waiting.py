"""Waits for a state that has no event, in real time: the only polls of the tests."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 30.0
"""Long enough for a loaded machine; a state that holds ends the wait at once."""
_FIRST_S, _MOST_S = 0.002, 0.02
"""What takes long is asked for less often, because each question takes time from what is waited for."""
PROCESS_PATIENCE_S = 60.0


async def until(predicate: Callable[[], Any], *, within: float = PATIENCE_S) -> Any:
    """Return the predicate's first true value; it may be asynchronous. Raises TimeoutError."""
    pause = _FIRST_S
    async with asyncio.timeout(within):
        while True:
            found = predicate()
            if inspect.isawaitable(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(pause)
            pause = min(pause * 1.2, _MOST_S)


def until_true(predicate: Callable[[], Any], *, within: float = PROCESS_PATIENCE_S) -> Any:
    """Return the predicate's first true value, without an event loop. Raises AssertionError."""
    deadline = time.monotonic() + within
    while not (found := predicate()):
        if time.monotonic() > deadline:
            raise AssertionError(f"did not come true within {within:g} s")
        time.sleep(_MOST_S)
    return found
