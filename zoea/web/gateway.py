"""The gateway: a local listener for model and tool calls of external agents.

An agent gets no vendor's key. It gets an address with a token of its mysis, and each of its requests passes what
Zoea's own calls pass: hold, budgets, the gate of the provider, prices. For Zoea's own tools each of its processes gets
another token. Tokens are kept in memory alone.
"""

from __future__ import annotations

import asyncio
import logging
from hashlib import blake2b
from secrets import token_urlsafe

from aiohttp import web
from msgspec import Struct, field

from zoea.llm.messages.wire_bodies import Wire
from zoea.model.errors import MysisMissing, ProviderError, StoreError
from zoea.model.ports import AgentTools, GatewayAccess, ToolsAccess
from zoea.process.connection_limit import ConnectionLimit, fit_to_descriptors
from zoea.swarm.resolved_template import build_profile
from zoea.swarm.swarm import Swarm
from zoea.web.gateway_answers import BEGUN, ClientGone, end_badly
from zoea.web.gateway_refusal import GatewayRefusal, write_error, write_error_event
from zoea.web.gateway_requests import AgentCall, GatewayLink
from zoea.web.gateway_tools import PATH as TOOLS
from zoea.web.gateway_tools import ServedTools, answer_message
from zoea.web.listeners import SHUTDOWN_S, listen

_log = logging.getLogger(__name__)

HOST = "127.0.0.1"
MAX_BODY = 32 * 1024 * 1024
BODY_S, HEAD_S = 30.0, 10.0
MAX_CONNECTIONS, NEW_PER_ADDRESS = 512, 64
MAX_AT_ONCE = 16
"""Requests of one mysis at once."""
WIRES = {"/v1/chat/completions": Wire.CHAT, "/v1/messages": Wire.MESSAGES, "/v1/responses": Wire.RESPONSES}
_COUNT = "/v1/messages/count_tokens"
_MODELS = "/v1/models"
ROUTES = {TOOLS: "POST", _MODELS: "GET", _COUNT: "POST", **dict.fromkeys(WIRES, "POST")}
"""Every path that is answered, without the token and the name of a model, with its method."""
_QUERIES = ("", "beta=true")
"""Those that go with a request; others are left out."""
_NAMES = ("127.0.0.1", "localhost")


class _OpenAccess(Struct):
    link: GatewayLink
    access: GatewayAccess
    running: set[asyncio.Task[object]] = field(default_factory=set)


class GatewayServer:
    """The `ModelGateway` of a swarm."""

    def __init__(self, swarm: Swarm) -> None:
        self._swarm = swarm
        self._open: dict[int, _OpenAccess] = {}
        self._by_token: dict[bytes, _OpenAccess] = {}
        self._tools: dict[bytes, ServedTools] = {}
        self._settling: set[asyncio.Task[None]] = set()
        self._missing: set[tuple[str, Wire]] = set()
        self._limit = ConnectionLimit(MAX_CONNECTIONS, NEW_PER_ADDRESS, HEAD_S)
        self._opening = asyncio.Lock()
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def open(self, mysis_id: int) -> GatewayAccess:
        """See `ModelGateway.open`. An open access is returned again."""
        if (access_now := self._open.get(mysis_id)) is not None:
            return access_now.access
        runner = self._swarm.runners.get(mysis_id)
        if runner is None:
            raise MysisMissing(f"there is no mysis #{mysis_id}")
        await self._ensure_listener()
        token = token_urlsafe(32)
        base = f"http://{HOST}:{self.port}/{token}"
        services, mysis = self._swarm.services, runner.mysis
        session = services.tools.session(mysis_id, mysis.name, runner.known.template.text, uid=mysis.uid)
        opened = _OpenAccess(
            GatewayLink(services, self._swarm.runners, mysis_id, session, {}, self._settling, self._missing, {}),
            GatewayAccess(f"{base}/v1", base, token),
        )
        self._open[mysis_id] = self._by_token[_digest(token)] = opened
        return opened.access

    async def close(self, mysis_id: int) -> None:
        """See `ModelGateway.close`. Requests under way are broken off, and settled."""
        opened = self._open.pop(mysis_id, None)
        if opened is None:
            return
        self._by_token.pop(_digest(opened.access.token), None)
        for task in tuple(opened.running):
            task.cancel()
        if self._settling or opened.running:
            await asyncio.wait({*opened.running, *self._settling}, timeout=SHUTDOWN_S)

    async def serve_tools(self, tools: AgentTools) -> ToolsAccess:
        """See `ModelGateway.serve_tools`."""
        await self._ensure_listener()
        access = ToolsAccess(f"http://{HOST}:{self.port}{TOOLS}", token_urlsafe(32))
        self._tools[_digest(access.token)] = ServedTools(tools)
        return access

    async def end_tools(self, access: ToolsAccess) -> None:
        """See `ModelGateway.end_tools`."""
        served = self._tools.pop(_digest(access.token), None)
        if served is not None and served.running:
            for task in served.running:
                task.cancel()
            await asyncio.wait(served.running, timeout=SHUTDOWN_S)

    async def shut_down(self) -> None:
        """Withdraw every access and stop listening."""
        self._tools.clear()
        for mysis_id in tuple(self._open):
            await self.close(mysis_id)
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
        if self._settling:
            await asyncio.wait(self._settling)

    async def _ensure_listener(self) -> None:
        async with self._opening:
            if self._runner is None:
                await self._listen()

    async def _listen(self) -> None:
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._limit = ConnectionLimit(fit_to_descriptors(MAX_CONNECTIONS), NEW_PER_ADDRESS, HEAD_S)
        hint = "Look for what uses up the ports of this machine."
        what = "cannot open the model gateway"
        self._runner, self.port = await listen(
            app, HOST, 0, self._limit, what=what, hint=hint, handler_cancellation=True
        )

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if not path.startswith("/v1/"):
            path = f"/{path[1:].partition('/')[2]}"
        is_anthropic = path == _COUNT or "anthropic-version" in request.headers
        wire = WIRES.get(path) or (Wire.MESSAGES if is_anthropic else None)
        try:
            return await self._answer(request, path, wire)
        except GatewayRefusal as problem:
            refusal = problem
        except StoreError as error:  # always before the head of an answer
            _log.warning("a request of an agent was not admitted: %s", error.text)
            refusal = GatewayRefusal(503, error.text, code="not_stored")
        except ClientGone:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        except Exception:  # noqa: BLE001 -- an agent understands only its vendor's form
            _log.exception("a request of an agent failed by an error of Zoea's own")
            refusal = GatewayRefusal(500, "an error of Zoea's own, which zoea.log describes", code="internal_error")
        begun: web.StreamResponse | None = request.get(BEGUN)
        if begun is None:
            return web.json_response(write_error(wire, refusal), status=refusal.status, headers=refusal.headers)
        await end_badly(begun, request.transport, write_error_event(wire, refusal))
        return begun

    async def _answer(self, request: web.Request, path: str, wire: Wire | None) -> web.StreamResponse:
        """Answer a request. Raises GatewayRefusal, and ClientGone."""
        if request.path == TOOLS:
            return await self._answer_tools(request)
        opened = self._admit(request)
        self._confirm(request)
        route = _MODELS if path.startswith(f"{_MODELS}/") else path
        if route == TOOLS or ROUTES.get(route) != request.method:
            raise GatewayRefusal(404, f"the gateway has no {request.method} {path}", code="not_found")
        if route == _MODELS:
            return await _list_models(opened.link, wire)
        if len(opened.running) >= MAX_AT_ONCE:
            raise GatewayRefusal(429, f"{MAX_AT_ONCE} requests of this mysis are under way", code="too_many")
        task = asyncio.current_task()
        assert task is not None
        opened.running.add(task)
        try:
            content = await _read(request)
            query = f"?{request.query_string}" if request.query_string in _QUERIES[1:] else ""
            if path == _COUNT:
                return await AgentCall(opened.link, Wire.MESSAGES, request.headers, query).count(content, request)
            return await AgentCall(opened.link, WIRES[path], request.headers, query).answer(content, request)
        finally:
            opened.running.discard(task)

    async def _answer_tools(self, request: web.Request) -> web.Response:
        """Answer a message of MCP. Raises GatewayRefusal."""
        self._refuse_foreign(request)
        served = self._tools.get(_digest(_read_bearer(request)))
        if served is None or not served.tools.is_open:
            raise GatewayRefusal(401, "this token is unknown, or its process has gone", code="invalid_token")
        self._confirm(request)
        if request.method != ROUTES[TOOLS]:
            raise GatewayRefusal(405, "the tools have no stream and no session", code="not_allowed")
        if len(served.running) >= MAX_AT_ONCE:
            raise GatewayRefusal(429, f"{MAX_AT_ONCE} calls of this agent are under way", code="too_many")
        return await answer_message(served, await _read(request))

    def _refuse_foreign(self, request: web.Request) -> None:
        is_own = request.headers.get("host") == f"{HOST}:{self.port}"  # nearly always; reading an address is slow
        try:
            is_own = is_own or request.url.host in _NAMES
        except ValueError:  # the Host header holds no port where one should be
            is_own = False
        if not is_own or "origin" in request.headers:
            raise GatewayRefusal(403, "the gateway serves agents of this machine, no pages", code="forbidden")

    def _confirm(self, request: web.Request) -> None:
        if request.transport is not None and (peer := request.transport.get_extra_info("peername")):
            self._limit.confirm(tuple(peer))

    def _admit(self, request: web.Request) -> _OpenAccess:
        """Return the access that a request's tokens open. They must all be of one mysis."""
        self._refuse_foreign(request)
        in_path = "" if request.path.startswith("/v1/") else request.path[1:].partition("/")[0]
        in_head = {_read_bearer(request), request.headers.get("x-api-key", "")} - {""}
        matching = [opened for token in in_head if (opened := self._by_token.get(_digest(token))) is not None]
        if in_path:
            # Agents want some key, so that the head may hold any other word.
            matching = [*matching, named] if (named := self._by_token.get(_digest(in_path))) is not None else []
        if not matching or any(opened is not matching[0] for opened in matching):
            raise GatewayRefusal(401, "this token is unknown, or its mysis has no agent now", code="invalid_token")
        return matching[0]


def _read_bearer(request: web.Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


async def _list_models(link: GatewayLink, wire: Wire | None) -> web.Response:
    """List the one model of a mysis, in the form of the client's vendor. Whatever it names is mapped to this one."""
    runner = link.runner
    try:
        profile = await build_profile(runner.mysis, runner.known, link.services.providers)
    except ProviderError as error:
        raise GatewayRefusal(502, error.what, code=str(error.kind)) from None
    names = [profile.model] if profile.model else []
    if wire is Wire.MESSAGES:
        made = {"type": "model", "created_at": "1970-01-01T00:00:00Z"}
        entries = [{**made, "id": name, "display_name": name} for name in names]
        ends = {"first_id": profile.model or None, "last_id": profile.model or None}
        return web.json_response({"data": entries, "has_more": False, **ends})
    listed = [{"id": name, "object": "model", "created": 0, "owned_by": profile.provider.name} for name in names]
    return web.json_response({"object": "list", "data": listed})


async def _read(request: web.Request) -> bytes:
    """Return the body of a request. Raises GatewayRefusal where it is too large, packed, slow or broken."""
    if request.headers.get("content-encoding", "identity") != "identity":
        raise GatewayRefusal(415, "send the body without compression", code="compressed")
    try:
        async with asyncio.timeout(BODY_S):
            return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise GatewayRefusal(413, f"the body has over {MAX_BODY // 2**20} MiB", code="too_large") from None
    except web.RequestPayloadError:
        raise GatewayRefusal(400, "the body broke off", code="invalid_request") from None
    except TimeoutError:
        raise GatewayRefusal(408, f"the body did not come within {BODY_S:g} s", code="too_slow") from None


def _digest(token: str) -> bytes:
    return blake2b(token.encode("utf-8", "replace"), digest_size=32).digest()
