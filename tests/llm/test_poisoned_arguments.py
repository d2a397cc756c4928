"""Arguments that are no JSON object go out as `{}` on every wire. Their text is noted, and no wire sends NaN."""

from __future__ import annotations

import importlib
import json
import math
import pkgutil
from typing import Any

import pytest

from tests.case_tables import walk_cases
from tests.fakes.anthropic_server import AnthropicServer
from tests.fakes.ollama_server import OllamaServer
from tests.fakes.openai_server import OpenAIServer
from tests.llm.sample_requests import answer, assistant, call, provider, request, result, user
from zoea.llm import providers
from zoea.llm.messages.message_rules import encode
from zoea.llm.providers.http_provider import HttpProvider
from zoea.model.enums import ToolMode
from zoea.model.request import ToolSpec

POISON = ('{"a": NaN}', '{"a": [Infinity]}', '{"a": -Infinity}', '{"a": 1e999}', "[1]", '"go"', "7", '{"a": "cut', "")
WIRES = ("openai", "anthropic", "ollama")


def test_every_wire_is_in_the_table() -> None:
    modules = [
        importlib.import_module(f"zoea.llm.providers.{each.name}") for each in pkgutil.iter_modules(providers.__path__)
    ]
    found = {thing for module in modules for thing in vars(module).values() if isinstance(thing, type)}
    wires = [thing for thing in found if issubclass(thing, HttpProvider) and not thing.__subclasses__()]
    assert len(wires) == len(WIRES)


def refuse(name: str) -> Any:
    raise AssertionError(f"{name} was sent")


async def send(wire: str, arguments: str, told: str = "ore", **config: Any) -> dict[str, Any]:
    """Return the body of a conversation with one call, as a strict server reads it."""
    server = {"openai": OpenAIServer, "anthropic": AnthropicServer, "ollama": OllamaServer}[wire]()
    async with server:
        source = provider(wire, f"{server.url}/v1" if wire == "openai" else server.url, **config)
        tools = (ToolSpec("scan", "Looks.", {"type": "object", "properties": {"a": {"default": math.nan}}}),)
        said = (user(), assistant("So.", call(arguments=arguments)), result(told))
        await answer(source, request(*said, tools=tools, model="reef:1b"))
        await source.close()
        body = next(one.body for one in server.received if b'"messages"' in one.body)
    sent: dict[str, Any] = json.loads(body, parse_constant=refuse)
    return sent


def inputs(value: Any) -> list[Any]:
    """Return the arguments of all calls in a body."""
    if isinstance(value, list):
        return [one for inner in value for one in inputs(inner)]
    if not isinstance(value, dict):
        return []
    if value.get("type") == "tool_use":
        return [value["input"]]
    if isinstance(value.get("function"), dict) and "arguments" in value["function"]:
        arguments = value["function"]["arguments"]
        return [json.loads(arguments, parse_constant=refuse) if isinstance(arguments, str) else arguments]
    return [one for inner in value.values() for one in inputs(inner)]


@walk_cases("arguments", POISON)
@walk_cases("wire", WIRES)
async def test_poisoned_arguments_go_out_as_an_empty_object_with_their_text(wire: str, arguments: str) -> None:
    sent = await send(wire, arguments, tool_mode=ToolMode.NATIVE)
    assert inputs(sent["messages"]) == [{}]
    noted = f"(the arguments of scan, as written: {arguments})"
    assert (json.dumps(noted)[1:-1] in json.dumps(sent["messages"])) == bool(arguments)


@walk_cases("wire", WIRES)
async def test_arguments_that_the_result_tells_are_not_noted_twice(wire: str) -> None:
    sent = await send(wire, POISON[0], f"NaN is no JSON value. You wrote: {POISON[0]}", tool_mode=ToolMode.NATIVE)
    assert json.dumps(sent["messages"]).count("NaN") == 2
    assert inputs(sent["messages"]) == [{}]


@pytest.mark.parametrize("wire", ["openai", "ollama"])
async def test_calls_shown_as_text_are_objects_too(wire: str) -> None:
    sent = await send(wire, POISON[0], tool_mode=ToolMode.JSON_SCHEMA)
    shown = next(one["content"] for one in sent["messages"] if one["role"] == "assistant")
    assert json.loads(shown.splitlines()[0], parse_constant=refuse)["arguments"] == {}


def test_the_encoder_writes_null_for_what_json_cannot_hold() -> None:
    assert encode({"a": [math.nan, {"b": math.inf}], "c": 1.5}) == b'{"a":[null,{"b":null}],"c":1.5}'
