"""`SwarmApi` of a swarm that runs in another process of this machine.

All fronts outside the owner's process use it. It keeps no state of the swarm.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Self

from zoea import __version__
from zoea.ipc.codec import Mismatch, decode
from zoea.ipc.protocol import PROTOCOL, REPLY_LIMIT, REQUEST_LIMIT, api_methods, decode_error, encode_frame, parse_frame
from zoea.ipc.swarm_proxy import SwarmProxy
from zoea.model.enums import SenderKind
from zoea.model.errors import NoRunningSwarm, OwnerError, UsageError
from zoea.model.values import COMMANDER, Sender
from zoea.process.lock import Holder

CONNECT_TIMEOUT_S = 5.0
REPLY_TIMEOUT_S = 30.0
"""Deadlines of the handshake and of a reply; `wait` adds its own timeout to the latter."""

_GONE = "the running swarm has ended or closed the connection"


class SocketConnection:
    """A connection after its `hello`: writes and reads frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._ids = itertools.count(1)
        self.pid = 0

    @classmethod
    async def open(cls, path: Path, speaking_as: str = "") -> Self:
        """Connect to the owner that listens at `path`, as commander or as named client.

        Raises:
            NoRunningSwarm: if no process answers there.
            OwnerError: if the owner has another version of the protocol.
        """
        connection: Self | None = None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                reader, writer = await asyncio.open_unix_connection(path, limit=REPLY_LIMIT)
                connection = cls(reader, writer)
                named = {"client": speaking_as} if speaking_as else {}
                await connection.write(
                    connection.next_id(), "hello", {"protocol": PROTOCOL, "version": __version__, **named}
                )
                hello = _part(await connection.read(), "result")
        except BaseException as problem:
            if connection is not None:
                await connection.close()
            if isinstance(problem, TimeoutError):
                raise NoRunningSwarm(
                    f"the swarm's process has not answered for {CONNECT_TIMEOUT_S:g} s",
                    hint="It may be suspended (ctrl+z; `fg` continues it), or hang: then end it. Stored data is safe.",
                ) from None
            if isinstance(problem, OSError):
                raise NoRunningSwarm(
                    "no process answers for this workspace", hint="Start a swarm with `zoea run`."
                ) from None
            raise
        connection.pid = int(hello.get("pid", 0))
        return connection

    def next_id(self) -> int:
        """Return the id of the next request."""
        return next(self._ids)

    async def write(self, request: int, method: str, args: dict[str, Any]) -> None:
        """Send one request. Raises UsageError if it is too long, NoRunningSwarm if the owner is gone."""
        data = encode_frame(id=request, method=method, args=args)
        if len(data) > REQUEST_LIMIT:
            raise UsageError(f"that is {len(data):,} bytes; at most {REQUEST_LIMIT:,} can be sent at once")
        try:
            self._writer.write(data)
            await self._writer.drain()
        except ConnectionError:
            raise NoRunningSwarm(_GONE) from None

    async def read(self) -> dict[str, Any] | None:
        """Read the next frame; None if the owner is gone."""
        try:
            data = await self._reader.readline()
            return parse_frame(data) if data.endswith(b"\n") else None
        except (ConnectionError, ValueError):
            return None

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


class RemoteSwarm(SwarmProxy):
    """A running swarm over its socket. Use as `async with await RemoteSwarm.connect(path)`.

    Requests share one connection; each stream has its own, so that a slow reader
    delays only its own stream.
    """

    def __init__(self, path: Path, connection: SocketConnection, speaking_as: str = "") -> None:
        self._path = path
        self._connection = connection
        self._speaker = Sender(SenderKind.CLIENT, None, speaking_as) if speaking_as else COMMANDER
        self._replies: dict[int, asyncio.Future[dict[str, Any] | None]] = {}
        self._is_gone = False
        self._pump = asyncio.create_task(self._read(), name="remote swarm")

    @property
    def pid(self) -> int:
        """The process id of the owner."""
        return self._connection.pid

    @property
    def is_gone(self) -> bool:
        """True after the owner has closed the connection or ended."""
        return self._is_gone

    @classmethod
    async def connect(cls, path: Path, speaking_as: str = "") -> Self:
        """Connect to the owner. Raises as `SocketConnection.open`."""
        return cls(path, await SocketConnection.open(path, speaking_as), speaking_as)

    async def gone(self) -> None:
        """Wait until the owner has closed the connection or ended."""
        await asyncio.wait({self._pump})

    async def close(self) -> None:
        """Close the connection; the swarm continues."""
        self._pump.cancel()
        await asyncio.gather(self._pump, return_exceptions=True)
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def call_method(self, method: str, arguments: dict[str, Any]) -> Any:
        """Send a request and return its decoded answer.

        Raises:
            NoRunningSwarm: if the owner is gone.
            OwnerError: if it does not answer in time, or not as this version expects.
            ZoeaError: the owner's own error.
        """
        # The connection's `hello` has named the sender. COMMANDER is every method's default.
        if arguments.pop("sender", COMMANDER) not in (COMMANDER, self._speaker):
            raise UsageError("the sender is fixed by the connection; open one under that client's name")
        return _decoded(method, await self._exchange(method, arguments))

    async def open_stream(self, method: str, arguments: dict[str, Any]) -> AsyncGenerator[Any, None]:
        """Send a request on a connection of its own and yield its decoded items."""
        connection = await SocketConnection.open(self._path)
        try:
            await connection.write(connection.next_id(), method, arguments)
            while (reply := await connection.read()) is not None and "item" in reply:
                yield _decoded(method, reply["item"])
            _part(reply, "end")
            # Streams of a swarm have no end of their own: the owner is closing.
            raise NoRunningSwarm(_GONE)
        finally:
            await connection.close()

    async def _exchange(self, method: str, args: dict[str, Any]) -> Any:
        if self._is_gone:
            raise NoRunningSwarm(_GONE)
        deadline = REPLY_TIMEOUT_S + args.get("timeout_s", 0.0)
        request = self._connection.next_id()
        reply = self._replies[request] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(deadline):
                await self._connection.write(request, method, args)
                result = await reply
                if result is not None and "end" in result:  # the owner is closing, and what it did has no answer
                    raise NoRunningSwarm(_GONE)
                return _part(result, "result")
        except TimeoutError:
            raise OwnerError(f"the running swarm did not answer within {deadline:g} s") from None
        finally:
            self._replies.pop(request, None)

    async def _read(self) -> None:
        try:
            while (frame_in := await self._connection.read()) is not None:
                reply = self._replies.get(frame_in.get("id") or 0)
                if reply is not None and not reply.done():
                    reply.set_result(frame_in)
        finally:
            self._is_gone = True
            for waiting in self._replies.values():
                if not waiting.done():
                    waiting.set_result(None)


async def connect_to(holder: Holder | None, speaking_as: str = "") -> RemoteSwarm:
    """Connect to the process that holds the workspace, as commander or as named client.

    Raises:
        NoRunningSwarm: if no process holds it, or the holder does not answer.
    """
    if holder is not None and not holder.socket:
        raise NoRunningSwarm(
            "a swarm is being opened or closed here, or its lock file is being restored", hint="Try again soon."
        )
    if holder is None:
        raise NoRunningSwarm(
            "this workspace has no running swarm",
            hint="Start one with `zoea run`, or without a screen with `zoea run --headless`.",
        )
    return await RemoteSwarm.connect(Path(holder.socket), speaking_as)


def _part(reply: dict[str, Any] | None, key: str) -> Any:
    if reply is None:
        raise NoRunningSwarm(_GONE)
    if "error" in reply:
        raise decode_error(reply["error"] if isinstance(reply["error"], dict) else {})
    return reply.get(key)


def _decoded(method: str, value: Any) -> Any:
    try:
        return decode(api_methods()[method].result, value, method)
    except Mismatch as mismatch:
        raise OwnerError(f"the running swarm's answer does not fit this version of Zoea: {mismatch}") from None
