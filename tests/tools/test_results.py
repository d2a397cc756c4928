"""The text and blobs that a mysis gets from an MCP result."""

from __future__ import annotations

import base64
import struct
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from zoea.model.request import Blob, ToolResult
from zoea.tools.media import read_image_size
from zoea.tools.results import MAX_PARTS, NO_REASON, NOTHING, bound_parts, parse_fields, parse_result, read_result

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 640, 480) + b"\x08\x02\0\0\0"
GIF = b"GIF89a" + struct.pack("<HH", 320, 200)
JPEG = b"\xff\xd8\xff\xe0\0\x04ab\xff\xd0\xff\xff\xc0\0\x11\x08" + struct.pack(">HH", 48, 64) + b"\x03"
BMP = b"BM" + b"\0" * 16 + struct.pack("<II", 10, 20)
WEBP_X = b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + (99).to_bytes(3, "little") + (49).to_bytes(3, "little")
WEBP_L = b"RIFF\0\0\0\0WEBPVP8L" + b"\0" * 5 + ((99) | (49 << 14)).to_bytes(4, "little")
WEBP = b"RIFF\0\0\0\0WEBPVP8 " + b"\0" * 10 + struct.pack("<HH", 100, 50)


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _of(*blocks: Any, **more: Any) -> ToolResult:
    return parse_result({"content": list(blocks), **more})


def test_texts_are_joined() -> None:
    assert _of({"type": "text", "text": "a"}, {"type": "text", "text": "b"}).content == "a\nb"


def test_structured_content_replaces_missing_text() -> None:
    assert _of(structuredContent={"ümlaut": 1}).content == '{"ümlaut": 1}'
    assert parse_result({"structuredContent": [1]}).content == "[1]"


def test_an_image_becomes_a_blob_and_a_note() -> None:
    result = _of({"type": "text", "text": "look:"}, {"type": "image", "mimeType": "image/png", "data": _b64(PNG)})
    assert result.content == "look:\n[image 640x480 png]"
    assert result.blobs == (Blob("image/png", PNG, "[image 640x480 png]"),)


@walk_cases(
    ("block", "text"),
    [
        ({"type": "image", "mimeType": "image/png", "data": "%%%"}, "[image png, unreadable]"),
        ({"type": "image", "mimeType": "image/svg+xml", "data": _b64(b"<svg/>")}, "[image svg, 6 bytes]"),
        ({"type": "audio", "mimeType": "audio/x-wav", "data": _b64(b"\0" * 12_000)}, "[audio wav, 12 kB]"),
        ({"type": "resource", "resource": {"uri": "file:///a", "text": "hi"}}, "[resource file:///a]\nhi"),
        (
            {
                "type": "resource",
                "resource": {"uri": "u:1", "mimeType": "application/pdf", "blob": _b64(b"\0" * 2**21)},
            },
            "[resource u:1: application/pdf, 2.1 MB]",
        ),
        ({"type": "resource", "resource": {"uri": "u:1", "blob": 5}}, "[resource u:1, unreadable]"),
        ({"type": "resource", "resource": None}, "[resource, unreadable]"),
        (
            {"type": "resource_link", "uri": "u:1", "name": "n", "description": "what it is"},
            "[link n <u:1>: what it is]",
        ),
        ({"type": "resource_link", "uri": "u:1", "title": "T"}, "[link T <u:1>]"),
        ({"type": "hologram"}, "[content of type hologram]"),
        ({"type": "json", "json": {"id": 7}}, '[content of type json] {"json": {"id": 7}}'),
        ({"text": "no type"}, "no type"),
        ({"type": "text", "text": {"id": 7}}, '{"id": 7}'),
        ({"type": "text", "text": None}, NOTHING),
        (7, "7"),
        ("plain", "plain"),
    ],
)
def test_other_content_is_described(block: dict[str, Any], text: str) -> None:
    assert _of(block).content == text


def test_nothing_is_said_to_be_nothing() -> None:
    assert parse_result({}).content == NOTHING
    assert parse_result({"content": [{"type": "text", "text": " \n"}]}).content == NOTHING


@walk_cases("nothing", ["[]", "{}", "null", '""'])
def test_a_result_that_holds_nothing_says_so(nothing: str) -> None:
    assert parse_result({"content": [{"type": "text", "text": nothing}]}).content == f"{nothing} (the result is empty)"
    assert parse_result({"content": [{"type": "text", "text": f"see {nothing}"}]}).content == f"see {nothing}"
    assert _of(None, isError=True) == ToolResult(NO_REASON, is_error=True)


@walk_cases(
    ("data", "size"),
    [
        (PNG, (640, 480)),
        (GIF, (320, 200)),
        (JPEG, (64, 48)),
        (BMP, (10, 20)),
        (WEBP_X, (100, 50)),
        (WEBP_L, (100, 50)),
        (WEBP, (100, 50)),
        (b"", None),
        (b"\xff\xd8\x00\x00\x00\x00", None),
        (b"RIFF\0\0\0\0WEBPVP9 ", None),
    ],
)
def test_sizes_are_read_from_headers(data: bytes, size: tuple[int, int] | None) -> None:
    assert read_image_size(data) == size


@given(st.sampled_from([PNG, GIF, JPEG, BMP, WEBP_X, WEBP_L, WEBP]), st.integers(0, 40), st.binary(max_size=20))
def test_a_cut_or_garbled_header_never_raises(data: bytes, cut: int, tail: bytes) -> None:
    read_image_size(data[:cut] + tail)


def test_fields_are_structured_content_or_text_that_is_json() -> None:
    assert parse_fields({"structuredContent": {"a": 1}}) == {"a": 1}
    assert parse_fields({"structuredContent": {"result": {"a": 1}}}) == {"a": 1}
    assert parse_fields({"content": [{"type": "text", "text": '{"a": 1}'}]}) == {"a": 1}
    assert parse_fields({"content": [{"type": "text", "text": "[1]"}]}) == {}
    assert parse_fields({"content": [{"type": "text", "text": "no"}]}) == {}


def test_parts_above_the_limit_are_counted_instead_of_read() -> None:
    wire: dict[str, Any] = {"content": [{"type": "text", "text": "p"}] * (MAX_PARTS + 1_234)}
    bound_parts(wire)
    lines = parse_result(wire).content.split("\n")
    assert len(lines) == MAX_PARTS + 1
    assert lines[-1] == "[1,234 more parts left out]"


@pytest.mark.parametrize(("count", "is_elsewhere"), [(3, False), (50_000, True)])
async def test_a_large_result_is_read_in_a_thread(
    count: int, is_elsewhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def parse(wire: Any) -> ToolResult:
        threads.append(threading.get_ident())
        return parse_result(wire)

    monkeypatch.setattr("zoea.tools.results.parse_result", parse)
    result = await read_result({"structuredContent": [{"a": 1}] * count})
    assert (threads != [threading.get_ident()]) is is_elsewhere
    assert len(result.content) > count


def test_a_large_picture_is_decoded_in_slices_so_that_others_run_between(monkeypatch: pytest.MonkeyPatch) -> None:
    slices: list[int] = []
    real = base64.b64decode

    def decode(data: str, *, validate: bool) -> bytes:
        slices.append(len(data))
        return real(data, validate=validate)

    data = bytes(range(256)) * 20_000 + b"!!"
    encoded = base64.b64encode(data).decode()
    monkeypatch.setattr(base64, "b64decode", decode)
    wire = {"content": [{"type": "image", "mimeType": "image/png", "data": encoded}]}
    assert parse_result(wire).blobs[0].data == data
    assert max(slices) <= 2**20
    wire["content"][0]["data"] = f"{encoded}{encoded}"
    assert parse_result(wire).content == "[image png, unreadable]"
