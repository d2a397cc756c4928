"""Serve Reef over MCP: stdio or streamable HTTP."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)
from msgspec import Struct
from starlette.types import Receive, Scope, Send

from zoea import __version__
from zoea.model.errors import UsageError, WorldError
from zoea.process.answered_lines import AnsweredLines
from zoea.process.connection_limit import BoundedListener, ConnectionLimit, fit_to_descriptors
from zoea.world.catalog import HELP, REEF_TOOLS
from zoea.world.faults import FaultInjector
from zoea.world.service import ReefService
from zoea.world.ticker import Ticker
from zoea.world.world_log import WorldInUse, WorldLog

LOCK_TIMEOUT_S = 5.0
"""Seconds to wait for a world file that another process still holds."""


class WorldOptions(Struct, frozen=True):
    """Hold the options of `python -m zoea.world`."""

    data: Path
    seed: int | None = None
    systems: int | None = None
    tick: float = 2.0
    turbo: bool = False
    http: str = ""
    faults: str = ""
    fault_seed: int = 0


def list_tools() -> list[Tool]:
    """Return the tools with schemas and annotations."""
    return [
        Tool(
            name=spec.name,
            description=spec.what,
            input_schema=spec.schema(),
            annotations=ToolAnnotations(
                read_only_hint=spec.reads,
                destructive_hint=False,
                idempotent_hint=spec.reads or spec.again,
                open_world_hint=False,
            ),
        )
        for spec in REEF_TOOLS.values()
    ]


def build_server(service: ReefService) -> Server[Any]:
    """Build the MCP server of a service."""
    listed = list_tools()

    async def on_list(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=listed)

    async def on_call(_: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        text, is_error = await service.call(params.name, params.arguments or {})
        return CallToolResult(content=[TextContent(type="text", text=text)], is_error=is_error)

    return Server("reef", version=__version__, instructions=HELP, on_list_tools=on_list, on_call_tool=on_call)


@asynccontextmanager
async def open_world(options: WorldOptions) -> AsyncIterator[tuple[ReefService, WorldLog]]:
    """Open the world file and run its ticks while the context is open."""
    faults = FaultInjector(options.faults, options.fault_seed)
    record = await _open_log(options)
    ticker = Ticker(record, seconds=options.tick, turbo=options.turbo)
    ticking = asyncio.create_task(ticker.run(), name="ticks")
    ticking.add_done_callback(_end_if_failed)
    try:
        yield ReefService(record, ticker, faults), record
    finally:
        ticking.cancel()
        await asyncio.gather(ticking, return_exceptions=True)
        record.close()


async def _open_log(options: WorldOptions) -> WorldLog:
    """Open the world file; wait a few seconds if an ending process still holds it."""
    loop = asyncio.get_running_loop()
    until = loop.time() + LOCK_TIMEOUT_S
    while True:
        try:
            return WorldLog(options.data / "reef.db", seed=options.seed, systems=options.systems)
        except WorldInUse:
            if loop.time() >= until:
                raise
        await asyncio.sleep(0.05)


def _end_if_failed(ticking: asyncio.Task[None]) -> None:
    """End the process if the ticks failed, so that the world is started again."""
    if not ticking.cancelled() and (error := ticking.exception()) is not None:
        logging.getLogger(__name__).critical("time stopped in Reef; the world ends", exc_info=error)
        os._exit(WorldError.exit_code)


async def run_stdio(options: WorldOptions) -> None:
    """Serve one client over stdin and stdout until it closes them."""
    async with open_world(options) as (service, _), stdio_server() as (read, write):
        server = build_server(service)
        await server.run(AnsweredLines((read, write), SessionMessage), write, server.create_initialization_options())


def parse_address(text: str) -> tuple[str, int]:
    """Parse `HOST:PORT` or `PORT`. Raises UsageError."""
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"{text!r} is no address.", hint="Give HOST:PORT, such as 127.0.0.1:8808, or a port.")
    return host.strip("[]") or "127.0.0.1", int(port)


MAX_CONNECTIONS, NEW_PER_ADDRESS, HEAD_S = 256, 64, 10.0
"""Limits of open connections, and of those of one address without a request; seconds for the head of one."""


class _Server(uvicorn.Server):
    """Run uvicorn without its signal handlers, which end the process before the file is closed."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def stop(self) -> None:
        self.should_exit = True


async def run_http(options: WorldOptions) -> None:
    """Serve clients over streamable HTTP until cancelled; print the address to stderr."""
    host, port = parse_address(options.http)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only if the protocol is given; else each answer waits 40 ms.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen()  # clients that connect before the world is open wait
        except OSError as error:
            raise UsageError(f"Cannot listen on {options.http}: {error}.", hint="Choose another address.") from error
        async with open_world(options) as (service, _):
            app = build_server(service).streamable_http_app(json_response=True, host=host)
            limit = ConnectionLimit(fit_to_descriptors(MAX_CONNECTIONS), NEW_PER_ADDRESS, HEAD_S)

            async def confirm_and_answer(scope: Scope, receive: Receive, send: Send) -> None:
                if scope["type"] == "http" and scope.get("client") is not None:
                    limit.confirm(tuple(scope["client"]))
                await app(scope, receive, send)

            config = uvicorn.Config(
                confirm_and_answer, log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=2
            )
            sys.stderr.write(f"Reef is served at http://{host}:{listener.getsockname()[1]}/mcp\n")
            sys.stderr.flush()
            server = _Server(config)
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, server.stop)
            await server.serve(sockets=[BoundedListener(listener.dup(), limit)])


async def run(options: WorldOptions) -> None:
    """Serve over stdio or HTTP."""
    await (run_http(options) if options.http else run_stdio(options))
