"""The owner's door for MCP clients over HTTP: open while the settings or a person want it.

Behind it stands a process of its own (`alone`), so that clients neither slow the swarm
and its screen down nor wait for them. The owner keeps the bound socket: whoever comes while that
process is started again waits a moment, and is not turned away.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from contextlib import suppress

from zoea.mcp_server.address import BEAT_S, Address, ServerOptions, listen, url_of
from zoea.model.errors import OwnerError, ZoeaError
from zoea.model.values import McpView
from zoea.settings.paths import Places

log = logging.getLogger(__name__)

STARTING_S = 20.0
CLOSE_S = 0.4
AGAIN_S, AGAIN_AT_MOST_S = 0.5, 60.0
"""How long after its end the process is started again; doubled each time it could not be."""
SILENCE_S, MISSES = 3 * BEAT_S, 2
"""How long the process may be silent, and how often in a row, before it counts as lost."""

_MODULE = "zoea.mcp_server.server_process"


class McpServerSupervisor:
    """Serves MCP clients over HTTP while it is open.

    Args:
        places: Where the workspace's memory and tokens lie.
        address: Where to listen.
        level: What the serving process logs from.
    """

    def __init__(self, places: Places, address: Address, *, level: str = "info") -> None:
        self._places = places
        self._address = address
        self._level = level
        self._listener: socket.socket | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._opening: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._view = McpView()
        self._switching = asyncio.Lock()

    @property
    def view(self) -> McpView:
        return self._view

    async def switch(self, on: bool) -> McpView:
        """Open or close it. Raises OwnerError where it cannot listen."""
        async with self._switching:
            if on and self._keeping is None:
                await self._begin()
            elif not on:
                await self._end()
            return self._view

    def open_soon(self) -> None:
        """Open it meanwhile; what stands in the way is logged and shown, and nothing else suffers from it."""
        self._opening = asyncio.create_task(self._open_if_it_can(), name="mcp door opening")

    async def close(self) -> None:
        """End every client's connection."""
        if self._opening is not None:
            self._opening.cancel()
        async with self._switching:
            await self._end()

    async def _open_if_it_can(self) -> None:
        try:
            await self.switch(True)
        except ZoeaError as error:
            log.warning("MCP clients are not served: %s", error.what)
            self._view = McpView(problem=error.what)

    async def _begin(self) -> None:
        listener = listen(self._address.host, self._address.port)
        try:
            self._process = await self._started(listener)
        except BaseException:
            listener.close()
            raise
        self._listener = listener
        self._view = McpView(url=url_of(listener))
        log.info("MCP clients are served at %s", self._view.url)
        self._keeping = asyncio.create_task(self._keep(listener, self._process), name="mcp door")

    async def _end(self) -> None:
        keeping, self._keeping = self._keeping, None
        listener, self._listener = self._listener, None
        self._view = McpView()
        if keeping is not None:
            keeping.cancel()
            await asyncio.wait({keeping})
        process, self._process = self._process, None
        try:
            if process is not None:
                await _ended(process)
        finally:
            if listener is not None:
                listener.close()

    async def _keep(self, listener: socket.socket, process: asyncio.subprocess.Process) -> None:
        """Start the process again whenever it ends."""
        pause, url = AGAIN_S, self._view.url
        loop = asyncio.get_running_loop()
        while True:
            since = loop.time()
            how = await _lost(process)
            await _ended(process)
            if loop.time() - since > AGAIN_AT_MOST_S:
                pause = AGAIN_S
            said = f"the process that serves MCP clients {how}"
            log.warning("%s and is started again; %s may say why", said, self._places.mcp_log)
            self._view = McpView(url=url, problem=said)
            while True:
                await asyncio.sleep(pause)
                pause = min(2 * pause, AGAIN_AT_MOST_S)
                try:
                    process = self._process = await self._started(listener)
                except OwnerError as error:
                    log.warning("MCP clients are not served: %s", error.what)
                else:
                    break
            self._view = McpView(url=url)

    async def _started(self, listener: socket.socket) -> asyncio.subprocess.Process:
        """The process, once it serves. Raises OwnerError."""
        try:
            process = await self._spawned(listener)
        except OSError as problem:
            raise OwnerError(f"the process that serves MCP clients cannot be started: {problem}") from None
        try:
            assert process.stdout is not None
            async with asyncio.timeout(STARTING_S):
                said = await process.stdout.readline()
        except TimeoutError:
            said = b""
        except BaseException:
            await _ended(process)
            raise
        if not said:
            await _ended(process)
            raise OwnerError("the process that serves MCP clients did not start", hint="mcp.log says why.")
        return process

    async def _spawned(self, listener: socket.socket) -> asyncio.subprocess.Process:
        errand = ServerOptions.of(self._places, self._address, self._level, listener)
        errors = os.open(self._places.mcp_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", _MODULE, errand.written()),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                pass_fds=(listener.fileno(),),
                start_new_session=True,  # the terminal's ctrl+c is the owner's affair
            )
        finally:
            os.close(errors)


async def _lost(process: asyncio.subprocess.Process) -> str:
    """Until it ends, or stands still; what is to be said of that."""
    assert process.stdout is not None
    misses = 0
    while misses < MISSES:
        try:
            async with asyncio.timeout(SILENCE_S):
                sign = await process.stdout.read(1 << 16)
        except TimeoutError:
            # No proof yet: after the owner himself stood still, the time is up before he has read what came.
            misses += 1
        else:
            if not sign:
                return f"ended (code {await process.wait()})"
            misses = 0
    return f"gave no sign of life for {MISSES * SILENCE_S:.0f} s"


async def _ended(process: asyncio.subprocess.Process) -> None:
    """End the process by closing its stdin; by force where that takes too long. It holds nothing that could be lost."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await process.wait()
    finally:  # also where nobody waits for it any more
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
