"""The provider for OpenAI-compatible servers accepts what they really send."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest

from tests.case_tables import walk_cases
from tests.fakes.llm_clock import HandClock
from tests.fakes.openai_server import NEVER, Call, Fail, OpenAIServer, Say
from tests.llm.sample_requests import SCAN, answer, assistant, call, items, provider, request, result, streamed, user
from tests.waiting import until
from zoea.llm.messages.json_schema_tools import examples
from zoea.llm.provider_config import ProviderConfig, Timeouts
from zoea.llm.providers.openai_stream import ChatStreamDecoder
from zoea.llm.registry import make
from zoea.llm.transport import cached_json
from zoea.llm.transport.cached_json import FAILED_FOR_US, LOADING_US, UNLISTED_FOR_US
from zoea.model.enums import ErrorClass, Finish, ToolMode
from zoea.model.errors import ProviderError
from zoea.model.request import Answer, AnswerCall, Delta, ModelInfo, RequestHeld, RequestSent
from zoea.model.values import Usage

LOOK = Call("scan", '{"sector": "ä7"}', "call_x")


async def say(step: Say | Fail, **config: Any) -> Answer:
    async with OpenAIServer(step) as server:
        source = provider("openai", server.base_url, **config)
        try:
            return await answer(source, request(tools=(SCAN,)))
        finally:
            await source.close()


async def refused(step: Say | Fail, **config: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await say(step, **config)
    return caught.value


async def test_text_is_streamed_and_adds_up() -> None:
    async with OpenAIServer(Say("All is well on the reef.", reasoning="I look around.")) as server:
        source = provider("openai", server.base_url)
        found = await items(source)
        await source.close()
    *_, last = found
    assert isinstance(last, Answer)
    assert (last.text, last.reasoning) == ("All is well on the reef.", "I look around.")
    assert streamed(found) == Delta(last.text, last.reasoning)
    assert len(found) > 4
    assert (last.finish, last.model) == (Finish.STOP, "reef-1")
    assert last.usage.cached_tokens == 2
    assert last.usage.input_tokens is not None


@walk_cases(
    "step",
    [
        Say(calls=(LOOK,)),
        Say(calls=(Call("scan", '{"sector": "ä7"}', "call_x", pieces=9),), split_bytes=3),
        Say(calls=(LOOK,), crlf=True, keep_alives=3, done=False),
        Say(calls=(LOOK,), final_newline=False, usage=False),
        Say(calls=(LOOK,), finish="stop"),
    ],
    ids=["plain", "cut everywhere", "crlf and comments", "no last newline", "wrong finish"],
)
async def test_a_call_comes_whole_however_its_stream_is_cut(step: Say) -> None:
    found = await say(step)
    assert found.calls == (AnswerCall("scan", '{"sector":"ä7"}', "call_x"),)
    assert found.finish is Finish.CALLS


@walk_cases(
    "step",
    [
        Say(calls=(LOOK, Call("dock", "{}", "call_y"))),
        Say(calls=(LOOK, Call("dock", "{}", "call_y")), indexes=False),
        Say(calls=(LOOK, Call("dock", "{}", "call_y")), indexes=False, ids=False),
    ],
    ids=["both", "no indexes", "neither"],
)
async def test_two_calls_stay_two_without_ids_or_indexes(step: Say) -> None:
    found = await say(step)
    assert [(one.name, one.arguments) for one in found.calls] == [("scan", '{"sector":"ä7"}'), ("dock", "{}")]


def fold(*deltas: dict[str, Any], finish: str | None = "stop", **more: Any) -> Answer:
    """The answer to these deltas, without a server."""
    reader = ChatStreamDecoder("reefnet", "reef-1")
    for delta in deltas:
        reader.feed(f"data: {json.dumps({'choices': [{'delta': delta}], **more})}\n\n".encode())
    reader.feed(f"data: {json.dumps({'choices': [{'delta': {}, 'finish_reason': finish}]})}\n\n".encode())
    reader.end()
    return reader.answer()


def piece(index: int | None = 0, id: str | None = None, **function: Any) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, "id": id, "function": function}]}


def test_calls_that_all_claim_index_0_are_told_apart_by_id() -> None:
    found = fold(piece(0, "a", name="scan", arguments="{}"), piece(0, "b", name="dock", arguments="{}"))
    assert [one.name for one in found.calls] == ["scan", "dock"]


def test_a_name_may_be_repeated_or_cut() -> None:
    found = fold(piece(0, "a", name="sc"), piece(0, name="an"), piece(0, arguments="{}"))
    assert found.calls[0].name == "scan"
    found = fold(piece(0, "a", name="scan", arguments="{"), piece(0, "a", name="scan", arguments="}"))
    assert (found.calls[0].name, found.calls[0].arguments) == ("scan", "{}")


def test_arguments_may_come_as_an_object() -> None:
    assert fold(piece(0, "a", name="scan", arguments={"sector": 1})).calls[0].arguments == '{"sector":1}'


def test_a_call_cut_by_the_output_limit_is_not_repaired() -> None:
    found = fold(piece(0, "a", name="scan", arguments='{"sectors": [1'), finish="length")
    assert "the output limit was reached" in found.calls[0].broken


def test_content_in_parts_is_read() -> None:
    found = fold(
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "why"}]},
                {"type": "text", "text": "so"},
            ]
        }
    )
    assert (found.text, found.reasoning) == ("so", "why")


def test_a_refusal_is_text() -> None:
    assert fold({"refusal": "I will not."}).text == "I will not."


def test_only_the_first_choice_counts() -> None:
    reader = ChatStreamDecoder("reefnet", "reef-1")
    reader.feed(
        b'data: {"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "yes"}}]}\n\n'
    )
    reader.feed(b'data: 7\n\ndata: {"choices": [{"index": 0, "finish_reason": "eos"}]}\n\n')
    assert reader.answer().text == "yes"


def test_reasoning_details_are_kept_to_go_back_unchanged() -> None:
    found = fold(
        {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "I ", "signature": None}]},
        {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "see", "signature": "sig"}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "x"}]},
        {"content": "so"},
    )
    assert found.native is not None
    assert (found.native.provider, found.native.model) == ("reefnet", "reef-1")
    assert [block["detail"] for block in json.loads(found.native.blocks)] == [
        {"type": "reasoning.text", "index": 0, "text": "I see", "signature": "sig"},
        {"type": "reasoning.encrypted", "index": 1, "data": "x"},
    ]


async def test_extra_content_of_a_call_is_sent_back_with_it() -> None:
    signed = {"google": {"thought_signature": "sig"}}
    async with OpenAIServer(Say(calls=(Call("scan", "{}", "x", extra=signed),)), Say("done")) as server:
        source = provider("openai", server.base_url)
        first = await answer(source, request(tools=(SCAN,)))
        await answer(source, request(user(), assistant("", call(), native=first.native), result(), tools=(SCAN,)))
        await source.close()
        assert server.chats[1].json["messages"][1]["tool_calls"][0]["extra_content"] == signed


async def test_think_blocks_become_reasoning() -> None:
    found = await say(Say("<think>\nI look.\n</think>\n\nAll is well.", chunk=3))
    assert (found.text, found.reasoning) == ("All is well.", "I look.")


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
async def test_reasoning_is_read_under_both_of_its_names(name: str) -> None:
    assert (await say(Say("so", reasoning="why", reasoning_field=name))).reasoning == "why"


async def test_missing_usage_is_unknown() -> None:
    assert (await say(Say("so", usage=False))).usage == Usage()


def test_usage_is_read_in_every_dialect() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "prompt_cache_hit_tokens": 4, "cost": 0.0021}
    assert fold({"content": "x"}, x_groq={"usage": usage}).usage == Usage(9, 4, 3, None, 2100)


async def test_bytes_that_are_no_utf8_are_replaced() -> None:
    raw = (b'data: {"choices":[{"delta":{"content":"a\xffb"},"finish_reason":"stop"}]}\n\n',)
    assert (await say(Say(raw=raw))).text == "a�b"


async def test_an_answer_that_was_not_streamed_is_taken() -> None:
    whole = {"model": "reef-2", "choices": [{"message": {"content": "All is well."}, "finish_reason": "stop"}]}
    found = await say(Fail(200, json.dumps(whole)))
    assert (found.text, found.model) == ("All is well.", "reef-2")


@walk_cases(
    ("step", "kind", "title"),
    [
        (Fail.html(502), ErrorClass.TRANSIENT, "The provider failed"),
        (Fail.html(200), ErrorClass.BAD_REQUEST, "The provider sent no answer"),
        (Fail(200, "[]"), ErrorClass.TRANSIENT, "The connection to the provider broke"),
        (Fail.error(401, "Incorrect API key provided: reef-key"), ErrorClass.AUTH, "The provider refused the key"),
        (Say("All is well.", cut_after=2), ErrorClass.TRANSIENT, "The connection to the provider broke"),
        (Say("All is well.", error_after=2), ErrorClass.TRANSIENT, "The provider failed"),
        (Say(raw=(b"data: {\n\n",)), ErrorClass.TRANSIENT, "The connection to the provider broke"),
        (Say(raw=(b"event: error\ndata: it broke\n\n",)), ErrorClass.TRANSIENT, "The provider failed"),
        (Say(finish="content_filter"), ErrorClass.CONTENT_FILTER, "The provider's content filter stopped the answer"),
    ],
    ids=["502 page", "200 page", "no object", "key", "cut", "error inside", "no JSON", "error event", "filter"],
)
async def test_each_failure_has_its_class_and_title(step: Say | Fail, kind: ErrorClass, title: str) -> None:
    error = await refused(step, api_key="reef-key")
    assert (error.kind, error.title) == (kind, title)
    assert "reef-key" not in str(error)
    assert "reefnet" in error.what


async def test_a_stream_that_breaks_after_its_last_text_is_complete() -> None:
    assert (await say(Say("All is well.", chunk=99, usage=False, cut_after=3))).text == "All is well."


async def test_a_server_that_is_not_there_is_transient_and_says_so() -> None:
    async with OpenAIServer() as server:
        url = server.base_url
    source = provider("openai", url)
    with pytest.raises(ProviderError) as caught:
        await answer(source)
    await source.close()
    assert (caught.value.kind, caught.value.title) == (ErrorClass.TRANSIENT, "The provider cannot be reached")
    assert caught.value.what.endswith("could not be reached: nothing listens at its address")


@walk_cases("url", ["localhost:1/v1", "http://[", "ftp://127.0.0.1/v1"])
async def test_an_invalid_address_is_a_bad_request(url: str) -> None:
    config = ProviderConfig("openai", model="reef-1").replace(base_url=url)
    with pytest.raises(ProviderError) as caught:
        await answer(make("reefnet", config, clock=HandClock()))
    assert (caught.value.kind, caught.value.title) == (ErrorClass.BAD_REQUEST, "The provider's address is wrong")


async def test_a_model_that_never_begins_runs_into_the_deadline_of_the_first_token() -> None:
    error = await refused(Say("x", first_after=NEVER), timeouts=Timeouts(first=0.5, between=5.0))
    assert (error.kind, error.title) == (ErrorClass.TRANSIENT, "The provider fell silent")


async def test_a_stall_between_tokens_has_its_own_deadline() -> None:
    error = await refused(Say("All is well.", stall_after=2), timeouts=Timeouts(first=5.0, between=0.1))
    assert (error.kind, error.title) == (ErrorClass.TRANSIENT, "The provider fell silent")
    assert "in mid-answer" in error.what


async def test_a_stall_after_a_late_first_token_has_the_deadline_between_tokens() -> None:
    error = await refused(
        Say("All is well.", first_after=0.3, stall_after=2), timeouts=Timeouts(first=9.0, between=0.1)
    )
    assert "in mid-answer" in error.what


async def test_closing_the_stream_closes_the_connection_at_once() -> None:
    async with OpenAIServer(Say("All is well on the reef.", stall_after=3)) as server:
        source = provider("openai", server.base_url)
        stream = source.stream(request())
        async with aclosing(stream):
            assert isinstance(await anext(stream), Delta)
        async with asyncio.timeout(20):
            await server.chats[0].gone.wait()
        await source.close()


async def test_cancelling_the_task_closes_the_connection_at_once() -> None:
    async with OpenAIServer(Say("x", first_after=NEVER)) as server:
        source = provider("openai", server.base_url)
        task = asyncio.create_task(answer(source))
        await server.requests(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(20):
            await server.chats[0].gone.wait()
        await source.close()


async def test_a_connection_is_used_again() -> None:
    async with OpenAIServer() as server:
        source = provider("openai", server.base_url)
        for _ in range(5):
            await answer(source)
        assert server.connections == 1
        await source.close()


@walk_cases(
    ("message", "gone"),
    [
        ("Unknown field: stream_options", "stream_options"),
        ("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", "max_tokens"),
        ("Unsupported value: 'temperature' does not support 0.5 with this model.", "temperature"),
    ],
)
async def test_a_refused_option_is_left_out_at_once_and_from_then_on(message: str, gone: str) -> None:
    async with OpenAIServer(Fail.error(400, message)) as server:
        source = provider("openai", server.base_url, temperature=0.5)
        await answer(source)
        await answer(source)
        await source.close()
        assert [gone in chat.json for chat in server.chats] == [True, False, False]


async def test_a_refusal_that_comes_again_is_an_error() -> None:
    refusal = Fail.error(400, "Unknown field: stream_options")
    async with OpenAIServer(refusal, refusal) as server:
        source = provider("openai", server.base_url)
        with pytest.raises(ProviderError) as caught:
            await answer(source)
        await source.close()
    assert caught.value.kind is ErrorClass.BAD_REQUEST
    assert len(server.chats) == 2


async def test_a_model_without_tools_is_held_to_a_schema_instead() -> None:
    call_text = json.dumps({"name": "scan", "arguments": {"sector": "b"}})
    async with OpenAIServer(Fail.error(400, "reef-1 does not support tools"), Say(call_text)) as server:
        source = provider("openai", server.base_url)
        found = await items(source, request(tools=(SCAN,)))
        last = found[-1]
        assert isinstance(last, Answer)
        assert last.calls == (AnswerCall("scan", '{"sector":"b"}'),)
        assert (last.text, last.finish) == ("", Finish.CALLS)
        assert streamed(found) == Delta(call=call_text)
        assert server.chats[1].json["response_format"]["type"] == "json_schema"
        assert (await source.info("reef-1")).tools is False
        await source.close()


async def test_a_structured_answer_may_be_text() -> None:
    found = await say(Say('{"answer": "All is well."}'), tool_mode=ToolMode.JSON_SCHEMA)
    assert (found.text, found.calls, found.finish) == ("All is well.", (), Finish.STOP)


@pytest.mark.parametrize(
    ("cut", "text", "finish"), [('{"answer": "All is', "All is", Finish.LENGTH), ('{"ans', "", Finish.LENGTH)]
)
async def test_a_structured_answer_that_was_cut_shows_no_json(cut: str, text: str, finish: Finish) -> None:
    found = await say(Say(cut, finish="length"), tool_mode=ToolMode.JSON_SCHEMA)
    assert (found.text, found.calls, found.finish) == (text, (), finish)


async def test_a_structured_call_that_was_cut_is_broken() -> None:
    found = await say(Say('{"name": "scan", "arguments": {"se', finish="length"), tool_mode=ToolMode.JSON_SCHEMA)
    assert (found.text, found.calls[0].name, found.finish) == ("", "scan", Finish.CALLS)
    assert "the output limit was reached" in found.calls[0].broken


async def test_a_400_that_names_thinking_is_sent_again_without_it() -> None:
    refusal = Fail.error(400, "reasoning_content is not allowed here")
    async with OpenAIServer(refusal, Say("done")) as server:
        source = provider("openai", server.base_url, model="deepseek-chat", thinking="low")
        said = (user(), assistant("", call(), reasoning="why"), result())
        assert (await answer(source, request(*said, model="deepseek-chat"))).text == "done"
        await source.close()
        with_it, without = (json.dumps(chat.json) for chat in server.chats)
    assert "why" in with_it
    assert "reasoning_effort" in with_it
    assert "why" not in without
    assert "reasoning_effort" not in without


async def test_the_key_and_the_configured_headers_are_sent() -> None:
    async with OpenAIServer() as server:
        server.key = "reef-key"
        source = provider("openai", server.base_url, api_key="reef-key", headers={"x-title": "Zoea"})
        await answer(source)
        assert server.chats[0].headers["x-title"] == "Zoea"
        await source.close()
        assert "reef-key" not in repr(ProviderConfig("openai", api_key="reef-key"))


async def test_models_are_listed_with_the_details_of_their_server() -> None:
    async with OpenAIServer() as server:
        router: dict[str, Any] = {"id": "router", "context_length": 9, "supported_parameters": ["tools"]}
        router["top_provider"] = {"max_completion_tokens": 3}
        server.models = [
            {"id": "plain"},
            {"id": "vllm", "max_model_len": 4096},
            router,
            {"id": "studio", "max_context_length": 100, "loaded_context_length": 50, "capabilities": ["chat"]},
        ]  # fmt: skip
        source = provider("openai", server.base_url)
        found = {one.name: (one.context_window, one.max_output, one.tools) for one in await source.models()}
        assert found == {
            "plain": (None, None, None),
            "vllm": (4096, None, None),
            "router": (9, 3, True),
            "studio": (50, None, False),
        }
        await source.close()


async def test_the_window_of_a_llama_cpp_server_is_the_one_it_runs_with() -> None:
    async with OpenAIServer() as server:
        server.models = [{"id": "reef.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 131072}}]
        server.props = {"default_generation_settings": {"n_ctx": 16384}}
        source = provider("openai", server.base_url)
        assert (await source.info("reef.gguf")).context_window == 16384
        await source.close()


@walk_cases("props", [None, {}, {"default_generation_settings": {"n_ctx": "many"}}])
async def test_an_unreported_window_is_unknown(props: dict[str, Any] | None) -> None:
    async with OpenAIServer() as server:
        server.models = [{"id": "reef.gguf", "owned_by": "llamacpp"}]
        server.props = props
        source = provider("openai", server.base_url)
        assert (await source.info("reef.gguf")).context_window is None
        assert (await source.info("gpt-4o")).context_window == 128_000
        await source.close()


async def test_the_setting_wins_over_the_server() -> None:
    async with OpenAIServer() as server:
        source = provider("openai", server.base_url, context_window=2048)
        assert (await source.info("gpt-4o")).context_window == 2048
        await source.close()


async def test_a_refused_or_unreadable_list_is_an_error() -> None:
    async with OpenAIServer() as server:
        server.key = "reef-key"
        source = provider("openai", server.base_url)
        with pytest.raises(ProviderError) as caught:
            await source.models()
        assert caught.value.kind is ErrorClass.AUTH
        await source.close()


async def test_a_swarm_that_asks_for_a_window_at_once_asks_the_server_once() -> None:
    async with OpenAIServer() as server:
        source = provider("openai", server.base_url)
        await asyncio.gather(*(source.info("reef-1") for _ in range(50)))
        assert len(server.received) == 1
        await source.close()


async def test_a_failed_list_is_not_requested_again_by_each_caller() -> None:
    async with OpenAIServer() as server:
        server.key = "reef-key"
        source = provider("openai", server.base_url)
        found = await asyncio.gather(*(source.info("reef-1") for _ in range(50)), return_exceptions=True)
        assert all(isinstance(one, ProviderError) and one.kind is ErrorClass.AUTH for one in found)
        assert len(server.received) == 1
        await source.close()


@walk_cases(
    "page",
    [
        Fail.error(404, "Not Found"),
        Fail(405),
        Fail.error(501, "Not Implemented"),
        Fail.error(403, "Missing scopes"),
        Fail.html(404),
        Fail.html(200),
        Fail(200, "7"),
        Fail(200, '{"data": "none"}'),
    ],
    ids=["404", "405", "501", "403", "404 page", "200 page", "a number", "no list"],
)
async def test_a_server_without_a_list_gives_no_model_details(page: Fail) -> None:
    async with OpenAIServer() as server:
        server.list_fails = page
        source = provider("openai", server.base_url)
        assert await source.info("reef-1") == ModelInfo("reef-1")
        assert (await source.info("gpt-4o")).context_window == 128_000
        assert len(server.received) == 1
        await source.close()


async def test_a_server_that_is_not_there_or_not_ready_may_be_asked_again() -> None:
    async with OpenAIServer() as server:
        url = server.base_url
    gone = provider("openai", url)
    with pytest.raises(ProviderError) as caught:
        await gone.info("reef-1")
    await gone.close()
    assert caught.value.kind is ErrorClass.TRANSIENT
    async with OpenAIServer() as server:
        clock = HandClock()
        server.models = [{"id": "reef-1", "max_model_len": 4096}]
        server.list_fails = Fail.error(503, "Overloaded")
        source = make("reefnet", ProviderConfig("openai", base_url=server.base_url), clock=clock)
        with pytest.raises(ProviderError) as caught:
            await source.info("reef-1")
        assert caught.value.kind is ErrorClass.TRANSIENT
        server.list_fails = None
        clock.by(FAILED_FOR_US / 1e6)
        assert (await source.info("reef-1")).context_window == 4096
        await source.close()


async def test_a_missing_list_is_looked_for_again_later() -> None:
    async with OpenAIServer() as server:
        clock = HandClock()
        server.models = [{"id": "reef-1", "max_model_len": 4096}]
        server.list_fails = Fail.html(404)
        source = make("reefnet", ProviderConfig("openai", base_url=server.base_url), clock=clock)
        assert (await source.info("reef-1")).context_window is None
        server.list_fails = None
        clock.by(FAILED_FOR_US / 1e6)
        assert (await source.info("reef-1")).context_window is None
        clock.by(UNLISTED_FOR_US / 1e6)
        assert (await source.info("reef-1")).context_window == 4096
        await source.close()


async def test_a_list_that_never_comes_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_json, "DOCUMENT_S", 0.5)
    async with OpenAIServer() as server:
        server.list_after = NEVER
        source = provider("openai", server.base_url)
        with pytest.raises(ProviderError) as caught:
            await source.info("reef-1")
        assert (caught.value.kind, caught.value.title) == (ErrorClass.TRANSIENT, "The provider fell silent")
        await source.close()


def llamacpp(server: OpenAIServer, caps: Any) -> None:
    server.models = [{"id": "reef.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 131072}}]
    server.props = {"default_generation_settings": {"n_ctx": 16384}, "chat_template_caps": caps}


async def test_a_llama_cpp_that_would_drop_tools_is_held_to_a_schema_from_the_first_request_on() -> None:
    async with OpenAIServer(otherwise=lambda _: Say('{"answer": "done"}')) as server:
        llamacpp(server, {"supports_tools": False})
        source = provider("openai", server.base_url)
        asked = request(tools=(SCAN,), model="whatever it is called")
        found = await asyncio.gather(*(answer(source, asked) for _ in range(5)))
        assert {one.text for one in found} == {"done"}
        assert all("tools" not in chat.json and "response_format" in chat.json for chat in server.chats)
        assert sum(one.path == "/props" for one in server.received) == 1
        told = await source.info("whatever it is called")
        assert (told.context_window, told.tools) == (16384, False)
        await source.close()


@walk_cases("caps", [{"supports_tools": True}, {}, None, {"supports_tools": "perhaps"}])
async def test_a_llama_cpp_that_supports_tools_or_does_not_say_gets_them(caps: Any) -> None:
    async with OpenAIServer() as server:
        llamacpp(server, caps)
        source = provider("openai", server.base_url)
        assert (await answer(source, request(tools=(SCAN,)))).calls
        assert "tools" in server.chats[0].json
        await source.close()


@walk_cases(("parameters", "is_held"), [(1_777_088_000, True), (8_030_000_000, False), ("many", False)])
async def test_a_small_model_of_a_llama_cpp_is_held_to_a_schema_though_its_template_has_tools(
    parameters: Any, is_held: bool
) -> None:
    async with OpenAIServer(otherwise=lambda _: Say('{"answer": "done"}')) as server:
        llamacpp(server, {"supports_tools": True})
        server.models[0]["meta"]["n_params"] = parameters
        source = provider("openai", server.base_url)
        await answer(source, request(tools=(SCAN,)))
        sent = server.chats[0].json
        assert ("response_format" in sent, "tools" in sent) == (is_held, not is_held)
        assert ("\n".join(examples((SCAN,))) in sent["messages"][0]["content"]) == is_held
        assert (await source.info("reef.gguf")).tools is True
        await source.close()


@pytest.mark.parametrize("mode", [ToolMode.NATIVE, ToolMode.JSON_SCHEMA])
async def test_no_list_is_requested_if_the_setting_decides(mode: ToolMode) -> None:
    async with OpenAIServer(Say('{"answer": "done"}')) as server:
        llamacpp(server, {"supports_tools": False})
        source = provider("openai", server.base_url, tool_mode=mode)
        await answer(source, request(tools=(SCAN,)))
        assert ["tools" in one.json for one in server.received] == [mode is ToolMode.NATIVE]
        await source.close()


@pytest.mark.parametrize("message", ["Loading model", "Model reef-1 is currently loading"])
async def test_a_server_that_loads_its_model_is_waited_for(message: str) -> None:
    async with OpenAIServer(otherwise=lambda _: Say("x")) as server:
        clock = HandClock()
        server.models = [{"id": "reef-1", "max_model_len": 4096}]
        server.list_fails = Fail.error(503, message)
        server.script.extend([Fail.error(503, message), Fail.error(503, message), Say("Ready.")])
        source = make("reefnet", ProviderConfig("openai", base_url=server.base_url, concurrency=1), clock=clock)
        asking = asyncio.create_task(source.info("reef-1"))
        await until(lambda: clock.is_awaited)
        server.list_fails = None
        clock.by(1)
        assert (await asking).context_window == 4096
        found = []
        async for item in source.stream(request()):
            found.append(item)
            if isinstance(item, RequestHeld):
                assert item.loads
                asyncio.get_running_loop().call_soon(clock.by, 1)
        assert sum(isinstance(item, RequestHeld) for item in found) == 2
        assert isinstance(found[-1], Answer)
        assert found[-1].text == "Ready."
        await source.close()


async def test_a_server_that_never_ends_loading_is_given_up() -> None:
    async with OpenAIServer() as server:
        clock = HandClock()
        server.list_fails = Fail.error(503, "Loading model")
        source = make("reefnet", ProviderConfig("openai", base_url=server.base_url), clock=clock)
        asking = asyncio.create_task(source.info("reef-1"))
        await until(lambda: clock.is_awaited)
        clock.by(LOADING_US / 1e6)
        with pytest.raises(ProviderError) as caught:
            await asking
        assert caught.value.title == "The server is still loading its model"
        await source.close()


async def test_a_list_that_fails_keeps_no_request_back() -> None:
    async with OpenAIServer() as server:
        server.list_fails = Fail.error(503, "busy")
        source = provider("openai", server.base_url)
        assert (await answer(source, request(tools=(SCAN,)))).calls
        await source.close()


@pytest.mark.parametrize("status", [503, 529])
async def test_an_overloaded_server_with_a_time_closes_the_gate(status: int) -> None:
    async with OpenAIServer(otherwise=lambda _: Say("x")) as server:
        server.outage(60, status=status, retry_after="0.3")
        source = provider("openai", server.base_url, concurrency=4)
        with pytest.raises(ProviderError) as caught:
            await answer(source)
        assert caught.value.retry_after == 0.3
        server.outage(0)
        found = await items(source)
        assert isinstance(found[0], RequestHeld)
        assert found[0].until is not None
        assert found.index(RequestSent()) == sum(isinstance(item, RequestHeld) for item in found)
        assert isinstance(found[-1], Answer)
        await source.close()


LAST = b'data: {"choices":[{"delta":{"content":"All is well."},"finish_reason":"stop"}]}'


async def test_a_server_that_keeps_its_stream_open_after_the_end_does_not_delay_the_answer() -> None:
    step = Say(raw=(LAST + b"\n\n", b"data: [DONE]\n\n", b": more\n\n"), stall_after=2)
    async with OpenAIServer(step) as server:
        source = provider("openai", server.base_url)
        async with asyncio.timeout(20):
            assert (await answer(source)).text == "All is well."
            await server.chats[0].gone.wait()
        await source.close()


async def test_text_in_a_last_line_without_its_end_is_streamed_too() -> None:
    async with OpenAIServer(Say(raw=(LAST,))) as server:
        source = provider("openai", server.base_url)
        found = await items(source)
        await source.close()
    assert streamed(found) == Delta("All is well.")
    assert isinstance(found[-1], Answer)


async def test_closing_the_provider_leaves_no_connection_when_its_streams_have_ended() -> None:
    async with OpenAIServer(Say("All is well on the reef.")) as server:
        source = provider("openai", server.base_url)
        stream = source.stream(request())
        async with aclosing(stream):
            await anext(stream)
            await source.close()
            rest = [item async for item in stream]
        assert isinstance(rest[-1], Answer)
        async with asyncio.timeout(20):
            await server.chats[0].gone.wait()
