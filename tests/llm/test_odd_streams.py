"""Streams as servers really send them, each with its public source: nothing that was said or counted is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.case_tables import walk_cases
from zoea.llm.providers.anthropic_stream import MessageStreamDecoder
from zoea.llm.providers.openai_stream import ChatStreamDecoder
from zoea.llm.providers.responses_stream import ResponseStreamDecoder
from zoea.model.enums import Finish
from zoea.model.request import Answer

START = {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 15, "output_tokens": 1}}}
STOP = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}}
TOOL = {
    "type": "content_block_start",
    "index": 0,
    "content_block": {"type": "tool_use", "id": "t", "name": "dig", "input": {}},
}
CALL = {"type": "function_call", "call_id": "c", "name": "dig", "arguments": "{}"}


def read(decoder: ChatStreamDecoder | MessageStreamDecoder | ResponseStreamDecoder, *events: Any) -> Answer:
    decoder.feed("".join(f"data: {json.dumps(event)}\n\n" for event in events).encode())
    decoder.end()
    assert decoder.is_complete
    return decoder.answer()


def chat(*deltas: Any, finish: Any = "stop", **last: Any) -> Answer:
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": finish, **last}]}
    return read(ChatStreamDecoder("p", "m"), *chunks, end)


def piece(kind: str, key: str, text: str, index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": f"{kind}_delta", key: text}}


@walk_cases(
    ("said", "finish"),
    [
        ("STOP", Finish.STOP),  # QwenLM/qwen-code#9884
        ("MAX_TOKENS", Finish.LENGTH),  # Portkey-AI/gateway#1200
        ("FinishReason.MAX_TOKENS", Finish.LENGTH),  # langgenius/dify#8550
        ("SAFETY", Finish.FILTER),  # GoogleCloudPlatform/generative-ai#791
        (".", Finish.UNKNOWN),
        (5, Finish.UNKNOWN),
    ],
)
def test_the_end_has_its_meaning_in_any_case(said: Any, finish: Finish) -> None:
    assert chat({"content": "ore"}, finish=said).finish is finish


@walk_cases(
    "deltas",
    [
        # databricks/appkit#559
        [{"content": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "look first"}]}]}],
        # LionSR/TeXRA#2947, liaohch3/claude-tap#357
        [{"reasoning_details": [{"index": 0, "type": "reasoning.text", "text": text}]} for text in ("look ", "first")],
        # archestra-ai/archestra#6834: each piece holds those before it
        [{"reasoning_details": [{"text": text}]} for text in ("look", "look fi", "look first")],
        # OpenRouter tells it twice
        [{"reasoning": "look first", "reasoning_details": [{"index": 0, "text": "look first"}]}],
    ],
)
def test_thoughts_are_read_once_wherever_they_stand(deltas: list[Any]) -> None:
    answer = chat(*deltas, {"content": "ore"})
    assert (answer.text, answer.reasoning) == ("ore", "look first")


def test_the_usage_may_stand_in_the_choice() -> None:  # earendil-works/pi#2017
    usage = chat({"content": "ore"}, usage={"prompt_tokens": 5, "completion_tokens": 2}).usage
    assert (usage.input_tokens, usage.output_tokens) == (5, 2)


def test_a_report_of_no_tokens_takes_no_earlier_one_back() -> None:  # envoyproxy/ai-gateway#1631
    stop = {**STOP, "usage": {"input_tokens": 0, "output_tokens": 7}}
    usage = read(MessageStreamDecoder("p", "m"), START, piece("text", "text", "ore"), stop).usage
    assert (usage.input_tokens, usage.output_tokens) == (15, 7)
    told = {"choices": [{"delta": {"content": "ore"}}], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}
    none = {"choices": [{"finish_reason": "stop"}], "usage": {"prompt_tokens": 0, "completion_tokens": 0}}
    usage = read(ChatStreamDecoder("p", "m"), told, none).usage
    assert (usage.input_tokens, usage.output_tokens) == (5, 2)


@pytest.mark.parametrize(
    ("events", "calls"),
    [
        # BerriAI/litellm#30115, router-for-me/CLIProxyAPI#3720: no block was begun
        ([piece("thinking", "thinking", "hm"), piece("text", "text", "or", 1), piece("text", "text", "e", 1)], ()),
        # sgl-project/sglang#24293: text and thoughts for the block of a call, which goes on
        (
            [
                TOOL,
                piece("input_json", "partial_json", '{"at": '),
                piece("thinking", "thinking", "hm"),
                piece("text", "text", "or"),
                piece("text", "text", "e"),
                piece("input_json", "partial_json", "2}"),
            ],
            (("dig", '{"at":2}'),),
        ),
    ],
)
def test_a_piece_without_a_block_of_its_kind_begins_one(events: list[Any], calls: tuple[Any, ...]) -> None:
    answer = read(MessageStreamDecoder("p", "m"), START, *events, STOP)
    assert (answer.text, answer.reasoning) == ("ore", "hm")
    assert tuple((call.name, call.arguments) for call in answer.calls) == calls


def test_a_block_that_begins_later_takes_no_place_of_another() -> None:
    first = {"type": "content_block_start", "index": 5, "content_block": {"type": "text", "text": "o"}}
    late = {"type": "content_block_start", "index": 6, "content_block": {"type": "text", "text": "e"}}
    events = [first, piece("thinking", "thinking", "hm", 5), piece("text", "text", "r", 9), late]
    answer = read(MessageStreamDecoder("p", "m"), START, *events, STOP)
    assert (answer.text, answer.reasoning) == ("ore", "hm")


def test_a_signature_without_thoughts_is_left_out() -> None:
    answer = read(
        MessageStreamDecoder("p", "m"), START, piece("text", "text", "ore"), piece("signature", "signature", "x"), STOP
    )
    assert (answer.text, answer.native) == ("ore", None)


def test_a_call_that_the_end_does_not_name_is_one() -> None:  # NousResearch/hermes-agent#5758
    done = {"type": "response.output_item.done", "output_index": 0, "item": CALL}
    end = {"type": "response.completed", "response": {"status": "completed", "output": []}}
    assert read(ResponseStreamDecoder("p", "m"), done, end).finish is Finish.CALLS
