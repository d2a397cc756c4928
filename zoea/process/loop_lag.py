"""Measures how long the event loop was held up, and logs the code that ran."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from msgspec import Struct

log = logging.getLogger(__name__)

EVERY_S = 0.1
"""Seconds between two beats of the loop."""
LAG_S = 0.25
"""A beat that comes later than this is reported."""
_BUSY_SHARE = 0.1
"""A process that used less of its time than this was suspended, or the machine did other work."""

_FRAMES = 6
_IMPORTING = "<frozen importlib"
"""Where the frames of a running import come from; they say nothing of what is imported, or where."""
_OWN = str(Path(__file__).parents[1])
"""The directory of Zoea's modules."""


class HoldUp(Struct, frozen=True):
    """A hold-up of the event loop: its length in ms, its end in µs UTC."""

    lag_ms: int = 0
    at: int = 0


class LoopLag:
    """Watches the running event loop from a thread; made in the loop's thread.

    Args:
        now: Returns the wall time in µs UTC.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self.last = HoldUp()
        self._now = now
        self._loop_thread = threading.get_ident()
        self._due = time.monotonic() + EVERY_S
        self._cpu = time.process_time()
        self._sampler_lag = 0.0
        self._seen = ""
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True, name="loop-lag")
        self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._beat)
        self._thread.start()

    def close(self) -> None:
        self._timer.cancel()
        self._ends.set()
        self._thread.join()

    def _beat(self) -> None:
        now, cpu = time.monotonic(), time.process_time()
        lag = now - self._due
        if lag > LAG_S:
            self._report(lag, cpu - self._cpu)
        self._due, self._cpu, self._seen, self._sampler_lag = now + EVERY_S, cpu, "", 0.0
        self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._beat)

    def _report(self, lag: float, cpu: float) -> None:
        if self._sampler_lag > lag / 2 and cpu < lag * _BUSY_SHARE:
            return
        self.last = HoldUp(round(lag * 1_000), self._now())
        log.warning("the event loop was held up for %.2f s by %s", lag, self._seen or "code that was not seen")

    def _sample(self) -> None:
        while True:
            began = time.monotonic()
            if self._ends.wait(EVERY_S):
                return
            now = time.monotonic()
            self._sampler_lag = max(self._sampler_lag, now - began - EVERY_S)
            if now - self._due > LAG_S and (frame := sys._current_frames().get(self._loop_thread)):
                self._seen = describe_stack(frame)


def describe_stack(frame: FrameType) -> str:
    """Return the innermost functions up to the first one of Zoea, at most `_FRAMES`."""
    places: list[str] = []
    one: FrameType | None = frame
    while one is not None and len(places) < _FRAMES:
        if not one.f_code.co_filename.startswith(_IMPORTING):
            places.append(_place(one))
        if _OWN in one.f_code.co_filename:
            break
        one = one.f_back
    return " called by ".join(places)


def _place(frame: FrameType) -> str:
    file = "/".join(Path(frame.f_code.co_filename).parts[-3:])
    return f"{frame.f_code.co_qualname} ({file}:{frame.f_lineno})"


@contextmanager
def measured_lag(now: Callable[[], int]) -> Iterator[LoopLag]:
    """Watch the running event loop until the block is left."""
    lag = LoopLag(now)
    try:
        yield lag
    finally:
        lag.close()
