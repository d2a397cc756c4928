"""Runs commands for an agent, with a deadline, bounded output and a process group each. The groups end with this
process.
"""

from __future__ import annotations

import asyncio
import ctypes
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections import deque
from contextlib import suppress
from pathlib import Path

from zoea.model.errors import FilesError
from zoea.process.group_guard import end_marked, guard, make_mark, start_child
from zoea.process.sandbox import Sandbox, build_environment

HEAD, TAIL = 8_000, 24_000
"""Bytes of the output's begin and end that are kept."""
MOST_BACKGROUND = 8
_MOST_ENDED = 32
_TERM_GRACE_S = 2.0
_PIPE_GRACE_S = 0.5
"""Time for what was written before the end to be read; what still holds the pipe is ended then."""
_REAP_S = 1.0
"""Time to notice that a killed process has ended."""
_CHUNK = 65_536
_SUBREAPER = 36


class BoundedOutput:
    """The first and the last bytes of what a command writes."""

    def __init__(self) -> None:
        self.size = 0
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0

    def add(self, data: bytes) -> None:
        self.size += len(data)
        if (room := HEAD - len(self._head)) > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail.append(data[-TAIL:])
            self._tail_size += len(self._tail[-1])
            while self._tail_size - len(self._tail[0]) >= TAIL:
                self._tail_size -= len(self._tail.popleft())

    @property
    def text(self) -> str:
        """The kept output, with a line that says how much was omitted."""
        tail = b"".join(self._tail)[-TAIL:]
        omitted = self.size - len(self._head) - len(tail)
        between = f"\n[{omitted:,} bytes left out]\n" if omitted else ""
        return self._head.decode("utf-8", "replace") + between + tail.decode("utf-8", "replace")


class CommandRun:
    """One command and its process group."""

    def __init__(self, process: Process, deadline: float, mark: str) -> None:
        self._mark = mark
        self.output = BoundedOutput()
        self.end = ""
        self._process = process
        self._deadline = deadline
        self._task = asyncio.create_task(self._run(), name=f"command {process.pid}")

    @property
    def is_done(self) -> bool:
        return self._task.done()

    async def wait(self) -> None:
        """Wait for its end. Cancelling the caller ends the command."""
        try:
            await asyncio.shield(self._task)
        except asyncio.CancelledError:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End it with all processes that it started: SIGTERM, then SIGKILL."""
        if not self._task.done():
            self.end = self.end or "stopped"
            await self._end_group()
            await asyncio.shield(self._task)

    @property
    def code(self) -> int | None:
        """Its exit status; None while it runs."""
        return self._process.returncode

    @property
    def text(self) -> str:
        """Its state or exit status, and its output."""
        state = self.end or ("running" if not self.is_done or self.code is None else f"exit code {self.code}")
        return f"[{state}; {self.output.size:,} bytes of output]\n{self.output.text}"

    async def _run(self) -> None:
        assert self._process.stdout is not None
        reader = asyncio.create_task(self._read(self._process.stdout))
        ended = asyncio.create_task(wait_for_end(self._process))
        try:
            await asyncio.wait((ended,), timeout=self._deadline)
            if not ended.done():
                self.end = f"ended after its deadline of {self._deadline:g} s"
                await self._end_group()
            await ended
            await asyncio.wait((reader,), timeout=_PIPE_GRACE_S)
        finally:
            await kill_and_wait(self._process)
            await asyncio.to_thread(end_marked, self._mark)
            await asyncio.wait((reader,), timeout=_PIPE_GRACE_S)
            for task in (reader, ended):
                task.cancel()
            if (transport := getattr(self._process, "_transport", None)) is not None:
                transport.close()

    async def _read(self, stdout: asyncio.StreamReader) -> None:
        while data := await stdout.read(_CHUNK):
            self.output.add(data)
            await asyncio.sleep(0)  # a command that writes without end must not keep the loop to itself

    async def _end_group(self) -> None:
        guard.signal(self._process.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(_TERM_GRACE_S):
                await wait_for_end(self._process)
        guard.end(self._process.pid)


async def wait_for_end(process: Process) -> None:
    """Wait for a process alone: `Process.wait` waits for its pipes too, which others may hold."""
    while process.returncode is None:  # noqa: ASYNC110  # a process has no event that is free of its pipes
        await asyncio.sleep(0.01)


async def kill_and_wait(process: Process) -> None:
    """Kill a process with its group, and wait until it is reaped."""
    guard.end(process.pid)
    with suppress(TimeoutError):
        async with asyncio.timeout(_REAP_S):
            await wait_for_end(process)


class CommandRuns:
    """The commands of one folder, those in the background by number."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        self.sandbox = sandbox
        self._folder = folder
        self._background: dict[int, CommandRun] = {}
        self._last = 0

    async def start(self, line: str, deadline: float) -> CommandRun:
        """Start a line in a shell. Raises FilesError."""
        mark = make_mark()
        try:
            process = await start_child(
                *self.sandbox.wrap(["/bin/sh", "-c", line]),
                mark=mark,
                cwd=self._folder,
                env=build_environment(),
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=STDOUT,
            )
        except (OSError, ValueError) as error:
            raise FilesError(f"the command did not start: {error}") from error
        return CommandRun(process, deadline, mark)

    async def start_background(self, line: str, deadline: float) -> int:
        """Start a line and return its number. Raises FilesError above `MOST_BACKGROUND`."""
        running = [number for number, run in self._background.items() if not run.is_done]
        if len(running) >= MOST_BACKGROUND:
            raise FilesError(f"{len(running)} commands run in the background", hint="run_stop ends one.")
        self._last += 1
        self._background[self._last] = await self.start(line, deadline)
        ended = [number for number, run in self._background.items() if run.is_done]
        for number in ended[: max(0, len(self._background) - _MOST_ENDED)]:
            del self._background[number]
        return self._last

    def find(self, number: int) -> CommandRun:
        """Return a command in the background. Raises FilesError."""
        if (run := self._background.get(number)) is None:
            raise FilesError(f"there is no command {number}", hint=f"There are: {[*self._background] or 'none'}.")
        return run

    async def close(self) -> None:
        """End all commands."""
        await asyncio.gather(*(run.stop() for run in self._background.values()))


def adopt_orphans() -> None:
    """Become the parent of orphaned children (on Linux), to end them later."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
