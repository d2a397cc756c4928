"""Serves the workbench over MCP: stdin and stdout, for one client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ImageContent,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from zoea import __version__
from zoea.files.workbench import FailedRun, Picture, Workbench
from zoea.files.workbench_tools import TOOLS, is_destructive
from zoea.model.errors import FilesError
from zoea.process.answered_lines import AnsweredLines
from zoea.process.command_runs import adopt_orphans

_KINDS: Mapping[str, type] = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}


def list_tools() -> list[Tool]:
    """Return the tools with schemas and annotations."""
    return [
        Tool(
            name=name,
            description=description,
            input_schema=schema,
            annotations=ToolAnnotations(
                read_only_hint=reads,
                destructive_hint=is_destructive(name),
                idempotent_hint=reads,
                open_world_hint=name == "run",
            ),
        )
        for name, (description, reads, schema) in TOOLS.items()
    ]


def find_problem(name: str, arguments: Mapping[str, Any]) -> str:
    """Return the first fault in the arguments of a call; "" if there is none."""
    if name not in TOOLS:
        return f"there is no tool {name[:100]!r}; there are {', '.join(TOOLS)}"
    return _find_problem(TOOLS[name][2], arguments, "arguments")


def _find_problem(schema: Mapping[str, Any], value: Any, where: str) -> str:
    kind = schema["type"]
    fits = isinstance(value, _KINDS[kind]) and (kind != "integer" or not isinstance(value, bool))
    if not fits:
        return f"{where} must be of the type {kind}"
    problems: Iterable[str] = ()
    if kind == "integer" and not schema["minimum"] <= value <= schema.get("maximum", value):
        return f"{where} must be from {schema['minimum']} to {schema.get('maximum', 'any number')}"
    if kind == "array":
        problems = [_find_problem(schema["items"], item, f"{where}[{place}]") for place, item in enumerate(value)]
        problems = problems or [f"{where} is empty"]
    if kind == "object":
        properties = schema["properties"]
        problems = [f"{key} is missing" for key in schema["required"] if key not in value]
        problems += [f"{key[:100]!r} is not known" for key in value if key not in properties]
        problems += [_find_problem(properties[key], item, key) for key, item in value.items() if key in properties]
    return next(filter(None, problems), "")


async def answer(workbench: Workbench, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
    """Call a tool and return its result; what it refuses is a result too. A command that failed is an error."""
    try:
        if problem := find_problem(name, arguments):
            raise FilesError(problem)
        result = await workbench.call(name, arguments)
        is_failed = isinstance(result, FailedRun)
    except FilesError as error:
        result, is_failed = error.text, True
    if isinstance(result, Picture):
        return CallToolResult(content=[ImageContent(type="image", data=result.data, mime_type=result.media)])
    # JSON cannot hold a lone surrogate: no answer would go out.
    text = result.encode("utf-8", "backslashreplace").decode()
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=is_failed)


def build_server(workbench: Workbench) -> Server[Any]:
    """Build the MCP server of a workbench."""
    listed = list_tools()

    async def on_list(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=listed)

    async def on_call(_: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        return await answer(workbench, params.name, params.arguments or {})

    about = f"Files and commands in {workbench.folder.path}. Commands are {workbench.runs.sandbox.text}."
    return Server("workbench", version=__version__, instructions=about, on_list_tools=on_list, on_call_tool=on_call)


async def run_stdio(workbench: Workbench) -> None:
    """Serve one client over stdin and stdout until it closes them."""
    adopt_orphans()
    try:
        async with stdio_server() as (read, write):
            server = build_server(workbench)
            await server.run(
                AnsweredLines((read, write), SessionMessage), write, server.create_initialization_options()
            )
    finally:
        await workbench.close()
