"""Pictures and other data become a few words, wherever a result holds them.

Each line names a public report of the same defect in another client.
"""

from __future__ import annotations

import base64
import json
import random
import textwrap
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from zoea.tools.media import extract_media, read_image_size
from zoea.tools.results import parse_result

_BYTES = random.Random(5).randbytes(6_000)
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\2\x80\0\0\1\xe0" + _BYTES
JPEG = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x0b\x08\0\x30\0\x40" + _BYTES


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


IMAGE = {"type": "image", "data": _b64(PNG), "mimeType": "image/png"}
URI = f"data:image/png;base64,{_b64(PNG)}"
URL_SAFE = base64.urlsafe_b64encode(JPEG).decode().rstrip("=")
WRAPPED = "\n".join(textwrap.wrap(_b64(PNG), 76))


def _text(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


CASES: list[tuple[str, dict[str, Any], str]] = [
    ("sipeed/picoclaw#1862", {"content": [IMAGE]}, "[image 640x480 png]"),
    (
        "anthropics/claude-code#70280",
        {"content": [IMAGE], "structuredContent": {"result": [IMAGE]}},
        "[image 640x480 png]",
    ),
    (
        "anthropics/claude-code#31208",
        {"content": [], "structuredContent": {"result": [IMAGE]}},
        '{"result": ["[image 640x480 png]"]}',
    ),
    ("openai/openai-agents-js#91", _text(json.dumps([IMAGE])), '"data": "[image 640x480 png]"'),
    ("open-webui/open-webui#29665", _text(json.dumps({"ok": True, "image": URI})), '"image": "[image 640x480 png]"}'),
    ("open-webui/open-webui#29208", _text(f"Here: {URI} and more"), "Here: [image 640x480 png] and more"),
    ("danny-avila/LibreChat#5509", _text(_b64(PNG)), "[image 640x480 png]"),
    ("langchain-ai/deepagents#1351", _text(_b64(JPEG)), "[image 64x48 jpeg]"),
    ("kirodotdev/Kiro#6292", _text(f"<img src='{URI}'>"), "<img src='[image 640x480 png]'>"),
    ("ggozad/haiku.rag#222", _text(f"# A\n\n![]({URI})\n\nB"), "# A\n\n![]([image 640x480 png])\n\nB"),
    ("anthropics/claude-code#9152", _text(json.dumps({"a": WRAPPED})), '{"a": "[image 640x480 png]"}'),
    ("wrapped lines", _text(f"{WRAPPED}\nnext"), "[image 640x480 png]\nnext"),
    ("slashes escaped by PHP", _text(json.dumps({"a": URI}).replace("/", "\\/")), '{"a": "[image 640x480 png]"}'),
    ("base64 for addresses", _text(URL_SAFE), "[image 64x48 jpeg]"),
    ("a font", _text(f"url(data:font/woff2;base64,{_b64(_BYTES)})"), "url([font/woff2, 6 kB])"),
    ("a document", _text(_b64(b"%PDF-1.7" + _BYTES)), "[application/pdf, 6 kB]"),
    ("data of an unknown kind", _text(f'{{"x": "{_b64(_BYTES)}"}}'), '{"x": "[application/octet-stream, 6 kB]"}'),
    ("a damaged address", _text(f"data:image/png;base64,{'A' * 4}{'_' * 400}"), "[image png, "),
    (
        "NousResearch/hermes-agent#64061",
        {
            "content": [
                {
                    "type": "resource",
                    "resource": {"uri": "file:///a", "mimeType": "application/pdf", "blob": _b64(b"%PDF-1.7" + _BYTES)},
                }
            ]
        },
        "[resource file:///a: application/pdf, 6 kB]",
    ),
    (
        "vercel/ai#15285",
        {"content": [{"type": "audio", "data": _b64(b"OggS" + _BYTES), "mimeType": "audio/ogg"}]},
        "[audio ogg, 6 kB]",
    ),
    ("a part of no known type", {"content": [{"type": "screenshot", "png": _b64(PNG)}]}, "[image 640x480 png]"),
]


@walk_cases(("wire", "text"), [one[1:] for one in CASES], ids=[one[0] for one in CASES])
def test_data_becomes_a_note(wire: dict[str, Any], text: str) -> None:
    result = parse_result(wire)
    assert text in result.content
    assert len(result.content) < len(text) + 120
    assert [blob.note for blob in result.blobs] == [blob.note for blob in dict.fromkeys(result.blobs)]


def test_the_data_is_kept_once() -> None:
    result = parse_result({"content": [IMAGE], "structuredContent": {"result": [IMAGE], "again": URI}})
    assert [blob.data for blob in result.blobs] == [PNG]


@walk_cases(
    "text",
    [
        "0x" + "60806040523480156100" * 200,  # bytecode
        "ACGT" * 1_000,
        _b64(b"a text that a model may decode by itself. " * 60),
        "eyJhbGciOiJSUzI1NiJ9." + _b64(_BYTES[:300]) + "." + _b64(_BYTES[300:600]),  # a token
        "data:text/html;base64," + _b64(b"<p>hello</p>" * 40),
        "data:image/png;base64,iVBORw0KGgo=",
        "the word data:image/png;base64, alone",
        "/usr/share/" * 300,
        "x" * 5_000,
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert extract_media(text) == (text, [])


@given(st.text(alphabet="ab9/+=\\n\n,;:dt image/png base64-_%", max_size=400))
def test_no_text_breaks_the_search(text: str) -> None:
    extract_media(f"data:image/png;base64,{text}")


def test_a_size_is_read_from_the_decoded_data() -> None:
    assert read_image_size(PNG) == (640, 480)
    assert read_image_size(JPEG) == (64, 48)
