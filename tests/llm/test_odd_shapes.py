"""A body of any shape leads to an answer or a ProviderError."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.case_tables import walk_cases
from zoea.llm.messages.argument_repair import repair
from zoea.llm.messages.message_rules import strict_object
from zoea.llm.messages.think_splitter import ThinkSplitter
from zoea.llm.providers.anthropic_stream import MessageStreamDecoder
from zoea.llm.providers.http_provider import StreamDecoder
from zoea.llm.providers.ollama_format import OllamaStreamDecoder
from zoea.llm.providers.openai_stream import ChatStreamDecoder
from zoea.llm.transport.provider_errors import read_error_body, read_error_object
from zoea.llm.transport.retry_times import retry_after
from zoea.model.errors import ProviderError
from zoea.text.flat_schema import MAX_NODES, flat

ODD: tuple[Any, ...] = (None, True, 0, 1.5, "x", ["a"], [None], [[]], {}, {"a": 1}, [{"text": 5}], [{"function": "y"}])
OPENAI: list[dict[str, Any]] = [
    {
        "model": "m",
        "choices": [
            {
                "index": 0,
                "delta": {
                    "content": "hi",
                    "reasoning_content": "r",
                    "reasoning_details": [{"index": 0, "type": "t", "text": "x"}],
                },
            }
        ],
    },
    {"choices": [{"index": 0, "delta": {"content": [{"text": "a"}, {"thinking": [{"text": "b"}]}]}}]},
    {
        "choices": [
            {
                "delta": {
                    "reasoning_details": [{"index": 0, "type": "t", "text": "y"}],
                    "tool_calls": [
                        {"index": 0, "id": "a", "extra_content": {"a": 1}, "function": {"name": "f", "arguments": "{}"}}
                    ],
                }
            }
        ]
    },
    {
        "choices": [{"delta": {}, "finish_reason": "tool_calls"}],
        "usage": {
            "prompt_tokens": 1,
            "cost": 0.1,
            "prompt_tokens_details": {"cached_tokens": 1},
            "completion_tokens_details": {"reasoning_tokens": 1},
        },
    },
    {"x_groq": {"usage": {"prompt_tokens": 1}}, "error": None},
]
ANTHROPIC: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "t"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "t"}},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "hello"}},
    {"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "x", "name": "n"}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use"},
        "usage": {"output_tokens": 1, "output_tokens_details": {"thinking_tokens": 1}},
    },
    {"type": "message_stop"},
]
OLLAMA: list[dict[str, Any]] = [
    {
        "model": "m",
        "message": {
            "content": "a",
            "thinking": "b",
            "tool_calls": [{"id": "a", "function": {"name": "n", "arguments": {"a": 1}}}],
        },
        "done": False,
    },
    {"model": "m", "done": True, "done_reason": "stop", "prompt_eval_count": 1},
]
WHOLE_MESSAGE: dict[str, Any] = {
    "model": "m",
    "content": [
        {"type": "text", "text": "a"},
        {"type": "thinking", "thinking": "x", "signature": "s"},
        {"type": "tool_use", "id": "x", "name": "n", "input": {"a": 1}},
    ],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1},
}
WHOLE_CHAT: dict[str, Any] = {
    "choices": [{"message": {"content": "x", "tool_calls": [{"function": {"name": "n"}}]}, "finish_reason": "stop"}]
}


def events(sent: list[Any]) -> bytes:
    return "".join(f"data: {json.dumps(event)}\n\n" for event in sent).encode()


def lines(sent: list[Any]) -> bytes:
    return "".join(f"{json.dumps(event)}\n" for event in sent).encode()


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*at, key))


def with_odd(value: Any, at: tuple[Any, ...], odd: Any) -> Any:
    if not at:
        return odd
    copy = json.loads(json.dumps(value))
    inner = copy
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = odd
    return copy


def read(decoder: StreamDecoder, body: bytes, *, is_whole: bool = False) -> None:
    """All that a provider does with a body; what comes of it is text."""
    try:
        if is_whole:
            decoder.feed_whole(body)
        else:
            decoder.feed(body)
        decoder.end()
        answer = decoder.answer()
    except ProviderError:
        return
    texts = [answer.text, answer.reasoning, answer.model]
    for call in answer.calls:
        texts += [call.name, call.arguments, call.provider_call_id]
    assert all(isinstance(text, str) for text in texts)


@walk_cases(
    ("decoder", "sent", "as_body"),
    [
        (ChatStreamDecoder, OPENAI, events),
        (MessageStreamDecoder, ANTHROPIC, events),
        (OllamaStreamDecoder, OLLAMA, lines),
    ],
)
def test_no_field_of_a_streamed_answer_can_break_its_reader(
    decoder: Callable[[str, str], StreamDecoder], sent: list[Any], as_body: Callable[[list[Any]], bytes]
) -> None:
    for number, event in enumerate(sent):
        for at in places(event):
            for odd in ODD:
                changed = [*sent[:number], with_odd(event, at, odd), *sent[number + 1 :]]
                read(decoder("p", "m"), as_body(changed))


@pytest.mark.parametrize(("decoder", "body"), [(ChatStreamDecoder, WHOLE_CHAT), (MessageStreamDecoder, WHOLE_MESSAGE)])
def test_no_field_of_an_answer_in_one_piece_can_break_its_reader(
    decoder: Callable[[str, str], StreamDecoder], body: dict[str, Any]
) -> None:
    for at in places(body):
        for odd in ODD:
            read(decoder("p", "m"), json.dumps(with_odd(body, at, odd)).encode(), is_whole=True)


@walk_cases("decoder", [ChatStreamDecoder, MessageStreamDecoder, OllamaStreamDecoder])
def test_an_answer_nested_without_end_breaks_no_reader(decoder: Callable[[str, str], StreamDecoder]) -> None:
    deep = b"[" * 100_000
    read(decoder("p", "m"), b"data: " + deep + b"\n\n")
    read(decoder("p", "m"), deep, is_whole=True)


def test_an_odd_field_does_not_affect_the_others() -> None:
    decoder = ChatStreamDecoder("p", "m")
    decoder.feed(
        events(
            [
                {"choices": [{"delta": {"content": "hi", "tool_calls": True}}], "usage": [5]},
                {"choices": ["x", {"delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens_details": []}},
            ]
        )
    )
    assert decoder.is_complete
    assert decoder.answer().text == "hi"


def test_the_name_of_a_call_is_cut_at_the_limit() -> None:
    long = "n" * 1_000_000
    chat, message, line = ChatStreamDecoder("p", "m"), MessageStreamDecoder("p", "m"), OllamaStreamDecoder("p", "m")
    chat.feed(events([{"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"name": long}}]}}]}]))
    message.feed(events([{"type": "content_block_start", "content_block": {"type": "tool_use", "name": long}}]))
    line.feed(lines([{"message": {"tool_calls": [{"function": {"name": long}}]}, "done": True}]))
    assert [decoder.answer().calls[0].name for decoder in (chat, message, line)] == ["n" * 256] * 3


@pytest.mark.parametrize("text", ['{"a":' + "[" * 50_000 + "]" * 50_000 + "}", '{"a":' + "[" * 300 + "]" * 300 + "}"])
def test_arguments_nested_too_deeply_are_reported_to_the_model(text: str) -> None:
    assert repair(text) == (text, "the arguments are not valid JSON: it is nested too deeply")
    assert strict_object(text) is None


@pytest.mark.parametrize("text", ["{" * 2000 + "}", '{"a": ' + "{'b': " * 150 + "1 }"])
def test_broken_arguments_nested_too_deeply_are_not_repaired(text: str) -> None:
    kept, broken = repair(text)
    assert kept == text
    assert broken.startswith("the arguments are not valid JSON")


@walk_cases("text", ['{"a": 1e999}', '{"a": [-1e999]}', '"{\\"a\\": 1e999}"'])
def test_a_number_outside_the_range_of_json_is_reported_to_the_model(text: str) -> None:
    assert repair(text) == (text, "the arguments are not valid JSON: a number is beyond all bounds")


@walk_cases(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "inf"}, None),
        ({"retry-after-ms": "1e400"}, None),
        ({"retry-after-ms": "nan"}, None),
        ({"retry-after": "1e300"}, None),
        ({"retry-after": "Mon, 01 Jan 99999999999 00:00:00 GMT"}, None),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 -2359"}, None),
    ],
)
def test_an_impossible_retry_time_is_none(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, 1_700_000_000_000_000) == seconds


def test_hostile_pages_and_think_blocks_are_read_in_linear_time() -> None:
    # Each of these took from 2 s to minutes, on the loop: a timing is not asserted, the test would not end in time.
    for page in ("<script ", "<title>", "<style x", "<title", "<"):
        assert read_error_body(f"<html>{page * (60_000 // len(page))}".encode()).text.startswith("a web page")
    assert ThinkSplitter().orphan("\n \n" * 100_000 + "x</think")[1] == ""
    assert ThinkSplitter().orphan("\n \n" * 100_000 + "x\n</think>y") == ("y", "x")
    assert len(ThinkSplitter().feed("<p>hello</p>\n" * 40_000)[0]) == 520_000
    assert ThinkSplitter().feed("<think></think>" * 40_000 + "x")[0] == "x"


def test_the_text_of_a_page_has_no_scripts() -> None:
    page = b"<html><script>var a = '<p>';</script><p>gone</p><STYLE>p {}</style >away<script>never closed"
    assert read_error_body(page).text == "a web page, not an answer: gone away"
    assert (
        read_error_body(b"<html><head><title>502 Bad &amp; more</title><p>x").text
        == "a web page, not an answer: 502 Bad &amp; more"
    )
    assert read_error_object(["x"]).text == "x"


def test_a_schema_that_expands_without_limit_is_cut_off() -> None:
    level = {f"n{i}": {"properties": {key: {"$ref": f"#/$defs/n{i + 1}"} for key in "abcdefgh"}} for i in range(12)}
    made = flat({"type": "object", "properties": {"a": {"$ref": "#/$defs/n0"}}, "$defs": level})
    assert len(json.dumps(made)) < 50 * MAX_NODES
    deep: dict[str, Any] = {}
    for _ in range(3_000):
        deep = {"properties": {"a": deep}}
    assert len(json.dumps(flat(deep))) < 2_000
