"""Build Zoea's MCP servers, for all transports, from tools and resources.

Unknown names and malformed requests become protocol errors that name the field, refusals of a tool
become error results for the model, and the details of unexpected errors go to the log only.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
    Tool,
    ToolAnnotations,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from msgspec import Struct
from pydantic import ValidationError

from zoea import __version__
from zoea.mcp_server.client_tools import ClientTools
from zoea.mcp_server.resources import MissingResource, SwarmResources
from zoea.mcp_server.swarm_client import SwarmClient
from zoea.mcp_server.tokens import McpClient
from zoea.model.errors import UsageError, ZoeaError
from zoea.store.memory_reader import MemoryReader
from zoea.store.readers import SearchPool
from zoea.tools.builtin.definitions import CLIENT_TOOLS, BuiltinTool

log = logging.getLogger(__name__)

CLIENT_SEARCHES = 4
"""Searches of clients at once."""
RESOURCE_MISSING = -32002
"""The code for a missing resource up to protocol 2025-11-25; later ones use INVALID_PARAMS."""
INSTRUCTIONS = (
    "Zoea is the memory of a swarm of agents (myses): every message, tool call, result and broadcast is kept. Before "
    "you redo work, ask again or guess what was decided, search here: zoea_search_messages finds exact text, "
    "zoea_search_reasoning the reasons, zoea_read_memory shows a hit in full. zoea_list_myses names the agents; "
    "zoea_send_message gives one a task, zoea_wait returns its answer."
)
"""At most 60 words: clients that load tools late show a model nothing else of the server."""

Context = ServerRequestContext[Any, Any]
ClientOf = Callable[[Context], McpClient]


class ServerTool(Struct, frozen=True):
    """A listed tool and its function. With `commands`, clients that may only read do not get it."""

    tool: Tool
    call: Callable[[Context, McpClient, Mapping[str, Any]], Awaitable[CallToolResult]]
    commands: bool = False


class ResourceProvider(Protocol):
    """The resources of a server."""

    async def list_page(self, client: McpClient, cursor: str) -> ListResourcesResult:
        """List a page of resources. Raises UsageError for an unknown cursor, and StoreError."""
        ...

    def templates(self) -> ListResourceTemplatesResult: ...

    async def read(self, client: McpClient, uri: str) -> ReadResourceResult:
        """Read a resource. Raises MissingResource and StoreError."""
        ...


def build_server(
    tools: Sequence[ServerTool], resources: ResourceProvider, client_of: ClientOf, *, name: str = "zoea"
) -> Server[Any]:
    """Build an MCP server from tools and resources; `client_of` returns the client of a request."""
    by_name = {one.tool.name: one for one in tools}

    async def list_tools(context: Context, _: PaginatedRequestParams | None) -> ListToolsResult:
        may_command = client_of(context).may_command
        return ListToolsResult(tools=[one.tool for one in tools if may_command or not one.commands])

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
        tool = by_name.get(params.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name[:100]}", {"field": "params.name"})
        return await tool.call(context, client_of(context), params.arguments or {})

    async def list_resources(context: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        return await resources.list_page(client_of(context), (params.cursor or "") if params else "")

    async def list_templates(_: Context, __: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        return resources.templates()

    async def read_resource(context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        return await resources.read(client_of(context), str(params.uri))

    def schema_of(name: str) -> dict[str, Any] | None:
        tool = by_name.get(name)
        return None if tool is None else tool.tool.input_schema

    server = Server[Any](
        name,
        # Without it every call over HTTP lists all tools first, a third of its cost.
        get_tool_input_schema=schema_of,
        version=__version__,
        title="Zoea",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )
    server.middleware.append(_translate_errors)
    return server


def open_memories(database: Path) -> MemoryReader:
    """Make a reader of the stored swarm for the searches of clients. The database may be created later."""
    return MemoryReader(SearchPool(database, CLIENT_SEARCHES))


def build_zoea_server(swarm_client: SwarmClient, memories: MemoryReader, client_of: ClientOf) -> Server[Any]:
    """Build Zoea's own MCP server: its tools and resources over a swarm and its memory."""
    tools = ClientTools(swarm_client, memories)
    return build_server([_server_tool(own, tools) for own in CLIENT_TOOLS], SwarmResources(tools, memories), client_of)


def _server_tool(own: BuiltinTool, tools: ClientTools) -> ServerTool:
    async def call(_: Context, client: McpClient, arguments: Mapping[str, Any]) -> CallToolResult:
        try:
            answer = await tools.call(own.name, arguments, client)
        except ZoeaError as error:
            return error_answer(error.text)
        text = json.dumps(answer, ensure_ascii=False)
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=answer)

    listed = Tool(
        name=own.name,
        title=own.title,
        description=own.description,
        input_schema=own.input_schema,
        output_schema=own.output_schema,
        annotations=ToolAnnotations(
            title=own.title,
            read_only_hint=own.reads,
            destructive_hint=False,
            idempotent_hint=own.reads,
            open_world_hint=False,
        ),
    )
    return ServerTool(listed, call, commands=not own.reads)


def error_answer(why: str) -> CallToolResult:
    """Make an error result; `why` is a sentence for the model."""
    return CallToolResult(content=[TextContent(type="text", text=why)], is_error=True)


async def _translate_errors(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Turn every failure of a request into a protocol error without internals."""
    try:
        return await call_next(ctx)
    except MCPError:
        raise
    except ValidationError as error:
        raise MCPError(INVALID_PARAMS, *_invalid_params(error)) from None
    except MissingResource as error:
        code = RESOURCE_MISSING if ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS else INVALID_PARAMS
        raise MCPError(code, error.what, {"field": "params.uri"}) from None
    except UsageError as error:
        raise MCPError(INVALID_PARAMS, error.what) from None
    except ZoeaError as error:
        raise MCPError(INTERNAL_ERROR, error.text) from None
    except Exception:
        log.exception("a client's %s failed", ctx.method)
        raise MCPError(INTERNAL_ERROR, "The request failed inside Zoea; see its log") from None


def _invalid_params(error: ValidationError) -> tuple[str, dict[str, str]]:
    """Describe invalid parameters of a request by field, without their values."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    first = ".".join(("params", *(str(part) for part in problems[0]["loc"]))) if problems else "params"
    return f"Invalid request parameters: {first}: {problems[0]['msg'] if problems else 'invalid'}", {"field": first}
