"""Builds the JSON of the messages API from a `ModelRequest`. Pure.

Sources: https://platform.claude.com/docs/en/api/messages,
https://platform.claude.com/docs/en/build-with-claude/prompt-caching,
https://platform.claude.com/docs/en/build-with-claude/extended-thinking.
"""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from zoea.llm.messages import json_schema_tools
from zoea.llm.messages.message_rules import merge_users, native_for, settle, strict_object, user_first
from zoea.llm.messages.request_forms import fit_ids, fit_system, fit_tools
from zoea.llm.model_traits import Trait, Traits
from zoea.llm.provider_config import ProviderConfig
from zoea.model.enums import Role
from zoea.model.request import ModelRequest, RequestMessage

MIN_THINKING = 1024
EFFORTS = ("low", "medium", "high", "xhigh", "max")
_MARK = {"type": "ephemeral"}
_NEXT_TURN = "\nUser:"
"""Where a model goes on with a conversation like the examples. No text inside a JSON object has a line of its own."""
_SIGNED = ("thinking", "redacted_thinking")


def forms_in(body: dict[str, Any]) -> frozenset[str]:
    """Return which forms a body uses, of those that providers refuse (`model_traits.trait_in`)."""
    answers = [one for one in body["messages"] if one["role"] == "assistant"]
    calls = [block for one in answers for block in one["content"] if block["type"] == "tool_use"]
    forms = {
        "answers": answers,
        "calls": calls,
        "cache_control": "cache_control" in body["messages"][-1]["content"][-1],
    }
    return frozenset(body) | {name for name, is_there in forms.items() if is_there}


def body_of(
    request: ModelRequest,
    config: ProviderConfig,
    *,
    provider: str,
    traits: Traits = frozenset(),
    without_thinking: bool = False,
    has_text_calls: bool = False,
) -> dict[str, Any]:
    """Build the request's body.

    Args:
        without_thinking: Leaves out thinking: the setting and every signed block.
        has_text_calls: Describes the tools in the system text, because the model calls them as text only.
    """
    request = replace(request, tools=fit_tools(request.tools, traits))
    system, messages = settle(request.messages)
    messages = fit_ids(messages, traits)
    if has_text_calls:
        shows = config.examples is not False  # nothing else holds the model to the form
        system, messages = json_schema_tools.as_text(system, messages, request, with_examples=shows)
        messages = merge_users(messages)
    system, messages = fit_system(system, messages, traits)
    model = request.model or config.model
    mark = {} if Trait.NO_CACHE_MARKS in traits else {"cache_control": _MARK}
    body: dict[str, Any] = {"model": model, "max_tokens": request.max_output_tokens, "stream": True}
    thinking = (
        {}
        if without_thinking or Trait.NO_THINKING in traits
        else thinking_of(config.thinking, request.max_output_tokens)
    )
    body.update(thinking)
    temperature = config.temperature if request.temperature is None else request.temperature
    if temperature is not None and Trait.NO_TEMPERATURE not in traits and not _thinks(thinking):
        body["temperature"] = temperature
    if has_text_calls:
        body["stop_sequences"] = [_NEXT_TURN]
    elif request.tools:
        body["tools"] = [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.input_schema or {"type": "object"},
            }
            for tool in request.tools
        ]
        if not system:
            body["tools"][-1] |= mark
    if system:
        # A mark covers all that stands before it, and the tools do.
        body["system"] = [{"type": "text", "text": system, **mark}]
    opened = user_first(messages)
    added = len(opened) - len(messages)
    ends = {added + sum(one.role is not Role.SYSTEM for one in request.messages[:end]) for end in request.cache_ends}
    body["messages"] = _alternating(opened, provider, model, without_thinking, ends if mark else set())
    block = body["messages"][-1]["content"][-1]
    if block["type"] not in _SIGNED:
        block |= mark  # the next request of the turn begins with this one
    body.update(config.options)
    body.update(request.options)
    return body


def thinking_of(setting: bool | int | str | None, max_output: int) -> dict[str, Any]:
    """Return the setting as the API's `thinking` and effort. A budget is kept below the output limit."""
    match setting:
        case None:
            return {}
        case False | "off":
            return {"thinking": {"type": "disabled"}}
        case True | "on" | "adaptive":
            return {"thinking": {"type": "adaptive"}}
        case str() if setting in EFFORTS:
            return {"thinking": {"type": "adaptive"}, "output_config": {"effort": setting}}
        case int():
            budget = min(setting, max_output - MIN_THINKING)
            return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= MIN_THINKING else {}
        case _:
            return {"thinking": {"type": setting}}


def _thinks(thinking: dict[str, Any]) -> bool:
    return bool(thinking) and thinking["thinking"]["type"] != "disabled"


def _alternating(
    messages: list[RequestMessage], provider: str, model: str, without_thinking: bool, ends: set[int]
) -> list[dict[str, Any]]:
    """Merge neighbours of one role, so that user and assistant alternate. Mark the message before each of `ends`."""
    wire: list[dict[str, Any]] = []
    for place, message in enumerate(messages, start=1):
        if message.role is Role.ASSISTANT:
            role, blocks = "assistant", _assistant(message, provider, model, without_thinking)
        else:
            role, blocks = "user", [_user(message)]
        if wire and wire[-1]["role"] == role:
            wire[-1]["content"].extend(blocks)
        else:
            wire.append({"role": role, "content": blocks})
        if place in ends and blocks and blocks[-1]["type"] not in _SIGNED:
            blocks[-1]["cache_control"] = _MARK
    return wire


def _user(message: RequestMessage) -> dict[str, Any]:
    if message.role is not Role.TOOL:
        return {"type": "text", "text": message.content}
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": message.call_id, "content": message.content}
    if message.is_error:
        result["is_error"] = True
    return result


def _assistant(message: RequestMessage, provider: str, model: str, without_thinking: bool) -> list[dict[str, Any]]:
    uses = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": strict_object(call.arguments) or {}}
        for call in message.calls
    ]
    text = [{"type": "text", "text": message.content}] if message.content.strip() else []
    native = None if without_thinking else native_for(message, provider, model)
    if native is None:
        return [*text, *uses]
    blocks: list[dict[str, Any]] = json.loads(native.blocks)
    said = "".join(block["text"] for block in blocks if block["type"] == "text")
    places = sum(1 for block in blocks if block["type"] == "tool_use")
    if places != len(uses) or said.strip() != message.content.strip():  # compacted since: signed blocks go first
        return [*(block for block in blocks if block["type"] in _SIGNED), *text, *uses]
    left = iter(uses)
    kept = [block for block in blocks if block["type"] != "text" or block["text"].strip()]
    return [next(left) if block["type"] == "tool_use" else block for block in kept]
