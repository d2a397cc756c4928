"""Streams the answer of a script as events of OpenAI's Responses API.

The shapes follow https://platform.openai.com/docs/api-reference/responses-streaming; the values are this project's own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.fakes.openai_server import Say, cut, usage_of
from tests.fakes.wire_server import Outgoing


def read_messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the input of a request as messages of a chat: role, text, and results as role `tool`."""
    told = body.get("input") or []
    messages = [{"role": "user", "content": told}] if isinstance(told, str) else []
    for item in told if isinstance(told, list) else []:
        if item.get("type", "message") == "message":
            content = item["content"]
            parts = content if isinstance(content, str) else "".join(str(part.get("text", "")) for part in content)
            messages.append({"role": item["role"], "content": parts})
        elif item["type"].endswith("_output"):
            messages.append({"role": "tool", "content": json.dumps(item.get("output"))})
    return messages


def stream_response(out: Outgoing, step: Say, body: dict[str, Any], number: int) -> None:
    """Send the whole answer as a stream."""
    out.begin("text/event-stream; charset=utf-8")
    for event in response_events(step, body, number):
        out.piece(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
    out.end()


def response_events(step: Say, body: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """Yield the events of an answer; its ids hold the number."""
    counted = usage_of(step, {"messages": read_messages(body)})
    usage = {
        "input_tokens": counted["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": counted["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": counted["total_tokens"],
    }
    whole: dict[str, Any] = {"id": f"resp_{number}", "object": "response", "model": body["model"], "output": []}
    yield {"type": "response.created", "response": {**whole, "status": "in_progress", "usage": None}}
    items: list[dict[str, Any]] = []
    if step.text:
        part = {"type": "output_text", "text": step.text, "annotations": []}
        items.append({"id": f"msg_{number}", "type": "message", "role": "assistant", "content": [part]})
    for place, call in enumerate(step.calls):
        item = {
            "id": f"call_{number}_{place}",
            "status": "completed",
            "call_id": f"{call.id}_{number}",
            "name": call.name,
        }
        is_script = bool(call.extra and call.extra.get("is_script"))
        kind, field = ("custom_tool_call", "input") if is_script else ("function_call", "arguments")
        items.append({**item, "type": kind, field: call.arguments})
    for index, item in enumerate(items):
        at = {"item_id": item["id"], "output_index": index}
        if item["type"] == "message":
            yield {"type": "response.output_item.added", "output_index": index, "item": {**item, "content": []}}
            empty = {"type": "output_text", "text": "", "annotations": []}
            yield {"type": "response.content_part.added", **at, "content_index": 0, "part": empty}
            for piece in cut(step.text, step.chunk):
                yield {"type": "response.output_text.delta", **at, "content_index": 0, "delta": piece}
            yield {"type": "response.output_text.done", **at, "content_index": 0, "text": step.text}
        else:
            kind, field = (
                ("custom_tool_call_input", "input") if "input" in item else ("function_call_arguments", "arguments")
            )
            yield {"type": "response.output_item.added", "output_index": index, "item": {**item, field: ""}}
            yield {"type": f"response.{kind}.delta", **at, "delta": item[field]}
            yield {"type": f"response.{kind}.done", **at, field: item[field]}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": {**whole, "status": "completed", "output": items, "usage": usage}}
