"""All wires meet the same faults: each is an answer or an error that names the provider, soon."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.case_tables import walk_cases
from tests.fakes.mutations import mutations
from tests.fakes.wire_server import Outgoing, Received, WireServer
from tests.llm.sample_requests import answer, provider
from zoea.llm.provider_config import Timeouts
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError
from zoea.text.control_characters import clean

TEXT = "All is well on the reef."
SOON_S = 20.0


def _event(data: Any, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def _anthropic() -> bytes:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "x", "usage": usage}
    block = {"type": "text", "text": ""}
    steps: list[tuple[str, dict[str, Any]]] = [
        ("message_start", {"message": message}),
        ("content_block_start", {"index": 0, "content_block": block}),
        *(
            ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": word}})
            for word in ("All is well", " on the reef.")
        ),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}),
        ("message_stop", {}),
    ]
    return b"".join(_event({"type": name, **data}, name) for name, data in steps)


def _openai() -> bytes:
    deltas = [{"content": "All is well"}, {"content": " on the reef."}]
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return b"".join(_event(chunk) for chunk in (*chunks, last)) + b"data: [DONE]\n\n"


def _ollama() -> bytes:
    def line(text: str, **more: Any) -> bytes:
        return json.dumps({"message": {"role": "assistant", "content": text}, "done": False, **more}).encode() + b"\n"

    return line("All is well") + line(" on the reef.") + line("", done=True, done_reason="stop", eval_count=5)


BODIES = {"openai": _openai(), "anthropic": _anthropic(), "ollama": _ollama()}
KINDS = {"openai": "text/event-stream", "anthropic": "text/event-stream", "ollama": "application/x-ndjson"}
PAGE = b"<!doctype html><title>Bad gateway</title><p>nginx"

Send = Callable[[Outgoing, str, bytes], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Fault:
    """What the server does with a wire's answer. Without an error class the answer is read all the same."""

    send: Send
    kind: ErrorClass | None = None


def _body(change: Callable[[bytes], bytes], *, headers: dict[str, str] | None = None, ends: bool = True) -> Send:
    async def send(out: Outgoing, kind: str, body: bytes) -> None:
        out.begin(headers.get("content-type", kind) if headers else kind, headers)
        out.piece(change(body))
        if ends:
            out.end()
        else:
            await asyncio.sleep(0)
            out.cut()

    return send


def _status(status: int, body: bytes = PAGE, headers: dict[str, str] | None = None) -> Send:
    async def send(out: Outgoing, kind: str, _: bytes) -> None:
        out.whole(status, body, {"content-type": "text/html", **(headers or {})})

    return send


async def _each_byte(out: Outgoing, kind: str, body: bytes) -> None:
    out.begin(kind)
    for at in range(len(body)):
        out.piece(body[at : at + 1])
    out.end()


async def _no_answer(out: Outgoing, kind: str, body: bytes) -> None:
    out.cut()


async def _half_a_head(out: Outgoing, kind: str, body: bytes) -> None:
    out._transport.write(b"HTTP/1.1 200 OK\r\ncontent-ty")
    out.cut()


async def _silence(out: Outgoing, kind: str, body: bytes) -> None:
    out.begin(kind)
    await asyncio.Event().wait()


def _half(body: bytes) -> bytes:
    return body[: len(body) // 2]


TRANSIENT, AUTH, BAD = ErrorClass.TRANSIENT, ErrorClass.AUTH, ErrorClass.BAD_REQUEST
FAULTS: dict[str, Fault] = {
    "nothing wrong": Fault(_body(lambda body: body)),
    "each byte a chunk": Fault(_each_byte),
    "lines end with CR LF": Fault(_body(lambda body: body.replace(b"\n", b"\r\n"))),
    "comments and blank lines between": Fault(_body(lambda body: b"\n\n\n" + body)),
    "unasked gzip": Fault(_body(gzip.compress, headers={"content-encoding": "gzip"})),
    "no end of the last line": Fault(_body(lambda body: body.rstrip(b"\n"))),
    "cut in the middle": Fault(_body(_half, ends=False), TRANSIENT),
    "ends in the middle": Fault(_body(_half), TRANSIENT),
    "empty body": Fault(_body(lambda body: b""), TRANSIENT),
    "zeros": Fault(_body(lambda body: b"\0" * 10_000), TRANSIENT),
    "no answer": Fault(_no_answer, TRANSIENT),
    "half a head": Fault(_half_a_head, TRANSIENT),
    "silence": Fault(_silence, TRANSIENT),
    "gzip that is none": Fault(_body(lambda body: body, headers={"content-encoding": "gzip"}), BAD),
    "an encoding nobody knows": Fault(_body(lambda body: body, headers={"content-encoding": "zz"}), BAD),
    "401": Fault(_status(401), AUTH),
    "403": Fault(_status(403), AUTH),
    "408": Fault(_status(408), TRANSIENT),
    "429": Fault(_status(429), TRANSIENT),
    "429 with a wish that is none": Fault(_status(429, headers={"retry-after": "soon"}), TRANSIENT),
    "500": Fault(_status(500), TRANSIENT),
    "502": Fault(_status(502), TRANSIENT),
    "503 without a word": Fault(_status(503, b""), TRANSIENT),
    "500 with bytes that are no text": Fault(_status(500, b"\xff\xfe\0" * 5_000), TRANSIENT),
    "529": Fault(_status(529), TRANSIENT),
}


class Faulty(WireServer):
    """Answers every request for a completion with one fault, or with the next body."""

    def __init__(self, wire: str, send: Send) -> None:
        super().__init__()
        self.body = BODIES[wire]
        self._kind, self._send = KINDS[wire], send

    async def handle(self, request: Received, out: Outgoing) -> None:
        if request.method == "POST":
            await self._send(out, self._kind, self.body)
        else:
            out.json(404, {"error": "not here"})


@walk_cases("wire", BODIES)
@walk_cases("name", FAULTS)
async def test_a_fault_is_the_same_on_every_wire(wire: str, name: str) -> None:
    fault = FAULTS[name]
    async with Faulty(wire, fault.send) as server:
        source = provider(wire, server.url, timeouts=Timeouts(connect=2.0, first=5.0, between=0.5))
        try:
            async with asyncio.timeout(SOON_S):
                if fault.kind is None:
                    assert (await answer(source)).text == TEXT
                    return
                with pytest.raises(ProviderError) as caught:
                    await answer(source)
        finally:
            await source.close()
    assert caught.value.kind is fault.kind
    assert "reefnet" in caught.value.what
    assert caught.value.title


@walk_cases("wire", BODIES)
@pytest.mark.timeout(900)
async def test_a_damaged_answer_is_an_answer_or_an_error(wire: str) -> None:
    found = {"answers": 0, "errors": 0}
    async with Faulty(wire, _body(lambda body: body)) as server:
        source = provider(wire, server.url)
        for damaged in mutations(BODIES[wire], seed=7):
            server.body = damaged
            try:
                async with asyncio.timeout(SOON_S):
                    got = await answer(source)
            except ProviderError:
                found["errors"] += 1
            else:
                assert clean(got.text + got.reasoning).encode() or got.calls or got.is_empty, damaged
                found["answers"] += 1
        server.body = BODIES[wire]
        assert (await answer(source)).text == TEXT, "nothing of the damage stays"
        await source.close()
    assert min(found.values()) > 3, found
