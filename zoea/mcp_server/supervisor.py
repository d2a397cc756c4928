"""Supervises the process that serves MCP clients over HTTP for the owner of a swarm.

A separate process, so that clients do not slow down the swarm and its screen, nor wait for them.
The owner keeps the bound socket: clients that connect during a restart wait for a moment and are
not refused.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from contextlib import suppress

from zoea.mcp_server.address import HEARTBEAT_S, Address, ServerOptions, listen, url_of
from zoea.model.errors import OwnerError, ZoeaError
from zoea.model.values import McpView
from zoea.process.group_guard import guard, start_child
from zoea.settings.paths import Places
from zoea.settings.private_file import open_private

log = logging.getLogger(__name__)

START_TIMEOUT_S = 20.0
CLOSE_S = 0.4
RESTART_S, RESTART_MAX_S = 0.5, 60.0
"""Pause before a restart; doubled after each failed one."""
SILENCE_S, MISSES = 3 * HEARTBEAT_S, 2
"""Time without a heartbeat, and how often in a row, before the process counts as lost."""

_MODULE = "zoea.mcp_server.server_process"


class McpServerSupervisor:
    """Starts, restarts and ends the process that serves MCP clients."""

    def __init__(self, places: Places, address: Address, *, level: str) -> None:
        self._places = places
        self._address = address
        self._level = level
        self._listener: socket.socket | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._start_task: asyncio.Task[None] | None = None
        self._supervision: asyncio.Task[None] | None = None
        self._view = McpView()
        self._switching = asyncio.Lock()

    @property
    def view(self) -> McpView:
        return self._view

    async def serve(self, on: bool) -> McpView:
        """Start or end serving. Raises OwnerError if it cannot listen or start."""
        async with self._switching:
            if on and self._supervision is None:
                await self._start()
            elif not on:
                await self._stop()
            return self._view

    def start(self) -> None:
        """Start serving in a task; a failure is logged and shown in `view`."""
        self._start_task = asyncio.create_task(self._start_or_log(), name="start MCP server")

    async def close(self) -> None:
        """End serving and all connections."""
        if self._start_task is not None:
            self._start_task.cancel()
        async with self._switching:
            await self._stop()

    async def _start_or_log(self) -> None:
        try:
            await self.serve(True)
        except ZoeaError as error:
            log.warning("MCP clients are not served: %s", error.what)
            self._view = McpView(problem=error.what)

    async def _start(self) -> None:
        listener = listen(self._address.host, self._address.port)
        try:
            self._process = await self._start_process(listener)
        except BaseException:
            listener.close()
            raise
        self._listener = listener
        self._view = McpView(url=url_of(listener))
        log.info("MCP clients are served at %s", self._view.url)
        self._supervision = asyncio.create_task(self._supervise(listener, self._process), name="supervise MCP server")

    async def _stop(self) -> None:
        supervision, self._supervision = self._supervision, None
        listener, self._listener = self._listener, None
        self._view = McpView()
        if supervision is not None:
            supervision.cancel()
            await asyncio.wait({supervision})
        process, self._process = self._process, None
        try:
            if process is not None:
                await _end_process(process)
        finally:
            if listener is not None:
                listener.close()

    async def _supervise(self, listener: socket.socket, process: asyncio.subprocess.Process) -> None:
        """Restart the process each time it ends."""
        pause, url = RESTART_S, self._view.url
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            reason = await wait_for_loss(process)
            await _end_process(process)
            if loop.time() - started > RESTART_MAX_S:
                pause = RESTART_S
            problem = f"the process that serves MCP clients {reason}"
            log.warning("%s and is restarted; see %s", problem, self._places.mcp_log)
            self._view = McpView(url=url, problem=problem)
            while True:
                await asyncio.sleep(pause)
                pause = min(2 * pause, RESTART_MAX_S)
                try:
                    process = self._process = await self._start_process(listener)
                except OwnerError as error:
                    log.warning("MCP clients are not served: %s", error.what)
                else:
                    break
            self._view = McpView(url=url)

    async def _start_process(self, listener: socket.socket) -> asyncio.subprocess.Process:
        """Start the process and wait until it serves. Raises OwnerError."""
        try:
            process = await self._spawn(listener)
        except OSError as problem:
            raise OwnerError(f"the process that serves MCP clients cannot be started: {problem}") from None
        try:
            assert process.stdout is not None
            async with asyncio.timeout(START_TIMEOUT_S):
                line = await process.stdout.readline()
        except TimeoutError:
            line = b""
        except BaseException:
            await _end_process(process)
            raise
        if not line:
            await _end_process(process)
            raise OwnerError(
                "the process that serves MCP clients did not start",
                hint="mcp.log says more; it is beside zoea.log, which `zoea config path` shows.",
            )
        return process

    async def _spawn(self, listener: socket.socket) -> asyncio.subprocess.Process:
        options = ServerOptions.of(self._places, self._address, self._level, listener)
        errors = open_private(self._places.mcp_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            process = await start_child(
                *(sys.executable, "-P", "-m", _MODULE, options.to_json()),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                pass_fds=(listener.fileno(),),
            )
        finally:
            os.close(errors)
        return process


async def wait_for_loss(process: asyncio.subprocess.Process) -> str:
    """Wait until the process ends or sends no heartbeats; return the reason."""
    assert process.stdout is not None
    misses = 0
    while misses < MISSES:
        try:
            async with asyncio.timeout(SILENCE_S):
                heartbeat = await process.stdout.read(1 << 16)
        except TimeoutError:
            # One miss proves nothing: if the owner itself was blocked, heartbeats are unread.
            misses += 1
        else:
            if not heartbeat:
                return f"ended (code {await process.wait()})"
            misses = 0
    return f"sent no heartbeat for {MISSES * SILENCE_S:.0f} s"


async def _end_process(process: asyncio.subprocess.Process) -> None:
    """Close the stdin of the process, which ends it. Kill it if that takes too long."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await process.wait()
    finally:  # also if the caller was cancelled
        guard.end(process.pid)
        await process.wait()
