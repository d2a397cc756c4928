"""Long and dense answers of models leave the event loop to others.

They cost no more per piece than short ones.
"""

from __future__ import annotations

import asyncio
import json
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from tests.case_tables import walk_cases
from tests.fakes.wire_server import Outgoing, Received, WireServer
from tests.llm.sample_requests import answer, provider, request
from zoea.llm.providers import anthropic_stream, http_provider, ollama_format, openai_stream
from zoea.llm.providers.http_provider import StreamDecoder
from zoea.llm.transport import event_stream
from zoea.llm.transport.event_stream import FEED_BYTES
from zoea.text.large_json import LARGE_CHARS

WIRES = ("openai", "anthropic", "ollama")
PIECE = "the belt holds iron." * 50
PIECES = 3_000


def _sse(*events: dict[str, Any]) -> bytes:
    return b"".join(f"event: {one.get('type', '')}\ndata: {json.dumps(one)}\n\n".encode() for one in events)


def _anthropic_delta(kind: str, key: str, text: str) -> bytes:
    return _sse({"type": "content_block_delta", "index": 0, "delta": {"type": kind, key: text}})


def _anthropic_block(**block: str) -> bytes:
    return _sse({"type": "content_block_start", "index": 0, "content_block": block})


def _openai_delta(**delta: Any) -> bytes:
    return _sse({"choices": [{"index": 0, "delta": delta}]})


def _ollama_line(text: str) -> bytes:
    return json.dumps({"message": {"role": "assistant", "content": text}, "done": False}).encode() + b"\n"


BODIES: dict[str, tuple[Callable[[str], bytes], bytes, bytes]] = {
    "openai": (
        lambda text: _openai_delta(content=text),
        b"",
        b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
    ),
    "anthropic": (
        lambda text: _anthropic_delta("text_delta", "text", text),
        _anthropic_block(type="text", text=""),
        _sse({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}),
    ),
    "ollama": (_ollama_line, b"", b'{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}\n'),
}
"""For each wire a piece of text, and what comes before and after."""


class OneBody(WireServer):
    """Answers every request of a model with one body."""

    def __init__(self, wire: str, body: bytes) -> None:
        super().__init__()
        self._kind = "application/x-ndjson" if wire == "ollama" else "text/event-stream"
        self._body = body

    async def handle(self, request: Received, out: Outgoing) -> None:
        if request.path.endswith("/show"):
            out.json(200, {"model_info": {"a.context_length": 65_536}, "capabilities": ["tools"]})
            return
        out.begin(self._kind)
        out.piece(self._body)
        out.end()


@pytest.mark.parametrize("wire", WIRES)
async def test_a_large_event_is_parsed_beside_the_event_loop(wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    on_the_loop: list[int] = []
    beside: list[int] = []
    loop_thread = threading.get_ident()
    for module in (anthropic_stream, openai_stream, ollama_format, event_stream):
        real: Callable[..., Any] = vars(module)["parse"]

        def parse(text: str | bytes, real: Callable[..., Any] = real, **more: Any) -> Any:
            (on_the_loop if threading.get_ident() == loop_thread else beside).append(len(text))
            return real(text, **more)

        monkeypatch.setattr(module, "parse", parse)
    piece, before, after = BODIES[wire]
    text = "iron, " * 400_000
    async with OneBody(wire, before + piece(text) + after) as server:
        source = provider(wire, server.url)
        assert (await answer(source, request())).text == text
        await source.close()
    assert max(beside) > LARGE_CHARS
    assert max(on_the_loop, default=0) < LARGE_CHARS


class TurnCounter:
    """Counts how often the rest of the event loop had its turn."""

    def __init__(self) -> None:
        self.turns = 0
        self._task = asyncio.create_task(self._count())

    async def _count(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.turns += 1

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})


@pytest.mark.parametrize("read", [LARGE_CHARS - FEED_BYTES, 1_000])
async def test_many_events_leave_the_event_loop_its_turns(read: int) -> None:
    """Also where many small reads wait, none of which has to be waited for."""
    body = _openai_delta(content="iron ") * 10_000
    decoder = openai_stream.ChatStreamDecoder("reefnet", "m")
    feeder = http_provider.EventFeeder("reefnet", decoder)
    counter = TurnCounter()
    await asyncio.sleep(0)
    for start in range(0, len(body), read):
        await feeder.feed(body[start : start + read])
    turns = counter.turns
    await counter.close()
    assert decoder.answer().text == "iron " * 10_000
    assert turns >= len(body) // FEED_BYTES - 2


def _openai() -> StreamDecoder:
    return openai_stream.ChatStreamDecoder("reefnet", "m")


def _anthropic() -> StreamDecoder:
    return anthropic_stream.MessageStreamDecoder("reefnet", "m")


CALL = {"index": 0, "id": "c1", "function": {"name": "scan", "arguments": "{"}}
LONG_PARTS: dict[str, tuple[Callable[[], StreamDecoder], bytes, bytes]] = {
    "openai text": (_openai, b"", _openai_delta(content=PIECE)),
    "openai reasoning": (_openai, b"", _openai_delta(reasoning_content=PIECE)),
    "openai arguments": (
        _openai,
        _openai_delta(tool_calls=[CALL]),
        _openai_delta(tool_calls=[{"index": 0, "function": {"arguments": PIECE}}]),
    ),
    "openai details": (
        _openai,
        b"",
        _openai_delta(reasoning_details=[{"type": "reasoning.text", "index": 0, "text": PIECE}]),
    ),
    "anthropic text": (
        _anthropic,
        _anthropic_block(type="text", text=""),
        _anthropic_delta("text_delta", "text", PIECE),
    ),
    "anthropic thinking": (
        _anthropic,
        _anthropic_block(type="thinking", thinking=""),
        _anthropic_delta("thinking_delta", "thinking", PIECE),
    ),
    "anthropic signature": (
        _anthropic,
        _anthropic_block(type="thinking", thinking="", signature=""),
        _anthropic_delta("signature_delta", "signature", PIECE),
    ),
    "anthropic arguments": (
        _anthropic,
        _anthropic_block(type="tool_use", id="c1", name="scan"),
        _anthropic_delta("input_json_delta", "partial_json", PIECE),
    ),
}


@walk_cases("part", LONG_PARTS)
def test_a_piece_of_a_long_part_copies_nothing_of_what_came_before(part: str) -> None:
    make, before, piece = LONG_PARTS[part]
    decoder = make()
    decoder.feed(before)
    for _ in range(PIECES):
        decoder.feed(piece)
    tracemalloc.start()
    try:
        decoder.feed(piece)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(PIECE) * PIECES / 10
    answered = decoder.answer()
    whole = f"{answered.text}{answered.reasoning}{answered.native}{[call.arguments for call in answered.calls]}"
    assert whole.count(PIECE) >= PIECES + 1
