"""Decodes pictures, sound and other data, and takes them out of texts. Pure.

Data stands in parts of its own, as a data URI, or as bare base64 inside a text. A model can read none of them.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Literal

from zoea.model.request import Blob
from zoea.text.lazy_pattern import compile_lazily
from zoea.text.stepped_search import replace_in_steps

_BASE64_SLICE = 2**20
"""Characters, a multiple of four."""
SHORTEST = 200
"""Characters of base64 in a text that become a note; a shorter picture costs less than its explanation."""
SHORTEST_UNKNOWN = 2_000
"""The same for data of an unknown kind, because keys, signatures and hashes are shorter."""
_SIGN = r"(?:[A-Za-z0-9+/_-]|\\/|%2[BbFf])"
_SIGNS = r"(?:[A-Za-z0-9+/_-]++|\\/|%2[BbFf])"
_BREAK = r"(?:\\r\\n|\\n|\r?\n)"
_WRAPPED = rf"(?:[A-Za-z0-9+/]{{60,76}}{_BREAK})+[A-Za-z0-9+/]{{1,76}}(?![A-Za-z0-9+/])"
_END = r"(?:={0,2}|(?:%3[Dd]){1,2}|(?:\\u003[dD]){1,2})"
_DATA = compile_lazily(
    rf"data:(?P<type>[\w.+-]+\\?/[\w.+-]+)?(?:;[\w.+-]+=[^;,\s\"']*)*;base64,(?P<uri>{_WRAPPED}|(?>{_SIGNS}*)){_END}"
    rf"|(?<![A-Za-z0-9+/_=-])(?P<bare>{_WRAPPED}|(?={_SIGN}{{{SHORTEST}}})(?>{_SIGNS}+)){_END}"
)
_SEPARATORS = compile_lazily(r"\\[rn]|\s")
_ESCAPES = (("\\/", "/"), ("%2B", "+"), ("%2b", "+"), ("%2F", "/"), ("%2f", "/"), ("-", "+"), ("_", "/"))
_READABLE = ("text/", "application/json", "application/xml")
"""Types of data that a model may decode by itself, so they stay."""
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", 0, "image/png"),
    (b"\xff\xd8\xff", 0, "image/jpeg"),
    (b"GIF8", 0, "image/gif"),
    (b"WEBP", 8, "image/webp"),
    (b"WAVE", 8, "audio/wav"),
    (b"II*\0", 0, "image/tiff"),
    (b"MM\0*", 0, "image/tiff"),
    (b"ftypavif", 4, "image/avif"),
    (b"ftyphei", 4, "image/heic"),
    (b"ftyp", 4, "video/mp4"),
    (b"ID3", 0, "audio/mpeg"),
    (b"OggS", 0, "audio/ogg"),
    (b"fLaC", 0, "audio/flac"),
    (b"%PDF-", 0, "application/pdf"),
    (b"PK\x03\x04", 0, "application/zip"),
    (b"\x1f\x8b\x08", 0, "application/gzip"),
    (b"\0asm", 0, "application/wasm"),
    (b"wOF", 0, "font/woff"),
)


def extract_media(text: str) -> tuple[str, list[Blob]]:
    """Replace data URIs and base64 in a text by notes. Return the text and the data."""
    blobs: list[Blob] = []

    def replace(match: re.Match[str]) -> str:
        blob = _read_uri(match) if match["uri"] is not None else _read_bare(match["bare"])
        if blob is None:
            return match[0]
        if blob.data:
            blobs.append(blob)
        return blob.note

    return (replace_in_steps(_DATA, replace, text), blobs) if len(text) >= SHORTEST else (text, blobs)


def _read_uri(match: re.Match[str]) -> Blob | None:
    media_type = (match["type"] or "text/plain").replace("\\/", "/")
    if len(match["uri"]) < SHORTEST or media_type.startswith(_READABLE):
        return None
    return _make_blob(media_type, _decode_loosely(match["uri"]))


def _read_bare(written: str) -> Blob | None:
    """Read base64 that begins as a known kind does, or is long and no text."""
    head = _decode_loosely(written[: 64 - 64 % 4])
    kind = next((name for magic, at, name in _MAGIC if (head or b"")[at:].startswith(magic)), "")
    if not kind and (len(written) < SHORTEST_UNKNOWN or not _is_mixed(written)):
        return None
    data = _decode_loosely(written)
    if data is None or (not kind and _is_text(data)):
        return None
    return _make_blob(kind or "application/octet-stream", data)


def _make_blob(media_type: str, data: bytes | None) -> Blob:
    note = describe(media_type, data) if data is not None else f"[{_kind_of(media_type)}, unreadable]"
    return Blob(media_type=media_type, data=data or b"", note=note)


def _is_mixed(written: str) -> bool:
    """Return whether a run is base64, not hexadecimal, a base sequence or a long word."""
    head = written[:SHORTEST_UNKNOWN]
    has_all = re.search("[a-z]", head) and re.search("[A-Z]", head) and re.search("[0-9]", head)
    return bool(has_all) and len(set(head)) > 32


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data


def _decode_loosely(written: str) -> bytes | None:
    """Decode base64 of either alphabet, with escapes and line breaks and without its padding."""
    plain = _SEPARATORS.sub("", written)
    for escape, sign in _ESCAPES:
        plain = plain.replace(escape, sign)
    plain = plain.rstrip("=")
    plain = plain[:-1] if len(plain) % 4 == 1 else plain
    return decode_base64(plain + "=" * (-len(plain) % 4))


def replace_media(value: Any, depth: int = 32) -> Any:
    """Return a JSON value with its parts of pictures and sound replaced by their notes."""
    if depth and isinstance(value, Mapping):
        if value.get("type") in ("image", "audio") and isinstance(value.get("data"), str):
            return read_media(value["type"], value)[0]
        return {key: replace_media(inner, depth - 1) for key, inner in value.items()}
    return [replace_media(inner, depth - 1) for inner in value] if depth and isinstance(value, list) else value


def read_media(kind: str, block: Mapping[str, Any]) -> tuple[str, Blob | None]:
    """Return the note for a part of the type `image` or `audio`, and its data."""
    media_type = block.get("mimeType") or block.get("mime_type")
    media_type = media_type if isinstance(media_type, str) else "application/octet-stream"
    data = decode_base64(block.get("data"))
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


def decode_base64(data: Any) -> bytes | None:
    """Decode base64 in slices, so that other threads run in between. None where it is none."""
    if not isinstance(data, str) or "=" in data[:-2]:
        return None
    try:
        slices = (data[start : start + _BASE64_SLICE] for start in range(0, len(data), _BASE64_SLICE))
        return b"".join([base64.b64decode(one, validate=True) for one in slices])
    except (binascii.Error, ValueError):
        return None


def _kind_of(media_type: str) -> str:
    kind = media_type.partition("/")[0]
    return f"{kind} {_short(media_type)}" if kind in ("image", "audio") else media_type


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
            pair = _read_pair(data, at + 5, 2, "big")
            return (pair[1], pair[0]) if pair else None
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
        pair = _read_pair(data, 26, 2, "little")
        return (pair[0] & 0x3FFF, pair[1] & 0x3FFF) if pair else None
    return None
