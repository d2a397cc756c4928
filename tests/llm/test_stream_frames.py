"""Answers and errors in every frame that servers put them in.

The forms of the shared case have their sources there (ggml-org/llama.cpp#14268, tidyverse/ellmer#338,
EricLBuehler/mistral.rs#1874, mudler/LocalAI#1609, SaladDay/cc-switch-cli#170); others stand beside theirs.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.case_tables import walk_cases
from tests.fakes.openai_server import Fail, OpenAIServer, Say
from tests.llm.sample_requests import answer, provider
from zoea.llm.providers.anthropic_stream import MessageStreamDecoder
from zoea.llm.providers.ollama_format import OllamaStreamDecoder
from zoea.llm.providers.openai_stream import ChatStreamDecoder
from zoea.llm.transport.answer_bounds import AnswerBounds
from zoea.llm.transport.event_stream import PayloadReader
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError

DONE = "data: [DONE]\n\n"
STREAM = "text/event-stream"


def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'object': 'chat.completion.chunk', 'choices': [choice]})}\n\n"


PLAIN = chunk({"content": "Fi"}) + chunk({"content": "ne."}) + chunk({}, "stop") + DONE
WHOLE = json.dumps(
    {"object": "chat.completion", "choices": [{"message": {"content": "Fine."}, "finish_reason": "stop"}]}
)
PRETTY = json.dumps(json.loads(WHOLE), indent=2)

GOOD: dict[str, tuple[str, str]] = {
    "comments and empty events": (": ping\n\n\n\n: more\n\ndata:\n\n" + PLAIN, STREAM),
    "CRLF, no blank": (PLAIN.replace("data: ", "data:").replace("\n", "\r\n"), STREAM),
    "no [DONE]": (PLAIN.replace(DONE, ""), STREAM),
    "no finish_reason": (chunk({"content": "Fine."}) + DONE, STREAM),
    "data over two lines": (PLAIN.replace('"object"', '\ndata: "object"'), STREAM),
    "text/plain": (PLAIN, "text/plain"),
    "no content type": (PLAIN, ""),
    "events under the type of a document": (PLAIN, "application/json"),
    "whole JSON": (WHOLE, "application/json; charset=utf-8"),
    "whole JSON behind a byte order mark": ("\ufeff" + WHOLE, "application/json"),
    "whole JSON as text/plain": (WHOLE, "text/plain"),
    "whole JSON as octets": (WHOLE, "application/octet-stream"),
    "whole JSON as a stream, no data:": (WHOLE, STREAM),
    "whole JSON over many lines, no data:": (PRETTY, STREAM),
    "lines of JSON, no data:": (PLAIN.replace("data: ", "").replace("\n\n", "\n"), "application/x-ndjson"),
    "byte order mark": ("\ufeff" + chunk({"content": "Fine."}) + chunk({}, "stop") + DONE, STREAM),  # vm0-ai/vm0#24687
    "null between the chunks": ("data: null\n\n" + PLAIN, STREAM),  # lidge-jun/opencodex#1219
    "a chunk cut by the next": ('data: {"id":"x","object":"chat.c' + PLAIN, STREAM),  # anomalyco/opencode#23442
    "no blank line between": (PLAIN.replace("}\n\ndata: {", "}\ndata: {"), STREAM),  # Wei-Shaw/sub2api#1471
}
BAD: dict[str, tuple[str, str, str]] = {
    "error as JSON without data:": ('{"error": {"message": "KV cache is full, slot 3"}}\n', STREAM, "KV cache is full"),
    "error as bare text in data:": ("data: Number of choices must be > 0.\n\n", STREAM, "Number of choices"),
    "event: error with bare text": ("event: error\ndata: upstream has gone\n\n", STREAM, "upstream has gone"),
    "error as text/plain": ("upstream connect error or disconnect", "text/plain", "upstream connect error"),
    "field error:": ('error: {"code": 500, "message": "slot is gone"}\n\n', STREAM, "slot is gone"),
    "raw text, as lucasjinreal/Crane#121": ("data: error: the engine has died\n\n", STREAM, "the engine has died"),
    "event: error without data, as bayesimpact/bayes-platform#639": ("event: error\nid: 1\n\n", STREAM, "no reason"),
    "type error without its event, as caidaoli/ccLoad#69": (
        'data: {"type": "ping"}\n\ndata: {"type": "error", "error": {"message": "Concurrency limit"}}\n\n',
        STREAM,
        "Concurrency limit",
    ),
    "object error, as vLLM": ('data: {"object": "error", "message": "no slot", "code": 500}\n\n', STREAM, "no slot"),
    "detail, as FastAPI": ('data: {"detail": "worker lost"}\n\n', STREAM, "worker lost"),
    "code and msg": ('{"code": 500, "msg": "worker lost", "success": false}', STREAM, "worker lost"),
    "error in the choice": (
        'data: {"choices": [{"delta": {"content": ""}, "finish_reason": "error", "error": {"message": "gone"}}]}\n\n',
        STREAM,
        "gone",
    ),
    "page under the type of a stream": ("<html><title>Sign in</title></html>", STREAM, "Sign in"),
    "error as problem+json": ('{"title": "no", "detail": "no such reef"}', "application/problem+json", "no such reef"),
}


@walk_cases("title", GOOD)
async def test_an_answer_is_read_in_any_frame(title: str) -> None:
    body, content_type = GOOD[title]
    async with OpenAIServer(Fail(200, body, {"content-type": content_type})) as server:
        source = provider("openai", server.base_url)
        assert (await answer(source)).text == "Fine."
        await source.close()


@walk_cases("title", BAD)
async def test_an_error_is_told_in_its_own_words_in_any_frame(title: str) -> None:
    body, content_type, words = BAD[title]
    async with OpenAIServer(Fail(200, body, {"content-type": content_type})) as server:
        source = provider("openai", server.base_url)
        with pytest.raises(ProviderError) as caught:
            await answer(source)
        await source.close()
    assert words in caught.value.what
    assert caught.value.kind is ErrorClass.TRANSIENT


async def test_an_error_in_words_behind_a_part_of_an_answer_is_told() -> None:
    async with OpenAIServer(Say(raw=(chunk({"content": "Fi"}).encode(), b"data: slot is gone\n\n"))) as server:
        source = provider("openai", server.base_url)
        with pytest.raises(ProviderError, match="slot is gone"):
            await answer(source)
        await source.close()


@walk_cases("size", [1, 2, 3, 7])
def test_a_byte_order_mark_may_be_cut(size: int) -> None:
    data = ("\ufeff" + PLAIN).encode()
    reader = PayloadReader(AnswerBounds("p"))
    payloads = [one for at in range(0, len(data), size) for one in reader.feed(data[at : at + size])]
    assert (len(payloads), reader.is_done) == (3, True)


def test_the_other_wires_read_frames_and_errors_as_well() -> None:
    message = {"type": "message", "model": "m", "content": [{"type": "text", "text": "Fine."}]}
    whole = MessageStreamDecoder("p", "m")
    whole.feed(b"\xef\xbb\xbf" + json.dumps(message).encode())
    whole.end()
    assert (whole.is_complete, whole.answer().text) == (True, "Fine.")
    with pytest.raises(ProviderError, match="worker lost"):
        MessageStreamDecoder("p", "m").feed(b'data: {"error": {"message": "worker lost"}}\n\n')
    line = OllamaStreamDecoder("p", "m")
    line.feed(b'\xef\xbb\xbfdata: {"message": {"content": "Fine."}, "done": true}\n')
    assert line.answer().text == "Fine."
    for decoder in (MessageStreamDecoder("p", "m"), OllamaStreamDecoder("p", "m"), ChatStreamDecoder("p", "m")):
        decoder.feed(b"upstream connect error\n\n")
        decoder.end()
        assert (decoder.is_complete, decoder.words) == (False, "upstream connect error")
