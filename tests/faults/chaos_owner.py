"""The owner of a chaos run: `zoea` with clocks and a disk that a file controls.

`python -m tests.faults.chaos_owner CONTROL ARGUMENTS…`; CONTROL holds JSON: `clock`, seconds that the wall clock was
set by; `slept`, seconds by which both clocks went on at once, as in a suspension; and `disk`, seconds that each commit
takes longer. SIGUSR1 writes the stacks of all tasks to stderr.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from zoea.process import clock
from zoea.store.writer_connection import WriterConnection

FRESH_S = 0.02
"""Seconds for which a content counts as new, because an event loop looks at its clock all the time."""


class ChaosControl:
    """The newest readable content of the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, float] = {"clock": 0.0, "disk": 0.0, "slept": 0.0}
        self._read_at = 0.0

    def read(self, name: str) -> float:
        if (now := time.monotonic()) - self._read_at < FRESH_S:
            return self._known[name]
        self._read_at = now
        try:
            self._known = json.loads(self._path.read_text())
        except (OSError, ValueError):
            """Without a descriptor left, or while it is written, the value from before stays."""
        return self._known[name]


def awaited_places(coroutine: Any) -> Iterator[str]:
    """Where a task waits, from its outermost coroutine to the innermost."""
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        yield f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}"
        coroutine = coroutine.cr_await


def cut_connections(_number: int, _frame: object) -> None:
    """Shut down every connected TCP socket of this process under the feet of its users."""
    with suppress(OSError):  # it may have no descriptor left
        for entry in list(Path("/proc/self/fd").iterdir()):
            cut(entry)


def cut(entry: Path) -> None:
    with suppress(OSError):
        if str(entry.readlink()).startswith("socket:"):
            with socket.socket(fileno=os.dup(int(entry.name))) as found:
                if found.family == socket.AF_INET:
                    found.getpeername()
                    found.shutdown(socket.SHUT_RDWR)


def install(control: ChaosControl) -> None:
    """Put the controlled clock and disk into this process."""
    real = WriterConnection.execute

    def execute(self: WriterConnection, sql: str, *parameters: Any) -> Any:
        if sql == "COMMIT":
            time.sleep(control.read("disk"))
        return real(self, sql, *parameters)

    read_real_uptime = clock.read_uptime

    def read_wall_time() -> int:
        return time.time_ns() // 1_000 + round((control.read("clock") + control.read("slept")) * 1_000_000)

    def read_uptime() -> int:
        return read_real_uptime() + round(control.read("slept") * 1_000_000)

    def write_stacks(_number: int, _frame: object) -> None:
        for task in asyncio.all_tasks(asyncio.get_running_loop()):
            sys.stderr.write(f"{task.get_name()}: {' > '.join(awaited_places(task.get_coro()))}\n")
        sys.stderr.flush()

    signal.signal(signal.SIGUSR1, write_stacks)
    signal.signal(signal.SIGUSR2, cut_connections)
    vars(clock).update(read_wall_time=read_wall_time, read_uptime=read_uptime)
    type.__setattr__(WriterConnection, "execute", execute)


if __name__ == "__main__":
    install(ChaosControl(Path(sys.argv.pop(1))))
    from zoea.__main__ import main

    sys.exit(main())
