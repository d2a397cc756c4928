"""Answers an agent by a provider that speaks another wire, where both say the same.

A request is translated only if it holds nothing but texts, calls, functions and options that every provider has; any
other is refused with the first thing that would be lost. Hints (cache marks, ids of users) are left out.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from itertools import count
from typing import Any

from msgspec.structs import replace

from zoea.llm.messages.wire_bodies import Wire, WireBody
from zoea.llm.providers.http_provider import ForwardedHead, ForwardedItem
from zoea.llm.transport.json_safety import as_mapping, as_mappings
from zoea.model.enums import Finish, Role
from zoea.model.ports import Provider
from zoea.model.request import Answer, Delta, ModelRequest, RequestHeld, RequestMessage, RequestSent
from zoea.model.values import Usage

_SAME = ("model", "stream", "tools", "temperature", "metadata", "user", "safety_identifier", "prompt_cache_key")
_KEYS: Mapping[Wire, tuple[str, ...]] = {
    Wire.CHAT: ("messages", "max_tokens", "max_completion_tokens", "stream_options"),
    Wire.MESSAGES: ("messages", "system", "max_tokens"),
    Wire.RESPONSES: ("input", "instructions", "max_output_tokens", "include"),
}
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "tool_choice": ("auto", {"type": "auto"}),
    "parallel_tool_calls": (True,),
    "n": (1,),
    "store": (False,),
    "stop_sequences": ([],),
    "thinking": ({"type": "disabled"},),
    "truncation": ("disabled",),
    "text": ({"format": {"type": "text"}},),
}
"""Options by which a request asks for what it gets anyway."""
_TEXTS = ("text", "input_text", "output_text")
_BLOCKS = (*_TEXTS, "tool_use", "tool_result")
_ITEMS = ("message", "function_call", "function_call_output")
_IDS = count(1)
_CHAT_ENDS = {Finish.CALLS: "tool_calls", Finish.LENGTH: "length", Finish.FILTER: "content_filter"}
_MESSAGE_ENDS = {Finish.CALLS: "tool_use", Finish.LENGTH: "max_tokens", Finish.FILTER: "refusal"}


def find_loss(wire: Wire, body: Mapping[str, Any]) -> str:
    """Return what of a request another wire cannot say; empty where it can say all."""
    for key, value in body.items():
        if value is not None and key not in (*_SAME, *_KEYS[wire]) and value not in _NEUTRAL.get(key, ()):
            return key
    for tool in as_mappings(body.get("tools")):
        if tool.get("type", "function") not in ("function", "custom") or "input_schema" not in tool | _function(tool):
            return f"the tool {_function(tool).get('name') or tool.get('type')}"
    for place, message in enumerate(as_mappings(body.get("messages") or body.get("input"))):
        if wire is Wire.RESPONSES and message.get("type", "message") not in _ITEMS:
            return f"{message['type']} in the input"
        if message.get("role") in ("system", "developer") and place:
            return "a system message behind others"
        for field in ("content", "output"):
            for block in as_mappings(message.get(field)):
                inner = as_mappings(block.get("content"))
                if any(one.get("type") not in _BLOCKS for one in (block, *inner)):
                    return f"{block.get('type')} in a message"
    return ""


def _function(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a function with its schema under one name."""
    function = as_mapping(tool.get("function")) or dict(tool)
    return function | ({"input_schema": function["parameters"]} if "parameters" in function else {})


def make_request(body: WireBody, parsed: Mapping[str, Any], base: ModelRequest) -> ModelRequest:
    """Return the request of an agent as one of Zoea's own. `base` holds what the mysis adds."""
    messages: list[RequestMessage] = []
    for message in body.messages:
        last = messages[-1] if messages else None
        if last is not None and last.role is message.role and message.role in (Role.SYSTEM, Role.ASSISTANT):
            content = "\n".join(filter(None, (last.content, message.content)))
            messages[-1] = replace(last, content=content, calls=(*last.calls, *message.calls))
        else:
            messages.append(message)
    temperature = parsed.get("temperature")
    return replace(
        base,
        messages=tuple(messages),
        tools=body.tools,
        max_output_tokens=body.max_output_tokens or base.max_output_tokens,
        temperature=float(temperature) if isinstance(temperature, int | float) else None,
    )


async def forward_translated(
    provider: Provider, request: ModelRequest, wire: Wire, *, is_stream: bool
) -> AsyncGenerator[ForwardedItem, None]:
    """Ask a provider as Zoea does, and yield the answer in a wire's form. Raises ProviderError."""
    writer = _WRITERS[wire](request.model)
    has_begun = False
    async with aclosing(provider.stream(request)) as items:
        async for item in items:
            if isinstance(item, RequestHeld | RequestSent):
                yield item
            elif isinstance(item, Delta | Answer):
                if not has_begun and (is_stream or isinstance(item, Answer)):
                    has_begun = True
                    kind = "text/event-stream" if is_stream else "application/json"
                    yield ForwardedHead(200, {"content-type": kind})
                if is_stream:
                    yield b"".join(writer.add(item.text) if isinstance(item, Delta) else writer.end(item))
                elif isinstance(item, Answer):
                    yield json.dumps(writer.whole(item)).encode()


class _ChatWriter:
    """Writes a chat completion."""

    def __init__(self, model: str) -> None:
        self._head = {"id": f"chatcmpl-{next(_IDS)}", "created": 0, "model": model}
        self._has_text = False

    def add(self, text: str) -> Iterator[bytes]:
        if text:
            self._has_text = True
            yield self._chunk({"role": "assistant", "content": text})

    def end(self, answer: Answer) -> Iterator[bytes]:
        if answer.text and not self._has_text:
            yield from self.add(answer.text)
        message = self._message(answer)
        calls = [{"index": place, **call} for place, call in enumerate(message.get("tool_calls", ()))]
        if calls:
            yield self._chunk({"role": "assistant", "tool_calls": calls})
        yield self._chunk({}, _CHAT_ENDS.get(answer.finish, "stop"))
        yield _event({**self._head, "object": "chat.completion.chunk", "choices": [], "usage": self._usage(answer)})
        yield b"data: [DONE]\n\n"

    def whole(self, answer: Answer) -> dict[str, Any]:
        choice = {"index": 0, "message": self._message(answer), "finish_reason": _CHAT_ENDS.get(answer.finish, "stop")}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": self._usage(answer)}

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _event({**self._head, "object": "chat.completion.chunk", "choices": [choice]})

    def _message(self, answer: Answer) -> dict[str, Any]:
        calls = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in _list_calls(answer)
        ]
        more = {"tool_calls": calls} if calls else {}
        return {"role": "assistant", "content": answer.text or None, **more}

    def _usage(self, answer: Answer) -> dict[str, Any] | None:
        usage = answer.usage
        if usage.total is None:
            return None
        counts = {"prompt_tokens": usage.input_tokens or 0, "completion_tokens": usage.output_tokens or 0}
        details = {"prompt_tokens_details": {"cached_tokens": usage.cached_tokens or 0}}
        return {**counts, "total_tokens": usage.total, **details}


class _MessageWriter:
    """Writes a message of Anthropic's API."""

    def __init__(self, model: str) -> None:
        self._head = {"id": f"msg_{next(_IDS)}", "type": "message", "role": "assistant", "model": model}
        self._blocks = 0
        self._has_text = False

    def add(self, text: str) -> Iterator[bytes]:
        if not text:
            return
        if not self._has_text:
            self._has_text = True
            yield from self._begin()
            start = {"type": "text", "text": ""}
            yield _event({"type": "content_block_start", "index": 0, "content_block": start})
            self._blocks = 1
        yield _event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})

    def end(self, answer: Answer) -> Iterator[bytes]:
        if not self._has_text:
            yield from self.add(answer.text) if answer.text else self._begin()
        if self._blocks:
            yield _event({"type": "content_block_stop", "index": 0})
        for index, (call_id, name, arguments) in enumerate(_list_calls(answer), self._blocks):
            start = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": arguments}
            yield _event({"type": "content_block_start", "index": index, "content_block": start})
            yield _event({"type": "content_block_delta", "index": index, "delta": delta})
            yield _event({"type": "content_block_stop", "index": index})
        ends = {"stop_reason": _MESSAGE_ENDS.get(answer.finish, "end_turn"), "stop_sequence": None}
        yield _event({"type": "message_delta", "delta": ends, "usage": _count_message(answer.usage)})
        yield _event({"type": "message_stop"})

    def whole(self, answer: Answer) -> dict[str, Any]:
        content: list[dict[str, Any]] = [{"type": "text", "text": answer.text}] if answer.text else []
        content += [
            {"type": "tool_use", "id": call_id, "name": name, "input": json.loads(arguments)}
            for call_id, name, arguments in _list_calls(answer)
        ]
        ends = {"stop_reason": _MESSAGE_ENDS.get(answer.finish, "end_turn"), "stop_sequence": None}
        return {**self._head, "content": content, **ends, "usage": _count_message(answer.usage)}

    def _begin(self) -> Iterator[bytes]:
        yield _event({"type": "message_start", "message": {**self._head, "content": [], "usage": {}}})


class _ResponseWriter:
    """Writes a response of the Responses API."""

    def __init__(self, model: str) -> None:
        number = next(_IDS)
        self._head = {"id": f"resp_{number}", "object": "response", "created_at": 0, "model": model}
        self._item_id = f"msg_{number}"
        self._has_begun = self._has_text = False

    def add(self, text: str) -> Iterator[bytes]:
        if not text:
            return
        yield from self._begin()
        if not self._has_text:
            self._has_text = True
            item = {"id": self._item_id, "type": "message", "role": "assistant", "status": "in_progress", "content": []}
            yield _event({"type": "response.output_item.added", "output_index": 0, "item": item})
            yield _event({"type": "response.content_part.added", **self._place(), "part": _part("")})
        yield _event({"type": "response.output_text.delta", **self._place(), "delta": text})

    def end(self, answer: Answer) -> Iterator[bytes]:
        yield from self._begin()
        if answer.text and not self._has_text:
            yield from self.add(answer.text)
        response = self.whole(answer)
        if self._has_text:
            yield _event({"type": "response.output_text.done", **self._place(), "text": answer.text})
            yield _event({"type": "response.content_part.done", **self._place(), "part": _part(answer.text)})
        for place, item in enumerate(response["output"]):
            if item["type"] == "function_call":
                where = {"output_index": place, "item_id": item["id"]}
                began = {**item, "arguments": "", "status": "in_progress"}
                yield _event({"type": "response.output_item.added", "output_index": place, "item": began})
                delta = {"type": "response.function_call_arguments.delta", **where, "delta": item["arguments"]}
                yield _event(delta)
                done = {"type": "response.function_call_arguments.done", **where, "arguments": item["arguments"]}
                yield _event(done)
            yield _event({"type": "response.output_item.done", "output_index": place, "item": item})
        yield _event({"type": f"response.{response['status']}", "response": response})

    def whole(self, answer: Answer) -> dict[str, Any]:
        output: list[dict[str, Any]] = []
        if answer.text:
            message = {"id": self._item_id, "type": "message", "role": "assistant", "status": "completed"}
            output.append({**message, "content": [_part(answer.text)]})
        for call_id, name, arguments in _list_calls(answer):
            call = {"id": f"fc_{call_id}", "type": "function_call", "status": "completed", "call_id": call_id}
            output.append({**call, "name": name, "arguments": arguments})
        usage, is_cut = answer.usage, answer.finish is Finish.LENGTH
        fields = (
            None
            if usage.total is None
            else {
                "input_tokens": usage.input_tokens or 0,
                "input_tokens_details": {"cached_tokens": usage.cached_tokens or 0},
                "output_tokens": usage.output_tokens or 0,
                "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
                "total_tokens": usage.total,
            }
        )
        why = {"reason": "max_output_tokens"} if is_cut else None
        status = "incomplete" if is_cut else "completed"
        return {**self._head, "status": status, "output": output, "usage": fields, "incomplete_details": why}

    def _begin(self) -> Iterator[bytes]:
        if not self._has_begun:
            self._has_begun = True
            response = {**self._head, "status": "in_progress", "output": []}
            yield _event({"type": "response.created", "response": response})

    def _place(self) -> dict[str, Any]:
        return {"item_id": self._item_id, "output_index": 0, "content_index": 0}


_WRITERS: Mapping[Wire, type[_ChatWriter] | type[_MessageWriter] | type[_ResponseWriter]] = {
    Wire.CHAT: _ChatWriter,
    Wire.MESSAGES: _MessageWriter,
    Wire.RESPONSES: _ResponseWriter,
}


def _list_calls(answer: Answer) -> list[tuple[str, str, str]]:
    """Return id, name and arguments of each call; arguments that are no object are none."""
    return [
        (call.provider_call_id or f"call_{next(_IDS)}", call.name, call.arguments if not call.broken else "{}")
        for call in answer.calls
    ]


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def _count_message(usage: Usage) -> dict[str, int]:
    """Return the reported tokens as Anthropic counts them: cached ones apart."""
    cached = usage.cached_tokens or 0
    known = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    counted = {name: tokens for name, tokens in known.items() if tokens is not None}
    if "input_tokens" in counted and cached:
        counted |= {"input_tokens": max(0, counted["input_tokens"] - cached), "cache_read_input_tokens": cached}
    return counted


def _event(payload: dict[str, Any]) -> bytes:
    name = f"event: {payload['type']}\n" if "type" in payload else ""
    return f"{name}data: {json.dumps(payload, ensure_ascii=False)}\n\n".encode("utf-8", "replace")
