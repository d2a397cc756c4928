"""Fits ids, the system text and schemas of a request to its model. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from zoea.llm.model_traits import WITHOUT_TOOL, Trait, Traits
from zoea.model.enums import Role
from zoea.model.request import RequestMessage, ToolSpec
from zoea.text.flat_schema import flat

BRIDGE = "(I go on with the next message.)"
_SHORT = re.compile(r"[a-zA-Z0-9]{9}")
_CHOICES = ("allOf", "anyOf", "oneOf")
_PLAIN = ("type", "description", "properties", "required", "items", "enum")


def fit_ids(messages: Sequence[RequestMessage], traits: Traits) -> list[RequestMessage]:
    """Give calls and results the ids that a vendor takes: its own where they came from it, else made ones."""
    is_short = Trait.SHORT_CALL_IDS in traits
    if not is_short and Trait.OWN_CALL_IDS not in traits:
        return list(messages)
    ids: dict[str, str] = {}
    for call in (call for message in messages for call in message.calls):
        own = call.own_id if not is_short or _SHORT.fullmatch(call.own_id) else ""
        taken = ids.values()
        ids[call.id] = own if own and own not in taken else _short_id(call.id) if is_short else call.id
    return [
        replace(
            message,
            calls=tuple([replace(call, id=ids[call.id]) for call in message.calls]),
            call_id=ids.get(message.call_id, _short_id(message.call_id) if is_short else message.call_id),
        )
        if message.calls or message.role is Role.TOOL
        else message
        for message in messages
    ]


def _short_id(id: str) -> str:
    """Return nine letters or digits that stand for an id, always the same."""
    return id if _SHORT.fullmatch(id) else hashlib.blake2b(id.encode(), digest_size=8).hexdigest()[:9]


def fit_order(messages: list[RequestMessage], traits: Traits) -> list[RequestMessage]:
    """Put each call into its own message, or an answer between result and user message."""
    if Trait.SINGLE_CALLS in traits:
        results = {one.call_id: one for one in messages if one.role is Role.TOOL}
        split = {call.id for message in messages if len(message.calls) > 1 for call in message.calls}
        apart: list[RequestMessage] = []
        for message in messages:
            if len(message.calls) > 1:
                for number, call in enumerate(message.calls):
                    bare = RequestMessage(Role.ASSISTANT, "") if number else replace(message, native=None)
                    apart += [replace(bare, calls=(call,)), *([results[call.id]] if call.id in results else [])]
            elif message.call_id not in split:
                apart.append(message)
        messages = apart
    if Trait.BRIDGED_USERS in traits:
        pairs = zip([None, *messages], messages, strict=False)
        messages = [
            one
            for last, message in pairs
            for one in (
                (RequestMessage(Role.ASSISTANT, BRIDGE), message)
                if message.role is Role.USER and last is not None and last.role is Role.TOOL
                else (message,)
            )
        ]
    return messages


def fit_system(system: str, messages: list[RequestMessage], traits: Traits) -> tuple[str, list[RequestMessage]]:
    """Put the system text before the first user message, for templates without a system role."""
    if Trait.NO_SYSTEM not in traits or not system:
        return system, messages
    first = messages[0]
    if first.role is Role.USER:
        return "", [replace(first, content=f"{system}\n\n{first.content}"), *messages[1:]]
    return "", [RequestMessage(Role.USER, system), *messages]


def fit_tools(tools: Iterable[ToolSpec], traits: Traits) -> tuple[ToolSpec, ...]:
    """Leave out tools that the provider refuses, and fold schemas that it does not take."""
    offered = tuple(tool for tool in tools if WITHOUT_TOOL + tool.name not in traits)
    if Trait.PLAIN_SCHEMAS in traits:
        return tuple(replace(tool, input_schema=plain_schema(tool.input_schema)) for tool in offered)
    if Trait.FOLDED_SCHEMAS in traits:
        return tuple(replace(tool, input_schema=fold_choices(tool.input_schema)) for tool in offered)
    return offered


def fold_choices(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without a choice at its top: all arguments of all choices, required where each requires them."""
    if not any(key in schema for key in _CHOICES):
        return dict(schema)
    whole = flat(schema)
    made = {key: value for key, value in whole.items() if key not in _CHOICES}
    properties, required = dict(made.get("properties") or {}), set(made.get("required") or ())
    for key in _CHOICES:
        options = [fold_choices(one) for one in whole.get(key) or () if isinstance(one, Mapping)]
        for option in options:
            properties = {**(option.get("properties") or {}), **properties}
        wanted = [set(option.get("required") or ()) for option in options]
        if wanted:
            required |= set.union(*wanted) if key == "allOf" else set.intersection(*wanted)
    made |= {"type": "object", "properties": properties, "required": sorted(required & properties.keys())}
    if not made["required"]:
        del made["required"]
    return made


def plain_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with types, descriptions, texts to choose from and nothing else."""
    made = _plain(fold_choices(flat(schema)))
    return {**made, "type": "object", "properties": made.get("properties", {})}


def _plain(node: Any) -> dict[str, Any]:
    if not isinstance(node, Mapping):
        return {"type": "string"}
    for key in ("anyOf", "oneOf"):
        options = [one for one in node.get(key) or () if isinstance(one, Mapping) and one.get("type") != "null"]
        if options and "type" not in node:
            node = {**options[0], **{name: value for name, value in node.items() if name not in _CHOICES}}
    made = {key: node[key] for key in _PLAIN if key in node}
    if "const" in node:
        made["enum"] = [node["const"]]
    kinds = made.get("type")
    if isinstance(kinds, list):
        made["type"] = next((kind for kind in kinds if kind != "null"), "string")
    if not all(isinstance(one, str) for one in made.get("enum", ())):
        del made["enum"]
    if isinstance(made.get("properties"), Mapping):
        made["properties"] = {name: _plain(one) for name, one in made["properties"].items()}
        made["type"] = "object"
    required = made.get("required")
    if required is not None:
        made["required"] = [name for name in required if name in made.get("properties", {})]
    if made.get("type") == "array" or "items" in made:
        made |= {"type": "array", "items": _plain(made.get("items"))}
    made.setdefault("type", "string")
    return made
