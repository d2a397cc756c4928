"""The owner of a chaos run: `zoea` with a wall clock and a disk that a file controls.

`python -m tests.faults.chaos_owner CONTROL ARGUMENTS…`; CONTROL holds JSON: `clock`, seconds that the wall clock was
set by, and `disk`, seconds that each commit takes longer. SIGUSR1 writes the stacks of all tasks to stderr.
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


class ChaosControl:
    """The newest readable content of the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, float] = {"clock": 0.0, "disk": 0.0}

    def read(self, name: str) -> float:
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

    def read_wall_time() -> int:
        return time.time_ns() // 1_000 + round(control.read("clock") * 1_000_000)

    def write_stacks(_number: int, _frame: object) -> None:
        for task in asyncio.all_tasks(asyncio.get_running_loop()):
            sys.stderr.write(f"{task.get_name()}: {' > '.join(awaited_places(task.get_coro()))}\n")
        sys.stderr.flush()

    signal.signal(signal.SIGUSR1, write_stacks)
    signal.signal(signal.SIGUSR2, cut_connections)
    vars(clock)["read_wall_time"] = read_wall_time
    type.__setattr__(WriterConnection, "execute", execute)


if __name__ == "__main__":
    install(ChaosControl(Path(sys.argv.pop(1))))
    from zoea.__main__ import main

    sys.exit(main())
