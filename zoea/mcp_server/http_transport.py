"""Zoea's MCP server over streamable HTTP: who may come in, and the server that listens.

A request passes three doors before it reaches the protocol: its Host and Origin must
be this server's own (a web page elsewhere must not reach it through the person's
browser), its bearer token must be known, and a token that may only read must not
name a tool that commands. Whoever is slow to say what he wants is not waited for, so
that silence shuts nobody out. Source: MCP specification, "Transports" and "Authorization".
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from urllib.parse import urlsplit

import uvicorn
from mcp.server import Server
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import RequestBodyLimitMiddleware, TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from zoea.mcp_server.address import PATH
from zoea.mcp_server.factory import Context
from zoea.mcp_server.tokens import McpClient, TokenScope
from zoea.model.errors import OwnerError, ZoeaError

log = logging.getLogger(__name__)

LOOPBACK = ("127.0.0.1", "localhost", "::1")
MAX_BODY = 1024 * 1024
MAX_SESSIONS = 1024
MAX_CONNECTIONS = 512
SESSION_IDLE_S = 15 * 60.0
HEAD_S, BODY_S = 10.0, 30.0
"""How long a client may take to say what it wants."""
RECHECK_S = 2.0
"""How often a request under way, or a stream, is asked whether its token still is one."""
STARTING_S = 10.0
GRACE_S, CLOSING_S = 0.25, 2.0
_CLIENT = "zoea.client"

Admit = Callable[[str], McpClient | None]
"""Whose token this is. Raises ZoeaError where that cannot be found out."""


def client_of(context: Context) -> McpClient:
    """Who sent a request that passed the `AccessGuard`."""
    assert context.request is not None, "only HTTP requests come this way"
    client = context.request.scope[_CLIENT]
    assert isinstance(client, McpClient)
    return client


class _TooSlow(Exception):
    """A request's body did not come in time."""


class AccessGuard:
    """The three doors, as ASGI around the protocol's own app.

    Args:
        app: What is guarded.
        admit: Whose token a token is.
        hosts: Names under which this server may be called, without port.
        commands: Names of the tools that commanding clients alone may call.
    """

    def __init__(self, app: ASGIApp, admit: Admit, hosts: Iterable[str], commands: frozenset[str]) -> None:
        self._app = app
        self._sessions = ClientSessions(app)
        self._scoped = RequestBodyLimitMiddleware(self._within_scope, MAX_BODY)
        self._admit = admit
        self._hosts = frozenset(host.lower() for host in hosts)
        self._commands = commands

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if not self._is_ours(f"//{headers.get('host', '')}"):
            await _refuse(403, "invalid_host", "This is not a name of this server")(scope, receive, send)
        elif (origin := headers.get("origin")) is not None and not self._is_ours(origin):
            await _refuse(403, "invalid_origin", "This server answers no pages of other sites")(scope, receive, send)
        elif scope["path"] != PATH:
            await _refuse(404, "not_found", f"Everything is at {PATH}")(scope, receive, send)
        else:
            await self._let_in(headers.get("authorization", ""), scope, receive, send)

    def _is_ours(self, address: str) -> bool:
        try:
            return (urlsplit(address).hostname or "") in self._hosts
        except ValueError:
            return False

    async def _let_in(self, authorization: str, scope: Scope, receive: Receive, send: Send) -> None:
        kind, _, token = authorization.partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            await _refuse(401, "", "A bearer token is needed: `zoea mcp token new NAME`")(scope, receive, send)
            return
        try:
            client = self._admit(token.strip())
        except ZoeaError as error:
            log.warning("no client can be let in: %s", error)
            await _refuse(503, "", "Tokens cannot be read; Zoea's log says why")(scope, receive, send)
            return
        if client is None:
            await _refuse(401, "invalid_token", "This token is not known, or was revoked")(scope, receive, send)
            return
        # The transport binds its sessions to this user: nobody goes on in another client's session.
        known = AccessToken(token="", client_id=client.name, scopes=[client.scope.value])
        scope["user"] = AuthenticatedUser(known)
        scope[_CLIENT] = client
        await self._while_let_in(token.strip(), client, scope, receive, send)

    async def _while_let_in(self, token: str, client: McpClient, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, and stop where the token is revoked meanwhile: a stream stays open for hours."""
        answering = asyncio.create_task(self._in_time(scope, receive, send))
        try:
            while not (await asyncio.wait({answering}, timeout=RECHECK_S))[0]:
                if self._is_revoked(token):
                    log.info("the token of %s was revoked: what it has open ends", client.name)
                    await self._sessions.end_all(client.name)
                    await asyncio.wait({answering}, timeout=CLOSING_S)
                    return
            await answering
        finally:
            answering.cancel()

    def _is_revoked(self, token: str) -> bool:
        try:
            return self._admit(token) is None
        except ZoeaError as error:
            log.warning("nobody can tell whether a client is still let in: %s", error)
            return False

    async def _in_time(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        due: float | None = loop.time() + BODY_S

        async def hurried() -> Message:
            nonlocal due
            try:
                async with asyncio.timeout_at(due):
                    message = await receive()
            except TimeoutError:
                raise _TooSlow from None
            if not message.get("more_body", False):
                due = None  # the body is whole; what comes now is the end of the connection, whenever it comes
            return message

        try:
            await self._scoped(scope, hurried, send)
        except _TooSlow:
            said = f"The body of the request did not come within {BODY_S:g} s"
            await _refuse(408, "too_slow", said)(scope, receive, send)

    async def _within_scope(self, scope: Scope, receive: Receive, send: Send) -> None:
        client: McpClient = scope[_CLIENT]
        if scope["method"] != "POST" or client.may_command:
            await self._sessions.handle(client.name, scope, receive, send)
            return
        whole = await receive()  # the limit before this one has collected it
        if _tool_in(whole) in self._commands:
            description = f"The token {client.name} may only read"
            await _refuse(403, "insufficient_scope", description, scope=TokenScope.COMMAND)(scope, receive, send)
            return

        again = [whole]

        async def replay() -> Message:
            return again.pop() if again else await receive()

        await self._sessions.handle(client.name, scope, replay, send)


def _tool_in(message: Message) -> str:
    """The tool that a request's body calls; empty where it calls none. The protocol judges the rest."""
    try:
        body = json.loads(message.get("body", b""))
    except (ValueError, RecursionError):
        return ""
    match body:
        case {"method": "tools/call", "params": {"name": str() as name}}:
            return name
        case _:
            return ""


def _refuse(status: int, error: str, description: str, *, scope: str = "") -> ASGIApp:
    said = {"error": error or "unauthorized", "error_description": description}
    parts = {"realm": "zoea", **({"error": error, "error_description": description} if error else {})}
    if scope:
        parts["scope"] = scope
    challenge = "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts.items())
    asks = status == 401 or bool(scope)
    return JSONResponse(said, status, {"WWW-Authenticate": challenge} if asks else None)


def guarded(
    server: Server, admit: Admit, *, hosts: Iterable[str] = (), commands: frozenset[str] = frozenset()
) -> ASGIApp:
    """The ASGI app of a server made by `build`, behind the `AccessGuard`."""
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        session_idle_timeout=SESSION_IDLE_S,
        max_sessions=MAX_SESSIONS,
        max_request_body_size=MAX_BODY,
        # Host and Origin are the guard's.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return AccessGuard(app, admit, (*LOOPBACK, *hosts), commands)


class _HeadDeadlineProtocol(HttpToolsProtocol):
    """uvicorn's protocol that waits for the head of a request, but not for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn says the same
        super().connection_made(transport)
        self._head_due = self.loop.call_later(HEAD_S, transport.close)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_due.cancel()
        self._head_due = self.loop.call_later(HEAD_S, self.transport.close)

    def on_headers_complete(self) -> None:
        self._head_due.cancel()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_due.cancel()
        super().connection_lost(exc)


class _SignalFreeServer(uvicorn.Server):
    """uvicorn without its signal handlers: signals are the process's own affair."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(app: ASGIApp, listener: socket.socket) -> AsyncIterator[None]:
    """Serve `app` on a bound socket while the block runs; the socket is closed with it.

    Raises OwnerError where it does not come up.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        http=_HeadDeadlineProtocol,
        lifespan="on",
        ws="none",
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=1,
    )
    server = _SignalFreeServer(config)
    running = asyncio.create_task(server.serve(sockets=[listener]), name="mcp http")
    try:
        await _started(server, running)
        yield
    finally:
        try:
            server.should_exit = True
            await asyncio.wait({running}, timeout=GRACE_S)
            server.force_exit = True  # whoever has not got his answer by now asks again
            await asyncio.wait({running}, timeout=CLOSING_S)
        finally:
            running.cancel()
            listener.close()
        await asyncio.gather(running, return_exceptions=True)


async def _started(server: uvicorn.Server, running: asyncio.Task[None]) -> None:
    try:
        async with asyncio.timeout(STARTING_S):
            while not server.started and not running.done():  # noqa: ASYNC110  # uvicorn has no event for it
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise OwnerError(f"the MCP server did not start within {STARTING_S:g} s") from None
    if running.done():
        raise OwnerError("the MCP server did not start", hint="Zoea's log says why.")


# The SDK bounds the sessions of all clients together, so that one client which never
# closes any would shut out the others. Here the least recently used session of a
# client ends for its next one; a client that goes on in it is answered 404 and opens
# another, as the protocol wants.

log = logging.getLogger(__name__)

SESSION = "mcp-session-id"
PER_CLIENT = 64


class ClientSessions:
    """Knows the sessions of each client from the requests that pass through it to the protocol's `app`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: dict[str, dict[str, Scope]] = {}

    async def handle(self, client: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request of this client on."""
        opened = self._open.setdefault(client, {})
        session = Headers(scope=scope).get(SESSION, "")
        known = opened.pop(session, None)
        if known is not None and scope["method"] != "DELETE":
            opened[session] = known  # the most recently used stands last

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400 and not session:
                begun = Headers(raw=message["headers"]).get(SESSION)
                if begun is not None:
                    opened[begun] = scope
            await send(message)

        await self._app(scope, receive, watched)
        while len(opened) > PER_CLIENT:
            log.info("the client %s has more than %d sessions open: its oldest ends", client, PER_CLIENT)
            await self._end(opened, next(iter(opened)))

    async def end_all(self, client: str) -> None:
        """End every session of a client, with all that streams in them."""
        opened = self._open.pop(client, {})
        for session in tuple(opened):
            await self._end(opened, session)

    async def _end(self, opened: dict[str, Scope], session: str) -> None:
        """What its client would do: delete it. One that has ended by itself is not found, which is as good."""
        by = opened.pop(session)
        headers = [(b"host", Headers(scope=by).get("host", "").encode()), (SESSION.encode(), session.encode())]

        async def nothing() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def unheard(message: Message) -> None:
            log.debug("ending session %s: %s", session, message.get("status", ""))

        await self._app({**by, "method": "DELETE", "headers": headers, "query_string": b""}, nothing, unheard)
