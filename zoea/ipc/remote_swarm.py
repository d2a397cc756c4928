"""`SwarmApi` of a swarm that runs in another process of this machine.

Every front but the owner's own uses this one. It holds no state of the swarm:
it asks, and hands out what it is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self, TypeVar

from zoea import __version__
from zoea.ipc.codec import Mismatch, decode
from zoea.ipc.protocol import PROTOCOL, REPLY_LIMIT, REQUEST_LIMIT, frame, methods, parse, revive
from zoea.model.enums import ApprovalAnswer, DeliveryMode, SenderKind
from zoea.model.errors import NoRunningSwarm, OwnerError, UsageError
from zoea.model.values import (
    COMMANDER,
    ApprovalView,
    Event,
    GrantView,
    Lagged,
    McpView,
    MysisView,
    ProviderView,
    Receipt,
    Recipients,
    Sender,
    SwarmView,
    ToolTrial,
    UpstreamView,
)
from zoea.process.lock import Holder

CONNECT_TIMEOUT_S = 5.0
REPLY_TIMEOUT_S = 30.0
"""Deadlines of the handshake and of an answer; `wait` adds its own to the latter."""

T = TypeVar("T")

_GONE = "the running swarm went away"


class Line:
    """One greeted connection: frames out, frames in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._ids = itertools.count(1)
        self.pid = 0

    @classmethod
    async def open(cls, path: Path, speaking_as: str = "") -> Self:
        """Reach the owner that listens at `path`: as the commander, or as a client of this name.

        Raises:
            NoRunningSwarm: where nobody answers there.
            OwnerError: where the owner speaks another protocol.
        """
        line: Self | None = None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                reader, writer = await asyncio.open_unix_connection(path, limit=REPLY_LIMIT)
                line = cls(reader, writer)
                named = {"client": speaking_as} if speaking_as else {}
                await line.write(line.number(), "hello", {"protocol": PROTOCOL, "version": __version__, **named})
                hello = _part(await line.read(), "result")
        except TimeoutError:
            await cls._give_up(line)
            raise NoRunningSwarm(
                f"the swarm's process has not answered for {CONNECT_TIMEOUT_S:g} s",
                hint="It may be stopped (ctrl+z) or stuck: let it go on, or end it. What is stored is safe.",
            ) from None
        except OSError:
            await cls._give_up(line)
            raise NoRunningSwarm("nobody answers for this workspace", hint="Start one with `zoea run`.") from None
        except BaseException:
            await cls._give_up(line)
            raise
        line.pid = int(hello.get("pid", 0))
        return line

    @staticmethod
    async def _give_up(line: Line | None) -> None:
        if line is not None:
            await line.close()

    def number(self) -> int:
        """An id for the next request."""
        return next(self._ids)

    async def write(self, request: int, method: str, args: dict[str, Any]) -> None:
        """Send one request."""
        data = frame(id=request, method=method, args=args)
        if len(data) > REQUEST_LIMIT:
            raise UsageError(f"that is {len(data):,} bytes; at most {REQUEST_LIMIT:,} can be sent at once")
        try:
            self._writer.write(data)
            await self._writer.drain()
        except ConnectionError:
            raise NoRunningSwarm(_GONE) from None

    async def read(self) -> dict[str, Any] | None:
        """The next frame; None where the owner is gone."""
        try:
            data = await self._reader.readline()
            return parse(data) if data.endswith(b"\n") else None
        except (ConnectionError, ValueError):
            return None

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


class RemoteSwarm:
    """A running swarm, reached over its socket. Use as `async with await RemoteSwarm.connect(path)`.

    Requests share one line; each stream has its own, so that a reader who is slow
    holds up nothing but his own stream.
    """

    def __init__(self, path: Path, line: Line, speaking_as: str = "") -> None:
        self._path = path
        self._line = line
        self._speaker = Sender(SenderKind.CLIENT, None, speaking_as) if speaking_as else COMMANDER
        self._replies: dict[int, asyncio.Future[dict[str, Any] | None]] = {}
        self._is_gone = False
        self._pump = asyncio.create_task(self._read(), name="remote swarm")

    @property
    def pid(self) -> int:
        """The owner's process."""
        return self._line.pid

    @property
    def is_gone(self) -> bool:
        """True once the owner hung up or ended."""
        return self._is_gone

    @classmethod
    async def connect(cls, path: Path, speaking_as: str = "") -> Self:
        """See `Line.open` for what it raises."""
        return cls(path, await Line.open(path, speaking_as), speaking_as)

    async def gone(self) -> None:
        """Wait until the owner has gone away."""
        await asyncio.wait({self._pump})

    async def close(self) -> None:
        """Hang up. The swarm goes on."""
        self._pump.cancel()
        await asyncio.gather(self._pump, return_exceptions=True)
        await self._line.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def create(
        self,
        name: str,
        *,
        template: str = "",
        provider: str = "",
        model: str = "",
        tags: tuple[str, ...] = (),
        start: bool = True,
        inherit_broadcast: bool = True,
    ) -> MysisView:
        return await self._ask(
            MysisView,
            "create",
            name=name,
            template=template,
            provider=provider,
            model=model,
            tags=tags,
            start=start,
            inherit_broadcast=inherit_broadcast,
        )

    async def start(self, ref: str) -> MysisView:
        return await self._ask(MysisView, "start", ref=ref)

    async def stop(self, ref: str) -> MysisView:
        return await self._ask(MysisView, "stop", ref=ref)

    async def delete(self, ref: str) -> MysisView:
        return await self._ask(MysisView, "delete", ref=ref)

    async def undelete(self, mysis_id: int) -> MysisView:
        return await self._ask(MysisView, "undelete", mysis_id=mysis_id)

    async def dismiss(self, ref: str) -> MysisView:
        return await self._ask(MysisView, "dismiss", ref=ref)

    async def configure(
        self,
        ref: str,
        *,
        template: str = "",
        provider: str = "",
        model: str = "",
        tags: tuple[str, ...] | None = None,
        settings: dict[str, Any] | None = None,
    ) -> MysisView:
        return await self._ask(
            MysisView,
            "configure",
            ref=ref,
            template=template,
            provider=provider,
            model=model,
            tags=tags,
            settings=settings,
        )

    async def send(
        self,
        ref: str,
        text: str,
        *,
        mode: DeliveryMode = DeliveryMode.QUEUE,
        sender: Sender = COMMANDER,
        idempotency_key: str = "",
    ) -> Receipt:
        self._only_as_itself(sender)
        return await self._ask(Receipt, "send", ref=ref, text=text, mode=mode, idempotency_key=idempotency_key)

    async def broadcast(
        self,
        text: str,
        *,
        to: Recipients = Recipients(),
        mode: DeliveryMode = DeliveryMode.QUEUE,
        sender: Sender = COMMANDER,
        idempotency_key: str = "",
    ) -> Receipt:
        self._only_as_itself(sender)
        return await self._ask(Receipt, "broadcast", text=text, to=to, mode=mode, idempotency_key=idempotency_key)

    async def withdraw(self, delivery_id: int) -> None:
        await self._do("withdraw", delivery_id=delivery_id)

    async def receipt(self, message_id: int) -> Receipt:
        return await self._ask(Receipt, "receipt", message_id=message_id)

    async def hold(self, on: bool, *, ref: str = "", reason: str = "") -> None:
        await self._do("hold", on=on, ref=ref, reason=reason)

    async def start_all(self, *, left_running: bool = False) -> int:
        return await self._ask(int, "start_all", left_running=left_running)

    async def stop_all(self) -> int:
        return await self._ask(int, "stop_all")

    async def approvals(self) -> tuple[ApprovalView, ...]:
        return await self._ask(tuple[ApprovalView, ...], "approvals")

    async def answer(self, approval_id: int, answer: ApprovalAnswer, *, sentence: str = "") -> None:
        await self._do("answer", approval_id=approval_id, answer=answer, sentence=sentence)

    async def grants(self) -> tuple[GrantView, ...]:
        return await self._ask(tuple[GrantView, ...], "grants")

    async def revoke(self, grant_id: int) -> GrantView:
        return await self._ask(GrantView, "revoke", grant_id=grant_id)

    async def view(self) -> SwarmView:
        return await self._ask(SwarmView, "view")

    async def mysis(self, ref: str) -> MysisView:
        return await self._ask(MysisView, "mysis", ref=ref)

    async def wait(self, ref: str, *, timeout_s: float = 60.0) -> MysisView:
        return await self._ask(MysisView, "wait", ref=ref, timeout_s=timeout_s)

    def changes(self) -> AsyncIterator[SwarmView]:
        return self._stream("changes")

    def events(self, after: int = 0) -> AsyncIterator[Event | Lagged]:
        return self._stream("events", after=after)

    async def upstreams(self) -> tuple[UpstreamView, ...]:
        return await self._ask(tuple[UpstreamView, ...], "upstreams")

    async def providers(self) -> tuple[ProviderView, ...]:
        return await self._ask(tuple[ProviderView, ...], "providers")

    async def reconnect(self, name: str) -> None:
        await self._do("reconnect", name=name)

    async def try_tool(self, upstream: str, tool: str, arguments: str) -> ToolTrial:
        return await self._ask(ToolTrial, "try_tool", upstream=upstream, tool=tool, arguments=arguments)

    async def mcp(self) -> McpView:
        return await self._ask(McpView, "mcp")

    async def serve_mcp(self, on: bool) -> McpView:
        return await self._ask(McpView, "serve_mcp", on=on)

    async def shutdown(self) -> None:
        await self._do("shutdown")

    def _only_as_itself(self, sender: Sender) -> None:
        """Who speaks was said when the line was opened; COMMANDER is every method's default."""
        if sender not in (COMMANDER, self._speaker):
            raise UsageError("over the socket nobody speaks as somebody else")

    async def _ask(self, kind: type[T], method: str, /, **args: Any) -> T:
        answer: T = _understood(method, kind, await self._exchange(method, args))
        return answer

    async def _do(self, method: str, /, **args: Any) -> None:
        await self._exchange(method, args)

    async def _exchange(self, method: str, args: dict[str, Any]) -> Any:
        if self._is_gone:
            raise NoRunningSwarm(_GONE)
        deadline = REPLY_TIMEOUT_S + args.get("timeout_s", 0.0)
        request = self._line.number()
        reply = self._replies[request] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(deadline):
                await self._line.write(request, method, args)
                return _part(await reply, "result")
        except TimeoutError:
            raise OwnerError(f"the running swarm did not answer within {deadline:g} s") from None
        finally:
            self._replies.pop(request, None)

    async def _stream(self, name: str, **args: Any) -> AsyncIterator[Any]:
        line = await Line.open(self._path)
        try:
            await line.write(line.number(), name, args)
            while (reply := await line.read()) is not None and "item" in reply:
                yield _understood(name, methods()[name].result, reply["item"])
            _part(reply, "end")
            # Streams of a swarm have no end of their own: the owner is closing.
            raise NoRunningSwarm(_GONE)
        finally:
            await line.close()

    async def _read(self) -> None:
        try:
            while (frame_in := await self._line.read()) is not None:
                reply = self._replies.get(frame_in.get("id") or 0)
                if reply is not None and not reply.done():
                    reply.set_result(frame_in)
        finally:
            self._is_gone = True
            for waiting in self._replies.values():
                if not waiting.done():
                    waiting.set_result(None)


async def connect_to(holder: Holder | None, speaking_as: str = "") -> RemoteSwarm:
    """The swarm of the process that holds the workspace, to be spoken to as the commander or as a client.

    Raises:
        NoRunningSwarm: where nobody holds it or nobody answers.
    """
    if holder is None or not holder.socket:
        raise NoRunningSwarm("this workspace has no running swarm", hint="Start one with `zoea run`.")
    return await RemoteSwarm.connect(Path(holder.socket), speaking_as)


def _part(reply: dict[str, Any] | None, key: str) -> Any:
    if reply is None:
        raise NoRunningSwarm(_GONE)
    if "error" in reply:
        raise revive(reply["error"] if isinstance(reply["error"], dict) else {})
    return reply.get(key)


def _understood(name: str, kind: Any, value: Any) -> Any:
    try:
        return decode(kind, value, name)
    except Mismatch as mismatch:
        raise OwnerError(f"the running swarm answered what this Zoea does not understand: {mismatch}") from None
