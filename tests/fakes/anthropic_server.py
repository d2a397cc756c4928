"""A server that speaks Anthropic's messages API, as strict about thinking as the real one.

The shapes follow the published examples; the values are this project's own:
- events: https://platform.claude.com/docs/en/build-with-claude/streaming
- errors and their types: https://platform.claude.com/docs/en/api/errors
- thinking with tools, signatures: https://platform.claude.com/docs/en/build-with-claude/extended-thinking
- cache usage: https://platform.claude.com/docs/en/build-with-claude/prompt-caching
- models: https://platform.claude.com/docs/en/api/models-list
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.wire_server import Outgoing, Received, WireServer

NEVER = 3600.0
USAGE: dict[str, Any] = {
    "input_tokens": 12,
    "cache_creation_input_tokens": 30,
    "cache_read_input_tokens": 400,
    "output_tokens": 21,
}


@dataclass(frozen=True, slots=True)
class Thinking:
    """A block of thinking; with `redacted` only its cipher."""

    text: str
    redacted: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Use:
    """A tool call, with its input in `pieces` deltas."""

    name: str
    input: str = "{}"
    id: str = "toolu_01reef"
    pieces: int = 3


@dataclass(frozen=True, slots=True)
class Say:
    """A message, block by block, and the faults of its stream."""

    blocks: tuple[Thinking | Text | Use, ...]
    stop: str | None = None
    usage: dict[str, Any] = field(default_factory=lambda: dict(USAGE))
    pings: int = 1
    cut_after: int | None = None
    stall_after: int | None = None
    error_after: int | None = None
    error: dict[str, Any] = field(default_factory=lambda: {"type": "overloaded_error", "message": "Overloaded"})


@dataclass(frozen=True, slots=True)
class Fail:
    status: int
    type: str
    message: str
    headers: dict[str, str] = field(default_factory=dict)


Step = Say | Fail


def signature(text: str) -> str:
    """Return the fake's signature of thinking, by which it finds changed blocks."""
    return "sig-" + hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


class AnthropicServer(WireServer):
    """Answers from `script`, then with a short text. Refuses what the real API refuses."""

    def __init__(self, *steps: Step) -> None:
        super().__init__()
        self.script: deque[Step] = deque(steps)
        self.key = ""
        self.props: dict[str, Any] | None = None
        self.models: list[dict[str, Any]] = [
            {
                "type": "model",
                "id": "claude-reef-1",
                "display_name": "Claude Reef 1",
                "created_at": "2026-10-01T00:00:00Z",
                "lifecycle": "active",
                "max_input_tokens": 200000,
                "max_tokens": 64000,
            }
        ]

    @property
    def chats(self) -> list[Received]:
        return [one for one in self.received if one.path.startswith("/v1/messages")]

    def next_step(self, request: Received) -> Step:
        """Return the answer where the script has ended."""
        return Say((Text("All is well on the reef."),))

    async def handle(self, request: Received, out: Outgoing) -> None:
        if self.key and request.headers.get("x-api-key") != self.key:
            return fail(out, Fail(401, "authentication_error", "invalid x-api-key"))
        if "anthropic-version" not in request.headers:
            return fail(out, Fail(400, "invalid_request_error", "anthropic-version: header is required"))
        path = request.path.partition("?")[0]
        if path == "/props" and self.props is not None:
            return out.json(200, self.props)
        if path == "/v1/models":
            return out.json(200, {"data": self.models, "has_more": False, "first_id": None, "last_id": None})
        if path != "/v1/messages":
            return fail(out, Fail(404, "not_found_error", "Not Found"))
        body = request.json
        if (wrong := refusal(body)) is not None:
            return fail(out, Fail(400, "invalid_request_error", wrong))
        step = self.script.popleft() if self.script else self.next_step(request)
        if isinstance(step, Fail):
            return fail(out, step)
        if body.get("stream"):
            return await stream(out, step, body)
        return out.json(200, whole(step, body))


def fail(out: Outgoing, step: Fail) -> None:
    error = {"type": "error", "error": {"type": step.type, "message": step.message}, "request_id": "req_reef"}
    return out.json(step.status, error, step.headers)


def refusal(body: dict[str, Any]) -> str | None:
    """Return why the API would refuse the body, or None: rules on roles, results, cache marks and thinking."""
    messages = body["messages"]
    thinks = (body.get("thinking") or {}).get("type") in ("enabled", "adaptive")
    if not messages or messages[0]["role"] != "user":
        return "messages: first message must use the `user` role"
    if count_marks(body) > 4:
        return "A maximum of 4 blocks with cache_control may be provided."
    asked: set[str] = set()
    for index, message in enumerate(messages):
        blocks = message["content"]
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        if not blocks:
            return f"messages.{index}: all messages must have non-empty content"
        if index and messages[index - 1]["role"] == message["role"]:
            return f"messages.{index}: roles must alternate"
        answered = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        if answered != asked:
            lost = ", ".join(sorted(asked ^ answered))
            return f"messages.{index}: `tool_use` ids and `tool_result` blocks do not match: {lost}"
        asked = {block["id"] for block in blocks if block["type"] == "tool_use"}
        if (wrong := _wrong_blocks(index, blocks, thinks and index > _turn_start(messages))) is not None:
            return wrong
    return None


def _turn_start(messages: list[dict[str, Any]]) -> int:
    """Return the index of the last user message that is not made of tool results. Thinking must be kept after it."""
    return max(
        index
        for index, message in enumerate(messages)
        if message["role"] == "user"
        and (isinstance(message["content"], str) or any(block["type"] == "text" for block in message["content"]))
    )


def _wrong_blocks(index: int, blocks: list[dict[str, Any]], thinking_due: bool) -> str | None:
    for place, block in enumerate(blocks):
        where = f"messages.{index}.content.{place}"
        if block["type"] == "text" and not block["text"].strip():
            return f"{where}: text content blocks must contain non-whitespace text"
        if block["type"] == "thinking" and block.get("signature") != signature(block["thinking"]):
            return f"{where}: Invalid `signature` in `thinking` block"
        if block["type"] == "redacted_thinking" and not block.get("data", "").startswith("sig-"):
            return f"{where}: Invalid `data` in `redacted_thinking` block"
        if block["type"] in ("thinking", "redacted_thinking") and "cache_control" in block:
            return f"{where}: cache_control cannot be set for `thinking` blocks"
    uses = any(block["type"] == "tool_use" for block in blocks)
    if thinking_due and uses and blocks[0]["type"] not in ("thinking", "redacted_thinking"):
        found = blocks[0]["type"]
        return (
            f"messages.{index}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{found}`. "
            "When `thinking` is enabled, a final `assistant` message must start with a thinking block."
        )
    return None


def count_marks(node: Any) -> int:
    if isinstance(node, list):
        return sum(map(count_marks, node))
    if isinstance(node, dict):
        return ("cache_control" in node) + sum(map(count_marks, node.values()))
    return 0


def stop_of(step: Say) -> str:
    return step.stop or ("tool_use" if any(isinstance(one, Use) for one in step.blocks) else "end_turn")


def block_of(block: Thinking | Text | Use) -> dict[str, Any]:
    match block:
        case Thinking(text, True):
            return {"type": "redacted_thinking", "data": signature(text)}
        case Thinking(text):
            return {"type": "thinking", "thinking": text, "signature": signature(text)}
        case Text(text):
            return {"type": "text", "text": text}
        case Use(name, input, id):
            return {"type": "tool_use", "id": id, "name": name, "input": json.loads(input)}


def whole(step: Say, body: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "msg_reef",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [block_of(block) for block in step.blocks],
        "stop_reason": stop_of(step),
        "stop_sequence": None,
        "usage": step.usage,
    }


def events(step: Say, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    begun = {**step.usage, "output_tokens": 1} if step.usage else {"input_tokens": 0, "output_tokens": 0}
    start = {**whole(step, body), "content": [], "stop_reason": None, "usage": begun}
    yield {"type": "message_start", "message": start}
    for index, block in enumerate(step.blocks):
        yield from _block_events(index, block)
        if index == 0:
            yield from ({"type": "ping"} for _ in range(step.pings))
    ended = {"output_tokens": step.usage.get("output_tokens", 0)}
    yield {"type": "message_delta", "delta": {"stop_reason": stop_of(step), "stop_sequence": None}, "usage": ended}
    yield {"type": "message_stop"}


def _block_events(index: int, block: Thinking | Text | Use) -> Iterator[dict[str, Any]]:
    full = block_of(block)
    emptied: dict[str, dict[str, Any]] = {
        "thinking": {"thinking": "", "signature": ""},
        "text": {"text": ""},
        "tool_use": {"input": {}},
    }
    yield {"type": "content_block_start", "index": index, "content_block": {**full, **emptied.get(full["type"], {})}}
    deltas: list[dict[str, Any]] = []
    match block:
        case Thinking(text, False):
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(text, 3)]
            deltas.append({"type": "signature_delta", "signature": full["signature"]})
        case Text(text):
            deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(text, 3)]
        case Use():
            cut = _pieces(block.input, block.pieces)
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *cut)]
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _pieces(text: str, count: int) -> list[str]:
    size = max(1, -(-len(text) // count))
    return [text[at : at + size] for at in range(0, len(text), size)]


async def stream(out: Outgoing, step: Say, body: dict[str, Any]) -> None:
    out.begin("text/event-stream; charset=utf-8")
    for index, event in enumerate(events(step, body)):
        if index == step.stall_after:
            await asyncio.sleep(NEVER)
        if index == step.cut_after:
            return out.cut()
        if index == step.error_after:
            event = {"type": "error", "error": step.error}
        out.piece(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        await asyncio.sleep(0)
    return out.end()
