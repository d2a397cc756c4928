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
from zoea.llm.messages.message_rules import result_text, strict_object
from zoea.model.enums import ASK_TOOL, DONE_TOOL, FIND_TOOL, SEND_TOOL, WAIT_TOOL, Role
from zoea.model.request import AnswerCall, ModelRequest, RequestCall, RequestMessage, ToolSpec
from zoea.text.flat_schema import flat
from zoea.text.large_json import is_deep
from zoea.text.tool_signature import example_arguments, write_signature

MAX_STRING = 2000
MAX_NEXT = 100
"""Characters in which a model says what it does next."""
_HOW = (
    "You act by answering with exactly one JSON object, and nothing else. It begins with what you do next, in a few "
    'words. To use a tool answer {"next": "…", "name": "…", "arguments": {…}}; its result comes back as a message '
    'that begins with "Result of". When all results are there, or none is needed, answer '
    '{"next": "answer", "answer": "…"}.'
)
_TOOLS = "Tools:"
_SIGNED_TOOLS = "Tools, with their arguments; those with = or ? may be left out:"
_USE, _TELL, _DONE = "use {}", "answer", "all results are there"
_GREETING = ("User: Good morning.", 'You: {"next": "answer", "answer": "Good morning."}')
_QUESTION = ("User: What is the capital of France?", 'You: {"next": "answer", "answer": "Paris."}')
_FORMATS = frozenset({"date", "time", "date-time", "uuid"})
"""Formats that llama.cpp's grammars know, so that they bound the text."""
_WITHOUT_RESULT = frozenset({SEND_TOOL, "zoea_broadcast", ASK_TOOL, WAIT_TOOL, DONE_TOOL})
"""Own tools that tell a mysis nothing new; shown in use they are called for everything."""
_RECIPIENT = ("mysis", "to")
"""Names of the argument that says who a message goes to."""
MOST_RECIPIENTS = 64
"""Names of myses that a grammar lists; of more any name is allowed."""
_FENCE = re.compile(r"^```[a-zA-Z]*\s*")
_STRING = r'"((?:[^"\\]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*)'
_BEGIN = r'\{\s*(?:"next"\s*:\s*"(?:[^"\\]|\\.)*"\s*,\s*)?'
_CUT_ANSWER = re.compile(_BEGIN + r'"answer"\s*:\s*' + _STRING + r'(?:"\s*|\\(?:u[0-9a-fA-F]{0,3})?)?', re.DOTALL)
_CUT_CALL = re.compile(_BEGIN + r'"name"\s*:\s*' + _STRING + r'"(?:\s*,\s*"arguments"\s*:\s*(.+)|.*)', re.DOTALL)


def response_format(request: ModelRequest) -> dict[str, Any]:
    """Build the `response_format` of a chat completion. It allows the request's calls or an answer text."""
    return {"type": "json_schema", "json_schema": {"name": "step", "schema": answer_schema(request)}}


def answer_schema(request: ModelRequest) -> dict[str, Any]:
    """Build the schema of the answer: after a warning of a repetition it is a text."""
    return schema(() if request.is_warned else request.tools, request.recipients)


def schema(tools: Iterable[ToolSpec], recipients: Sequence[str] = ()) -> dict[str, Any]:
    """Build the schema of an answer. `recipients` are the only names that a message may go to."""
    step = {"next": {"type": "string", "maxLength": MAX_NEXT}}
    calls = ({"name": {"const": tool.name}, "arguments": _arguments_schema(tool, recipients)} for tool in tools)
    options = [_closed({**step, **call}) for call in calls]
    return {"anyOf": [*options, _closed({**step, "answer": {"type": "string", "maxLength": MAX_STRING}})]}


def _arguments_schema(tool: ToolSpec, recipients: Sequence[str]) -> Any:
    made = _bounded(flat(tool.input_schema) or {"type": "object"})
    if tool.name != SEND_TOOL or tool.upstream or not 0 < len(recipients) <= MOST_RECIPIENTS:
        return made
    properties = made.get("properties", {})
    names = {
        key: {"enum": list(recipients)} for key in _RECIPIENT if key in properties and "const" not in properties[key]
    }
    return {**made, "properties": {**properties, **names}}


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
    if is_text and not bounded.keys() & {"maxLength", "enum", "const"} and (bounded.get("format") not in _FORMATS):
        bounded["maxLength"] = MAX_STRING
    return bounded


def as_text(
    system: str, messages: Iterable[RequestMessage], request: ModelRequest, *, with_examples: bool = False
) -> tuple[str, list[RequestMessage]]:
    """Return the system text with the request's tools, and the messages without tool roles."""
    lines = [_HOW, "", _SIGNED_TOOLS if request.as_signatures else _TOOLS]
    for tool in request.tools:
        if request.as_signatures:
            lines.append(f"- {write_signature(tool.name, tool.description, tool.input_schema)}")
            continue
        parameters = json.dumps(flat(tool.input_schema).get("properties", {}), ensure_ascii=False)
        lines.append(f"- {tool.name}: {' '.join(tool.description.split())} Arguments: {parameters}")
    if with_examples:
        lines += ["", *examples(request.tools)]
    text = "\n".join(lines)
    return (f"{system}\n\n{text}" if system else text), [_plain(message) for message in messages]


def examples(tools: Sequence[ToolSpec]) -> list[str]:
    """Return examples: calls of the tools that are there, with values that their schemas allow, and plain answers.

    With three calls SmolLM2-135M chose the right one of six tools in 20 of 32 requests, without them in 15. A single
    example does harm: the model then calls that tool for every request (4 of 16, without it 8). Without an answer
    after a result Qwen2.5 0.5B called a tool for `What is 2 plus 2?`; with an answer that follows no result it
    invented results. After an answer to a single result it called a tool for two things again and again. With Zoea's
    own tools alone, which fetch nothing that it could invent, it called one for every message until plain answers were
    shown. A message to another mysis was never sent where no example did so (0 of 4). Names in angle or round brackets,
    and a fixed text such as "nothing is left to do", were copied into answers.
    """
    send = next((tool for tool in tools if tool.name == SEND_TOOL and not tool.upstream), None)
    message = _message_example(send) if send is not None else []
    if not any(tool.upstream or tool.name == FIND_TOOL for tool in tools):
        return ["Examples:", *_GREETING, *(message or _QUESTION)]
    others = [tool for tool in tools if tool.upstream or tool.name not in _WITHOUT_RESULT]
    shown = {tool.name: tool for tool in (others[0], others[len(others) // 2], others[-1])}.values()
    lines = ["Examples:", *_GREETING, *message]
    for tool in shown:
        arguments = example_arguments(tool.input_schema)
        lines += [f"User: Use {tool.name}{_in_words(arguments)}", f"You: {_call_step(tool.name, arguments)}"]
    return [*lines, *_results_example(tools)]


def _results_example(tools: Sequence[ToolSpec]) -> list[str]:
    """Return an example of an answer to two results, or to the last tool's result."""
    pair = next(((tool, key) for tool in reversed(tools) if (key := _only_text(tool))), None)
    if pair is None:
        result = "It is 17 of 24."
        return [f"User: Result of {tools[-1].name}:", result, f"You: {_answer_step(result, _DONE)}"]
    tool, key = pair
    first, second = (str(example_arguments(tool.input_schema, variant)[key]).rstrip(".") for variant in (0, 1))
    lines = [f"User: Use {tool.name} for {first} and for {second}, then tell me both."]
    results = [f"In {first} it is 17.", f"In {second} it is 24."]
    for value, result in zip((first, second), results, strict=True):
        lines += [f"You: {_call_step(tool.name, {key: value})}", f"User: Result of {tool.name}:", result]
    return [*lines, f"You: {_answer_step(' '.join(results), _DONE)}"]


def _message_example(send: ToolSpec) -> list[str]:
    arguments = example_arguments(send.input_schema)
    to = next((arguments[key] for key in _RECIPIENT if key in arguments), "")
    text = next((one for key, one in arguments.items() if key not in _RECIPIENT), "")
    example = f"{text[:1].lower()}{text[1:]}" if isinstance(text, str) else json.dumps(text)
    return [f"User: Tell {to or 'the commander'} that {example}", f"You: {_call_step(send.name, arguments)}"]


def _in_words(arguments: Mapping[str, Any]) -> str:
    """Return arguments as a person would give them."""
    parts = [f"{key} {value if isinstance(value, str) else json.dumps(value)}" for key, value in arguments.items()]
    words = f" with {' and '.join(parts)}" if parts else ""
    return words if words.endswith(".") else f"{words}."


def _answer_step(answer: str, step: str = _TELL) -> str:
    return json.dumps({"next": step, "answer": answer}, ensure_ascii=False)


def _only_text(tool: ToolSpec) -> str:
    """Return an upstream tool's only argument if that is a required text; empty otherwise."""
    schema = flat(tool.input_schema)
    properties = schema.get("properties", {})
    wanted = schema.get("required", [])
    is_text = (
        len(properties) == 1
        and wanted == list(properties)
        and tool.upstream
        and properties[wanted[0]].get("type") == "string"
        and not properties[wanted[0]].get("enum")
    )
    return wanted[0] if is_text else ""


def _call_step(name: str, arguments: Any) -> str:
    """Return a call as the model writes it. What it does next names an only short text, to tell calls apart."""
    values = list(arguments.values()) if isinstance(arguments, dict) else []
    what = values[0] if len(values) == 1 and isinstance(values[0], str) and len(values[0]) <= MAX_NEXT // 2 else ""
    step = _USE.format(name) + (f" for {what}" if what else "")
    return json.dumps({"next": step, "name": name, "arguments": arguments}, ensure_ascii=False)


def _show_call(call: RequestCall) -> str:
    """Return a call as the model wrote it. One that a person refused is only named, because models copy it."""
    if call.is_denied:
        return f"[a call of {call.name}, which was refused]"
    return _call_step(call.name, strict_object(call.arguments) or {})


def _plain(message: RequestMessage) -> RequestMessage:
    match message.role:
        case Role.TOOL:
            text = f"Result of {message.name or 'the call'}:\n{result_text(message)}"
            return replace(message, role=Role.USER, content=text, call_id="")
        case Role.ASSISTANT if message.calls:
            text = "\n".join(_show_call(call) for call in message.calls)
            return replace(message, content=text, calls=(), native=None)
        case Role.ASSISTANT:
            return replace(message, content=_answer_step(message.content), native=None)
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
    """Read an answer, as `read` does, that no grammar bound. What follows its first object is left out."""
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
