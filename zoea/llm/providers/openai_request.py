"""Builds the JSON of a chat completion from a `ModelRequest`. Pure.

Sources: https://platform.openai.com/docs/api-reference/chat/create, and the differences of compatible servers
(see `model_traits.Trait`).
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from zoea.llm.messages import json_schema_tools
from zoea.llm.messages.message_rules import merge_users, native_for, result_text, settle, user_first
from zoea.llm.messages.request_forms import fit_ids, fit_order, fit_system, fit_tools
from zoea.llm.model_traits import Trait, Traits
from zoea.llm.provider_config import ProviderConfig
from zoea.model.enums import Role, ToolMode
from zoea.model.request import ModelRequest, RequestMessage, ToolSpec


def uses_schema(config: ProviderConfig, traits: Traits, request: ModelRequest) -> bool:
    """Return True if the tools are sent as a schema for the answer."""
    if not request.tools or config.tool_mode is ToolMode.NATIVE:
        return False
    return config.tool_mode is ToolMode.JSON_SCHEMA or request.as_schema or Trait.NO_TOOLS in traits


def forms_in(body: dict[str, Any], mode: ToolMode) -> frozenset[str]:
    """Return which forms a body uses, of those that providers refuse (`model_traits.trait_in`)."""
    messages = body["messages"]
    answers = [one for one in messages if one["role"] == "assistant"]
    first = next((one for one in messages if one["role"] != "system"), None)
    opening = first is not None and first["role"] == "assistant"
    return frozenset(body) | {
        form
        for form, is_there in (
            ("system", messages[0]["role"] == "system"),
            ("answers", bool(answers)),
            ("calls", any(one.get("tool_calls") for one in answers)),
            ("several calls", any(len(one.get("tool_calls", ())) > 1 for one in answers)),
            ("user after result", ("tool", "user") in pairwise(one["role"] for one in messages)),
            ("reasoning", any("reasoning_content" in one or "reasoning_details" in one for one in answers)),
            ("opening calls", first is not None and opening and "tool_calls" in first),
            ("opening answer", first is not None and opening and "tool_calls" not in first),
            ("free tools", "tools" in body and mode is ToolMode.AUTO),
        )
        if is_there
    }


def body_of(
    request: ModelRequest,
    config: ProviderConfig,
    *,
    provider: str,
    traits: Traits = frozenset(),
    without_thinking: bool = False,
    reports_reading: bool = False,
) -> dict[str, Any]:
    """Build the request's body.

    Args:
        without_thinking: Leaves out all reasoning and native blocks.
        reports_reading: Asks for reports of how much of the prompt is read; only llama.cpp knows this key.
    """
    schema = uses_schema(config, traits, request)
    request = replace(request, tools=fit_tools(request.tools, traits))
    system, messages = settle(request.messages)
    messages = fit_ids(messages, traits)
    model = request.model or config.model
    if schema:
        system, messages = json_schema_tools.as_text(system, messages, request, with_examples=bool(config.examples))
    if (Trait.USER_BEFORE_CALLS if messages[0].calls else Trait.USER_FIRST) in traits:
        messages = user_first(messages)
    system, messages = fit_system(system, messages, traits)
    if Trait.MERGED_USERS in traits or schema:
        messages = merge_users(messages)
    messages = fit_order(messages, traits)
    wire: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    wire.extend(_message(message, provider, model, traits, without_thinking) for message in messages)
    body: dict[str, Any] = {"model": model, "messages": wire, "stream": True}
    if reports_reading:
        body["return_progress"] = True
    if Trait.NO_STREAM_OPTIONS not in traits:
        body["stream_options"] = {"include_usage": True}
    limit = "max_completion_tokens" if Trait.COMPLETION_TOKENS in traits else "max_tokens"
    body[limit] = request.max_output_tokens
    temperature = config.temperature if request.temperature is None else request.temperature
    if temperature is not None and Trait.NO_TEMPERATURE not in traits:
        body["temperature"] = temperature
    if schema:
        body["response_format"] = json_schema_tools.response_format(request)
    elif request.tools:
        body["tools"] = [tool_wire(tool) for tool in request.tools]
    is_without = without_thinking or Trait.NO_THINKING in traits
    if (effort := effort_of(config.thinking)) is not None and not is_without:
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
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": {**_NO_PARAMETERS, **tool.input_schema},
    }
    return {"type": "function", "function": function}


_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
"""OpenAI refuses a schema without them (Azure/azure-mcp#197, evalstate/fast-agent#143)."""


def _message(
    message: RequestMessage, provider: str, model: str, traits: Traits, without_thinking: bool
) -> dict[str, Any]:
    match message.role:
        case Role.TOOL:
            return {"role": "tool", "tool_call_id": message.call_id, "content": result_text(message)}
        case Role.ASSISTANT:
            return _assistant(message, provider, model, traits, without_thinking or Trait.NO_REASONING in traits)
        case _:
            return {"role": "user", "content": message.content}


def _assistant(
    message: RequestMessage, provider: str, model: str, traits: Traits, without_thinking: bool
) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": "assistant", "content": message.content or None}
    if message.calls:
        wire["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments or "{}"}}
            for call in message.calls
        ]
    if without_thinking:
        return wire
    if Trait.REASONING_FILLED in traits:
        wire["reasoning_content"] = message.reasoning or " "  # an empty text counts as missing
    elif message.reasoning and message.calls and Trait.REASONING_BACK in traits:
        wire["reasoning_content"] = message.reasoning
    if (native := native_for(message, provider, model)) is not None:
        _put_back(wire, json.loads(native.blocks))
    if Trait.SIGNED_CALLS in traits and message.calls:  # Gemini looks at the first call of an answer alone
        wire["tool_calls"][0].setdefault("extra_content", _UNSIGNED)
    return wire


_UNSIGNED: dict[str, Any] = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""Stands for the signature of a call that another model made: https://ai.google.dev/gemini-api/docs/thought-signatures"""


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
