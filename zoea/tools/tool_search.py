"""Tools by need: two tools that find and call those a request leaves out. Pure.

Names, first sentences and schemas are the upstreams' own text; they are searched and shown, never interpreted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from zoea.model.enums import CALL_TOOL, FIND_TOOL
from zoea.model.request import Answer, AnswerCall, Catalogue, ToolSpec
from zoea.text.control_characters import clean, one_line
from zoea.text.json_text import parse_object
from zoea.text.shorten import head
from zoea.text.tool_signature import first_sentence, properties_of
from zoea.tools.catalogue import digest

MOST_FOUND = 5
"""Tools that one search shows."""
MAX_FOUND = 12_000
"""Characters of one search's result."""
MAX_QUERY = 400
"""Characters of a query that are searched for, because each word is compared with each tool while all others wait."""
MAX_LINES = 8_000
"""Characters of the lines that name tools; where they would be more, the last tools are only counted."""
_LINE = 100
_STEM = 4
_WORD = re.compile(r"[^\W_]+")
_HOW = (
    "Find tools that are not shown here, by a name or by words for what you want to do. The answer shows their "
    f"arguments; then call one with {CALL_TOOL}. There are:"
)
_CALL_HOW = f"Call a tool that {FIND_TOOL} names, with the arguments that it shows."
_FIND_SCHEMA = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "A name, or one to three words."}},
    "required": ["query"],
}
_CALL_SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The name of the tool."},
        "arguments": {"type": "object", "description": "Its arguments."},
    },
    "required": ["name", "arguments"],
}
_ARGUMENTS = ("arguments", "parameters")


def build_search_tools(listed: Sequence[ToolSpec]) -> tuple[ToolSpec, ToolSpec]:
    """Build the tool that lists and finds these tools, and the one that calls them."""
    lines, left = [_HOW], MAX_LINES
    for place, tool in enumerate(listed):
        line = describe_tool(tool)
        left -= len(line) + 1
        if left < 0:
            lines.append(f"and {len(listed) - place} more")
            break
        lines.append(line)
    return (
        _own_tool(FIND_TOOL, "\n".join(lines), _FIND_SCHEMA, reads=True),
        _own_tool(CALL_TOOL, _CALL_HOW, _CALL_SCHEMA, reads=False),
    )


def describe_tool(tool: ToolSpec) -> str:
    """Return a tool as one line: its name and the first sentence of its description."""
    first = first_sentence(tool.description)
    return f"- {tool.name}: {first}" if first else f"- {tool.name}"


def _own_tool(name: str, description: str, schema: dict[str, Any], *, reads: bool) -> ToolSpec:
    return ToolSpec(
        name=name,
        description=description,
        input_schema=schema,
        origin=name,
        read_only=reads,
        idempotent=reads,
        schema_hash=digest([name, description, schema]),
    )


def find_tools(query: str, tools: Sequence[ToolSpec]) -> str:
    """Return the tools that fit a query best, with their schemas, as JSON text."""
    query = head(query, MAX_QUERY)
    words = set(_words(query))
    ranked = sorted(((_score(query, words, tool), -place) for place, tool in enumerate(tools)), reverse=True)
    best = [tools[-place] for score, place in ranked if score][:MOST_FOUND]
    if not best:
        names = ", ".join(tool.name for tool in tools)
        return f"No tool fits {head(one_line(query), _LINE)!r}. There are: {head(names, MAX_FOUND) or 'none'}"
    lines: list[str] = []
    for tool in best:
        text = json.dumps(_as_found(tool), ensure_ascii=False)
        if lines and sum(map(len, lines)) + len(text) > MAX_FOUND:
            break
        lines.append(head(text, MAX_FOUND))
    return "\n".join((*lines, f"Call one with {CALL_TOOL}: its name, and its arguments as an object."))


def _as_found(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "arguments": properties_of(tool.input_schema)} | (
        {"required": tool.input_schema["required"]} if tool.input_schema.get("required") else {}
    )


def _score(query: str, words: set[str], tool: ToolSpec) -> int:
    """Rate a tool by the words of a query.

    Its whole name counts most, then words of its name, of its description, of its arguments.
    """
    if query.strip().casefold() in (tool.name.casefold(), tool.origin.casefold()):
        return 1_000
    named = tool.name.casefold() in words or tool.origin.casefold() in query.casefold().split()
    fields = (
        (8, _words(f"{tool.name} {tool.upstream}")),
        (3, _words(tool.description)),
        (1, _words(" ".join(properties_of(tool.input_schema)))),
    )
    return 500 * named + sum(weight * _count(words, set(field)) for weight, field in fields)


def _count(words: set[str], field: set[str]) -> int:
    """Count the words of a query in a field. A word of which only the beginning is there counts half."""
    stems = {word[:_STEM] for word in field if len(word) >= _STEM}
    return sum(2 if word in field else word[:_STEM] in stems and len(word) >= _STEM for word in words)


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def unwrap_calls(answer: Answer, catalogue: Catalogue) -> Answer:
    """Return the answer with calls through `zoea_call_tool` as calls of the named tools.

    So policy, approval, loop guard, records and screen know only that tool. A call that names no tool of the
    catalogue stays, and its result says so.
    """
    if not any(call.name == CALL_TOOL for call in answer.calls) or catalogue.find(CALL_TOOL) is None:
        return answer
    names = {tool.name for tool in catalogue.callable} - {CALL_TOOL}
    return replace(answer, calls=tuple([_unwrapped(call, names) for call in answer.calls]))


def _unwrapped(call: AnswerCall, names: set[str]) -> AnswerCall:
    if call.name != CALL_TOOL or call.broken:
        return call
    arguments = parse_object(call.arguments or "{}")
    name = arguments.pop("name", None) if arguments is not None else None
    if arguments is None or not isinstance(name, str) or name.strip() not in names:
        return call
    return replace(call, name=name.strip(), arguments=_inner_arguments(arguments))


def _inner_arguments(given: Mapping[str, Any]) -> str:
    """Return the inner arguments as JSON, also where they stand beside the name."""
    inner = next((given[key] for key in _ARGUMENTS if key in given), dict(given))
    if isinstance(inner, str):
        return clean(inner)
    # Half of a surrogate pair, which the model escaped, could not be stored.
    return clean(json.dumps({} if inner is None else inner, ensure_ascii=False))


def explain_wrong_call(arguments: Mapping[str, Any], describe_unknown: str) -> str:
    """Return the result of a call through `zoea_call_tool` that names no tool."""
    if not isinstance(arguments.get("name"), str) or not arguments["name"].strip():
        return f"{CALL_TOOL}: name is missing; give the name of a tool that {FIND_TOOL} shows, and its arguments"
    return f"{describe_unknown}. Find one with {FIND_TOOL}"
