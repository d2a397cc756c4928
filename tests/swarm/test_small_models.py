"""What a small local model needs: calls in text, its schema mode, its reading, its name, its retries."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.llamacpp_server import LISTED, PROPS, progress_chunk
from tests.fakes.openai_server import Fail, OpenAIServer, Say, frames
from tests.swarm.harness import OneProvider, Swarm, swarm
from tests.waiting import until
from zoea.llm.provider_config import ProviderConfig
from zoea.llm.providers.openai_provider import OpenAIProvider
from zoea.model.enums import ToolMode, ToolShow
from zoea.model.ports import Provider
from zoea.process.clock import SystemClock
from zoea.queries.conversation import read_newest
from zoea.queries.events import read_line_ids, read_log_lines
from zoea.queries.request_inspection import inspect_request
from zoea.queries.status_phrases import describe_status
from zoea.settings.schema import Settings
from zoea.tools import OwnTools, ToolPolicy

NAMED = Settings.model_validate({})
AUTO = ToolPolicy(show=ToolShow.AUTO, own=OwnTools.SLIM)
CALL = '{"name": "look", "arguments": {"text": "north"}}'


@pytest.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    made = OpenAIServer(otherwise=lambda _: Say("Done."))
    made.models, made.props = [LISTED], {**PROPS, "default_generation_settings": {"n_ctx": 32768}}
    async with made:
        yield made


def provider(server: OpenAIServer, mode: ToolMode = ToolMode.AUTO) -> Provider:
    return OpenAIProvider.open(
        "near", ProviderConfig(type="openai", base_url=server.base_url, tool_mode=mode), SystemClock()
    )


async def values(s: Swarm, sql: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in await s.rows(sql)]


def is_schema(body: dict[str, Any]) -> bool:
    return "response_format" in body and "tools" not in body


async def test_calls_in_text_bring_the_schema_mode_from_the_next_turn_on(tmp_path: Path, server: OpenAIServer) -> None:
    server.script.extend([Say(CALL), Say("North is ore."), Say('{"answer": "Yes."}')])
    made = provider(server)
    async with swarm(tmp_path, providers=OneProvider(made)) as s:
        await s.ask("alpha", "look north")
        await s.ask("alpha", "and now?")
        assert await values(s, "SELECT name, state FROM tool_call") == [("look", "done")]
        assert await values(s, "SELECT provider, model, name, value FROM model_fact") == [
            ("near", "qwen-0.5b.gguf", "tool_mode", "json_schema")
        ]
        assert await values(s, "SELECT frozen ->> 'tool_mode' FROM turn ORDER BY id") == [("",), ("json_schema",)]
        assert await values(s, "SELECT kind, content FROM turn_note") == [
            ("call in text", "written as text; read as a call")
        ]
        page = read_newest(tmp_path / "zoea.db", (await s.api.mysis("alpha")).id)
    await made.close()
    assert [is_schema(chat.json) for chat in server.chats] == [False, False, True]
    assert page.turns[-1].entries[-1].memory.content == "Yes."
    assert not any("read as a call" in str(chat.json) for chat in server.chats)


async def test_tool_mode_native_leaves_text_as_it_is(tmp_path: Path, server: OpenAIServer) -> None:
    server.script.append(Say(CALL))
    made = provider(server, ToolMode.NATIVE)
    async with swarm(tmp_path, providers=OneProvider(made)) as s:
        await s.ask("alpha", "look north")
        assert await values(s, "SELECT 1 FROM tool_call UNION ALL SELECT 1 FROM model_fact") == []
    await made.close()


async def test_after_a_warning_of_a_repetition_a_model_held_to_a_schema_answers(
    tmp_path: Path, server: OpenAIServer
) -> None:
    server.script.extend([Say(CALL), Say(CALL), Say(CALL), Say('{"next": "answer", "answer": "North is ore."}')])
    made = provider(server, ToolMode.JSON_SCHEMA)
    async with swarm(tmp_path, providers=OneProvider(made)) as s:
        await s.ask("alpha", "look north")
        assert await values(s, "SELECT outcome FROM turn") == [("answered",)]
        assert (await s.api.mysis("alpha")).text == "North is ore."
    await made.close()
    choices = [len(chat.json["response_format"]["json_schema"]["schema"]["anyOf"]) for chat in server.chats]
    assert choices[-1] == 1 < choices[0] == choices[1] == choices[2]
    system = [chat.json["messages"][0] for chat in server.chats]
    assert system[0] == system[-1]


async def test_the_model_that_answers_is_stored_by_name(tmp_path: Path, server: OpenAIServer) -> None:
    made = provider(server)
    async with swarm(tmp_path, providers=OneProvider(made)) as s:
        await s.ask("alpha", "hello")
        assert await values(s, "SELECT DISTINCT model FROM request UNION SELECT model FROM calibration") == [
            ("qwen-0.5b.gguf",)
        ]
        assert (await s.api.mysis("alpha")).answered_by == "qwen-0.5b.gguf"
    async with swarm(tmp_path, providers=OneProvider(made)) as s:
        assert (await s.api.mysis("alpha")).answered_by == "qwen-0.5b.gguf"
    await made.close()


async def test_the_row_says_how_much_of_the_prompt_is_read(tmp_path: Path, server: OpenAIServer) -> None:
    rest = tuple(frames(Say("Done."), {"model": "", "messages": [], "stream_options": {}}))
    server.script.append(Say(raw=(progress_chunk(141, 305), *rest), stall_after=1))
    made = provider(server)
    async with swarm(tmp_path, providers=OneProvider(made)) as s:
        await s.tell("alpha", "hello")
        row = s.commander.swarm.live_view.rows()[0]
        await until(lambda: row.reading is not None)
        assert describe_status(row.freeze(), 0) == "working (reading 46 %)"
    await made.close()


async def test_a_retry_stands_in_the_conversation_the_events_and_the_log(
    tmp_path: Path, server: OpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.script.append(Fail.error(500, "overloaded"))
    settings = Settings.model_validate({"llm": {"backoff_first": 0.01, "backoff_max": 0.01}})
    made = provider(server)
    async with swarm(tmp_path, providers=OneProvider(made), settings=settings) as s:
        await s.tell("alpha", "hello")
        await s.settled_in_time("alpha")
        kind = await s.value("SELECT kind FROM turn_note")
        content = await s.value("SELECT content FROM turn_note")
        told = await s.value("SELECT data FROM event WHERE kind = 'request.retried'")
    await made.close()
    assert kind == "attempt 2"
    assert content.startswith("near answered 500: overloaded")
    assert "Attempt 2 of" in content
    assert '"attempt":2' in told.replace(" ", "")
    assert any("the request of mysis #1 failed (attempt 1)" in line for line in caplog.messages)
    assert not any("Attempt 2 of" in str(chat.json) for chat in server.chats)


async def test_several_attempts_at_one_request_are_told_once_with_their_number(
    tmp_path: Path, server: OpenAIServer
) -> None:
    server.script += [Fail.error(503, "Overloaded.")] * 3
    settings = Settings.model_validate({"llm": {"backoff_first": 0.01, "backoff_max": 0.01}})
    made = provider(server)
    async with swarm(tmp_path, providers=OneProvider(made), settings=settings) as s:
        await s.tell("alpha", "hello")
        await s.settled_in_time("alpha")
        [turn] = read_newest(s.path, 1).turns
        lines = [line.text for line in read_log_lines(s.path, read_line_ids(s.path))]
        every = read_log_lines(s.path, read_line_ids(s.path, with_requests=True))
    await made.close()
    assert [(note.kind, note.content.split(" Attempt")[0]) for note in turn.notes] == [
        ("attempt 4", "near answered 503: Overloaded.")
    ]
    assert [line for line in lines if "request failed" in line] == [
        line.text for line in every if "attempt 2 of" in line.text
    ]
    assert sum("request failed" in line.text for line in every) == 3


def parameters(count: float) -> list[dict[str, Any]]:
    """The models of a llama.cpp that serves one of that size."""
    return [{**LISTED, "id": "model.gguf", "meta": {**LISTED["meta"], "n_params": int(count)}}]


async def _first_request(
    tmp_path: Path, server: OpenAIServer, made: Provider, policy: ToolPolicy, mode: ToolMode
) -> dict[str, Any]:
    near = {"type": "openai", "base_url": server.base_url, "tool_mode": mode}
    chosen = {"swarm": {"default_provider": "near"}, "provider": {"near": near}}
    settings = Settings.model_validate(chosen)
    async with swarm(tmp_path, providers=OneProvider(made), policy=policy, settings=settings) as s:
        await s.ask("alpha", "look north")
        tokens = await s.value("SELECT frozen ->> 'tools_tokens' FROM turn")
        shown = sum(tool.tokens for tool in inspect_request(s.path, 1).tools)
    await made.close()
    return {**server.chats[0].json, "tools_tokens": int(tokens), "shown_tokens": shown}


@pytest.mark.parametrize(
    ("count", "window", "mode", "show", "is_signed"),
    [
        (494e6, 32_768, ToolMode.AUTO, ToolShow.AUTO, True),
        (494e6, 32_768, ToolMode.JSON_SCHEMA, ToolShow.AUTO, True),
        (494e6, 32_768, ToolMode.NATIVE, ToolShow.AUTO, False),
        (494e6, 32_768, ToolMode.AUTO, ToolShow.ALL, False),
        (8e9, 32_768, ToolMode.AUTO, ToolShow.AUTO, False),
        (8e9, 2_048, ToolMode.AUTO, ToolShow.AUTO, True),  # the schemas are over a fifth
        (8e9, 2_048, ToolMode.NATIVE, ToolShow.AUTO, False),
    ],
)
async def test_tools_are_one_line_each_for_small_models_and_where_schemas_are_large(
    tmp_path: Path, server: OpenAIServer, count: float, window: int, mode: ToolMode, show: ToolShow, is_signed: bool
) -> None:
    server.models, server.props = parameters(count), {**PROPS, "default_generation_settings": {"n_ctx": window}}
    server.otherwise = lambda _: Say("Done.")
    policy = ToolPolicy(show=show, own=OwnTools.SLIM)
    sent = await _first_request(tmp_path, server, provider(server, mode), policy, mode)
    assert ("- look(text): Looks." in sent["messages"][0]["content"]) is is_signed
    if is_signed:
        options = sent["response_format"]["json_schema"]["schema"]["anyOf"]
        (look,) = [one for one in options if one["properties"].get("name") == {"const": "look"}]
        assert look["properties"]["arguments"]["properties"]["text"]["type"] == "string"
        assert look["properties"]["arguments"]["required"] == ["text"]
        assert sent["shown_tokens"] < sent["tools_tokens"] < 400
        assert "zoea_find_tools" not in str(sent)


async def test_a_message_goes_to_a_mysis_that_is_there(tmp_path: Path, server: OpenAIServer) -> None:
    server.models = parameters(494e6)
    server.script.append(Say('{"next": "n", "name": "zoea_send_message", "arguments": {"mysis": "bob", "text": "hi"}}'))
    server.otherwise = lambda _: Say('{"next": "answer", "answer": "Done."}')
    made = provider(server)
    async with swarm(tmp_path, providers=OneProvider(made), policy=AUTO, settings=NAMED) as s:
        await s.create("alpha", "bob", "cleo")
        await s.commander.send("alpha", "tell bob hi")
        await s.settled_in_time("alpha")
        assert await values(s, "SELECT content FROM message WHERE sender_id IS NOT NULL") == [("hi",)]
    await made.close()
    options = server.chats[0].json["response_format"]["json_schema"]["schema"]["anyOf"]
    (send,) = [one for one in options if one["properties"].get("name") == {"const": "zoea_send_message"}]
    assert send["properties"]["arguments"]["properties"]["mysis"] == {"enum": ["bob", "cleo"]}
    assert "Tell mara that the list is ready." in server.chats[0].json["messages"][0]["content"]
    assert "bob" not in server.chats[0].json["messages"][0]["content"]


async def test_the_error_of_a_call_shows_how_the_tool_is_called(tmp_path: Path, server: OpenAIServer) -> None:
    server.models = parameters(494e6)
    server.script.append(Say('{"next": "n", "name": "look", "arguments": {"where": "north"}}'))
    server.otherwise = lambda _: Say('{"next": "answer", "answer": "Done."}')
    made = provider(server)
    async with swarm(tmp_path, providers=OneProvider(made), policy=AUTO, settings=NAMED) as s:
        await s.tell("alpha", "look north")
        await s.settled_in_time("alpha")
    await made.close()
    assert 'It is called so: look(text), for example {"text": "The list is ready."}' in str(server.chats[1].json)
