"""Repairs answers to `initialize` and `tools/list`. Pure.

The SDK would refuse a whole answer for one bad item. A tool that cannot be offered stays in the list under its name
and with the reason, so that a person is told of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zoea.text.control_characters import one_line
from zoea.text.large_json import LARGE_COUNT, count_values

MAX_LISTED = 2_000
"""Tools of a page that are read; far fewer are offered (`max_tools`)."""
MAX_LISTED_VALUES = 20_000
"""Values of all tools of a page; far fewer are offered (`max_schemas`)."""
OLDEST_PROTOCOL = "2024-11-05"
PROBLEM = "zoea/problem"
"""The key in `_meta` that says why a tool is left out."""
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMAS = ("items", "not", "if", "then", "else", "contains", "propertyNames", "additionalProperties")
_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_MAX_DEPTH = 50


def repair_initialize(wire: dict[str, Any]) -> None:
    """Drop wrongly typed values from an answer to `initialize`, and fill in required ones."""
    abilities = wire.get("capabilities")
    abilities = abilities if isinstance(abilities, dict) else {"tools": {}}
    wire["capabilities"] = {
        key: {name: flag for name, flag in value.items() if isinstance(flag, bool | dict)} if value is not True else {}
        for key, value in abilities.items()
        if isinstance(value, dict) or value is True
    }
    server = wire.get("serverInfo")
    server = server if isinstance(server, dict) else {}
    wire["serverInfo"] = {
        **{key: value for key, value in server.items() if key in ("title", "description") and isinstance(value, str)},
        **{key: _write_text(server.get(key)) for key in ("name", "version")},
    }
    if not isinstance(wire.get("protocolVersion"), str):
        wire["protocolVersion"] = OLDEST_PROTOCOL
    if not isinstance(wire.get("instructions"), str):
        wire.pop("instructions", None)
    _drop_bad_meta(wire)


def repair_tool_list(wire: dict[str, Any]) -> None:
    """Repair each tool of a page. One that cannot be offered loses all but its name, and gets the reason."""
    _drop_bad_meta(wire)
    cursor = wire.get("nextCursor")
    if isinstance(cursor, int) and not isinstance(cursor, bool):
        wire["nextCursor"] = str(cursor)
    elif not isinstance(cursor, str):
        wire.pop("nextCursor", None)
    tools = wire.get("tools")
    if not isinstance(tools, list):
        return
    values, repaired = 0, []
    for place, tool in enumerate(tools[:MAX_LISTED], 1):
        count = count_values(tool, LARGE_COUNT)
        if count > LARGE_COUNT or values + count > MAX_LISTED_VALUES:
            repaired.append(_leave_out(tool, place, "its schema is too large"))
            continue
        values += count
        repaired.append(_repair_tool(tool, place))
    if len(tools) > MAX_LISTED:
        rest = f"{len(tools) - MAX_LISTED:,} more tools"
        repaired.append(_leave_out({"name": rest}, MAX_LISTED, f"only the first {MAX_LISTED:,} of a page are read"))
    wire["tools"] = repaired


def _repair_tool(tool: Any, place: int) -> dict[str, Any]:
    if not isinstance(tool, dict):
        return _leave_out(tool, place, "it is not an object")
    name = tool.get("name")
    if not isinstance(name, str) or not name.strip():
        return _leave_out(tool, place, "it has no name")
    schema = tool.get("inputSchema", tool.get("input_schema", tool.get("parameters")))
    if schema is None or schema in ([], ""):
        schema = {}
    if not isinstance(schema, dict):
        return _leave_out(tool, place, "its inputSchema is not an object")
    kind = _repair_type(schema.get("type"))
    if kind is not None and "object" not in (kind if isinstance(kind, list) else [kind]):
        return _leave_out(tool, place, f"its arguments would be of the type {kind}, not an object")
    made: dict[str, Any] = {"name": name, "inputSchema": {**_repair_schema(schema, 0), "type": "object"}}
    made |= {key: tool[key] for key in ("title", "description") if isinstance(tool.get(key), str)}
    hints = tool.get("annotations")
    if isinstance(hints, dict):
        made["annotations"] = {key: hints[key] for key in _HINTS if isinstance(hints.get(key), bool)}
    return made


def _leave_out(tool: Any, place: int, why: str) -> dict[str, Any]:
    name = tool.get("name") if isinstance(tool, dict) else None
    shown = one_line(name)[:64] if isinstance(name, str) and name.strip() else f"item {place:,}"
    return {"name": shown, "inputSchema": {"type": "object"}, "_meta": {PROBLEM: why}}


def _repair_schema(schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """Drop keywords with wrongly typed values at any depth, so any value is allowed."""
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _MAPS:
            if isinstance(value, dict):
                made[key] = {
                    name: _repair_inner(inner, depth)
                    for name, inner in value.items()
                    if isinstance(inner, dict | bool | str)
                }
            elif key == "properties":
                made[key] = {}
        elif key in _LISTS:
            if isinstance(value, list) and value:
                made[key] = [_repair_inner(inner, depth) for inner in value]
        elif key in _SCHEMAS:
            made[key] = _repair_inner(value, depth)
        elif key == "type":
            if (kind := _repair_type(value)) is not None:
                made[key] = kind
        elif key == "required":
            if isinstance(value, list):
                made[key] = [name for name in value if isinstance(name, str)]
        elif key == "enum":
            if isinstance(value, list) and value:
                made[key] = value
        elif key not in ("description", "title", "$ref", "pattern", "format") or isinstance(value, str):
            made[key] = value
    return made


def _repair_inner(schema: Any, depth: int) -> Any:
    if isinstance(schema, dict) and depth < _MAX_DEPTH:
        return _repair_schema(schema, depth + 1)
    if isinstance(schema, str) and (kind := _repair_type(schema)) is not None:
        return {"type": kind}
    return schema if isinstance(schema, bool) else {}


def _repair_type(kind: Any) -> str | list[str] | None:
    """Return a type in the spelling of JSON Schema. None for one that it does not know."""
    if isinstance(kind, list):
        kinds = [one.lower() for one in kind if isinstance(one, str) and one.lower() in _TYPES]
        return kinds or None
    return kind.lower() if isinstance(kind, str) and kind.lower() in _TYPES else None


def _drop_bad_meta(wire: dict[str, Any]) -> None:
    if not isinstance(wire.get("_meta"), dict):
        wire.pop("_meta", None)


def _write_text(value: Any) -> str:
    return value if isinstance(value, str) else str(value) if isinstance(value, int | float) else ""
