"""A server that speaks OpenAI's chat completions, well or badly, as scripted.

The shapes follow the published examples; the values are this project's own:
- streaming chunks, tool call deltas, usage chunk:
  https://platform.openai.com/docs/api-reference/chat-streaming/streaming
- errors: https://platform.openai.com/docs/guides/error-codes/api-errors
- `reasoning_content`: https://api-docs.deepseek.com/guides/reasoning_model
- `: OPENROUTER PROCESSING` comments and errors inside a stream:
  https://openrouter.ai/docs/api-reference/streaming
- `/props`, `meta.n_ctx_train`: https://github.com/ggml-org/llama.cpp/tree/master/tools/server

`python -m tests.fakes.openai_server --port 0` prints its address and serves until
its input ends; benchmarks use it so, in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.wire_server import Outgoing, Received, WireServer

NEVER = 3600.0
SCAN = "The scan is done; the belt holds ore, and the drone goes on to the station to sell it there. "


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call to stream, with its arguments in `pieces` deltas."""

    name: str
    arguments: str = "{}"
    id: str = "call_7f3a"
    pieces: int = 2
    extra: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Say:
    """A streamed answer and its faults. Delays are seconds, `chunk` characters."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    chunk: int = 6
    finish: str | None = None
    reasoning_field: str = "reasoning_content"
    usage: bool = True
    ids: bool = True
    indexes: bool = True
    done: bool = True
    crlf: bool = False
    final_newline: bool = True
    keep_alives: int = 0
    split_bytes: int = 0
    raw: tuple[bytes, ...] = ()
    first_after: float = 0.0
    stall_after: int | None = None
    stall_for: float = NEVER
    cut_after: int | None = None
    error_after: int | None = None
    details: tuple[dict[str, Any], ...] = ()
    reading_rate: float | None = None
    answer_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Fail:
    """An answer that is not a stream: an error, an HTML page, a closed connection (`status` 0)."""

    status: int
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def error(status: int, message: str, *, type: str = "invalid_request_error", code: str | None = None) -> Fail:
        return Fail(status, json.dumps({"error": {"message": message, "type": type, "param": None, "code": code}}))

    @staticmethod
    def html(status: int = 502) -> Fail:
        page = "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body><h1>nginx</h1></body></html>"
        return Fail(status, page, {"content-type": "text/html; charset=utf-8"})


Step = Say | Fail
Chooser = Callable[[Received], Step]


def agentic(request: Received) -> Step:
    """Answer with a call of the first tool, and after its result with a text. For benchmarks."""
    body = request.json
    tools = body.get("tools") or []
    last = body["messages"][-1]["role"]
    if tools and last != "tool":
        function = tools[0]["function"]
        arguments = json.dumps(_fill(function.get("parameters") or {}))
        return Say(calls=(Call(function["name"], arguments, f"call_{time.monotonic_ns()}"),))
    return Say(SCAN * 2, chunk=9)


def _fill(schema: dict[str, Any]) -> dict[str, Any]:
    plain = {"string": "reef", "integer": 3, "number": 1.5, "boolean": True, "array": [], "object": {}}
    wanted = schema.get("properties", {})
    return {name: plain.get(wanted.get(name, {}).get("type", "string"), "reef") for name in schema.get("required", [])}


class OpenAIServer(WireServer):
    """Answers from `script` first, then by `otherwise`; during an outage always with its error.

    While `gate` is cleared, chats wait for their answers.
    """

    def __init__(self, *steps: Step, otherwise: Chooser = agentic) -> None:
        super().__init__()
        self.script: deque[Step] = deque(steps)
        self.otherwise = otherwise
        self.models: list[dict[str, Any]] = [{"id": "reef-1", "object": "model", "created": 1, "owned_by": "reef"}]
        self.list_fails: Fail | None = None
        self.list_after = 0.0
        self.props: dict[str, Any] | None = None
        self.key = ""
        self.gate = asyncio.Event()
        self.gate.set()
        self._outage: tuple[float, Fail] = (0.0, Fail(500))

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    @property
    def chats(self) -> list[Received]:
        return [one for one in self.received if one.path.endswith("/chat/completions")]

    def outage(self, seconds: float, *, status: int = 429, retry_after: str | None = "2") -> None:
        """Refuse every chat for so many seconds from now."""
        fail = Fail.error(status, "Rate limit reached for requests", type="requests", code="rate_limit_exceeded")
        headers = {} if retry_after is None else {"retry-after": retry_after}
        self._outage = (time.monotonic() + seconds, Fail(status, fail.body, headers))

    async def handle(self, request: Received, out: Outgoing) -> None:
        path = request.path.partition("?")[0]
        if self.key and request.headers.get("authorization") != f"Bearer {self.key}":
            return fail(out, Fail.error(401, f"Incorrect API key provided: {request.headers.get('authorization')}."))
        if path.endswith("/models"):
            await asyncio.sleep(self.list_after)
            if self.list_fails is not None:
                return fail(out, self.list_fails)
            return out.json(200, {"object": "list", "data": self.models})
        if path == "/props" and self.props is not None:
            return out.json(200, self.props)
        if not path.endswith("/chat/completions"):
            return fail(out, Fail.error(404, f"Invalid URL ({request.method} {path})"))
        await self.gate.wait()
        step = self._step(request)
        if isinstance(step, Fail):
            return fail(out, step)
        body = request.json
        if body.get("stream"):
            return await stream(out, step, body)
        return out.json(200, whole(step, body))

    def _step(self, request: Received) -> Step:
        until, refusal = self._outage
        if request.at < until:
            return refusal
        return self.script.popleft() if self.script else self.otherwise(request)


def fail(out: Outgoing, step: Fail) -> None:
    if step.status == 0:
        return out.cut()
    return out.whole(step.status, step.body.encode(), step.headers)


def finish_of(step: Say) -> str:
    return step.finish or ("tool_calls" if step.calls else "stop")


def usage_of(step: Say, body: dict[str, Any]) -> dict[str, Any]:
    prompt = sum(len(str(one.get("content") or "")) for one in body["messages"]) // 4 + 1
    said = len(step.text) + len(step.reasoning) + sum(len(one.arguments) for one in step.calls)
    answer = said // 4 + 1 if step.answer_tokens is None else step.answer_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answer,
        "total_tokens": prompt + answer,
        "prompt_tokens_details": {"cached_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": len(step.reasoning) // 4},
    }


def whole(step: Say, body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request without `stream`, for the vendor's SDK."""
    message: dict[str, Any] = {"role": "assistant", "content": step.text or None, "refusal": None}
    if step.calls:
        message["tool_calls"] = [
            {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": one.arguments}}
            for one in step.calls
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_of(step)}
    envelope = {"id": "chatcmpl-reef", "object": "chat.completion", "created": 1, "model": body["model"]}
    return {**envelope, "choices": [choice], "usage": usage_of(step, body)}


def deltas(step: Say) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    if step.details:
        yield {"reasoning_details": list(step.details)}
    for piece in cut(step.reasoning, step.chunk):
        yield {step.reasoning_field: piece}
    for piece in cut(step.text, step.chunk):
        yield {"content": piece}
    for index, call in enumerate(step.calls):
        place = {"index": index} if step.indexes else {}
        size = max(1, -(-len(call.arguments) // call.pieces))
        pieces = list(cut(call.arguments, size)) or [""]
        head = {"id": call.id, "type": "function"} if step.ids else {"type": "function"}
        extra = {"extra_content": call.extra} if call.extra else {}
        yield {"tool_calls": [{**place, **head, "function": {"name": call.name, "arguments": pieces[0]}, **extra}]}
        for piece in pieces[1:]:
            yield {"tool_calls": [{**place, "function": {"arguments": piece}}]}


def cut(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))


def frames(step: Say, body: dict[str, Any]) -> Iterator[bytes]:
    """Yield the stream, one event a frame."""
    line = "\r\n" if step.crlf else "\n"
    envelope = {"id": "chatcmpl-reef", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}

    def event(payload: dict[str, Any]) -> bytes:
        return f"data: {json.dumps(payload, ensure_ascii=False)}{line}{line}".encode()

    for delta in deltas(step):
        yield event({**envelope, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]})
    yield event(
        {**envelope, "choices": [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": finish_of(step)}]}
    )
    if step.reading_rate is not None:
        timings = {"cache_n": 0, "prompt_n": 305, "prompt_ms": 36104.276, "prompt_per_second": step.reading_rate}
        yield event({**envelope, "choices": [], "usage": usage_of(step, body), "timings": timings})
    elif step.usage and (body.get("stream_options") or {}).get("include_usage"):
        yield event({**envelope, "choices": [], "usage": usage_of(step, body)})
    if step.done:
        yield f"data: [DONE]{line}{line}".encode()


async def stream(out: Outgoing, step: Say, body: dict[str, Any]) -> None:
    out.begin("text/event-stream; charset=utf-8", {"cache-control": "no-cache"})
    if step.first_after:
        await asyncio.sleep(step.first_after)
    for _ in range(step.keep_alives):
        out.piece(b": OPENROUTER PROCESSING\n\n")
    parts = list(step.raw or frames(step, body))
    if not step.final_newline:
        parts[-1] = parts[-1].rstrip(b"\r\n")
    for index, part in enumerate(parts):
        if index == step.stall_after:
            await asyncio.sleep(step.stall_for)
        if index == step.cut_after:
            return out.cut()
        if index == step.error_after:
            part = b'data: {"error": {"code": 502, "message": "Provider disconnected"}}\n\n'
        for piece in _bytes(part, step.split_bytes):
            out.piece(piece)
            await asyncio.sleep(0)
    return out.end()


def _bytes(part: bytes, size: int) -> list[bytes]:
    return [part] if size <= 0 else [part[at : at + size] for at in range(0, len(part), size)]


async def _serve(port: int) -> None:
    server = OpenAIServer()
    await server.start(port)
    sys.stdout.write(server.base_url + "\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--port", type=int, default=0)
    asyncio.run(_serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
