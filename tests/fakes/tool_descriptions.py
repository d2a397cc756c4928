"""Cached tool descriptions of in-process MCP servers, because making them is slow."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from mcp.server.mcpserver.tools import Tool
from mcp.types import ToolAnnotations

_KNOWN: dict[Any, Tool] = {}


def described(function: Callable[..., Any], description: str, annotations: ToolAnnotations) -> Tool:
    """The function as a tool; closures of one `def` share what its signature says."""
    assert isinstance(function, FunctionType)
    known = _KNOWN.get(function.__code__)
    if known is None:
        known = Tool.from_function(function, description=description, annotations=annotations)
        _KNOWN[function.__code__] = known
    return known.model_copy(update={"fn": function})
