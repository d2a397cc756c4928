"""Builds the JSON of a chat completion from a `ModelRequest`. Pure.

Sources: https://platform.openai.com/docs/api-reference/chat/create, and the differences of compatible servers
(see `OpenAIQuirk`).
"""

from __future__ import annotations

import json
import re
from enum import StrEnum
from typing import Any

from zoea.llm.messages import json_schema_tools
from zoea.llm.messages.message_rules import (
    Replay,
    merge_users,
    native_for,
    replay_of,
    result_text,
    settle,
    user_first,
)
from zoea.llm.provider_config import ProviderConfig
from zoea.model.enums import Role, ToolMode
from zoea.model.request import ModelRequest, RequestMessage, ToolSpec


class OpenAIQuirk(StrEnum):
    """A feature that a server does not take. Learnt from its refusal and remembered per model."""

    NO_STREAM_OPTIONS = "no_stream_options"
    COMPLETION_TOKENS = "completion_tokens"
    NO_TEMPERATURE = "no_temperature"
    NO_TOOLS = "no_tools"
    MERGED_USERS = "merged_users"
    USER_FIRST = "user_first"
    USER_BEFORE_CALLS = "user_before_calls"


Quirks = frozenset[OpenAIQuirk]

_ROLES = re.compile(r"must alternate|consecutive (user|assistant)", re.IGNORECASE)
_FIRST = re.compile(r"must alternate|(first|start|begin)[^.]{0,60}\buser\b", re.IGNORECASE)
_BEFORE_CALLS = re.compile(r"function call turn comes immediately after a user turn", re.IGNORECASE)
_TOOLS = re.compile(
    r"does not support (tools|function)|tools? (is|are) not supported|tool use is not supported|requires? --jinja"
    r"|no endpoints found that support tool|auto.? tool choice requires",
    re.IGNORECASE,
)


def uses_schema(config: ProviderConfig, quirks: Quirks, request: ModelRequest) -> bool:
    """Return True if the tools are sent as a schema for the answer."""
    if not request.tools or config.tool_mode is ToolMode.NATIVE:
        return False
    return config.tool_mode is ToolMode.JSON_SCHEMA or request.as_schema or OpenAIQuirk.NO_TOOLS in quirks


def quirk_in(status: int, text: str, body: dict[str, Any], quirks: Quirks, mode: ToolMode) -> OpenAIQuirk | None:
    """Return the quirk that a refusal tells of, unless the request already respects it."""
    low = text.lower()
    found: OpenAIQuirk | None = None
    if (opening := _opening_in(status, text, body)) is not None:
        found = opening
    elif _ROLES.search(text):
        found = OpenAIQuirk.MERGED_USERS
    elif status not in (400, 404, 422, 500, 501):
        return None
    elif "tools" in body and mode is ToolMode.AUTO and _TOOLS.search(text):
        found = OpenAIQuirk.NO_TOOLS
    elif status in (400, 422):
        if "stream_options" in body and ("stream_options" in low or "include_usage" in low):
            found = OpenAIQuirk.NO_STREAM_OPTIONS
        elif "max_tokens" in body and "max_completion_tokens" in low:
            found = OpenAIQuirk.COMPLETION_TOKENS
        elif "temperature" in body and "temperature" in low:
            found = OpenAIQuirk.NO_TEMPERATURE
    return None if found in quirks else found


def _opening_in(status: int, text: str, body: dict[str, Any]) -> OpenAIQuirk | None:
    """Return the quirk of a history refused for want of a first user message (Mistral's templates)."""
    first = next((message for message in body["messages"] if message["role"] != "system"), None)
    if status not in (400, 422, 500) or first is None or first["role"] != "assistant":
        return None
    if first.get("tool_calls"):
        return OpenAIQuirk.USER_BEFORE_CALLS if _BEFORE_CALLS.search(text) else None
    return OpenAIQuirk.USER_FIRST if _FIRST.search(text) else None


def body_of(
    request: ModelRequest,
    config: ProviderConfig,
    *,
    provider: str,
    quirks: Quirks = frozenset(),
    without_thinking: bool = False,
    reports_reading: bool = False,
) -> dict[str, Any]:
    """Build the request's body.

    Args:
        without_thinking: Leaves out all reasoning and native blocks.
        reports_reading: Asks for reports of how much of the prompt is read; only llama.cpp knows this key.
    """
    schema = uses_schema(config, quirks, request)
    system, messages = settle(request.messages)
    model = request.model or config.model
    if schema:
        system, messages = json_schema_tools.as_text(
            system,
            messages,
            request.tools,
            with_examples=bool(config.examples),
            as_signatures=request.as_signatures,
        )
    if (OpenAIQuirk.USER_BEFORE_CALLS if messages[0].calls else OpenAIQuirk.USER_FIRST) in quirks:
        messages = user_first(messages)
    if OpenAIQuirk.MERGED_USERS in quirks or schema:
        messages = merge_users(messages)
    wire: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    wire.extend(_message(message, provider, model, without_thinking) for message in messages)
    body: dict[str, Any] = {"model": model, "messages": wire, "stream": True}
    if reports_reading:
        body["return_progress"] = True
    if OpenAIQuirk.NO_STREAM_OPTIONS not in quirks:
        body["stream_options"] = {"include_usage": True}
    limit = "max_completion_tokens" if OpenAIQuirk.COMPLETION_TOKENS in quirks else "max_tokens"
    body[limit] = request.max_output_tokens
    temperature = config.temperature if request.temperature is None else request.temperature
    if temperature is not None and OpenAIQuirk.NO_TEMPERATURE not in quirks:
        body["temperature"] = temperature
    if schema:
        body["response_format"] = json_schema_tools.response_format(request)
    elif request.tools:
        body["tools"] = [tool_wire(tool) for tool in request.tools]
    if (effort := effort_of(config.thinking)) is not None and not without_thinking:
        body["reasoning_effort"] = effort
    body.update(config.options)
    body.update(request.options)
    return body


def effort_of(thinking: bool | int | str | None) -> str | None:
    """Return the setting as `reasoning_effort`; None if it names no effort."""
    match thinking:
        case False | "off":
            return "none"
        case str() if thinking not in ("on", "adaptive"):
            return thinking
        case _:
            return None


def tool_wire(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema or _NO_PARAMETERS}
    return {"type": "function", "function": function}


_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


def _message(message: RequestMessage, provider: str, model: str, without_thinking: bool) -> dict[str, Any]:
    match message.role:
        case Role.TOOL:
            return {"role": "tool", "tool_call_id": message.call_id, "content": result_text(message)}
        case Role.ASSISTANT:
            return _assistant(message, provider, model, without_thinking)
        case _:
            return {"role": "user", "content": message.content}


def _assistant(message: RequestMessage, provider: str, model: str, without_thinking: bool) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": "assistant", "content": message.content or None}
    if message.calls:
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments or "{}"},
            }
            for call in message.calls
        ]
    if without_thinking:
        return wire
    if message.reasoning and message.calls and replay_of(model) is Replay.REASONING_CONTENT:
        wire["reasoning_content"] = message.reasoning
    if (native := native_for(message, provider, model)) is not None:
        _put_back(wire, json.loads(native.blocks))
    return wire


def _put_back(wire: dict[str, Any], blocks: list[dict[str, Any]]) -> None:
    """Put native blocks back: reasoning details beside the text, extras on their calls."""
    details = [block["detail"] for block in blocks if block["type"] == "detail"]
    if details:
        wire["reasoning_details"] = details
        wire.pop("reasoning_content", None)
    calls = wire.get("tool_calls", [])
    for block in blocks:
        if block["type"] == "extra" and block["position"] < len(calls):
            calls[block["position"]]["extra_content"] = block["extra_content"]
