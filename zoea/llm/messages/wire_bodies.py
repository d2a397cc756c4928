"""Reads the requests of other clients on three wires into the values of Zoea's own. Pure.

The values serve estimates, the record of a request and its inspection; the body itself is sent as it came. Odd
values are kept as JSON, so that nothing that was sent is hidden; only the bytes of pictures and files are left out.
Sources: https://platform.openai.com/docs/api-reference/chat/create,
https://platform.openai.com/docs/api-reference/responses/create, https://platform.claude.com/docs/en/api/messages.
"""

from __future__ import annotations

import json
import marshal
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from zoea.llm.transport.json_safety import as_mapping, as_mappings, as_text_value, parse_part, split_object
from zoea.model.enums import Role
from zoea.model.request import RequestCall, RequestMessage, ToolSpec
from zoea.text import clean, estimate
from zoea.text.large_json import LARGE_CHARS

IMAGE_TOKENS = 1_600
"""What a picture or a page of a file takes, about; its bytes say nothing of it."""
MOST_TOKENS = 10_000_000
_MEDIA_CHARS = 1_000
_MOST_NAME = 1_000
_MORE_TOOLS = "additional_tools"
"""The type of an item of the input that offers tools."""
_TEXT_TYPES = ("text", "input_text", "output_text", "refusal", "summary_text", "reasoning_text")
_MEDIA_TYPES = ("image", "image_url", "input_image", "input_audio", "file", "input_file", "document")
_ROLES = {"system": Role.SYSTEM, "developer": Role.SYSTEM, "assistant": Role.ASSISTANT, "tool": Role.TOOL}
_TITLE = re.compile(r"\btitle\b", re.IGNORECASE)
_SUMMARY = re.compile(r"\b(?:summar(?:y|ize|ise)|compact(?:ion)?)\b", re.IGNORECASE)
_COMPACTION = re.compile(r"context checkpoint compaction|detailed summary of (?:the|our) conversation", re.IGNORECASE)
_MODEL_KEY = re.compile(r"model|fallback|^preset$|^extra_body$", re.IGNORECASE)
_HEAD_CHARS = 4_000
_WITHOUT_REFERENCES = 2
"""The version of `marshal` that writes the same bytes for equal values."""
_FRAME = 5
"""Tokens for the role and the separators of one message."""
KEPT_BYTES = 24 * 1024 * 1024
"""Bytes of messages and their values after which those that were read longer ago are forgotten."""
_MARK_BYTES = 64
"""About what a value takes beside its text, for each comma and opening bracket; in texts most of them are few."""
_ENTRIES = msgspec.json.Decoder(list[msgspec.Raw])
_ENCODER = json.JSONEncoder(ensure_ascii=False)


class Wire(StrEnum):
    """The API that a client speaks."""

    CHAT = "chat completions"
    MESSAGES = "messages"
    RESPONSES = "responses"


class Asker(StrEnum):
    """What a client asks a model for, as far as its request tells."""

    TURN = "a turn"
    TITLE = "a title"
    COMPACTION = "a summary of its conversation"


_FIELDS = {Wire.CHAT: "messages", Wire.MESSAGES: "messages", Wire.RESPONSES: "input"}
"""Where the messages of a request stand."""


class WireBody(Struct, frozen=True):
    """A request as it came.

    Attributes:
        max_output_tokens: None where it names none.
        tokens: The estimate of messages, tools and pictures.
        catalogue_hash: The key of its tools; empty without any.
        tool_chars: The length of the tools, without their names.
        reference: What its messages name that the vendor keeps, and Zoea cannot see; empty where nothing.
        tools_name_model: Whether a tool of the vendor's names a model.
    """

    model: str
    messages: tuple[RequestMessage, ...]
    tools: tuple[ToolSpec, ...]
    max_output_tokens: int | None
    is_stream: bool
    tokens: int
    catalogue_hash: str
    tool_chars: int
    tools_name_model: bool
    reference: str


class _Entry(Struct, frozen=True):
    """One of the messages of a request, as it is read without the others.

    Attributes:
        value: As it was parsed.
        messages: What it says; a result has no name of its tool where another entry holds the call.
        names: The names of its calls, by their ids.
    """

    value: Any
    messages: tuple[RequestMessage, ...] = ()
    names: Mapping[str, str] = MappingProxyType({})
    tokens: int = 0
    pictures: int = 0
    reference: str = ""


def parse_body(
    content: bytes, wire: Wire = Wire.CHAT
) -> tuple[dict[str, Any], dict[str, bytes], tuple[_Entry, ...] | None]:
    """Parse a request. Return its values, each as it was written without keys that stand twice, and its entries.

    Tools and messages, of which agents send most again with each request, are read once; their values are the same
    objects for all requests. No entries where they cannot be read one by one. Raises ValueError.
    """
    parts, values, field = split_object(content), {}, _FIELDS[wire]
    entries = _read_entries(wire, parts.get(field, b""))
    for name, part in parts.items():
        if name == field and entries is not None:
            values[name] = [entry.value for entry in entries]
        else:
            values[name], parts[name] = (_parse_tools if name == "tools" else parse_part)(part)
    return values, parts, entries


def read_body(
    wire: Wire, body: dict[str, Any], tools: bytes = b"", entries: tuple[_Entry, ...] | None = None
) -> WireBody:
    """Read a request. Raises ValueError with a sentence for the client where it is none.

    `tools` is its `tools` as they were written, `entries` are those of `parse_body`, where they are known.
    """
    if not isinstance(body.get("model"), str) or not 0 < len(body["model"]) <= _MOST_NAME:
        raise ValueError(f"model: a text of at most {_MOST_NAME:,} characters is required")
    field = _FIELDS[wire]
    value = body.get(field)
    if not isinstance(value, list) and not (wire is Wire.RESPONSES and isinstance(value, str)):
        raise ValueError(f"{field}: a list is required")
    if entries is None:
        items = [{"role": "user", "content": value}] if isinstance(value, str) else as_mappings(value)
        entries = tuple([_read_entry(wire, one) for one in items])
    reader, limit = _Reader(), body.get("max_output_tokens")
    match wire:
        case Wire.CHAT:
            limits = [read_whole(body.get(key)) for key in ("max_completion_tokens", "max_tokens")]
            limit = max(filter(None, limits), default=None)  # servers differ in which one they know
            messages = []
        case Wire.MESSAGES:
            messages, limit = [*reader.system(body.get("system"))], body.get("max_tokens")
        case Wire.RESPONSES:
            messages = [*reader.system(body.get("instructions"))]
    tokens, pictures = sum(map(_count, messages)), reader.pictures
    names: dict[str, str] = {}
    for entry in entries:
        tokens += entry.tokens
        pictures += entry.pictures
        for message in entry.messages:
            if message.role is Role.TOOL and not message.name and (name := names.get(message.call_id)):
                message = replace(message, name=name)
                tokens += estimate.tokens(name)
            messages.append(message)
        names |= entry.names
    others = as_mappings(body.get(_FIELDS[Wire.CHAT] if wire is Wire.RESPONSES else _FIELDS[Wire.RESPONSES]))
    references = (*(entry.reference for entry in entries), *(_find_reference(wire, one) for one in others))
    catalogue = _read_catalogue(list_tools(body), tools)
    most = read_whole(limit)
    tokens += catalogue.tokens
    return WireBody(
        model=body["model"],
        messages=tuple(messages),
        tools=catalogue.tools,
        max_output_tokens=most,
        is_stream=body.get("stream") is True,
        tokens=max(1, tokens + pictures * IMAGE_TOKENS),
        catalogue_hash=catalogue.hash,
        tool_chars=catalogue.chars,
        tools_name_model=catalogue.names_model,
        reference=next(filter(None, references), ""),
    )


def _read_entries(wire: Wire, part: bytes) -> tuple[_Entry, ...] | None:
    """Read a list of messages one by one. None where it is no list, or one must be judged with the others."""
    try:
        entries = [_KEPT.read(wire, bytes(raw)) for raw in _ENTRIES.decode(part)]
    except (ValueError, msgspec.DecodeError, RecursionError):
        return None
    return None if None in entries else tuple(filter(None, entries))


class _KeptEntries:
    """The entries that were read lately, by wire and bytes."""

    def __init__(self) -> None:
        self._new: dict[tuple[Wire, bytes], _Entry] = {}
        self._old: dict[tuple[Wire, bytes], _Entry] = {}
        self._size = 0

    def read(self, wire: Wire, raw: bytes) -> _Entry | None:
        """Return an entry. None where a key of it stands twice. Raises ValueError."""
        key = wire, raw
        if (number := self._new.get(key)) is not None:
            return number
        if (entry := self._old.get(key)) is None:
            [value], once = parse_part(whole := b"[%b]" % raw)
            if once is not whole:
                return None
            entry = _read_entry(wire, value)
        if self._size > KEPT_BYTES:
            self._old, self._new, self._size = self._new, {}, 0
        if len(raw) <= LARGE_CHARS:
            self._new[key] = entry
            self._size += len(raw) + _MARK_BYTES * sum(map(raw.count, (b",", b"[", b"{")))
        return entry


_KEPT = _KeptEntries()


def _read_entry(wire: Wire, value: Any) -> _Entry:
    if not isinstance(value, dict):
        return _Entry(value)
    reader = _Reader()
    match wire:
        case Wire.CHAT:
            messages = tuple(reader.chat(value))
        case Wire.MESSAGES:
            messages = tuple(reader.blocks_of(value))
        case Wire.RESPONSES:
            messages = () if value.get("type") == _MORE_TOOLS else (reader.item(value),)
    return _Entry(
        value=value,
        messages=messages,
        names=reader.names,
        tokens=sum(map(_count, messages)),
        pictures=reader.pictures,
        reference=_find_reference(wire, value),
    )


def _find_reference(wire: Wire, entry: dict[str, Any]) -> str:
    """Return what an entry names that the vendor keeps; empty where nothing."""
    # One that has an id and no other key is a reference too.
    kind = entry.get("type") or ("message" if entry.keys() & {"content", "role"} else "item_reference")
    if wire is Wire.RESPONSES and kind == "item_reference":
        return "item_reference"
    return "file_id" if _holds_kept_file(entry) or as_mapping(entry.get("audio")).get("id") else ""


def _holds_kept_file(outer: dict[str, Any]) -> bool:
    """Return whether a message part is a file that the vendor keeps, at any depth."""
    inner = [outer[field] for field in ("content", "output", "file", "source") if field in outer]
    parts = (part for value in inner if value.__class__ is not str for part in (as_mapping(value), *as_mappings(value)))
    return any(part.get("file_id") or _holds_kept_file(part) for part in parts)


def list_tools(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tools that a request offers, also those in its input, as from Codex."""
    more = [one for one in as_mappings(body.get("input")) if one.get("type") == _MORE_TOOLS]
    return [tool for place in (body, *more) for tool in as_mappings(place.get("tools"))]


def is_model_key(key: str) -> bool:
    """Return whether a key names a model, as `model`, `models` and `allowed_models` do."""
    return _MODEL_KEY.search(key) is not None


def names_model(entry: dict[str, Any]) -> bool:
    """Return whether a tool of the vendor's names a model. A function's schema may speak of models."""
    if _has_model_key(entry) or ("tools" in entry and any(map(names_model, as_mappings(entry["tools"])))):
        return True
    if not _has_model_key(as_mapping(entry.get("parameters"))):
        return False
    return entry.get("type", "function") not in ("function", "custom") and "input_schema" not in entry


def _has_model_key(entry: dict[str, Any]) -> bool:
    return any(value and is_model_key(key) for key, value in entry.items())


def guess_asker(body: WireBody) -> Asker:
    """Return what a request is for, by its texts and by whether it offers tools."""
    users = [message.content for message in body.messages if message.role is Role.USER]
    last = users[-1][:_HEAD_CHARS] if users else ""
    if _COMPACTION.search(last):
        return Asker.COMPACTION
    if body.tools:
        return Asker.TURN
    system = next((message.content for message in body.messages if message.role is Role.SYSTEM), "")[:_HEAD_CHARS]
    if _TITLE.search(system) or (not system and _TITLE.search(last)):
        return Asker.TITLE
    return Asker.COMPACTION if _SUMMARY.search(system) else Asker.TURN


class _Reader:
    """Reads entries of a request, counts pictures, and keeps names of calls by id."""

    def __init__(self) -> None:
        self.pictures = 0
        self.names: dict[str, str] = {}

    def system(self, value: Any) -> Iterator[RequestMessage]:
        if text := self._text(value):
            yield RequestMessage(Role.SYSTEM, text)

    def chat(self, entry: dict[str, Any]) -> Iterator[RequestMessage]:
        role = _ROLES.get(as_text_value(entry.get("role")), Role.USER)
        content = self._text(entry.get("content"))
        if role is Role.TOOL:
            yield self._result(as_text_value(entry.get("tool_call_id")), content)
            return
        calls = []
        for call in as_mappings(entry.get("tool_calls")):
            function = as_mapping(call.get("function") or call.get("custom"))
            calls.append(self._call(call.get("id"), function.get("name"), function.get("arguments", call)))
        reasoning = as_text_value(entry.get("reasoning_content") or entry.get("reasoning"))
        yield RequestMessage(role, content, calls=tuple(calls), reasoning=clean(reasoning))

    def blocks_of(self, entry: dict[str, Any]) -> Iterator[RequestMessage]:
        """Read a message made of blocks. A result of a tool becomes a message of its own."""
        role = Role.ASSISTANT if entry.get("role") == "assistant" else Role.USER
        content = entry.get("content")
        if not isinstance(content, list):
            yield RequestMessage(role, self._text(content))
            return
        rest, calls, reasoning = [], [], []
        for block in as_mappings(content):
            match block.get("type"):
                case "tool_result":
                    result = self._text(block.get("content"))
                    yield self._result(
                        as_text_value(block.get("tool_use_id")), result, is_error=bool(block.get("is_error"))
                    )
                case "tool_use":
                    calls.append(self._call(block.get("id"), block.get("name"), block.get("input")))
                case "thinking" | "redacted_thinking":
                    reasoning.append(as_text_value(block.get("thinking") or block.get("data")))
                case _:
                    rest.append(block)
        if rest or calls or reasoning:
            thought = clean("\n".join(reasoning))
            yield RequestMessage(role, self._text(rest), calls=tuple(calls), reasoning=thought)

    def item(self, item: dict[str, Any]) -> RequestMessage:
        """Read an item of the Responses API."""
        match item.get("type", "message"):
            case "message":
                role = _ROLES.get(as_text_value(item.get("role")), Role.USER)
                return RequestMessage(role, self._text(item.get("content")))
            case "function_call" | "custom_tool_call":
                arguments = item.get("arguments", item.get("input"))
                call = self._call(item.get("call_id"), item.get("name"), arguments)
                return RequestMessage(Role.ASSISTANT, "", calls=(call,))
            case "function_call_output" | "custom_tool_call_output":
                return self._result(as_text_value(item.get("call_id")), self._text(item.get("output")))
            case "reasoning":
                sealed = len(as_text_value(item.get("encrypted_content")))
                text = self._text(item.get("summary")) or (f"[{sealed:,} encrypted characters]" if sealed else "")
                return RequestMessage(Role.ASSISTANT, "", reasoning=text)
            case _:
                return RequestMessage(Role.ASSISTANT, _as_json(item))

    def _call(self, call_id: Any, name: Any, arguments: Any) -> RequestCall:
        own_id, named = clean(as_text_value(call_id)), clean(as_text_value(name))
        self.names[own_id] = named
        text = clean(arguments) if isinstance(arguments, str) else _as_json(arguments)
        return RequestCall(own_id, named, text)

    def _result(self, call_id: str, content: str, *, is_error: bool = False) -> RequestMessage:
        own_id = clean(call_id)
        return RequestMessage(Role.TOOL, content, call_id=own_id, name=self.names.get(own_id, ""), is_error=is_error)

    def _text(self, value: Any) -> str:
        """Return a content as text: its parts one below the other, media as a note."""
        if value is None:
            return ""
        if isinstance(value, str):
            return clean(value)
        if not isinstance(value, list):
            return _as_json(value)
        return "\n".join([text for part in value if (text := self._part(part))])

    def _part(self, part: Any) -> str:
        if isinstance(part, str):
            return clean(part)
        if not isinstance(part, dict):
            return _as_json(part)
        kind = part.get("type")
        text = part.get("text", part.get("refusal"))
        if isinstance(text, str) and (kind in _TEXT_TYPES or kind is None):
            return clean(text)
        if kind in _MEDIA_TYPES:
            self.pictures += 1
        return _as_json(part)


class _Catalogue(Struct, frozen=True):
    """The tools of a request, with their estimate, key, and length without their names."""

    tools: tuple[ToolSpec, ...]
    tokens: int
    hash: str
    chars: int
    names_model: bool


@lru_cache(32)
def _parse_kept(tools: bytes) -> tuple[Any, bytes, _Catalogue]:
    entries, once = parse_part(tools)
    return entries, once, _read_packed(marshal.dumps(as_mappings(entries), _WITHOUT_REFERENCES))


def _parse_tools(tools: bytes) -> tuple[Any, bytes]:
    return _parse_kept(tools)[:2] if len(tools) <= LARGE_CHARS else parse_part(tools)


def _read_catalogue(entries: list[dict[str, Any]], tools: bytes) -> _Catalogue:
    """Read the tools, of which a request may have more than those under `tools`."""
    if 0 < len(tools) <= LARGE_CHARS:
        catalogue = _parse_kept(tools)[2]
        if len(catalogue.tools) == len(entries):
            return catalogue
    return _read_packed(marshal.dumps(entries, _WITHOUT_REFERENCES))


@lru_cache(32)
def _read_packed(entries: bytes) -> _Catalogue:
    given = marshal.loads(entries)
    tools = tuple(_read_tools(given))
    texts = [part for tool in tools for part in (tool.name, tool.description, json.dumps(tool.input_schema))]
    whole = "\0".join(texts).encode("utf-8", "replace")
    return _Catalogue(
        tools=tools,
        tokens=sum(map(estimate.tokens, texts)),
        hash=blake2b(whole, digest_size=16).hexdigest() if tools else "",
        chars=sum(map(len, texts)) - sum(len(tool.name) for tool in tools),
        names_model=any(map(names_model, given)),
    )


def _read_tools(entries: Iterable[dict[str, Any]]) -> Iterator[ToolSpec]:
    for entry in entries:
        function = as_mapping(entry.get("function")) or entry
        name = as_text_value(function.get("name")) or as_text_value(entry.get("type"))
        schema = function.get("parameters", function.get("input_schema"))
        keys = ("name", "description", "parameters", "input_schema", "type", "function")
        rest = {key: value for key, value in entry.items() if key not in keys}
        description = clean(as_text_value(function.get("description")))
        yield ToolSpec(clean(name), description, schema if isinstance(schema, dict) else rest)


def _as_json(value: Any) -> str:
    return clean(_ENCODER.encode(_without_media(value)))


def _without_media(value: Any) -> Any:
    """Return the value, with a note for each long text without spaces, like base64."""
    match value:
        case dict():
            return {key: _without_media(one) for key, one in value.items()}
        case list():
            return [_without_media(one) for one in value]
        case str() if len(value) > _MEDIA_CHARS and " " not in value[:_MEDIA_CHARS]:
            return f"{value[:40]}… ({len(value):,} characters)"
        case _:
            return value


def _count(message: RequestMessage) -> int:
    parts = [message.content, message.name, message.reasoning]
    parts += [part for call in message.calls for part in (call.name, call.arguments)]
    return sum(map(estimate.tokens, parts)) + _FRAME


def read_whole(value: Any) -> int | None:
    """Return a positive number, at most `MOST_TOKENS`; servers take 5.0 and "5" for 5. None for anything else."""
    try:
        number = 0 if isinstance(value, bool) else min(float(value), MOST_TOKENS)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(number) if number >= 1 else None
