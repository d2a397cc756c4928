"""Tools for models that cannot call any: the answer is constrained by a JSON schema.

Every answer is one object: a call, `{"next": …, "name": …, "arguments": …}`, or a final text,
`{"next": …, "answer": …}`. The server's grammar makes it valid; the system text describes the tools; earlier calls and
results are shown in the same form. `next` says first what the model does next, and is not kept: without it Qwen2.5 0.5B
invented the results of tools, with it it called a tool in 5 of 5 tasks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from zoea.llm.messages.argument_repair import repair
from zoea.llm.messages.message_rules import arguments_object, result_text
from zoea.model.enums import FIND_TOOL, Role
from zoea.model.request import AnswerCall, ModelRequest, RequestMessage, ToolSpec
from zoea.text.large_json import is_deep

# A tool's schema is put inside another one to constrain answers. Its `#/$defs/…` would then be unresolved, and
# llama.cpp would refuse the whole request.

MAX_REFERENCES = 8
MAX_NESTING = 64
MAX_NODES = 5_000
MAX_ITEMS = 32
_UNSAID = frozenset({"$defs", "definitions", "$schema", "$id", "title", "default", "examples"})
_NAMED = frozenset({"properties", "patternProperties"})
_CHOICES = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})


def flat(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with references filled in, single `allOf` merged and arrays bounded.

    A schema that contains itself is cut off after 8 levels, a deep one after 64, a large one after 5,000 parts: any
    value is allowed there.
    """
    made = _ReferenceResolver(schema).flat(schema, 0, 0)
    return made if isinstance(made, dict) else {}


class _ReferenceResolver:
    """Flattens one schema; `depth` counts references, `nesting` the levels."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = MAX_NODES

    def flat(self, node: Any, depth: int, nesting: int) -> Any:
        if not isinstance(node, (list, Mapping)):
            return node
        self._left -= 1
        if self._left < 0 or nesting > MAX_NESTING:
            return [] if isinstance(node, list) else {}
        if isinstance(node, list):
            return [self.flat(item, depth, nesting + 1) for item in node]
        reference = node.get("$ref")
        if isinstance(reference, str):
            if depth >= MAX_REFERENCES:
                return {}
            beside = {key: value for key, value in node.items() if key != "$ref"}
            return self.flat({**_target(reference, self._root), **beside}, depth + 1, nesting)
        every = node.get("allOf")
        if isinstance(every, list) and len(every) == 1 and isinstance(every[0], Mapping):
            beside = {key: value for key, value in node.items() if key != "allOf"}
            return self.flat({**every[0], **beside}, depth, nesting + 1)
        made = {key: self._inner(key, value, depth, nesting + 1) for key, value in node.items() if key not in _UNSAID}
        if made.get("type") == "array":
            least = made.get("minItems")
            made.setdefault("maxItems", max(MAX_ITEMS, least) if isinstance(least, int) else MAX_ITEMS)
        return made

    def _inner(self, key: str, value: Any, depth: int, nesting: int) -> Any:
        if key in _NAMED and isinstance(value, Mapping):
            return {name: self._schema(inner, depth, nesting) for name, inner in value.items()}
        if key in _CHOICES and isinstance(value, list):
            return [self._schema(inner, depth, nesting) for inner in value]
        return self._schema(value, depth, nesting) if key == "items" else self.flat(value, depth, nesting)

    def _schema(self, node: Any, depth: int, nesting: int) -> Any:
        """Flatten an inner schema. `true` becomes an object, because llama.cpp refuses it."""
        return {} if node is True else self.flat(node, depth, nesting)


def _target(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        found = found if not name else found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


MAX_STRING = 2000
MAX_NEXT = 100
"""Characters in which a model says what it does next."""
_HOW = (
    "You act by answering with exactly one JSON object, and nothing else. It begins with what you do next, in a few "
    'words. To use a tool answer {"next": "…", "name": "<tool>", "arguments": {…}}; its result comes back as a message '
    'that begins with "Result of". When nothing is left to do answer {"next": "answer", "answer": "<your text>"}.'
)
_USE, _TELL = "use {}", "answer"
_PLAIN_ANSWERS = (
    "User: Good morning.",
    'You: {"next": "answer", "answer": "Good morning."}',
    "User: What is the capital of France?",
    'You: {"next": "answer", "answer": "Paris."}',
)
_FENCE = re.compile(r"^```[a-zA-Z]*\s*")
_STRING = r'"((?:[^"\\]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*)'
_BEGIN = r'\{\s*(?:"next"\s*:\s*"(?:[^"\\]|\\.)*"\s*,\s*)?'
_CUT_ANSWER = re.compile(_BEGIN + r'"answer"\s*:\s*' + _STRING + r'(?:"\s*|\\(?:u[0-9a-fA-F]{0,3})?)?', re.DOTALL)
_CUT_CALL = re.compile(_BEGIN + r'"name"\s*:\s*' + _STRING + r'"(?:\s*,\s*"arguments"\s*:\s*(.+)|.*)', re.DOTALL)


def response_format(request: ModelRequest) -> dict[str, Any]:
    """Build the `response_format` of a chat completion that allows the request's calls or an answer text."""
    return {"type": "json_schema", "json_schema": {"name": "step", "schema": answer_schema(request)}}


def answer_schema(request: ModelRequest) -> dict[str, Any]:
    """Build the schema of the answer: after a warning of a repetition it is a text."""
    return schema(() if request.is_warned else request.tools)


def schema(tools: Iterable[ToolSpec]) -> dict[str, Any]:
    step = {"next": {"type": "string", "maxLength": MAX_NEXT}}
    calls = ({"name": {"const": tool.name}, "arguments": _arguments_schema(tool)} for tool in tools)
    options = [_closed({**step, **call}) for call in calls]
    return {"anyOf": [*options, _closed({**step, "answer": {"type": "string", "maxLength": MAX_STRING}})]}


def _arguments_schema(tool: ToolSpec) -> Any:
    return _bounded(flat(tool.input_schema) or {"type": "object"})


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _bounded(node: Any) -> Any:
    """Put a `maxLength` on every free string, because small models fill them without end."""
    if isinstance(node, list):
        return [_bounded(item) for item in node]
    if not isinstance(node, dict):
        return node
    bounded = {key: _bounded(value) for key, value in node.items()}
    kinds = bounded.get("type")
    is_text = kinds == "string" or (isinstance(kinds, list) and "string" in kinds)
    if is_text and not bounded.keys() & {"maxLength", "enum", "const", "format"}:
        bounded["maxLength"] = MAX_STRING
    return bounded


def as_text(
    system: str, messages: Iterable[RequestMessage], tools: Sequence[ToolSpec], *, with_examples: bool = False
) -> tuple[str, list[RequestMessage]]:
    """Return the system text with the tools in it, and the messages without tool roles."""
    lines = [_HOW, "", "Tools:"]
    for tool in tools:
        parameters = json.dumps(flat(tool.input_schema).get("properties", {}), ensure_ascii=False)
        lines.append(f"- {tool.name}: {' '.join(tool.description.split())} Arguments: {parameters}")
    if with_examples:
        lines += ["", *examples(tools)]
    told = "\n".join(lines)
    return (f"{system}\n\n{told}" if system else told), [_plain(message) for message in messages]


def examples(tools: Sequence[ToolSpec]) -> list[str]:
    """Return examples of three calls, and of two calls of one tool with the answer to their results.

    Without tools of upstreams, or the one that finds them, they are plain answers.

    With three calls SmolLM2-135M chose the right one of six tools in 20 of 32 requests, without them in 15. A single
    example does harm: the model then calls that tool for every request (4 of 16, without it 8). Without an answer
    after a result Qwen2.5 0.5B called a tool for `What is 2 plus 2?`; with an answer that follows no result it
    invented results. After an answer to a single result it called a tool for two things again and again. With Zoea's
    own tools alone, which fetch nothing that it could invent, it called one for every message until plain answers were
    shown.
    """
    if not any(tool.upstream or tool.name == FIND_TOOL for tool in tools):
        return ["Examples:", *_PLAIN_ANSWERS]
    shown = {tool.name: tool for tool in (tools[0], tools[len(tools) // 2], tools[-1])}.values()
    lines = ["Examples:"]
    for tool in shown:
        lines += [f"User: Use {tool.name}.", f"You: {_call_step(tool.name, _sample(flat(tool.input_schema), ''))}"]
    last = tools[-1].name
    found = next(((tool.name, key) for tool in reversed(tools) if (key := _only_text(tool))), None)
    if found is None:
        return [*lines, *_result_example(last, "one\ntwo", "tell the result", "The result has one and two.")]
    name, key = found
    lines += [f"User: Use {name} for <a> and for <b>, then tell me both.", f"You: {_call_step(name, {key: '<a>'})}"]
    first, second = "<result for a>", "<result for b>"
    lines += [f"User: Result of {name}:", first, f"You: {_call_step(name, {key: '<b>'})}"]
    return [*lines, *_result_example(name, second, "tell both results", f"<a>: {first}. <b>: {second}.")]


def _result_example(name: str, result: str, what: str, answer: str) -> list[str]:
    told = {"next": f"nothing is left to do, {what}", "answer": answer}
    return [f"User: Result of {name}:", *result.split("\n"), f"You: {json.dumps(told)}"]


def _only_text(tool: ToolSpec) -> str:
    """Return the name of the only argument of an upstream's tool if that is a required text; empty otherwise."""
    schema = flat(tool.input_schema)
    properties = schema.get("properties", {})
    wanted = schema.get("required", [])
    is_text = (
        len(properties) == 1
        and wanted == list(properties)
        and tool.upstream
        and properties[wanted[0]].get("type") == "string"
    )
    return wanted[0] if is_text else ""


def _sample(schema: Mapping[str, Any], name: str) -> Any:
    """Build a value that roughly fits the schema; texts name their meaning."""
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for key in ("anyOf", "oneOf"):
        if schema.get(key):
            return _sample(schema[key][0], name)
    kinds = schema.get("type")
    match kinds[0] if isinstance(kinds, list) and kinds else kinds:
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "array":
            return []
        case "object" | None if not name or kinds:
            wanted = schema.get("required", [])
            inner = schema.get("properties", {})
            return {key: _sample(inner.get(key, {}), key) for key in wanted}
        case "null":
            return None
        case _:
            return f"<{name}>"


def _call_step(name: str, arguments: Any) -> str:
    """Return a call as the model writes it. What it does next names an only short text, to tell calls apart."""
    values = list(arguments.values()) if isinstance(arguments, dict) else []
    what = values[0] if len(values) == 1 and isinstance(values[0], str) and len(values[0]) <= MAX_NEXT // 2 else ""
    step = _USE.format(name) + (f" for {what}" if what else "")
    return json.dumps({"next": step, "name": name, "arguments": arguments}, ensure_ascii=False)


def _plain(message: RequestMessage) -> RequestMessage:
    match message.role:
        case Role.TOOL:
            text = f"Result of {message.name or 'the call'}:\n{result_text(message)}"
            return replace(message, role=Role.USER, content=text, call_id="")
        case Role.ASSISTANT if message.calls:
            text = "\n".join(_call_step(call.name, arguments_object(call.arguments)) for call in message.calls)
            return replace(message, content=text, calls=(), native=None)
        case Role.ASSISTANT:
            told = {"next": _TELL, "answer": message.content}
            return replace(message, content=json.dumps(told, ensure_ascii=False), native=None)
        case _:
            return message


def read(text: str, *, is_cut: bool = False) -> tuple[str, tuple[AnswerCall, ...]]:
    """Return the answer text and the calls of a structured answer; other text stays text.

    `is_cut` means that the model was stopped at its output limit: a partial text is kept, a partial call is broken,
    anything else is dropped.
    """
    mended, broken = repair(text, is_cut=is_cut)
    if broken:
        return _read_part(text, broken, is_cut)
    value = json.loads(mended)
    if isinstance(value.get("name"), str):
        arguments, wrong = repair(json.dumps(value.get("arguments") or {}, ensure_ascii=False))
        return "", (AnswerCall(value["name"], arguments, broken=wrong),)
    if isinstance(value.get("answer"), str):
        return value["answer"], ()
    return text, ()


def read_unconstrained(text: str, *, is_cut: bool = False) -> tuple[str, tuple[AnswerCall, ...]]:
    """Return as `read` what an answer says that no grammar held. What follows its first object is left out."""
    begun = _FENCE.sub("", text.lstrip())
    try:
        value, _ = json.JSONDecoder().raw_decode(begun)
    except (ValueError, RecursionError):
        return read(text, is_cut=is_cut)
    return read(json.dumps(value, ensure_ascii=False)) if isinstance(value, dict) and not is_deep(value) else (text, ())


def _read_part(text: str, broken: str, is_cut: bool) -> tuple[str, tuple[AnswerCall, ...]]:
    """Read an object that is not complete."""
    begun = text.strip()
    if (answer := _CUT_ANSWER.fullmatch(begun)) is not None:
        return _unescaped(answer.group(1)), ()
    if (call := _CUT_CALL.fullmatch(begun)) is not None and (is_cut or call.group(2)):
        return "", (AnswerCall(_unescaped(call.group(1)), call.group(2) or "{}", broken=broken),)
    return ("" if is_cut and begun.startswith("{") else text), ()


def _unescaped(written: str) -> str:
    """Return the value of a JSON string's inner text."""
    return str(json.loads(f'"{written}"', strict=False))
