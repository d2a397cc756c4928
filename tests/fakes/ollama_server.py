"""A server that speaks Ollama's native API.

The shapes follow the published examples; the values are this project's own:
https://docs.ollama.com/api/chat, https://docs.ollama.com/api/tags,
https://docs.ollama.com/api-reference/show-model-details,
https://docs.ollama.com/capabilities/thinking, https://docs.ollama.com/api/errors
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.wire_server import Outgoing, Received, WireServer

WHEN = "2026-11-01T10:00:00.000000Z"


@dataclass(frozen=True, slots=True)
class Say:
    """A streamed answer. `calls` are (name, arguments object)."""

    text: str = ""
    thinking: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    reason: str = "stop"
    chunk: int = 5
    usage: bool = True
    cut_after: int | None = None
    error_after: int | None = None
    final_newline: bool = True
    raw: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Fail:
    status: int
    message: str


@dataclass(slots=True)
class Model:
    """A pulled model and what it can do."""

    name: str
    context_length: int = 40960
    capabilities: list[str] = field(default_factory=lambda: ["completion", "tools", "thinking"])


Step = Say | Fail


class OllamaServer(WireServer):
    """Answers from `script`, then with a short text."""

    def __init__(self, *steps: Step) -> None:
        super().__init__()
        self.script: deque[Step] = deque(steps)
        self.models = [Model("reef:1b")]

    @property
    def chats(self) -> list[Received]:
        return [one for one in self.received if one.path == "/api/chat"]

    def find(self, name: str) -> Model | None:
        return next((model for model in self.models if model.name == name), None)

    async def handle(self, request: Received, out: Outgoing) -> None:
        match request.path:
            case "/api/version":
                return out.json(200, {"version": "0.13.0"})
            case "/api/tags":
                return out.json(200, {"models": [_tag(model) for model in self.models]})
            case "/api/show" | "/api/chat":
                body = request.json
            case _:
                return out.whole(404, b"404 page not found", {"content-type": "text/plain"})
        model = self.find(body["model"])
        if model is None:
            return out.json(404, {"error": f"model '{body['model']}' not found"})
        if request.path == "/api/show":
            return out.json(200, _details(model))
        return await self._chat(body, model, out)

    async def _chat(self, body: dict[str, Any], model: Model, out: Outgoing) -> None:
        for ability, key in (("tools", "tools"), ("thinking", "think")):
            if body.get(key) and ability not in model.capabilities:
                place = "registry.ollama.ai/library/"
                return out.json(400, {"error": f"{place}{model.name} does not support {ability}"})
        step = self.script.popleft() if self.script else Say("All is well on the reef.")
        if isinstance(step, Fail):
            return out.json(step.status, {"error": step.message})
        if body.get("stream", True):
            return await stream(out, step, body)
        message: dict[str, Any] = {"role": "assistant", "content": step.text}
        if step.calls:
            message["tool_calls"] = [_call(index, *call) for index, call in enumerate(step.calls)]
        return out.json(200, {"model": model.name, "created_at": WHEN, "message": message, **_ending(step)})


def _tag(model: Model) -> dict[str, Any]:
    details = {"format": "gguf", "family": "reef", "families": ["reef"], "parameter_size": "1B"}
    return {"name": model.name, "model": model.name, "modified_at": WHEN, "size": 1, "digest": "0", "details": details}


def _details(model: Model) -> dict[str, Any]:
    facts = {"general.architecture": "reef", "reef.context_length": model.context_length}
    return {"modelfile": "", "details": {}, "model_info": facts, "capabilities": model.capabilities}


def _call(index: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"id": f"call_{index}reef", "function": {"index": index, "name": name, "arguments": arguments}}


def _ending(step: Say) -> dict[str, Any]:
    counts = {"prompt_eval_count": 26, "eval_count": 9} if step.usage else {}
    return {"done": True, "done_reason": step.reason, "total_duration": 5, "load_duration": 1, **counts}


def lines(step: Say, body: dict[str, Any]) -> Iterator[bytes]:
    envelope = {"model": body["model"], "created_at": WHEN}

    def line(message: dict[str, Any], ending: dict[str, Any]) -> bytes:
        whole = {**envelope, "message": {"role": "assistant", **message}, **ending}
        return json.dumps(whole, ensure_ascii=False).encode() + b"\n"

    for at in range(0, len(step.thinking), step.chunk):
        yield line({"content": "", "thinking": step.thinking[at : at + step.chunk]}, {"done": False})
    for at in range(0, len(step.text), step.chunk):
        yield line({"content": step.text[at : at + step.chunk]}, {"done": False})
    for index, call in enumerate(step.calls):
        yield line({"content": "", "tool_calls": [_call(index, *call)]}, {"done": False})
    yield line({"content": ""}, _ending(step))


async def stream(out: Outgoing, step: Say, body: dict[str, Any]) -> None:
    out.begin("application/x-ndjson")
    parts = list(step.raw or lines(step, body))
    if not step.final_newline:
        parts[-1] = parts[-1].rstrip(b"\n")
    for index, part in enumerate(parts):
        if index == step.cut_after:
            return out.cut()
        if index == step.error_after:
            part = json.dumps({"error": "an error was encountered while running the model"}).encode() + b"\n"
        out.piece(part)
        await asyncio.sleep(0)
    return out.end()
