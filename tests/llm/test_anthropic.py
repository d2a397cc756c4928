"""Anthropic: signed thinking goes back unchanged, the prompt is cached, refusals are handled."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest

from tests.case_tables import walk_cases
from tests.fakes.anthropic_server import AnthropicServer, Fail, Say, Text, Thinking, Use, count_marks, signature
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
from zoea.llm.providers.anthropic_request import body_of, thinking_of
from zoea.llm.providers.anthropic_stream import MessageStreamDecoder
from zoea.model.enums import ErrorClass, Finish
from zoea.model.errors import ProviderError
from zoea.model.ports import Provider
from zoea.model.request import Answer, AnswerCall, Delta, ModelRequest, RequestMessage
from zoea.model.values import Native, Usage

PLAIN = ProviderConfig("anthropic", model="claude-reef-1")
LOOK = Say((Thinking("I must look."), Text("I look."), Use("scan", '{"sector": "a"}')))


def body(
    asked: ModelRequest, config: ProviderConfig = PLAIN, *traits: Trait, without_thinking: bool = False
) -> dict[str, Any]:
    return body_of(asked, config, provider="reefnet", traits=frozenset(traits), without_thinking=without_thinking)


def replayed(said: Answer, id: str = "c1") -> RequestMessage:
    """The answer as the next request of the turn holds it: with Zoea's own call ids."""
    calls = [call(f"{id}{index}", one.name, one.arguments) for index, one in enumerate(said.calls)]
    return assistant(said.text, *calls, reasoning=said.reasoning, native=said.native)


def test_roles_alternate_and_results_stand_first_in_the_users_message() -> None:
    sent = body(
        request(
            system("One."), system("Two."), assistant("Earlier."), assistant("", call()), result(), user("a"), user("b")
        )
    )
    assert sent["system"][0]["text"] == "One.\n\nTwo."
    assert [one["role"] for one in sent["messages"]] == ["user", "assistant", "user"]
    assert [block["type"] for block in sent["messages"][1]["content"]] == ["text", "tool_use"]
    assert [block["type"] for block in sent["messages"][2]["content"]] == ["tool_result", "text", "text"]


def test_a_failed_result_is_marked() -> None:
    sent = body(request(user(), assistant("", call()), result("lost", is_error=True)))
    block = sent["messages"][-1]["content"][0]
    assert (block["tool_use_id"], block["content"], block["is_error"]) == ("c1", "lost", True)


def test_the_system_text_after_the_tools_and_the_newest_message_are_marked_for_the_cache() -> None:
    sent = body(request(system(), user(), assistant("", call()), result(), tools=(SCAN, SCAN)))
    assert count_marks(sent) == 2
    assert "cache_control" in sent["system"][0]
    assert "cache_control" in sent["messages"][-1]["content"][-1]


def test_without_a_system_text_the_tools_are_marked() -> None:
    sent = body(request(user(), tools=(SCAN, SCAN)))
    assert "cache_control" in sent["tools"][-1]


def test_the_ends_that_the_planner_names_are_marked_with_at_most_four_marks_in_all() -> None:
    messages = (system(), user("old"), assistant("", call()), result(), assistant("done"), user("new"))
    later = (*messages, assistant("", call()), result())
    sent = body(request(*later, tools=(SCAN,), cache_ends=(5, 6)))
    assert count_marks(sent) == 4
    marked = [
        (place, number)
        for place, message in enumerate(sent["messages"])
        for number, block in enumerate(message["content"])
        if "cache_control" in block
    ]
    assert marked == [(3, 0), (4, 0), (6, 0)]


@walk_cases(
    ("setting", "sent"),
    [
        (None, {}),
        (False, {"thinking": {"type": "disabled"}}),
        ("off", {"thinking": {"type": "disabled"}}),
        (True, {"thinking": {"type": "adaptive"}}),
        ("high", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
        ("between_tools", {"thinking": {"type": "between_tools"}}),
        (2000, {"thinking": {"type": "enabled", "budget_tokens": 2000}}),
        (9000, {"thinking": {"type": "enabled", "budget_tokens": 3072}}),
    ],
)
def test_the_thinking_setting_is_sent(setting: bool | int | str | None, sent: dict[str, Any]) -> None:
    assert thinking_of(setting, 4096) == sent


def test_thinking_without_room_for_it_is_not_requested() -> None:
    assert thinking_of(2000, 1500) == {}


def test_a_temperature_is_not_sent_beside_thinking_nor_where_it_was_refused() -> None:
    asked = request(temperature=0.3)
    assert body(asked)["temperature"] == 0.3
    assert "temperature" not in body(asked, ProviderConfig("anthropic", thinking=True))
    assert "temperature" not in body(asked, PLAIN, Trait.NO_TEMPERATURE)
    assert body(asked, ProviderConfig("anthropic", thinking=False))["temperature"] == 0.3


def test_options_are_merged_in() -> None:
    config = ProviderConfig("anthropic", options={"service_tier": "auto"})
    assert body(request(options={"metadata": {}}), config)["service_tier"] == "auto"


def test_signed_blocks_of_a_compacted_message_still_stand_first() -> None:
    blocks = json.dumps([{"type": "thinking", "thinking": "t", "signature": "s"}, {"type": "text", "text": "long"}])
    native = Native("reefnet", "reef-1", blocks)
    sent = body(request(user(), assistant("cut", call(), native=native), result()))["messages"][1]["content"]
    assert [block["type"] for block in sent] == ["thinking", "text", "tool_use"]
    assert sent[1]["text"] == "cut"


def test_blocks_of_another_model_are_left_out() -> None:
    native = Native("reefnet", "other", '[{"type": "thinking", "thinking": "t", "signature": "s"}]')
    sent = body(request(user(), assistant("so", native=native), user()))["messages"][1]["content"]
    assert [block["type"] for block in sent] == ["text"]


async def thinking_loop(source: Provider, server: AnthropicServer) -> Answer:
    """Two calls with thinking, then the end, as a turn makes them."""
    said: list[RequestMessage] = [system(), user()]
    for number in range(2):
        first = await answer(source, request(*said, tools=(SCAN,)))
        said.append(replayed(first, f"c{number}"))
        said += [result("ore", f"c{number}{index}") for index in range(len(first.calls))]
    return await answer(source, request(*said, tools=(SCAN,)))


async def test_a_thinking_loop_with_tools_is_accepted_with_its_signatures() -> None:
    interleaved = Say(
        (Thinking("hidden", redacted=True), Use("scan", "{}", "t1"), Thinking("and"), Use("scan", "{}", "t2"))
    )
    async with AnthropicServer(LOOK, interleaved, Say((Thinking("done"), Text("All is well.")))) as server:
        source = provider("anthropic", server.url, thinking=2000)
        last = await thinking_loop(source, server)
        await source.close()
    assert (last.text, last.reasoning) == ("All is well.", "done")
    assert len(server.chats) == 3
    sent = server.chats[2].json["messages"]
    assert sent[1]["content"][0] == {
        "type": "thinking",
        "thinking": "I must look.",
        "signature": signature("I must look."),
    }
    assert [block["type"] for block in sent[3]["content"]] == ["redacted_thinking", "tool_use", "thinking", "tool_use"]
    assert [block["id"] for block in sent[3]["content"] if block["type"] == "tool_use"] == ["c10", "c11"]


@pytest.mark.parametrize("broken", ["changed", "missing"])
async def test_a_400_that_names_thinking_is_sent_again_without_it(broken: str) -> None:
    blocks = [{"type": "thinking", "thinking": "changed", "signature": "sig-of-something-else"}, {"type": "tool_use"}]
    native = Native("reefnet", "reef-1", json.dumps(blocks)) if broken == "changed" else None
    asked = request(user(), assistant("", call(), native=native), result())
    async with AnthropicServer() as server:
        source = provider("anthropic", server.url, thinking=2000)
        assert (await answer(source, asked)).text == "All is well on the reef."
        first, second = (chat.json for chat in server.chats)
        assert "thinking" in first
        assert "thinking" not in json.dumps(second)
        await answer(source, request())
        assert "thinking" in server.chats[2].json
        await source.close()


async def test_thinking_is_not_sent_again_to_a_model_that_refused_it() -> None:
    refusal = Fail(400, "invalid_request_error", "adaptive thinking is not supported on this model")
    async with AnthropicServer(refusal) as server:
        source = provider("anthropic", server.url, thinking=True)
        await answer(source)
        await answer(source)
        await source.close()
        assert ["thinking" in chat.json for chat in server.chats] == [True, False, False]


async def test_a_refused_temperature_is_left_out_from_then_on() -> None:
    refusal = Fail(400, "invalid_request_error", "`temperature` is deprecated for this model.")
    async with AnthropicServer(refusal) as server:
        source = provider("anthropic", server.url, temperature=0.5)
        await answer(source)
        await answer(source)
        await source.close()
        assert ["temperature" in chat.json for chat in server.chats] == [True, False, False]


async def test_text_thinking_and_calls_are_streamed_and_add_up() -> None:
    async with AnthropicServer(LOOK) as server:
        source = provider("anthropic", f"{server.url}/v1/")
        found = await items(source, request(tools=(SCAN,)))
        await source.close()
    last = found[-1]
    assert isinstance(last, Answer)
    assert (last.text, last.reasoning) == ("I look.", "I must look.")
    assert last.calls == (AnswerCall("scan", '{"sector":"a"}', "toolu_01reef"),)
    assert last.finish is Finish.CALLS
    assert last.usage == Usage(442, 400, 21, write_surcharge=8)
    assert streamed(found) == Delta("I look.", "I must look.", 'scan {"sector": "a"}')


@walk_cases(
    ("step", "kind"),
    [
        (Fail(529, "overloaded_error", "Overloaded"), ErrorClass.TRANSIENT),
        (Fail(429, "rate_limit_error", "Too many tokens"), ErrorClass.TRANSIENT),
        (Fail(401, "authentication_error", "invalid x-api-key"), ErrorClass.AUTH),
        (Fail(404, "not_found_error", "model: claude-reef-9"), ErrorClass.MODEL_MISSING),
        (Fail(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"), ErrorClass.CONTEXT_LENGTH),
        (Fail(400, "invalid_request_error", "tools: wrong"), ErrorClass.BAD_REQUEST),
        (Say((Text("All is well."),), cut_after=4), ErrorClass.TRANSIENT),
        (Say((Text("All is well."),), error_after=4), ErrorClass.TRANSIENT),
        (Say((), stop="refusal"), ErrorClass.CONTENT_FILTER),
    ],
)
async def test_each_failure_has_its_error_class(step: Say | Fail, kind: ErrorClass) -> None:
    async with AnthropicServer(step) as server:
        source = provider("anthropic", server.url)
        with pytest.raises(ProviderError) as caught:
            await answer(source)
        await source.close()
    assert caught.value.kind is kind


async def test_closing_the_stream_closes_the_connection_at_once() -> None:
    async with AnthropicServer(Say((Text("All is well."),), stall_after=5)) as server:
        source = provider("anthropic", server.url)
        stream = source.stream(request())
        async with aclosing(stream):
            await anext(stream)
        async with asyncio.timeout(20):
            await server.chats[0].gone.wait()
        await source.close()


def fold(*events: dict[str, Any]) -> Answer:
    reader = MessageStreamDecoder("reefnet", "claude-reef-1")
    for event in events:
        reader.feed(f"event: x\ndata: {json.dumps(event)}\n\n".encode())
    return reader.answer()


def test_unknown_events_and_blocks_are_ignored() -> None:
    reader = MessageStreamDecoder("reefnet", "claude-reef-1")
    reader.feed(b"data: no JSON\n\ndata: 7\n\n")
    for event in (
        {"type": "new_thing"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "server_tool_use", "name": "x"}},
        {"type": "content_block_start", "index": 2, "content_block": {}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{"}},
        {"type": "content_block_delta", "index": 5, "delta": {"type": "new_delta", "text": "lost"}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "so"}},
        {"type": "message_delta", "delta": {"stop_reason": "new_reason"}},
    ):
        reader.feed(f"data: {json.dumps(event)}\n\n".encode())
    assert reader.is_complete
    assert (reader.answer().text, reader.answer().finish) == ("so", Finish.UNKNOWN)


def test_an_input_that_comes_with_its_block_is_kept() -> None:
    start = {"type": "tool_use", "id": "t", "name": "scan", "input": {"sector": "b"}}
    found = fold(
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": None}},
    )
    assert found.calls[0].arguments == '{"sector":"b"}'
    assert found.usage == Usage()


def test_a_call_cut_by_the_output_limit_is_not_repaired() -> None:
    found = fold(
        {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "scan"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"a": [1'}},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
    )
    assert "the output limit was reached" in found.calls[0].broken
    assert found.finish is Finish.LENGTH


def test_an_answer_that_was_not_streamed_is_taken() -> None:
    reader = MessageStreamDecoder("reefnet", "claude-reef-1")
    content = [{"type": "text", "text": "so"}, {"type": "tool_use", "id": "t", "name": "scan", "input": {}}]
    reader.feed_whole(json.dumps({"type": "message", "content": content, "stop_reason": "tool_use"}).encode())
    assert (reader.answer().text, reader.answer().calls) == ("so", (AnswerCall("scan", "{}", "t"),))


@walk_cases(
    ("page", "kind"),
    [
        (b"<html>Sign in</html>", ErrorClass.BAD_REQUEST),
        (b"[]", ErrorClass.BAD_REQUEST),
        (b'{"type": "error", "error": {"type": "overloaded_error", "message": "x"}}', ErrorClass.TRANSIENT),
    ],
)
def test_a_web_page_instead_of_an_answer_is_an_error(page: bytes, kind: ErrorClass) -> None:
    with pytest.raises(ProviderError) as caught:
        MessageStreamDecoder("reefnet", "claude-reef-1").feed_whole(page)
    assert caught.value.kind is kind


async def test_models_and_windows_come_from_the_vendor_the_setting_or_the_table() -> None:
    async with AnthropicServer() as server:
        server.key = "reef-key"
        source = provider("anthropic", server.url, api_key="reef-key")
        assert [one.name for one in await source.models()] == ["claude-reef-1"]
        assert (await source.info("claude-reef-1")).context_window == 200_000
        assert (await source.info("claude-opus-5-5")).max_output == 128_000
        assert (await source.info("reef-9")).context_window is None
        await source.close()
        small = provider("anthropic", server.url, api_key="reef-key", context_window=5_000)
        assert (await small.info("claude-reef-1")).context_window == 5_000
        await small.close()


async def test_a_compatible_server_without_a_list_gives_no_model_details() -> None:
    async with AnthropicServer() as server:
        source = provider("anthropic", f"{server.url}/elsewhere")
        assert (await source.info("reef-9")).context_window is None
        assert (await source.info("claude-opus-5-5")).max_output == 128_000
        assert len(server.received) == 1
        await source.close()
        server.key = "reef-key"
        refused = provider("anthropic", server.url, api_key="wrong")
        with pytest.raises(ProviderError) as caught:
            await refused.info("claude-reef-1")
        assert caught.value.kind is ErrorClass.AUTH
        await refused.close()
