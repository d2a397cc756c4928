"""llama.cpp servers: slots, progress of reading, slow reading, deadlines, the name of the only model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fakes import anthropic_server
from tests.fakes.anthropic_server import AnthropicServer
from tests.fakes.llamacpp_server import LISTED, PROPS, progress_chunk
from tests.fakes.openai_server import Fail, OpenAIServer, Say, frames
from tests.llm.sample_requests import SCAN, answer, assistant, call, items, provider, request, result, user
from zoea.llm.providers.http_provider import HttpProvider
from zoea.model.enums import Finish, ToolMode
from zoea.model.request import Answer, AnswerCall, Delta, ReadProgress, RequestSent

MANY = 3_000


@pytest.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    made = OpenAIServer(otherwise=lambda _: Say("Noon."))
    made.models, made.props = [LISTED], PROPS
    async with made:
        yield made


def concurrency_of(source: Any) -> int:
    assert isinstance(source, HttpProvider)
    return source._gate.concurrency


async def test_reading_is_asked_for_and_told_as_percent(server: OpenAIServer) -> None:
    body = {"model": "", "messages": [], "stream_options": {"include_usage": True}}
    rest = tuple(frames(Say("Noon."), body))
    server.script.append(Say(raw=(progress_chunk(0, 305), progress_chunk(141, 305), *rest)))
    source = provider("openai", server.base_url)
    found = await items(source, request(estimated_tokens=MANY))
    await source.close()
    assert [one.percent for one in found if isinstance(one, ReadProgress)][-1] == 46
    assert server.chats[0].json["return_progress"] is True
    assert isinstance(found[-1], Answer)
    assert found[-1].text == "Noon."


async def test_another_server_is_not_asked_for_its_reading() -> None:
    async with OpenAIServer(otherwise=lambda _: Say("Noon.")) as other:
        source = provider("openai", other.base_url)
        await answer(source, request(estimated_tokens=MANY))
        await source.close()
    assert "return_progress" not in other.chats[0].json


async def test_a_long_prompt_has_longer_until_its_first_token_on_this_machine(server: OpenAIServer) -> None:
    source = provider("openai", server.base_url)
    found = await items(source, request(estimated_tokens=MANY))
    short = await items(source, request())
    await source.close()
    sent = [one for one in found if isinstance(one, RequestSent)]
    first = provider("openai", server.base_url)._config.timeouts.first  # type: ignore[attr-defined]  # an HttpProvider
    assert sent == [RequestSent(first + MANY / 20)]
    assert not any(isinstance(one, RequestSent) for one in short)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_slots_window_and_name_of_the_only_model_come_from_props(kind: str) -> None:
    made = OpenAIServer() if kind == "openai" else AnthropicServer()
    made.models, made.props = [LISTED], PROPS
    async with made as server:
        url = f"{server.url}/v1" if kind == "openai" else server.url
        source = provider(kind, url, concurrency=None)
        before = concurrency_of(source)
        found = await source.info("")
        named = await source.info("qwen")
        models = await source.models()
        after = concurrency_of(source)
        fixed = provider(kind, url, concurrency=5)
        await fixed.info("")
        kept = concurrency_of(fixed)
        await source.close()
        await fixed.close()
    assert (found.name, found.context_window, found.slots) == ("qwen-0.5b.gguf", 4096, 2)
    assert (named.name, named.context_window) == ("qwen", 4096)
    assert [one.name for one in models] == ["qwen-0.5b.gguf"]
    assert (before, after, kept) == (8, 2, 5)


async def test_a_server_that_reads_slowly_gets_one_request_at_a_time(server: OpenAIServer) -> None:
    rates = (2_000.0, 8.447752836810798, 2_000.0)
    server.script.extend(Say("Noon.", reading_rate=rate) for rate in rates)
    source = provider("openai", server.base_url, concurrency=None)
    await source.info("")
    await answer(source, request(estimated_tokens=MANY))
    fast = concurrency_of(source)
    slow = await answer(source, request(estimated_tokens=MANY))
    assert slow.reading_rate == pytest.approx(8.45, abs=0.01)
    assert (fast, concurrency_of(source)) == (2, 1)
    await answer(source, request(estimated_tokens=MANY))
    assert concurrency_of(source) == 2, "until it reads faster"
    await source.close()


async def test_a_list_that_is_refused_leaves_the_request_as_it_is(server: OpenAIServer) -> None:
    server.list_fails = Fail.error(404, "nothing here")
    source = provider("openai", server.base_url)
    assert (await answer(source, request(estimated_tokens=MANY))).text == "Noon."
    assert "return_progress" not in server.chats[0].json
    await source.close()


def messages_server(parameters: float) -> AnthropicServer:
    """Return a llama.cpp server's messages API with a model of that size."""
    server = AnthropicServer()
    server.models, server.props = [{**LISTED, "meta": {**LISTED["meta"], "n_params": parameters}}], PROPS
    return server


SPOKEN = '{"next": "use scan for b", "name": "scan", "arguments": {"sector": "b"}}\n\nIt shows the sector.'


@pytest.mark.parametrize(("parameters", "mode"), [(494_032_768, ToolMode.AUTO), (8_000_000_000, ToolMode.JSON_SCHEMA)])
async def test_a_schema_holds_a_small_model_that_is_connected_by_the_messages_api(
    parameters: float, mode: ToolMode
) -> None:
    spoken = '{"next": "use scan for b", "name": "scan", "arguments": {"sector": "b"}}'
    async with OpenAIServer(Say(spoken), Say("Noon.")) as server:
        server.models = [{**LISTED, "meta": {**LISTED["meta"], "n_params": parameters}}]
        server.props = PROPS
        source = provider("anthropic", server.url, tool_mode=mode, api_key="reef-key")
        said = (user("Scan a and b."), assistant("", call()), result("ore"))
        found = await items(source, request(*said, tools=(SCAN,)))
        await source.close()
    answered = found[-1]
    assert isinstance(answered, Answer)
    assert (answered.text, answered.calls) == ("", (AnswerCall("scan", '{"sector":"b"}'),))
    assert server.chats[0].headers["authorization"] == "Bearer reef-key"
    body = server.chats[0].json
    assert body["response_format"]["json_schema"]["schema"]["anyOf"][0]["properties"]["name"] == {"const": "scan"}
    assert "- scan: Look around" in body["messages"][0]["content"]


async def test_a_model_that_is_to_keep_to_a_schema_is_told_its_tools_in_words_where_the_server_has_none() -> None:
    async with AnthropicServer() as server:
        server.script.append(anthropic_server.Say((anthropic_server.Text(SPOKEN),)))
        source = provider("anthropic", server.url, tool_mode=ToolMode.JSON_SCHEMA)
        said = (user("Scan a and b."), assistant("", call()), result("ore"))
        found = await items(source, request(*said, tools=(SCAN,)))
        await source.close()
    answered = found[-1]
    assert isinstance(answered, Answer)
    assert (answered.text, answered.calls) == ("", (AnswerCall("scan", '{"sector":"b"}'),))
    assert answered.finish is Finish.CALLS
    assert not any(isinstance(one, Delta) and one.text for one in found), "a call is not shown as an answer"
    body = server.chats[0].json
    assert "tools" not in body
    assert body["stop_sequences"] == ["\nUser:"]
    assert "- scan: Look around" in body["system"][0]["text"]
    assert "Examples:" in body["system"][0]["text"]
    asked, step, seen = body["messages"]
    assert asked["content"][0]["text"] == "Scan a and b."
    assert '"name": "scan"' in step["content"][0]["text"]
    assert seen["content"][0]["text"] == "Result of scan:\nore"


@pytest.mark.parametrize(("parameters", "mode"), [(8_000_000_000, ToolMode.AUTO), (494_032_768, ToolMode.NATIVE)])
async def test_the_messages_api_has_tools_for_a_large_model_and_where_they_are_wanted(
    parameters: float, mode: ToolMode
) -> None:
    async with messages_server(parameters) as server:
        source = provider("anthropic", server.url, tool_mode=mode)
        await answer(source, request(tools=(SCAN,)))
        await source.close()
    body = server.chats[0].json
    assert body["tools"][0]["name"] == "scan"
    assert "stop_sequences" not in body
