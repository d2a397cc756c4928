"""What an image is, read from its first bytes: enough for `[image 640x480 png]`. Pure.

Formats: PNG, GIF, JPEG, WebP (RFC 9649) and BMP; anything else has no size here.
"""

from __future__ import annotations

from typing import Literal

Size = tuple[int, int]

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_BARE = frozenset({0x01, *range(0xD0, 0xD8)})


def size_of(data: bytes) -> Size | None:
    """Width and height in pixels; None where the header does not say."""
    if data.startswith(_PNG) and data[12:16] == b"IHDR":
        return _pair(data, 16, 4, "big")
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return _pair(data, 6, 2, "little")
    if data.startswith(b"\xff\xd8"):
        return _jpeg(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _webp(data)
    if data.startswith(b"BM"):
        return _pair(data, 18, 4, "little")
    return None


def _pair(data: bytes, at: int, width: int, order: Literal["big", "little"]) -> Size | None:
    if len(data) < at + 2 * width:
        return None
    first, second = data[at : at + width], data[at + width : at + 2 * width]
    return int.from_bytes(first, order), int.from_bytes(second, order)


def _jpeg(data: bytes) -> Size | None:
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
            found = _pair(data, at + 5, 2, "big")
            return (found[1], found[0]) if found else None
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


def _webp(data: bytes) -> Size | None:
    kind = data[12:16]
    if kind == b"VP8X" and len(data) >= 30:
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if kind == b"VP8L" and len(data) >= 25:
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and len(data) >= 30:
        found = _pair(data, 26, 2, "little")
        return (found[0] & 0x3FFF, found[1] & 0x3FFF) if found else None
    return None
