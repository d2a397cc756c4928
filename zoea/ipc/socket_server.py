"""The owner's socket server: `SwarmApi` for local fronts.

Only processes of the same user may connect: the socket's mode is 0600, and the peer's
uid is checked. A bad frame is answered with an error. A front that does not read delays
only its own streams, which get `Lagged` from the swarm's bounded queues.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zoea import __version__
from zoea.ipc.protocol import PROTOCOL, REPLY_LIMIT, REQUEST_LIMIT, ApiMethod, api_methods, encode_frame, parse_frame
from zoea.model.enums import SenderKind
from zoea.model.errors import OwnerError, UsageError, ZoeaError
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import COMMANDER, Sender, SwarmView, check_client_name
from zoea.process.connection_limit import BoundedListener, ConnectionLimit, DescriptorReserve
from zoea.settings.paths import make_private_folder
from zoea.text.control_characters import one_line

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 128
"""Limit of fronts that have said hello."""
NEW_CONNECTIONS, HELLO_S = 32, 10.0
"""Places for connections that have not said hello, and the seconds that they have for it."""
MAX_REQUESTS = 64
"""Limit of concurrent requests of one front."""
_SHOWN = 40
"""Characters of a version that are repeated."""
LARGE_LIST = 100
"""Answers of more myses, or other rows, than this are encoded in a thread."""


class SocketServer:
    """Serves one `SwarmApi` to local fronts.

    Args:
        api: The swarm.
        path: The socket's path, at most 107 bytes long.
        started_at: Start of the owner in µs UTC, reported to fronts.
    """

    def __init__(self, api: SwarmApi, path: Path, *, started_at: int = 0) -> None:
        self.path = path
        self._api = api
        self._started_at = started_at
        self._server: asyncio.Server | None = None
        self._fronts: set[asyncio.Task[None]] = set()
        self._greeted: set[_Front] = set()
        self._limit = ConnectionLimit(MAX_CONNECTIONS + NEW_CONNECTIONS, None, HELLO_S)
        self._reserve = DescriptorReserve()

    async def open(self) -> None:
        """Listen. Replaces the socket of a dead owner, because the caller holds the workspace's lock.

        Raises:
            OwnerError: if the path is too long or cannot be used.
        """
        if len(os.fsencode(self.path)) > 107:
            raise OwnerError(
                f"the socket's path is too long: {self.path}", hint="Set XDG_RUNTIME_DIR to a shorter directory."
            )
        try:
            make_private_folder(self.path.parent)
            self.path.unlink(missing_ok=True)
            listener = BoundedListener(_bind(self.path), self._limit, self._reserve)
            self._reserve.fill()
            self._server = await asyncio.start_unix_server(self._accept, sock=listener, limit=REQUEST_LIMIT)
        except OSError as problem:
            raise OwnerError(f"cannot listen at {self.path}: {problem.strerror}") from problem

    async def close(self) -> None:
        """Stop listening and close every connection."""
        if self._server is None:
            return
        self._server.close()
        for task in tuple(self._fronts):
            task.cancel()
        await asyncio.gather(*self._fronts, return_exceptions=True)
        self._reserve.close()
        self._server = None
        self.path.unlink(missing_ok=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not _is_same_user(writer):
            writer.transport.abort()
            return
        front = _Front(self._api, reader, writer, self._started_at, self._admit)
        task = asyncio.create_task(front.serve(), name="front")
        self._fronts.add(task)
        task.add_done_callback(self._fronts.discard)
        task.add_done_callback(lambda _done: self._greeted.discard(front))

    def _admit(self, front: _Front) -> None:
        """Give a front that says hello its place. Raises OwnerError if there is none."""
        if len(self._greeted) >= MAX_CONNECTIONS and front not in self._greeted:
            raise OwnerError(
                f"{MAX_CONNECTIONS} cockpits and commands are connected to this swarm already",
                hint="Close cockpits or commands that are no longer needed.",
            )
        self._greeted.add(front)
        self._limit.confirm(front.descriptor)


class _Front:
    """One connection: reads requests, runs each as a task, writes frames."""

    def __init__(
        self,
        api: SwarmApi,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        started_at: int,
        admit: Callable[[_Front], None],
    ) -> None:
        self.descriptor: int = writer.get_extra_info("socket").fileno()
        self._admit = admit
        self._api = api
        self._reader = reader
        self._writer = writer
        self._started_at = started_at
        self._greeted = False
        self._speaker = COMMANDER
        self._running: dict[int, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        try:
            while (line := await self._read_line()) is not None:
                await self._start_request(line)
        except (ConnectionError, TimeoutError):
            log.debug("a front closed its connection")
        finally:
            for task in self._running.values():
                task.cancel()
            await asyncio.gather(*self._running.values(), return_exceptions=True)
            # Close the connection; wait at most one second until the last frames are sent
            self._writer.close()
            try:
                await asyncio.wait_for(self._writer.wait_closed(), timeout=1.0)
            except (ConnectionError, TimeoutError):
                self._writer.transport.abort()

    async def _read_line(self) -> bytes | None:
        """Read the next line; None at the end. A line over the limit is refused and skipped."""
        skipped = False
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.LimitOverrunError as overrun:
                await self._reader.readexactly(overrun.consumed)
                skipped = True
                continue
            except asyncio.IncompleteReadError:
                return None
            if not skipped:
                return line
            skipped = False
            await self._refuse(None, UsageError(f"a frame may hold {REQUEST_LIMIT:,} bytes"))

    async def _start_request(self, line: bytes) -> None:
        request: int | None = None
        try:
            message = parse_frame(line)
            if type(message.get("id")) is not int:
                raise UsageError("a frame needs an integer id")
            request = message["id"]
            name = message.get("method")
            args = message.get("args", {})
            if not self._greeted or name == "hello":
                await self._greet(request, name, args)
                return
            if name == "cancel":
                await self._cancel(request, args)
                return
            method = api_methods().get(name) if isinstance(name, str) else None
            if method is None:
                raise UsageError(f"no method {name!r}")
            if request in self._running:
                raise UsageError(f"request {request} is still running")
            if len(self._running) >= MAX_REQUESTS:
                raise UsageError(f"at most {MAX_REQUESTS} requests at once")
            arguments = method.read(args)
            if method.has_sender:
                arguments["sender"] = self._speaker
        except ZoeaError as error:
            await self._refuse(request, error)
            return
        task = asyncio.create_task(self._answer(request, method, arguments), name=f"front {method.name}")
        self._running[request] = task
        task.add_done_callback(lambda _done: self._running.pop(request, None))

    async def _greet(self, request: int, name: Any, args: Any) -> None:
        if name != "hello":
            raise UsageError("the first request must be hello")
        args = args if isinstance(args, dict) else {}
        if (theirs := args.get("protocol")) != PROTOCOL:
            version, protocol = (one_line(str(part))[:_SHOWN] for part in (args.get("version", "of another"), theirs))
            raise OwnerError(
                f"the running swarm is Zoea {__version__} (protocol {PROTOCOL}), "
                f"this command or cockpit is Zoea {version} (protocol {protocol})",
                hint=f"Use the same version, or end the running swarm in order with `kill {os.getpid()}` and start it "
                "with yours: `zoea run`.",
            )
        if client := args.get("client"):
            self._speaker = Sender(SenderKind.CLIENT, None, check_client_name(str(client)))
        self._admit(self)
        self._greeted = True
        about = {"protocol": PROTOCOL, "version": __version__, "pid": os.getpid(), "started_at": self._started_at}
        await self._write(id=request, result=about)

    async def _cancel(self, request: int, args: Any) -> None:
        task = self._running.get(args.get("request", -1)) if isinstance(args, dict) else None
        if task is not None:
            task.cancel()
        await self._write(id=request, result=task is not None)

    async def _answer(self, request: int, method: ApiMethod, arguments: dict[str, Any]) -> None:
        try:
            if method.streams:
                async with contextlib.aclosing(getattr(self._api, method.name)(**arguments)) as items:
                    async for item in items:
                        await self._write(method.name, id=request, item=item)
                await self._write(id=request, end=True)
            else:
                await self._write(method.name, id=request, result=await getattr(self._api, method.name)(**arguments))
        except asyncio.CancelledError:
            with contextlib.suppress(ConnectionError):
                self._writer.write(encode_frame(id=request, end=True))
            raise
        except ZoeaError as error:
            await self._refuse(request, error)
        except ConnectionError:
            log.debug("a front closed its connection")
        except Exception:
            log.exception("the request %s of a front failed", method.name)
            await self._refuse(
                request,
                ZoeaError(
                    f"{method.name} failed inside Zoea",
                    hint="zoea.log says more; `zoea config path` shows where it is.",
                ),
            )

    async def _refuse(self, request: int | None, error: ZoeaError) -> None:
        with contextlib.suppress(ConnectionError):
            await self._write(id=request, error=error.as_dict())

    async def _write(self, about: str = "", /, **parts: Any) -> None:
        """Write one frame, an answer to the method `about`. A slow front delays only this request.

        Raises:
            OwnerError: if the frame is too long, because the front would end the connection.
        """
        is_large = any(_is_large(part) for part in parts.values())
        frame = await asyncio.to_thread(encode_frame, **parts) if is_large else encode_frame(**parts)
        if len(frame) > REPLY_LIMIT:
            raise OwnerError(f"the answer to {about} has {len(frame):,} bytes; at most {REPLY_LIMIT:,} can be sent")
        self._writer.write(frame)
        await self._writer.drain()


def _is_large(part: Any) -> bool:
    return len(part.myses if isinstance(part, SwarmView) else part if isinstance(part, tuple) else ()) > LARGE_LIST


def _bind(path: Path) -> socket.socket:
    """Bind a socket that only this user may connect to. Raises OSError."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(os.fspath(path))
        listener.listen()
    except BaseException:
        listener.close()
        raise
    finally:
        os.umask(before)
    return listener


def _is_same_user(writer: asyncio.StreamWriter) -> bool:
    """Check that the peer has our uid. True if the system cannot tell: the socket is 0600."""
    peer: socket.socket = writer.get_extra_info("socket")
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    size = struct.calcsize("3i")
    _pid, uid, _gid = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return bool(uid == os.getuid())
