"""One open MCP session over the official SDK. Only this module and its transports import the SDK.

Imported in a thread at the first opening, because the SDK takes 0.6 s to load. The SDK's errors
become `CallFailure` here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

import anyio
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.session import IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from zoea import __version__
from zoea.model.request import SendState
from zoea.text.large_json import LARGE_COUNT
from zoea.tools.catalogue import RemoteTool
from zoea.tools.upstream.child_transport import open_process
from zoea.tools.upstream.http_pool import BROKEN, NOT_SENT, REFUSED, TERMINATED, HttpPool
from zoea.tools.upstream.http_refusal import is_lost_session_error
from zoea.tools.upstream.large_answer import LargeAnswers, reveal_result
from zoea.tools.upstream.listed_tools import PROBLEM
from zoea.tools.upstream.observed_streams import ObservedTransport, send_state
from zoea.tools.upstream.session_traffic import SessionEnd, SessionTraffic
from zoea.tools.upstream.stderr_log import StderrLog
from zoea.tools.upstream.unreadable_answer import MISMATCHED, UNREADABLE, UnreadableMessage
from zoea.tools.upstream.upstream_config import UpstreamConfig
from zoea.tools.upstream.upstream_errors import UNTRUSTED, WRONG, CallFailure, CallOutcome

logger = logging.getLogger(__name__)

MAX_PAGES = 100
LISTEN_AGAIN_S = 1.0
LISTEN_AGAIN_MAX_S = 60.0

_SDK_PARSE_ERRORS = ("Failed to parse SSE message", "Failed to parse JSON response")
_RAW: TypeAdapter[Any] = TypeAdapter(dict[str, Any])
_LOST_CODES = frozenset({0, 32600, types.INVALID_REQUEST, types.INVALID_PARAMS, types.INTERNAL_ERROR}) | frozenset(
    range(-32009, -31999)
)
"""Codes that servers give a session that they have no longer, each with its own words for it."""


class McpConnection:
    """An open session. Any task may call; its owner task opens and closes it."""

    def __init__(self, client: Client, end: SessionEnd, *, in_process: bool) -> None:
        self._client = client
        self._end = end
        self._in_process = in_process
        self.in_flight = 0

    @property
    def is_over(self) -> bool:
        return self._end.is_over

    @property
    def end_reason(self) -> str:
        """Why this side ended the session; empty if it ended by itself."""
        return self._end.reason

    @property
    def server(self) -> str:
        """Name and version of the server; empty if it gives none."""
        info = self._client.server_info
        return f"{info.name} {info.version}".strip() if info is not None else ""

    @property
    def protocol(self) -> str:
        return self._client.protocol_version

    def end(self) -> None:
        """Mark the session as over; its owner closes it."""
        self._end.end()

    async def tools(self) -> tuple[RemoteTool, ...]:
        """Read every page of `tools/list`.

        Raises:
            Failure: The server does not answer, or not with a list of tools.
        """
        session = self._client.session
        if session.server_capabilities is not None and session.server_capabilities.tools is None:
            return ()
        listed, cursor = await self._page(None)
        pages, read = 1, set[str]()
        while cursor:
            try:
                if cursor in read or pages >= MAX_PAGES:
                    why = "it leads back to an earlier page" if cursor in read else f"{MAX_PAGES} pages are read"
                    raise CallFailure(CallOutcome.ANSWERED, why)
                read.add(cursor)
                tools, cursor = await self._page(cursor)
            except CallFailure as failure:
                if failure.outcome is not CallOutcome.ANSWERED:
                    raise
                return (*listed, RemoteTool(f"page {pages + 1} of its list", "", {}, problem=failure.text))
            listed += tools
            pages += 1
        return tuple(listed)

    async def _page(self, cursor: str | None) -> tuple[list[RemoteTool], str | None]:
        """Read one page; return its tools and the cursor of the next page."""
        try:
            page = await self._client.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
        except ValidationError:
            raise CallFailure(CallOutcome.ANSWERED, "its list of tools is invalid") from None
        except (MCPError, RuntimeError) as error:
            raise self._failure(error, begun=True) from None
        is_large = len(page.tools) > LARGE_COUNT
        tools = await asyncio.to_thread(_remote_tools, page.tools) if is_large else _remote_tools(page.tools)
        return tools, page.next_cursor

    async def call(
        self, name: str, arguments: dict[str, Any], meta: Mapping[str, Any], state: SendState
    ) -> dict[str, Any]:
        """Call a tool; return the decoded wire JSON. Cancelling the caller cancels at the server.

        `state` tells whether the message has left.

        Raises:
            Failure: There is no result.
        """
        request = types.CallToolRequest(
            params=types.CallToolRequestParams(
                name=name, arguments=arguments, _meta=cast(types.RequestParamsMeta, dict(meta))
            )
        )
        state.begun = self._in_process
        token = send_state.set(state)
        self.in_flight += 1
        try:
            raw = reveal_result(await self._client.session.send_request(request, _RAW))
        except Exception as error:  # noqa: BLE001 - any error of the SDK is the failure of this call alone
            about = any("session" in one.casefold() for one in (name, *arguments))
            raise self._failure(error, begun=state.begun, is_about_sessions=about) from None
        finally:
            send_state.reset(token)
            self.in_flight -= 1
            if self.is_over:
                self._end.end()
        return raw

    async def listen(self, changed: Callable[[], None]) -> None:
        """Report changed tools until the session ends, if the protocol needs a subscription for that."""
        if self.protocol not in MODERN_PROTOCOL_VERSIONS:
            return
        capabilities = self._client.server_capabilities.tools
        if capabilities is None or not capabilities.list_changed:
            return
        pause = LISTEN_AGAIN_S
        while not self.is_over:
            try:
                async with self._client.listen(tools_list_changed=True) as events:
                    pause = LISTEN_AGAIN_S
                    async for _ in events:
                        changed()
            except SubscriptionLost:
                # Notices may be missed, so the tools are read again afterwards.
                logger.info("the subscription to changed tools ended; subscribing again in %g s", pause)
            except (MCPError, TimeoutError) as error:
                logger.info(
                    "no notices of changed tools from %s: %s", self.server or "an upstream", type(error).__name__
                )
                return
            await anyio.sleep(pause)
            pause = min(2 * pause, LISTEN_AGAIN_MAX_S)
            changed()

    def _failure(self, error: Exception, *, begun: bool, is_about_sessions: bool = False) -> CallFailure:
        if isinstance(error, ValueError):
            return CallFailure(CallOutcome.UNREADABLE, "its answer is not a tool result")
        if not isinstance(error, MCPError):
            # The SDK's "not entered" and "not running": the session ended during the call.
            return CallFailure(CallOutcome.BROKEN if begun else CallOutcome.NOT_SENT, "its session ended")
        code, text = error.code, error.message
        if code in (NOT_SENT, UNTRUSTED):
            return CallFailure(CallOutcome.NOT_SENT, text)
        if code == BROKEN:
            return CallFailure(CallOutcome.BROKEN, text)
        is_closure = text == "Connection closed" or text.startswith("SSE stream")
        if code == types.CONNECTION_CLOSED and (self.is_over or is_closure):
            return CallFailure(CallOutcome.BROKEN if begun else CallOutcome.NOT_SENT, "its session ended")
        if (code == types.INVALID_REQUEST and text.startswith(TERMINATED)) or (
            code in _LOST_CODES and is_lost_session_error(text, is_about_sessions=is_about_sessions)
        ):
            return CallFailure(CallOutcome.SESSION_GONE, text)
        if code in (UNREADABLE, MISMATCHED):
            return CallFailure(CallOutcome.UNREADABLE, text)
        if code == types.PARSE_ERROR and text.startswith(_SDK_PARSE_ERRORS):
            return CallFailure(CallOutcome.UNREADABLE, "its answer cannot be read")
        if code in (REFUSED, WRONG):
            return CallFailure(CallOutcome.ANSWERED, text)
        return CallFailure(CallOutcome.ANSWERED, f"{text} (code {code})")


@asynccontextmanager
async def connect(
    config: UpstreamConfig,
    *,
    log: StderrLog,
    pool: HttpPool,
    on_tools_changed: Callable[[], None],
    on_end: Callable[[], None],
) -> AsyncIterator[McpConnection]:
    """Open a session; leaving the block closes it. Enter and leave in one task.

    Args:
        on_tools_changed: Called when the server reports changed tools.
        on_end: Called when the session has ended by itself.

    Raises:
        OSError, ValueError: The command cannot be run.
        MCPError, RuntimeError, ExceptionGroup: The server cannot be reached or does not speak MCP.
    """
    quiet_sdk()
    end, large = SessionEnd(on_end), LargeAnswers()
    traffic = SessionTraffic(end, config.max_messages)
    is_told = False

    async def on_message(message: IncomingMessage) -> None:
        nonlocal is_told
        if isinstance(message, types.ToolListChangedNotification):
            on_tools_changed()
        elif isinstance(message, UnreadableMessage) and not is_told:
            is_told = True
            what = "sent a line that is no message of MCP, which was left out; others are not told"
            logger.warning("%s %s: %s", config.name, what, message.reason)

    async with AsyncExitStack() as stack:
        if config.server is not None:
            target: Any = config.server
        else:
            target = ObservedTransport(
                await _transport(config, stack, log, pool, traffic, large),
                traffic,
                large,
                on_tools_changed=on_tools_changed,
            )
        client = Client(
            target,
            message_handler=on_message,
            client_info=types.Implementation(name="zoea", version=__version__),
            cache=None,
        )
        await stack.enter_async_context(client)
        yield McpConnection(client, end, in_process=config.server is not None)


_SDK_LEVELS = {
    logging.CRITICAL: ("mcp.client", "mcp.shared", "client"),
    logging.WARNING: ("httpx2", "httpcore2", "httpcore"),
}


def quiet_sdk() -> None:
    """Silence the SDK's loggers, because they write whole messages."""
    for level, names in _SDK_LEVELS.items():
        for name in names:
            sdk_logger = logging.getLogger(name)
            if sdk_logger.level != level:  # to set one takes long, because each logger of the process then forgets its
                sdk_logger.setLevel(level)


async def _transport(
    config: UpstreamConfig,
    stack: AsyncExitStack,
    log: StderrLog,
    pool: HttpPool,
    traffic: SessionTraffic,
    large: LargeAnswers,
) -> Any:
    if config.url:
        client = await stack.enter_async_context(pool.client(config.headers, traffic, large))
        return streamable_http_client(config.url, http_client=client)
    return open_process(config, log)


def _remote_tools(tools: list[types.Tool]) -> list[RemoteTool]:
    return [_remote(tool) for tool in tools]


def _remote(tool: types.Tool) -> RemoteTool:
    hints = tool.annotations
    problem = (tool.meta or {}).get(PROBLEM, "")
    return RemoteTool(
        name=tool.name,
        description=tool.description or tool.title or "",
        input_schema=tool.input_schema,
        read_only=bool(hints and hints.read_only_hint),
        destructive=bool(hints and hints.destructive_hint and not hints.read_only_hint),
        idempotent=bool(hints and hints.idempotent_hint),
        problem=problem if isinstance(problem, str) else "",
    )
