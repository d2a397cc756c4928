"""Turn the result of an MCP tool into one text for the mysis, and blobs.

Takes decoded wire JSON, so nothing here depends on the SDK. Shapes: MCP specification, "Tool
Result" and "Content".
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from zoea.model.request import Blob, ToolResult
from zoea.text.json_text import parse_object
from zoea.text.large_json import dump_large, is_large
from zoea.tools.media import decode_base64, describe, extract_media, read_media, replace_media

MAX_PARTS = 1_000
"""Parts of a result that are read."""
MAX_COMPARED = 2_000
"""Values of structured content that are looked for in the text; of more, the lengths are compared."""
NOTHING = "(no output)"
EMPTY = "(the result is empty)"
_EMPTY = frozenset({"[]", "{}", "null", '""'})
"""Results in JSON that hold nothing; a model takes them for a failure."""
NO_REASON = "the tool failed and did not say why"
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?")


def bound_parts(wire: dict[str, Any]) -> None:
    """Replace parts of a result above `MAX_PARTS` by one that counts them."""
    parts = wire.get("content")
    if isinstance(parts, list) and len(parts) > MAX_PARTS:
        rest = {"type": "text", "text": f"[{len(parts) - MAX_PARTS:,} more parts left out]"}
        wire["content"] = [*parts[:MAX_PARTS], rest]


async def read_result(wire: Mapping[str, Any]) -> ToolResult:
    """Parse the result of `tools/call`, a large one in a thread."""
    return await asyncio.to_thread(parse_result, wire) if is_large(wire) else parse_result(wire)


def parse_result(wire: Mapping[str, Any]) -> ToolResult:
    """Parse the result of `tools/call`: texts joined by newlines, other content described in place.

    What structured content holds and the texts do not follows as JSON. Data within texts becomes a note.
    `bound_parts` has bounded the number of parts.
    """
    lines: list[str] = []
    blobs: list[Blob] = []
    for block in _content(wire):
        line, blob = _block(block)
        if line:
            lines.append(line)
        if blob is not None:
            blobs.append(blob)
    text, found = extract_media("\n".join(lines))
    rest, more = extract_media(_structured_rest(wire.get("structuredContent"), text))
    blobs += [blob for blob in (*found, *more) if blob not in blobs]
    text = "\n".join(part for part in (text, rest) if part)
    is_error = bool(wire.get("isError"))
    if not text.strip():
        text = NO_REASON if is_error else NOTHING
    elif not is_error and text.strip() in _EMPTY:
        text = f"{text.strip()} {EMPTY}"
    return ToolResult(content=text, is_error=is_error, blobs=tuple(blobs))


def _content(wire: Mapping[str, Any]) -> list[Any]:
    """Return the parts of a result. Old and careless servers send one part, or a text, in place of a list."""
    content = wire.get("content")
    if content is None:
        content = wire.get("toolResult")
        if isinstance(content, dict) and "content" in content:  # cloudflare/mcp-server-cloudflare#12
            content = content["content"]
    return content if isinstance(content, list) else [] if content is None else [content]


def _structured_rest(structured: Any, text: str) -> str:
    """Return the members of structured content that hold what the text does not, as JSON."""
    if structured is None:
        return ""
    structured = replace_media(structured)
    dump = dump_large if is_large(structured) else _dump
    if not text.strip():
        return _text(dump(structured))
    members = structured.items() if isinstance(structured, dict) else [("", structured)]
    compared = _ComparedText(text)
    missing = {key: value for key, value in members if not compared.holds(value, str(key))}
    if not missing:
        return ""
    return _text(dump(missing if isinstance(structured, dict) else structured))


class _ComparedText:
    """A text in which values of structured content are looked for."""

    def __init__(self, text: str) -> None:
        self._text = " ".join(text.split()).casefold()
        self._numbers = {number for one in _NUMBER.findall(text) if (number := _read_number(one)) is not None}
        self._left = MAX_COMPARED

    def holds(self, value: Any, key: str) -> bool:
        """Return whether the text holds every value. For `true` and `false` it must hold the key."""
        for name, leaf in _leaves(value, key):
            self._left -= 1
            if self._left < 0:
                return 2 * len(self._text) > len(dump_large(value))
            if not self._holds_leaf(name, leaf):
                return False
        return True

    def _holds_leaf(self, key: str, leaf: Any) -> bool:
        match leaf:
            case bool():
                return key.casefold() in self._text
            case int() | float():
                return _read_number(str(leaf)) in self._numbers
            case str():
                return _squeeze(leaf) in self._text or _squeeze(_dump(leaf)[1:-1]) in self._text
            case _:
                return True


def _squeeze(text: str) -> str:
    return " ".join(text.split()).casefold()


def _read_number(written: str) -> float | None:
    try:
        return float(written.replace(",", ""))
    except ValueError:
        return None


def _leaves(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Yield the texts, numbers and truth values in a value, each with its key."""
    left = [(key, value)]
    while left:
        name, one = left.pop()
        if isinstance(one, Mapping):
            left += [(str(inner), item) for inner, item in one.items()]
        elif isinstance(one, list):
            left += [(name, item) for item in one]
        else:
            yield name, one


def error_result(why: str) -> ToolResult:
    """Make an error result; `why` is a sentence for the model."""
    return ToolResult(content=why, is_error=True)


def parse_fields(wire: Mapping[str, Any]) -> dict[str, Any]:
    """Read a result as one JSON object: structured content, or text that holds JSON. Else empty."""
    structured = wire.get("structuredContent")
    if not isinstance(structured, Mapping):
        return parse_object(parse_result(wire).content) or {}
    if len(structured) != 1:
        return dict(structured)
    (inner,) = structured.values()
    if isinstance(inner, Mapping) and "result" in structured:
        return dict(inner)
    return (parse_object(inner) if isinstance(inner, str) else {}) or dict(structured)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _block(block: Any) -> tuple[str, Blob | None]:
    if not isinstance(block, Mapping):
        return _show(block), None
    match block.get("type"):
        case "text" if "text" in block:
            return _show(block["text"]), None
        case "image" | "audio" as kind:
            return read_media(str(kind), block)
        case "resource":
            return _resource(block.get("resource"))
        case "resource_link":
            title = _text(block.get("title")) or _text(block.get("name"))
            described = _text(block.get("description"))
            tail = f": {described}" if described else ""
            return f"[link {title} <{_text(block.get('uri'))}>{tail}]", None
        case other:
            return _unknown(_text(other), {key: value for key, value in block.items() if key != "type"}), None


def _unknown(kind: str, rest: dict[str, Any]) -> str:
    """Show a part of a type unknown to the protocol, with all that it holds."""
    inner = rest.get("text")
    if not kind and isinstance(inner, str):
        return _text(inner)
    shown = _show(replace_media(rest)) if rest else ""
    return f"[content of type {kind or 'unknown'}]{' ' if shown else ''}{shown}"


def _show(value: Any) -> str:
    """Return a text as it is, nothing for null, and any other value as JSON."""
    if isinstance(value, str) or value is None:
        return _text(value)
    return _text((dump_large if is_large(value) else _dump)(value))


def _resource(resource: Any) -> tuple[str, Blob | None]:
    if not isinstance(resource, Mapping):
        return "[resource, unreadable]", None
    uri = _text(resource.get("uri"))
    if isinstance(resource.get("text"), str):
        return f"[resource {uri}]\n{_text(resource['text'])}", None
    media_type = _text(resource.get("mimeType")) or "application/octet-stream"
    data = decode_base64(resource.get("blob"))
    if data is None:
        return f"[resource {uri}, unreadable]", None
    note = f"[resource {uri}: {describe(media_type, data)[1:-1]}]"
    return note, Blob(media_type=media_type, data=data, note=note)


def _text(value: Any) -> str:
    """Return a text, with escapes that are no characters replaced; "" for any other value."""
    if not isinstance(value, str):
        return ""
    return value if value.isascii() else value.encode("utf-8", "replace").decode()
