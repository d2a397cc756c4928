"""Tools as list items, and the arguments to start a try with. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from zoea.model.values import ToolView
from zoea.queries.request_inspection import OfferedTool
from zoea.text.control_characters import one_line, reveal_exactly
from zoea.text.large_json import indent
from zoea.tui import number_format
from zoea.tui.text_layout import Piece
from zoea.tui.widgets.folding_list import FoldingItem

_FEW = 4
_EMPTY: dict[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}


def build_tool_item(tool: ToolView) -> FoldingItem:
    """Build an item: name, hints and purpose above, description and schema below."""
    head: list[Piece] = [(one_line(tool.name), "tool"), (f"  {one_line(tool.description)}", "quiet")]
    body: list[Piece] = [(reveal_exactly(tool.description) or "(no description)", "")]
    body += [(f"Zoea fills in: {', '.join(tool.injected)}", "asking")] if tool.injected else []
    body.append((reveal_exactly(indent(tool.schema)), "quiet"))
    return FoldingItem(head, [(f" {word}", role) for word, role in build_hint_pieces(tool)], body, brief=0)


def build_offered_items(tools: Sequence[OfferedTool]) -> list[FoldingItem]:
    """Build the tools offered in a request, the largest first: name, tokens, description, schema."""
    return [
        FoldingItem(
            [(one_line(tool.name), "tool"), (f"  {one_line(tool.description)}", "quiet")],
            [(f" ~{number_format.tokens(tool.tokens)}", "quiet")],
            body=((reveal_exactly(tool.description), ""), (reveal_exactly(tool.schema), "quiet")),
            brief=0,
        )
        for tool in sorted(tools, key=lambda tool: (-tool.tokens, tool.name))
    ]


def build_hint_pieces(tool: ToolView) -> list[Piece]:
    """Build the annotations of a tool, one word each."""
    found: list[Piece] = []
    if tool.destructive:
        found.append(("destructive", "errored"))
    if tool.read_only:
        found.append(("read-only", "running"))
    elif tool.idempotent:
        found.append(("repeatable", "quiet"))
    return found


def build_argument_skeleton(tool: ToolView) -> str:
    """Build JSON arguments: the required ones and those that Zoea fills in for a mysis, or all if there are few."""
    try:
        schema = json.loads(tool.schema)
    except (ValueError, RecursionError):
        return "{}"
    fields = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(fields, dict):
        return "{}"
    required = schema.get("required")
    names = [name for name in fields if isinstance(required, list) and name in required]
    if not names and len(fields) <= _FEW:
        names = list(fields)
    names += [name for name in tool.injected if name in fields and name not in names]
    return json.dumps({name: _begin(fields[name]) for name in names}, ensure_ascii=False, indent=2)


def _begin(field: object) -> Any:
    if not isinstance(field, Mapping):
        return None
    if "default" in field:
        return field["default"]
    choices = field.get("enum")
    if isinstance(choices, list) and choices:
        return choices[0]
    kind = field.get("type")
    return _EMPTY.get(kind) if isinstance(kind, str) else None
