"""Turn the result of an MCP tool into one text for the mysis, and blobs.

Takes decoded wire JSON, so nothing here depends on the SDK. Shapes: MCP specification, "Tool
Result" and "Content".
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import logging
from collections.abc import Mapping
from typing import Any, Literal

from zoea.model.request import Blob, ToolResult
from zoea.text.large_json import LARGE_COUNT, count_values, dump_large, is_large

log = logging.getLogger(__name__)

MAX_PARTS = 1_000
"""Parts of a result that are read."""
MAX_LISTED = 2_000
"""Tools of a page of a list that are read; far fewer are offered (`max_tools`)."""
MAX_LISTED_VALUES = 20_000
"""Values of all tools of a page; far fewer are offered (`max_schema_chars`)."""
_BASE64_SLICE = 2**20
"""Characters, a multiple of four."""
NOTHING = "(no output)"
EMPTY = "(the result is empty)"
_EMPTY = frozenset({"[]", "{}", "null", '""'})
"""Results in JSON that hold nothing; a model takes them for a failure."""
NO_REASON = "the tool failed and did not say why"


def bound_parts(wire: dict[str, Any]) -> None:
    """Replace parts of a result above `MAX_PARTS` by one that counts them. Cut a list of tools."""
    parts, tools = wire.get("content"), wire.get("tools")
    if isinstance(parts, list) and len(parts) > MAX_PARTS:
        rest = {"type": "text", "text": f"[{len(parts) - MAX_PARTS:,} more parts left out]"}
        wire["content"] = [*parts[:MAX_PARTS], rest]
    if isinstance(tools, list) and len(tools) > MAX_LISTED:
        log.warning("an upstream listed %d tools; those after the first %d are not read", len(tools), MAX_LISTED)
        wire["tools"] = tools[:MAX_LISTED]
    if isinstance(tools, list):
        wire["tools"] = _bound_tools(wire["tools"])


def _bound_tools(tools: list[Any]) -> list[Any]:
    """Leave out tools with schemas of over `LARGE_COUNT` values, and those after `MAX_LISTED_VALUES` of all."""
    kept, values = [], 0
    for tool in tools:
        count = count_values(tool, LARGE_COUNT)
        if count <= LARGE_COUNT and values + count <= MAX_LISTED_VALUES:
            kept.append(tool)
            values += count
    if len(kept) < len(tools):
        log.warning("an upstream listed %d tools with too large schemas; they are not read", len(tools) - len(kept))
    return kept


async def read_result(wire: Mapping[str, Any]) -> ToolResult:
    """Parse the result of `tools/call`, a large one in a thread."""
    return await asyncio.to_thread(parse_result, wire) if is_large(wire) else parse_result(wire)


def parse_result(wire: Mapping[str, Any]) -> ToolResult:
    """Parse the result of `tools/call`: texts joined by newlines, other content described in place.

    Structured content becomes the text if there is no other. `bound_parts` has bounded their number.
    """
    lines: list[str] = []
    blobs: list[Blob] = []
    content = wire.get("content")
    for block in content if isinstance(content, list) else []:
        if not isinstance(block, Mapping):
            continue
        line, blob = _block(block)
        if line:
            lines.append(line)
        if blob is not None:
            blobs.append(blob)
    structured = wire.get("structuredContent")
    if not lines and structured is not None:
        dump = dump_large if is_large(structured) else _dump
        lines.append(_text(dump(structured)))
    is_error = bool(wire.get("isError"))
    text = "\n".join(lines)
    if not text.strip():
        text = NO_REASON if is_error else NOTHING
    elif not is_error and text.strip() in _EMPTY:
        text = f"{text.strip()} {EMPTY}"
    return ToolResult(content=text, is_error=is_error, blobs=tuple(blobs))


def error_result(why: str) -> ToolResult:
    """Make an error result; `why` is a sentence for the model."""
    return ToolResult(content=why, is_error=True)


def parse_fields(wire: Mapping[str, Any]) -> dict[str, Any]:
    """Read a result as one JSON object: structured content, or text that is JSON. Else empty."""
    structured = wire.get("structuredContent")
    if isinstance(structured, Mapping):
        inner = structured.get("result")
        return dict(inner) if isinstance(inner, Mapping) and len(structured) == 1 else dict(structured)
    try:
        read = json.loads(parse_result(wire).content)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _block(block: Mapping[str, Any]) -> tuple[str, Blob | None]:
    match block.get("type"):
        case "text":
            return _text(block.get("text")), None
        case "image" | "audio" as kind:
            return _media(str(kind), block)
        case "resource":
            return _resource(block.get("resource"))
        case "resource_link":
            title = _text(block.get("title")) or _text(block.get("name"))
            described = _text(block.get("description"))
            tail = f": {described}" if described else ""
            return f"[link {title} <{_text(block.get('uri'))}>{tail}]", None
        case other:
            return f"[content of type {_text(other) or 'unknown'}]", None


def _media(kind: str, block: Mapping[str, Any]) -> tuple[str, Blob | None]:
    media_type = _text(block.get("mimeType")) or "application/octet-stream"
    data = _decode(block.get("data"))
    if data is None:
        return f"[{kind} {_short(media_type)}, unreadable]", None
    note = describe(media_type, data, kind)
    return note, Blob(media_type=media_type, data=data, note=note)


def describe(media_type: str, data: bytes, kind: str = "") -> str:
    """Describe data: `[image 640x480 png]`, `[audio wav, 12 kB]`, `[application/pdf, 3 kB]`."""
    if kind == "image" or media_type.startswith("image/"):
        size = read_image_size(data)
        if size is not None:
            return f"[image {size[0]}x{size[1]} {_short(media_type)}]"
        return f"[image {_short(media_type)}, {_amount(len(data))}]"
    if kind == "audio" or media_type.startswith("audio/"):
        return f"[audio {_short(media_type)}, {_amount(len(data))}]"
    return f"[{media_type}, {_amount(len(data))}]"


def _resource(resource: Any) -> tuple[str, Blob | None]:
    if not isinstance(resource, Mapping):
        return "[resource, unreadable]", None
    uri = _text(resource.get("uri"))
    if isinstance(resource.get("text"), str):
        return f"[resource {uri}]\n{_text(resource['text'])}", None
    media_type = _text(resource.get("mimeType")) or "application/octet-stream"
    data = _decode(resource.get("blob"))
    if data is None:
        return f"[resource {uri}, unreadable]", None
    note = f"[resource {uri}: {describe(media_type, data)[1:-1]}]"
    return note, Blob(media_type=media_type, data=data, note=note)


def _decode(data: Any) -> bytes | None:
    """Decode base64 in slices, so that other threads run in between. None where it is none."""
    if not isinstance(data, str) or "=" in data[:-2]:
        return None
    try:
        slices = (data[start : start + _BASE64_SLICE] for start in range(0, len(data), _BASE64_SLICE))
        return b"".join([base64.b64decode(one, validate=True) for one in slices])
    except (binascii.Error, ValueError):
        return None


def _text(value: Any) -> str:
    """Return a text, with escapes that are no characters replaced; "" for any other value."""
    if not isinstance(value, str):
        return ""
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def _short(media_type: str) -> str:
    return media_type.partition("/")[2].partition("+")[0].removeprefix("x-") or media_type


def _amount(count: int) -> str:
    if count < 1_000:
        return f"{count} bytes"
    return f"{count / 1_000:.0f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


Size = tuple[int, int]

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_BARE = frozenset({0x01, *range(0xD0, 0xD8)})


def read_image_size(data: bytes) -> Size | None:
    """Read width and height in pixels from PNG, GIF, JPEG, WebP (RFC 9649) or BMP. Else None."""
    if data.startswith(_PNG) and data[12:16] == b"IHDR":
        return _read_pair(data, 16, 4, "big")
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return _read_pair(data, 6, 2, "little")
    if data.startswith(b"\xff\xd8"):
        return _read_jpeg_size(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _read_webp_size(data)
    if data.startswith(b"BM"):
        return _read_pair(data, 18, 4, "little")
    return None


def _read_pair(data: bytes, at: int, width: int, order: Literal["big", "little"]) -> Size | None:
    if len(data) < at + 2 * width:
        return None
    first, second = data[at : at + width], data[at + width : at + 2 * width]
    return int.from_bytes(first, order), int.from_bytes(second, order)


def _read_jpeg_size(data: bytes) -> Size | None:
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
        elif marker in _JPEG_BARE:
            at += 2
        elif marker in _JPEG_FRAMES:
            found = _read_pair(data, at + 5, 2, "big")
            return (found[1], found[0]) if found else None
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


def _read_webp_size(data: bytes) -> Size | None:
    kind = data[12:16]
    if kind == b"VP8X" and len(data) >= 30:
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if kind == b"VP8L" and len(data) >= 25:
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and len(data) >= 30:
        found = _read_pair(data, 26, 2, "little")
        return (found[0] & 0x3FFF, found[1] & 0x3FFF) if found else None
    return None
