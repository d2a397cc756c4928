"""Ollama's native API: the window is sent, thinking and calls are read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.case_tables import walk_cases
from tests.fakes.ollama_server import Fail, Model, OllamaServer, Say
from tests.llm.sample_requests import (
    SCAN,
    answer,
    assistant,
    call,
    items,
    provider,
    request,
    result,
    streamed,
    system,
    user,
)
from zoea.llm.model_traits import Trait
from zoea.llm.provider_config import ProviderConfig
from zoea.llm.providers.ollama_format import WINDOW, OllamaStreamDecoder, body_of, think_of
from zoea.model.enums import ErrorClass, Finish, ToolMode
from zoea.model.errors import ProviderError
from zoea.model.request import Answer, AnswerCall, Delta, ModelRequest
from zoea.model.values import Usage

PLAIN = ProviderConfig("ollama", model="reef:1b")


def ask(*said: Any, **more: Any) -> ModelRequest:
    return request(*said, model="reef:1b", **more)


def test_the_window_and_the_output_limit_are_always_sent() -> None:
    assert body_of(ask(max_output_tokens=50), PLAIN)["options"] == {"num_ctx": WINDOW, "num_predict": 50}
    config = ProviderConfig("ollama", context_window=4096)
    assert body_of(ask(), config)["options"]["num_ctx"] == 4096
    assert body_of(ask(context_window=2048), config)["options"]["num_ctx"] == 2048


def test_arguments_are_objects_and_results_name_their_tool() -> None:
    said = (system(), user(), assistant("", call(), reasoning="why"), result("lost", is_error=True))
    sent = body_of(ask(*said, tools=(SCAN,)), PLAIN)
    assert sent["messages"][2] == {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c1", "function": {"name": "scan", "arguments": {"sector": "a"}}}],
    }
    assert sent["messages"][3] == {"role": "tool", "content": "Error: lost", "tool_name": "scan", "tool_call_id": "c1"}
    assert sent["tools"][0]["function"]["name"] == "scan"


def test_thinking_goes_back_to_the_families_that_want_it() -> None:
    said = (user(), assistant("", call(), reasoning="why"), result())
    asked = request(*said, model="gpt-oss:20b")
    traits = frozenset({Trait.REASONING_BACK})
    assert body_of(asked, PLAIN, traits=traits)["messages"][1]["thinking"] == "why"
    assert "thinking" not in body_of(asked, PLAIN, traits=traits, without_thinking=True)["messages"][1]


def test_options_are_merged_with_zoeas_own() -> None:
    config = ProviderConfig("ollama", temperature=0.1, options={"keep_alive": "10m", "options": {"seed": 1}})
    sent = body_of(ask(options={"options": {"num_ctx": 99}}), config)
    assert sent["keep_alive"] == "10m"
    assert sent["options"] == {"num_ctx": 99, "num_predict": 4096, "temperature": 0.1, "seed": 1}


@walk_cases(
    ("setting", "sent"), [(True, True), (False, False), ("off", False), ("low", "low"), ("on", True), (2000, True)]
)
def test_the_thinking_setting_is_sent(setting: bool | int | str, sent: bool | str) -> None:
    assert think_of(setting) == sent
    assert body_of(ask(), ProviderConfig("ollama", thinking=setting))["think"] == sent


async def test_text_thinking_and_calls_are_streamed_and_add_up() -> None:
    step = Say("I look.", "I must look.", (("scan", {"sector": "ä"}), ("dock", {})), final_newline=False)
    async with OllamaServer(step) as server:
        source = provider("ollama", f"{server.url}/api")
        found = await items(source, ask(tools=(SCAN,)))
        await source.close()
    last = found[-1]
    assert isinstance(last, Answer)
    assert (last.text, last.reasoning, last.finish) == ("I look.", "I must look.", Finish.CALLS)
    assert last.calls == (AnswerCall("scan", '{"sector":"ä"}', "call_0reef"), AnswerCall("dock", "{}", "call_1reef"))
    assert last.usage == Usage(26, None, 9)
    assert streamed(found) == Delta("I look.", "I must look.", 'scan {"sector":"ä"}dock {}')


async def test_think_blocks_become_reasoning_and_a_full_window_is_reported() -> None:
    async with OllamaServer(Say("<think>why</think>so", reason="length", usage=False, chunk=2)) as server:
        source = provider("ollama", server.url)
        last = await answer(source, ask())
        await source.close()
    assert (last.text, last.reasoning, last.finish, last.usage) == ("so", "why", Finish.LENGTH, Usage())


async def test_a_structured_call_that_was_cut_is_broken() -> None:
    async with OllamaServer(Say('{"name": "scan", "arguments": {"amount": 3', reason="length")) as server:
        source = provider("ollama", server.url, tool_mode=ToolMode.JSON_SCHEMA)
        (cut,) = (await answer(source, ask(tools=(SCAN,)))).calls
        await source.close()
    assert (cut.name, cut.arguments) == ("scan", '{"amount": 3')
    assert "the output limit was reached" in cut.broken


async def test_a_model_without_tools_is_held_to_a_schema_instead() -> None:
    said = json.dumps({"name": "scan", "arguments": {"sector": "b"}})
    async with OllamaServer(Say(said), Say('{"answer": "done"}')) as server:
        server.models = [Model("reef:1b", capabilities=["completion"])]
        source = provider("ollama", server.url)
        first = await answer(source, ask(tools=(SCAN,)))
        assert first.calls == (AnswerCall("scan", '{"sector":"b"}'),)
        assert (await answer(source, ask(tools=(SCAN,)))).text == "done"
        assert ["format" in chat.json for chat in server.chats] == [False, True, True]
        await source.close()


async def test_a_schema_is_not_used_against_the_setting() -> None:
    async with OllamaServer() as server:
        server.models = [Model("reef:1b", capabilities=["completion"])]
        source = provider("ollama", server.url, tool_mode=ToolMode.NATIVE)
        with pytest.raises(ProviderError) as caught:
            await answer(source, ask(tools=(SCAN,)))
        assert caught.value.kind is ErrorClass.BAD_REQUEST
        await source.close()


async def test_thinking_is_not_sent_again_to_a_model_that_refused_it() -> None:
    async with OllamaServer() as server:
        server.models = [Model("reef:1b", capabilities=["completion"])]
        source = provider("ollama", server.url, thinking=True)
        await answer(source, ask())
        await answer(source, ask())
        await source.close()
        assert ["think" in chat.json for chat in server.chats] == [True, False, False]


@walk_cases(
    ("step", "kind"),
    [
        (Fail(404, "model 'x' not found"), ErrorClass.MODEL_MISSING),
        (Fail(500, "model runner has unexpectedly stopped"), ErrorClass.TRANSIENT),
        (Say("All is well.", error_after=1), ErrorClass.TRANSIENT),
        (Say("All is well.", cut_after=1), ErrorClass.TRANSIENT),
        (Say(raw=(b"no JSON\n", b"7\n")), ErrorClass.TRANSIENT),
    ],
)
async def test_each_failure_has_its_error_class(step: Say | Fail, kind: ErrorClass) -> None:
    async with OllamaServer(step) as server:
        source = provider("ollama", server.url)
        with pytest.raises(ProviderError) as caught:
            await answer(source, ask())
        await source.close()
    assert caught.value.kind is kind


def test_an_answer_in_one_piece_is_read_and_a_web_page_is_an_error() -> None:
    reader = OllamaStreamDecoder("reefnet", "reef:1b")
    reader.feed_whole(b'{"message": {"content": "so"}, "done": true}')
    assert reader.answer().text == "so"
    with pytest.raises(ProviderError):
        OllamaStreamDecoder("reefnet", "reef:1b").feed_whole(b"<html>Sign in</html>")


async def test_the_window_of_a_model_is_the_requested_one() -> None:
    async with OllamaServer() as server:
        server.models = [Model("reef:1b"), Model("tiny", 2048, ["completion"])]
        source = provider("ollama", server.url)
        found = {one.name: (one.context_window, one.tools) for one in await source.models()}
        assert found == {"reef:1b": (WINDOW, True), "tiny": (2048, False)}
        await source.close()
        wide = provider("ollama", server.url, context_window=32_768)
        assert (await wide.info("reef:1b")).context_window == 32_768
        with pytest.raises(ProviderError) as caught:
            await wide.info("absent")
        assert caught.value.kind is ErrorClass.MODEL_MISSING
        await wide.close()
