"""What Zoea takes from inside other libraries; each test says what to do when a new version has moved it."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

DECODERS = (
    "httpx-sse moved or changed its decoders, which zoea/llm/transport/event_stream.py (EventReader) is made of: "
    "follow the new names there, or hold httpx-sse below this version in pyproject.toml"
)


def taken(module: str, name: str, otherwise: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        pytest.fail(otherwise)


def test_events_are_decoded_by_httpx_sse() -> None:
    lines = taken("httpx_sse._decoders", "SSELineDecoder", DECODERS)()
    events = taken("httpx_sse._decoders", "SSEDecoder", DECODERS)()
    try:
        found = [events.decode(line) for line in [*lines.decode("event: a\ndata: b\n"), *lines.flush(), ""]]
        named = [(event.event, event.data) for event in found if event is not None]
    except (AttributeError, TypeError) as error:
        pytest.fail(f"{DECODERS} ({error})")
    assert named == [("a", "b")], DECODERS
