"""Zoea's MCP server over streamable HTTP: access checks, sessions per client, and the HTTP server.

A request passes three checks: its Host and Origin must be this server's own (so that no other web
page reaches it through the person's browser), its bearer token must be known, and a token that may
only read must not call a commanding tool. Slow requests time out, so that idle connections cannot
lock out other clients. Source: MCP specification, "Transports" and "Authorization".
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from urllib.parse import urlsplit

import uvicorn
from mcp.server import Server
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import RequestBodyLimitMiddleware, TransportSecuritySettings
from mcp_types import INVALID_REQUEST
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from zoea.mcp_server.address import PATH
from zoea.mcp_server.factory import Context
from zoea.mcp_server.tokens import McpClient, TokenScope
from zoea.model.errors import OwnerError, ZoeaError
from zoea.process.answered_lines import NO_ID
from zoea.process.connection_limit import BoundedListener, ConnectionLimit, fit_to_descriptors
from zoea.text.json_text import parse_json

log = logging.getLogger(__name__)

LOOPBACK = ("127.0.0.1", "localhost", "::1")
MAX_BODY = 1024 * 1024
MAX_HEAD = 64 * 1024
"""Limits of a request's body, and of its head, trailers and chunk extensions."""
MAX_SESSIONS = 1024
MAX_CONNECTIONS, NEW_PER_ADDRESS = 512, 64
"""Limits of open connections, and of those of one address that have not sent a valid token yet."""
SESSION_IDLE_S = 15 * 60.0
HEAD_S, BODY_S = 10.0, 30.0
"""Limits for receiving the head and the body of a request."""
RECHECK_S = 2.0
"""Interval at which the token of an open request or stream is checked again."""
START_TIMEOUT_S = 10.0
GRACE_S, CLOSING_S = 0.25, 2.0
_CLIENT = "zoea.client"
_ODD_ID = re.compile(rb'"id"\s*:\s*(?:[^"\d\s-]|-?\d+[.eE])')
SESSION = "mcp-session-id"
PER_CLIENT = 64
"""Sessions of one client at once."""

Admit = Callable[[str], McpClient | None]
"""Returns the client of a token, None if unknown. Raises ZoeaError if tokens cannot be read."""


def client_of(context: Context) -> McpClient:
    """Return the client of a request that passed the `AccessGuard`."""
    assert context.request is not None, "only HTTP requests have one"
    client = context.request.scope[_CLIENT]
    assert isinstance(client, McpClient)
    return client


class _TooSlow(Exception):
    """A request's body did not come in time."""


class AccessGuard:
    """The three checks, as ASGI middleware around the protocol's app.

    Args:
        admit: Returns the client of a token.
        hosts: Host names of this server, without port.
        commands: The tools that only commanding clients may call.
    """

    def __init__(self, app: ASGIApp, admit: Admit, hosts: Iterable[str], commands: frozenset[str]) -> None:
        self._app = app
        self._sessions = ClientSessions(app)
        self._scoped = RequestBodyLimitMiddleware(self._check_scope, MAX_BODY)
        self._admit = admit
        self._hosts = frozenset(host.lower() for host in hosts)
        self._commands = commands
        self.limit = ConnectionLimit(fit_to_descriptors(MAX_CONNECTIONS), NEW_PER_ADDRESS, HEAD_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if not self._is_own_address(f"//{headers.get('host', '')}"):
            await _refusal(403, "invalid_host", "The Host header does not name this server")(scope, receive, send)
        elif (origin := headers.get("origin")) is not None and not self._is_own_address(origin):
            await _refusal(403, "invalid_origin", "Pages of other sites are not allowed")(scope, receive, send)
        elif scope["path"] != PATH:
            await _refusal(404, "not_found", f"The endpoint is {PATH}")(scope, receive, send)
        else:
            await self._check_token(headers.get("authorization", ""), scope, receive, send)

    def _is_own_address(self, address: str) -> bool:
        try:
            return (urlsplit(address).hostname or "") in self._hosts
        except ValueError:
            return False

    async def _check_token(self, authorization: str, scope: Scope, receive: Receive, send: Send) -> None:
        kind, _, token = authorization.partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            await _refusal(401, "", "A bearer token is needed: create one with `zoea mcp token new NAME`")(
                scope, receive, send
            )
            return
        try:
            client = self._admit(token.strip())
        except ZoeaError as error:
            log.warning("the tokens cannot be read: %s", error)
            await _refusal(503, "", "Tokens cannot be read; see Zoea's log")(scope, receive, send)
            return
        if client is None:
            await _refusal(401, "invalid_token", "This token is unknown or was revoked")(scope, receive, send)
            return
        if scope.get("client") is not None:
            self.limit.confirm(tuple(scope["client"]))
        # The transport binds its sessions to this user, so that no other client can use them.
        access = AccessToken(token="", client_id=client.name, scopes=[client.scope.value])
        scope["user"] = AuthenticatedUser(access)
        scope[_CLIENT] = client
        await self._answer_while_valid(token.strip(), client, scope, receive, send)

    async def _answer_while_valid(
        self, token: str, client: McpClient, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer until the token is revoked: a stream may stay open for hours."""
        answering = asyncio.create_task(self._answer_in_time(scope, receive, send))
        try:
            while not (await asyncio.wait({answering}, timeout=RECHECK_S))[0]:
                if self._is_revoked(token):
                    log.info("the token of %s was revoked: its sessions end", client.name)
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
            log.warning("a client's token cannot be checked again: %s", error)
            return False

    async def _answer_in_time(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        due: float | None = loop.time() + BODY_S

        async def receive_in_time() -> Message:
            nonlocal due
            try:
                async with asyncio.timeout_at(due):
                    message = await receive()
            except TimeoutError:
                raise _TooSlow from None
            if not message.get("more_body", False):
                due = None  # the body is complete; the next message is the end of the connection
            return message

        try:
            await self._scoped(scope, receive_in_time, send)
        except _TooSlow:
            reason = f"The body of the request did not come within {BODY_S:g} s"
            await _refusal(408, "too_slow", reason)(scope, receive, send)

    async def _check_scope(self, scope: Scope, receive: Receive, send: Send) -> None:
        client: McpClient = scope[_CLIENT]
        if scope["method"] != "POST":
            await self._sessions.handle(client.name, scope, receive, send)
            return
        whole = await receive()  # complete: `RequestBodyLimitMiddleware` has collected the body
        if _has_bad_id(whole):
            error = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": NO_ID}}
            await JSONResponse(error, 400)(scope, receive, send)
            return
        if not client.may_command and _called_tool(whole) in self._commands:
            description = f"The token {client.name} may only read"
            await _refusal(403, "insufficient_scope", description, scope=TokenScope.COMMAND)(scope, receive, send)
            return

        again = [whole]

        async def replay() -> Message:
            return again.pop() if again else await receive()

        await self._sessions.handle(client.name, scope, replay, send)


def _has_bad_id(message: Message) -> bool:
    """Return whether a request's id is neither text nor integer. The SDK would drop the request."""
    if _ODD_ID.search(message.get("body", b"")) is None:
        return False
    match parse_json(message.get("body", b"")):
        case {"method": str(), "id": str()}:
            return False
        case {"method": str(), "id": number}:
            return type(number) is not int
        case _:
            return False


def _called_tool(message: Message) -> str:
    """Return the tool that a request calls; empty if it calls none."""
    match parse_json(message.get("body", b"")):
        case {"method": "tools/call", "params": {"name": str() as name}}:
            return name
        case _:
            return ""


def _refusal(status: int, error: str, description: str, *, scope: str = "") -> ASGIApp:
    fields = {"error": error or "unauthorized", "error_description": description}
    parts = {"realm": "zoea", **({"error": error, "error_description": description} if error else {})}
    if scope:
        parts["scope"] = scope
    challenge = "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts.items())
    asks = status == 401 or bool(scope)
    headers = {"Connection": "close"} if status in (401, 403) and not scope else {}
    return JSONResponse(fields, status, {**headers, "WWW-Authenticate": challenge} if asks else headers)


def build_app(
    server: Server, admit: Admit, *, hosts: Iterable[str] = (), commands: frozenset[str] = frozenset()
) -> AccessGuard:
    """Make the ASGI app of a server, behind an `AccessGuard`."""
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        session_idle_timeout=SESSION_IDLE_S,
        max_sessions=MAX_SESSIONS,
        max_request_body_size=MAX_BODY,
        # The guard checks Host and Origin.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return AccessGuard(app, admit, (*LOOPBACK, *hosts), commands)


class _HeadDeadlineProtocol(HttpToolsProtocol):
    """uvicorn's protocol with a deadline and a size for the head of a request."""

    _without_body = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn says the same
        super().connection_made(transport)
        self._head_due = self.loop.call_later(HEAD_S, transport.close)

    def data_received(self, data: bytes) -> None:
        """Close a connection with a head, or part of a body, larger than `MAX_HEAD`."""
        self._without_body += len(data)
        super().data_received(data)
        if self._without_body > MAX_HEAD:
            self.transport.abort()

    def on_body(self, body: bytes) -> None:
        self._without_body = 0
        super().on_body(body)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_due.cancel()
        self._head_due = self.loop.call_later(HEAD_S, self.transport.close)

    def on_headers_complete(self) -> None:
        self._head_due.cancel()
        self._without_body = 0
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_due.cancel()
        super().connection_lost(exc)


class _SignalFreeServer(uvicorn.Server):
    """uvicorn without signal handlers, because the process has its own."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serve_app(app: AccessGuard, listener: socket.socket) -> AsyncIterator[None]:
    """Serve `app` on a bound socket during the block, then close the socket.

    Raises OwnerError if the server does not start.
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
    bounded = BoundedListener(listener.dup(), app.limit)
    running = asyncio.create_task(server.serve(sockets=[bounded]), name="mcp http")
    try:
        await _wait_for_start(server, running)
        yield
    finally:
        try:
            server.should_exit = True
            await asyncio.wait({running}, timeout=GRACE_S)
            server.force_exit = True  # clients without an answer by now must ask again
            await asyncio.wait({running}, timeout=CLOSING_S)
        finally:
            running.cancel()
            bounded.close()
            listener.close()
        await asyncio.gather(running, return_exceptions=True)


async def _wait_for_start(server: uvicorn.Server, running: asyncio.Task[None]) -> None:
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            while not server.started and not running.done():  # noqa: ASYNC110  # uvicorn has no event for it
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise OwnerError(f"the MCP server did not start within {START_TIMEOUT_S:g} s") from None
    if running.done():
        raise OwnerError(
            "the MCP server did not start", hint="zoea.log says more; `zoea config path` shows where it is."
        )


class ClientSessions:
    """Tracks and limits the sessions of each client, as middleware of the protocol's `app`.

    The SDK limits the sessions of all clients together, so a client that never closes any would lock
    out the others. Here a client's new session ends its least recently used one; a client that
    still uses that one gets 404 and opens another, as the protocol requires.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: dict[str, dict[str, Scope]] = {}

    async def handle(self, client: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request of this client."""
        opened = self._open.setdefault(client, {})
        session = Headers(scope=scope).get(SESSION, "")
        entry = opened.pop(session, None)
        if entry is not None and scope["method"] != "DELETE":
            opened[session] = entry  # the most recently used is last

        async def send_and_record(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400 and not session:
                begun = Headers(raw=message["headers"]).get(SESSION)
                if begun is not None:
                    opened[begun] = scope
            await send(message)

        await self._app(scope, receive, send_and_record)
        while len(opened) > PER_CLIENT:
            log.info("the client %s has more than %d sessions open: the oldest is closed", client, PER_CLIENT)
            await self._end(opened, next(iter(opened)))

    async def end_all(self, client: str) -> None:
        """End all sessions of a client, with their streams."""
        opened = self._open.pop(client, {})
        for session in tuple(opened):
            await self._end(opened, session)

    async def _end(self, opened: dict[str, Scope], session: str) -> None:
        """End a session by a DELETE request, as its client would. A missing session is no error."""
        by = opened.pop(session)
        headers = [(b"host", Headers(scope=by).get("host", "").encode()), (SESSION.encode(), session.encode())]

        async def receive_nothing() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def log_message(message: Message) -> None:
            log.debug("ending session %s: %s", session, message.get("status", ""))

        await self._app(
            {**by, "method": "DELETE", "headers": headers, "query_string": b""}, receive_nothing, log_message
        )
