"""Serve one ACP client over this process's stdin and stdout, which nothing else may use."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from acp.core import AgentSideConnection

from zoea.acp_server.acp_agent import ZoeaAgent
from zoea.model.errors import UsageError
from zoea.text.document_bounds import count_marks
from zoea.text.message_ids import find_id

_log = logging.getLogger(__name__)

LINE_BYTES = 16 * 1024 * 1024
MOST_VALUES = 20_000
"""The most values of a message: the SDK takes kilobytes of memory for each that it refuses."""


@asynccontextmanager
async def protocol_streams() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Take stdin and stdout for the protocol; what else is printed goes to stderr.

    Raises:
        UsageError: They are no pipes, but a terminal or a file, so that no client is there.
    """
    if not all(stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) for mode in (os.fstat(0).st_mode, os.fstat(1).st_mode)):
        raise UsageError(  # asyncio would take /dev/null, and fail later
            "an editor starts this command, and talks to it over pipes", hint="Name `zoea acp` as an agent there."
        )
    sys.stdout.flush()
    given, wanted = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LINE_BYTES)
    source, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(given, "rb", buffering=0)
    )
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(wanted, "wb", buffering=0)
    )
    try:
        yield reader, asyncio.StreamWriter(transport, protocol, None, loop)
    finally:
        source.close()
        transport.close()


class LineTransport:
    """Messages as lines of JSON. Other lines are refused, and a line without end ends the connection.

    The SDK's own transport has no bound, and one message of another shape ends its connection.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps(message, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message, or None at the end."""
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as end:
                line = end.partial
            except asyncio.LimitOverrunError:
                _log.error("the client sent a line of over %d MiB", LINE_BYTES // 2**20)
                return None
            if not line:
                return None
            if line.isspace():
                continue
            if count_marks(line, (b",",), MOST_VALUES) >= MOST_VALUES:
                await self._refuse(-32600, f"this holds over {MOST_VALUES:,} values", find_id(line))
                continue
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                await self._refuse(-32700, "this is no JSON", find_id(line))
                continue
            if is_message(message):
                request: dict[str, Any] = message
                return request
            await self._refuse(-32600, "this is no message of JSON-RPC", find_id(line) if b'"method"' in line else None)

    async def close(self) -> None:
        self._writer.close()

    async def _refuse(self, code: int, why: str, number: int | str | None) -> None:
        await self.send({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": why}})


def is_message(value: Any) -> bool:
    """Return whether the SDK accepts a value as a request, a notification or a response."""
    if (
        not isinstance(value, dict)
        or not isinstance(value.get("id"), str | int | None)
        or isinstance(value.get("id"), bool)
    ):
        return False
    if "method" in value:
        return isinstance(value["method"], str)
    return "id" in value and isinstance(value.get("error", {}), dict | None)


async def serve_client(agent: ZoeaAgent, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve until the client closes its end."""
    transport = LineTransport(reader, writer)
    served: Any = agent  # the SDK's protocol has methods that this agent refuses
    connection = AgentSideConnection(served, transport, listening=False, use_unstable_protocol=True)
    try:
        await connection.listen()
    finally:
        await connection.close()
