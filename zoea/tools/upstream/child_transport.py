"""Carries JSON-RPC messages over stdin and stdout of a child process.

Written here because the SDK's own has no limit for a line, tells a session nothing of an answer that it
cannot parse, and leaves processes of the child's group behind.
"""

from __future__ import annotations

import asyncio
import signal
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import mcp_types as types
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from zoea.process.group_guard import guard, start_child
from zoea.text.large_json import LARGE_CHARS
from zoea.tools.upstream.large_answer import parse_large_message
from zoea.tools.upstream.observed_streams import ClosedOnExit
from zoea.tools.upstream.stderr_log import StderrLog
from zoea.tools.upstream.unreadable_answer import (
    UnreadableMessage,
    describe_long_message,
    describe_message,
    repair_message,
)
from zoea.tools.upstream.upstream_config import UpstreamConfig

MAX_LINE_BYTES = 32 * 1024 * 1024
"""The longest message of an upstream's process."""
CHUNK_BYTES = 65_536
STDIN_GRACE_S = 1.0
"""Time for a process to end by itself once its stdin is closed."""
TERM_GRACE_S = 0.7
"""Time for its group to end after SIGTERM, before SIGKILL."""
REAP_S = 1.0
"""Time to notice that a killed process has ended."""
POLL_S = 0.01
_LINES_AT_ONCE = 50
"""Lines that are parsed before the rest of the event loop has its turn."""


@asynccontextmanager
async def open_process(config: UpstreamConfig, log: StderrLog) -> AsyncIterator[tuple[LineReadStream, LineWriteStream]]:
    """Start the child with its stderr in the log. End it and its group when the block is left.

    Raises:
        OSError, ValueError: The command cannot be run.
    """
    errors = log.attach()
    try:
        process = await start_child(
            config.command,
            *config.args,
            stdin=PIPE,
            stdout=PIPE,
            stderr=errors,
            env={**get_default_environment(), **config.env},
            cwd=config.cwd or None,
            limit=CHUNK_BYTES,
        )
    finally:
        errors.close()
    try:
        yield LineReadStream(process), LineWriteStream(process)
    finally:
        await _stop(process)


class LineReadStream(ClosedOnExit):
    """The child's messages. A line that is no message is an `UnreadableMessage`."""

    def __init__(self, process: Process) -> None:
        assert process.stdout is not None
        self._stdout = process.stdout
        self._lines: deque[bytes] = deque()
        self._pieces: list[bytes] = []
        self._size = 0
        self._is_closed = False
        self._parsed = 0

    def __aiter__(self) -> LineReadStream:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            while self._lines:
                line = self._lines.popleft()
                if len(line) > LARGE_CHARS:
                    return await asyncio.to_thread(_parse_large, line)
                self._parsed += 1
                if self._parsed % _LINES_AT_ONCE == 0:
                    await asyncio.sleep(0)
                if line.strip():
                    return _parse(line)
            if self._is_closed or not await self._read():
                raise StopAsyncIteration

    async def _read(self) -> bool:
        """Read more lines. Return False at the end of the output, and after a line that is too long."""
        data = await self._stdout.read(CHUNK_BYTES)
        if not data:
            rest = b"".join(self._pieces)
            self._pieces.clear()
            if rest:
                self._lines.append(rest)
            return bool(rest)
        *lines, rest = data.split(b"\n")
        if lines:
            self._pieces.append(lines[0])
            lines[0] = b"".join(self._pieces)
            self._lines.extend(lines)
            self._pieces.clear()
            self._size = 0
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)
        if self._size > MAX_LINE_BYTES:
            self._pieces.clear()
            self._is_closed = True
            return bool(self._lines)
        await asyncio.sleep(0)  # a child that writes without end must not keep the loop to itself
        return True

    async def aclose(self) -> None:
        self._is_closed = True


class LineWriteStream(ClosedOnExit):
    """Messages to the child.

    Raises BrokenResourceError only for a message of which certainly nothing arrived; what happened to
    any other is known from the end of the output.
    """

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        self._stdin = process.stdin

    async def send(self, item: SessionMessage, /) -> None:
        if self._stdin.is_closing():
            raise anyio.BrokenResourceError
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        was_empty = not self._stdin.transport.get_write_buffer_size()
        self._stdin.write(text.encode("utf-8", "replace") + b"\n")
        if self._stdin.is_closing() and was_empty:
            raise anyio.BrokenResourceError
        with suppress(ConnectionError):
            await self._stdin.drain()

    async def aclose(self) -> None:
        self._stdin.close()


def _parse(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        repaired = repair_message(line)
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(repaired or b"", by_name=False))
    except ValueError:
        return describe_message(line)


def _parse_large(line: bytes) -> SessionMessage | Exception:
    """As `_parse`, in a thread, with other threads running in between."""
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_python(parse_large_message(line), by_name=False))
    except UnreadableMessage as error:
        return error
    except (ValueError, RecursionError) as error:
        return describe_long_message(line, error) or _parse(line)


async def _stop(process: Process) -> None:
    """Close stdin, then send SIGTERM and SIGKILL to the group. At once if the caller is cancelled."""
    assert process.stdin is not None
    assert process.stdout is not None
    drain = asyncio.create_task(_discard(process.stdout))
    try:
        process.stdin.close()
        if not await _has_ended(process, STDIN_GRACE_S):
            guard.signal(process.pid, signal.SIGTERM)
            await _has_ended(process, TERM_GRACE_S)
    finally:
        guard.end(process.pid)
        drain.cancel()
        await _has_ended(process, REAP_S)
        # A process outside the group may hold the pipes; nothing of asyncio closes them then.
        transport = getattr(process, "_transport", None)
        if transport is not None:
            transport.close()


async def _discard(stdout: asyncio.StreamReader) -> None:
    """Read what a process still writes. Blocked in a write, it would not see its input end."""
    while True:
        if not await stdout.read(CHUNK_BYTES):
            return
        await asyncio.sleep(0)  # the rest of the loop has its turn


async def _has_ended(process: Process, within: float) -> bool:
    """Wait for the process alone: `Process.wait` waits for its pipes too, which others may hold."""
    until = asyncio.get_running_loop().time() + within
    while process.returncode is None:
        if asyncio.get_running_loop().time() >= until:
            return False
        await asyncio.sleep(POLL_S)
    return True
