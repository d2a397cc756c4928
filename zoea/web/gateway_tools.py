"""An MCP server at the gateway with Zoea's own tools for external agents.

One POST is one message of JSON-RPC, with one answer and no session. The mysis of the token decides which tools there
are and may be called. Source: MCP specification, "Transports".
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web
from msgspec import Struct, field

import zoea
from zoea.model.errors import ZoeaError
from zoea.model.ports import AgentTools
from zoea.model.request import ToolSpec
from zoea.text import clean
from zoea.web.gateway_answers import in_thread_if_large

PATH = "/mcp"
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
INSTRUCTIONS = (
    "The swarm that you work in. Search what was said and done before you ask or do it again; write to the other "
    "myses and to the commander; report with zoea_done that your task is done, or that you can do no more for it."
)
MOST_ARGUMENT_CHARS = 1_000_000
"""Characters of the arguments of one call."""
_PARSE, _INVALID, _UNKNOWN, _PARAMS, _INTERNAL = -32700, -32600, -32601, -32602, -32603


class ServedTools(Struct, eq=False):
    """The tools of one process, and its requests under way with their ids."""

    tools: AgentTools
    running: dict[asyncio.Task[object], int | str] = field(default_factory=dict)


class _Refusal(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


async def answer_message(served: ServedTools, body: bytes) -> web.Response:
    """Answer a message of an agent; one that is no request gets no body."""
    try:
        message = await in_thread_if_large(len(body), json.loads, body)
    except (ValueError, RecursionError):
        return _error(None, _PARSE, "the body is not JSON")
    if not isinstance(message, dict):
        return _error(None, _INVALID, "the body must be one JSON object")
    method, number = message.get("method"), message.get("id")
    params = message.get("params")
    if method == "notifications/cancelled" and isinstance(params, dict):
        for running, asked in served.running.items():
            if asked == params.get("requestId"):
                running.cancel()
    if not isinstance(method, str) or not isinstance(number, int | str):
        if "method" in message and number is not None:
            return _error(number if isinstance(number, int | str) else None, _INVALID, "this is no message of JSON-RPC")
        return web.Response(status=202)  # a notification, or an answer: nothing is asked of agents
    task = asyncio.current_task()
    assert task is not None
    served.running[task] = number
    try:
        result = await _answer(served.tools, method, params if isinstance(params, dict) else {})
    except _Refusal as refusal:
        return _error(number, refusal.code, str(refusal))
    except ZoeaError as error:
        return _error(number, _INTERNAL, error.text)
    finally:
        served.running.pop(task, None)
    return web.json_response({"jsonrpc": "2.0", "id": number, "result": result})


async def _answer(tools: AgentTools, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            wanted = params.get("protocolVersion")
            return {
                "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "zoea", "title": "Zoea", "version": zoea.__version__},
                "instructions": INSTRUCTIONS,
            }
        case "ping":
            return {}
        case "tools/list":
            return {"tools": [_describe(tool) for tool in tools.list_tools()]}
        case "tools/call":
            name, arguments = params.get("name"), params.get("arguments")
            if not isinstance(name, str) or not isinstance(arguments, dict | None):
                raise _Refusal(_PARAMS, "a call has a name, and arguments that are an object")
            result = await tools.call_tool(name, _write(arguments or {}))
            return {"content": [{"type": "text", "text": result.content}], "isError": result.is_error}
        case _:
            raise _Refusal(_UNKNOWN, f"there is no method {method[:100]}")


def _write(arguments: dict[str, Any]) -> str:
    try:
        written = clean(json.dumps(arguments, ensure_ascii=False, allow_nan=False))
        if len(written) > MOST_ARGUMENT_CHARS:
            raise _Refusal(_PARAMS, f"the arguments have over {MOST_ARGUMENT_CHARS:,} characters")
        return written
    except (ValueError, RecursionError):
        raise _Refusal(_PARAMS, "the arguments hold a number beyond all bounds, or are nested too deeply") from None


def _describe(tool: ToolSpec) -> dict[str, Any]:
    hints = {"readOnlyHint": tool.read_only, "destructiveHint": False, "openWorldHint": False}
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": {"type": "object", **tool.input_schema},
        "annotations": hints,
    }


def _error(number: int | str | None, code: int, message: str) -> web.Response:
    return web.json_response({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}})
