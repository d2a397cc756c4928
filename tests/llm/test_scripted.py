"""The scripted provider: deterministic, streamed, blockable, and able to fail."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.case_tables import walk_cases
from zoea.llm.providers.scripted import ScriptedProvider
from zoea.llm.providers.scripts import SCRIPTS, arguments_for
from zoea.model.enums import ErrorClass, Finish, Role
from zoea.model.errors import ProviderError
from zoea.model.ports import Provider
from zoea.model.request import (
    Answer,
    AnswerCall,
    Delta,
    ModelRequest,
    RequestCall,
    RequestMessage,
    StreamItem,
    ToolSpec,
)
from zoea.model.values import Usage


def tool(name: str = "get_status", schema: dict[str, Any] | None = None, *, asks: bool = False) -> ToolSpec:
    return ToolSpec(name, f"{name} tool", schema or {"type": "object", "properties": {}}, asks=asks)


def asked(
    prompt: str, model: str = "tools", tools: tuple[ToolSpec, ...] = (tool(),), *results: str, call_id: str = "c1"
) -> ModelRequest:
    messages = [RequestMessage(Role.SYSTEM, "You are a test."), RequestMessage(Role.USER, prompt)]
    for result in results:
        messages.append(RequestMessage(Role.ASSISTANT, "", calls=(RequestCall(call_id, "get_status", "{}"),)))
        messages.append(RequestMessage(Role.TOOL, result, call_id=call_id, name="get_status"))
    return ModelRequest(model, tuple(messages), tools)


async def items(provider: ScriptedProvider, request: ModelRequest) -> list[StreamItem]:
    return [item async for item in provider.stream(request)]


async def answer(request: ModelRequest, provider: ScriptedProvider | None = None) -> Answer:
    last = (await items(provider or ScriptedProvider(), request))[-1]
    assert isinstance(last, Answer)
    return last


def is_provider(provider: Provider) -> Provider:
    return provider


async def test_it_is_a_provider_with_the_kind_scripted() -> None:
    provider = is_provider(ScriptedProvider())
    assert (provider.kind, provider.metered) == ("scripted", False)
    assert {model.name for model in await provider.models()} == set(SCRIPTS)


async def test_a_new_prompt_gets_one_call_of_an_offered_tool() -> None:
    said = await answer(asked("dig"))
    assert [call.name for call in said.calls] == ["get_status"]
    assert said.finish is Finish.CALLS


async def test_after_the_result_the_answer_names_prompt_and_result() -> None:
    one, two = (
        await answer(asked("dig", "tools", (tool(),), "ore")),
        await answer(asked("dig", "tools", (tool(),), "x")),
    )
    assert one.calls == ()
    assert one.text.startswith("Answered prompt ")
    assert one.text != two.text


async def test_the_same_messages_give_the_same_answer_for_any_call_ids_and_instance() -> None:
    first = await answer(asked("dig", "tools", (tool(),), "ore", call_id="c1"))
    again = await answer(asked("dig", "tools", (tool(),), "ore", call_id="c99"))
    assert first == again


async def test_different_prompts_give_different_arguments() -> None:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    calls = {(await answer(asked(f"prompt {n}", "tools", (tool(schema=schema),)))).calls for n in range(10)}
    assert len(calls) == 10


async def test_without_tools_it_answers_in_text() -> None:
    assert (await answer(asked("dig", "tools", ()))).text.startswith("Answered prompt")


async def test_tools_with_a_number_calls_that_many_rounds() -> None:
    assert (await answer(asked("dig", "tools:2", (tool(),), "one"))).calls
    assert not (await answer(asked("dig", "tools:2", (tool(),), "one", "two"))).calls


async def test_a_prompt_can_say_which_calls_to_make() -> None:
    tools = (tool(), tool("zoea_wait"))
    said = await answer(asked('Please:\ncall zoea_wait {"seconds": 3}\ncall get_status\ncall nothing', "tools", tools))
    assert said.calls == (AnswerCall("zoea_wait", '{"seconds": 3}'), AnswerCall("get_status", "{}"))


async def test_told_calls_are_made_once() -> None:
    assert not (await answer(asked("call get_status", "tools", (tool(),), "ore"))).calls


async def test_own_tools_and_tools_that_ask_are_not_called_if_there_are_others() -> None:
    tools = (tool("zoea_send"), tool("drop_table", asks=True), tool("mine"))
    names = {(await answer(asked(f"prompt {n}", "tools", tools))).calls[0].name for n in range(20)}
    assert names == {"mine"}


async def test_parallel_makes_three_calls_in_one_message_and_then_answers() -> None:
    assert len((await answer(asked("dig", "parallel"))).calls) == 3
    assert (await answer(asked("dig", "parallel", (tool(),), "ore"))).calls == ()


async def test_loop_repeats_the_same_call_for_any_results() -> None:
    first = await answer(asked("dig", "loop"))
    later = await answer(asked("dig", "loop", (tool(),), "a", "b", "c"))
    assert first.calls == later.calls


async def test_loop_repeats_no_tool_that_the_guard_lets_repeat() -> None:
    tools = (tool("mine"), tool("get_notifications"), tool("sell"))
    assert [call.name for call in (await answer(asked("dig", "loop", tools))).calls] == ["sell"]
    assert [call.name for call in (await answer(asked("dig", "loop", tools[:1]))).calls] == ["mine"]


async def test_loop_without_tools_answers_in_text() -> None:
    assert (await answer(asked("dig", "loop", ()))).text


async def test_echo_says_the_prompt_back() -> None:
    assert (await answer(asked("hello there", "scripted:echo"))).text == "hello there"


async def test_think_reasons_before_it_speaks() -> None:
    streamed = await items(ScriptedProvider(), asked("hello", "think"))
    kinds = [bool(item.reasoning) for item in streamed if isinstance(item, Delta)]
    assert kinds == sorted(kinds, reverse=True)
    assert (await answer(asked("hello", "think"))).reasoning


async def test_the_script_empty_answers_nothing() -> None:
    assert (await answer(asked("hello", "empty"))).is_empty


async def test_the_script_broken_calls_with_invalid_arguments() -> None:
    call = (await answer(asked("hello", "broken"))).calls[0]
    assert call.broken
    with pytest.raises(json.JSONDecodeError):
        json.loads(call.arguments)
    assert not (await answer(asked("hello", "broken", (tool(),), "bad arguments"))).calls


@walk_cases("kind", list(ErrorClass))
async def test_fail_raises_the_error_class_it_names(kind: ErrorClass) -> None:
    with pytest.raises(ProviderError) as caught:
        await answer(asked("hello", f"fail:{kind}"))
    assert caught.value.kind is kind


async def test_fail_can_say_when_to_come_back() -> None:
    with pytest.raises(ProviderError) as caught:
        await answer(asked("hello", "fail:transient:1.5"))
    assert caught.value.retry_after == 1.5


async def test_fail_with_an_unknown_class_names_the_known_ones() -> None:
    with pytest.raises(ProviderError) as caught:
        await answer(asked("hello", "fail:sideways"))
    assert "transient" in caught.value.hint


async def test_an_unknown_script_is_a_missing_model_that_names_the_scripts() -> None:
    provider = ScriptedProvider()
    with pytest.raises(ProviderError) as caught:
        await answer(asked("hello", "gpt"), provider)
    assert caught.value.kind is ErrorClass.MODEL_MISSING
    assert "tools" in caught.value.hint
    with pytest.raises(ProviderError):
        await provider.info("gpt")


async def test_cut_breaks_off_after_some_text() -> None:
    stream = ScriptedProvider().stream(asked("a sentence that is cut in the middle of it", "cut"))
    assert isinstance(await anext(stream), Delta)
    assert isinstance(await anext(stream), Delta)
    with pytest.raises(ProviderError):
        await anext(stream)


async def test_an_answer_streams_in_several_deltas_that_add_up_to_it() -> None:
    text = "a text that is longer than one delta by far"
    streamed = await items(ScriptedProvider(delta_chars=5), asked(text, "echo"))
    deltas = [item for item in streamed if isinstance(item, Delta)]
    assert len(deltas) > 5
    assert "".join(delta.text for delta in deltas) == text
    assert isinstance(streamed[-1], Answer)


class RecordingClock:
    def __init__(self) -> None:
        self.time = 1_000
        self.slept: list[int] = []

    def now(self) -> int:
        return self.time

    def uptime(self) -> int:
        return self.time

    @property
    def ahead(self) -> int:
        return self.now() - self.uptime()

    def follow(self) -> int:
        return 0

    def call_after(self, delay: int, callback: Any) -> Any:
        raise AssertionError("the provider only sleeps")

    async def sleep(self, delay: int) -> None:
        self.slept.append(delay)
        self.time += delay


async def test_the_pace_is_waited_for_on_the_injected_clock() -> None:
    clock = RecordingClock()
    streamed = await items(ScriptedProvider(clock=clock, pace_s=0.5), asked("a sentence of some length", "echo"))
    assert clock.slept == [500_000] * (len(streamed) - 1)


@pytest.mark.parametrize(("model", "pace"), [("slow", 250_000), ("slow:1.5", 1_500_000)])
async def test_slow_sets_the_pace_by_its_name(model: str, pace: int) -> None:
    clock = RecordingClock()
    await items(ScriptedProvider(clock=clock), asked("dig", model))
    assert set(clock.slept) == {pace}


async def test_without_a_clock_the_pace_is_the_event_loops() -> None:
    assert len(await items(ScriptedProvider(), asked("dig", "slow:0.001"))) > 1


async def test_requests_are_recorded_up_to_a_bound() -> None:
    provider = ScriptedProvider(keeps=2)
    for n in range(3):
        await answer(asked(f"prompt {n}", "echo"), provider)
    assert [request.messages[-1].content for request in provider.requests] == ["prompt 1", "prompt 2"]
    assert provider.calls == 3


async def test_usage_is_a_quarter_of_the_characters() -> None:
    usage = (await answer(ModelRequest("echo", (RequestMessage(Role.USER, "12345678"),)))).usage
    assert (usage.input_tokens, usage.output_tokens, usage.cost_micros) == (2, 2, 0)


async def test_usage_can_be_left_unsaid_or_said_by_the_script() -> None:
    silent = ScriptedProvider(counts_usage=False)
    assert (await answer(asked("hi", "echo"), silent)).usage == Usage()
    told = ScriptedProvider(lambda _: Answer("hi", usage=Usage(input_tokens=7)))
    assert (await answer(asked("hi"), told)).usage == Usage(input_tokens=7)


async def test_rules_are_tried_in_order_and_the_built_in_script_is_the_last() -> None:
    once = [Answer("first")]
    rules = (lambda _: once.pop() if once else None, lambda r: Answer("b") if r.model == "b" else None)
    provider = ScriptedProvider(rules)
    said = [(await answer(asked("hi", model), provider)).text for model in ("b", "b", "echo")]
    assert said == ["first", "b", "hi"]


async def test_info_knows_its_scripts_and_takes_any_model_where_rules_are_given() -> None:
    assert (await ScriptedProvider(context_window=9).info("tools:3")).context_window == 9
    assert (await ScriptedProvider(lambda _: Answer("x")).info("any")).name == "any"


async def test_a_rule_can_fail() -> None:
    provider = ScriptedProvider(lambda _: ProviderError("down", kind=ErrorClass.TRANSIENT))
    with pytest.raises(ProviderError, match="down"):
        await answer(asked("hi"), provider)


async def test_a_rule_can_write_the_stream_itself_even_one_without_an_end() -> None:
    provider = ScriptedProvider(lambda _: [Delta(text="half")])
    assert await items(provider, asked("hi")) == [Delta(text="half")]


async def test_a_rule_can_write_the_stream_with_its_end() -> None:
    provider = ScriptedProvider(lambda _: [Delta(text="w"), Answer("whole")])
    assert (await answer(asked("hi"), provider)).text == "whole"


async def test_a_block_stops_one_call_until_it_is_released() -> None:
    provider = ScriptedProvider()
    block = provider.block(after=1)
    running = asyncio.create_task(answer(asked("hello", "echo"), provider))
    await block.reached.wait()
    assert provider.in_flight == 1
    assert (await answer(asked("other", "echo"), provider)).text == "other"
    block.release()
    assert (await running).text == "hello"
    assert (block.was_closed, provider.in_flight) == (False, 0)


async def test_a_block_stops_only_the_call_it_is_for() -> None:
    provider = ScriptedProvider()
    block = provider.block(after=0, when=lambda request: request.mysis == "beta")
    assert (await answer(asked("hello", "echo"), provider)).text == "hello"
    assert not block.reached.is_set()


async def test_a_block_past_the_end_stands_after_the_last_item() -> None:
    provider = ScriptedProvider()
    block = provider.block(after=100)
    running = asyncio.create_task(items(provider, asked("hello", "echo")))
    await block.reached.wait()
    block.release()
    assert isinstance((await running)[-1], Answer)


async def test_a_call_cancelled_at_its_block_says_so_and_leaves_nothing_in_flight() -> None:
    provider = ScriptedProvider()
    block = provider.block()
    running = asyncio.create_task(items(provider, asked("hello", "echo")))
    await block.reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (block.was_closed, provider.in_flight) == (True, 0)


async def test_closing_the_iterator_ends_the_call() -> None:
    provider = ScriptedProvider()
    stream: AsyncGenerator[StreamItem, None] = provider.stream(asked("hello", "echo"))
    await anext(stream)
    await stream.aclose()
    assert provider.in_flight == 0


async def test_close_is_remembered() -> None:
    provider = ScriptedProvider()
    await provider.close()
    assert provider.is_closed


@walk_cases(
    ("schema", "check"),
    [
        ({"type": "integer", "minimum": 3, "maximum": 5}, lambda v: v in (3, 4, 5)),
        ({"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 5}, lambda v: v == 4),
        ({"type": "number"}, lambda v: isinstance(v, float)),
        ({"type": "boolean"}, lambda v: isinstance(v, bool)),
        ({"type": "null"}, lambda v: v is None),
        ({"type": ["string", "null"]}, lambda v: isinstance(v, str)),
        ({"const": "gold"}, lambda v: v == "gold"),
        ({"enum": ["a", "b"]}, lambda v: v in ("a", "b")),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, lambda v: len(v) == 2),
        ({"type": "string", "minLength": 20, "maxLength": 30}, lambda v: 20 <= len(v) <= 30),
        ({"type": "string", "maxLength": 3}, lambda v: len(v) == 3),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, lambda v: isinstance(v, int)),
        ({"$ref": "#/$defs/point"}, lambda v: isinstance(v["x"], int)),
        ({"$ref": "#/$defs/nowhere"}, lambda v: isinstance(v, str)),
        ({}, lambda v: isinstance(v, str)),
    ],
)
def test_arguments_fit_the_schema(schema: dict[str, Any], check: Any) -> None:
    point = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    root = {"type": "object", "properties": {"v": schema}, "required": ["v"], "$defs": {"point": point}}
    assert check(arguments_for(root, "seed")["v"])


def test_a_schema_that_contains_itself_comes_to_an_end() -> None:
    root = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    assert arguments_for(root, "seed")


def test_a_schema_that_is_no_object_gives_no_arguments() -> None:
    assert arguments_for({"type": "string"}, "seed") == {}
