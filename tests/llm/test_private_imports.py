"""What Zoea takes from inside other libraries; each test says what to do when a new version has moved it."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import httpcore
import httpx
import pytest

DECODERS = (
    "httpx-sse moved or changed its decoders, which zoea/llm/sse.py (EventReader) is made of: "
    "follow the new names there, or hold httpx-sse below this version in pyproject.toml"
)
POOL = (
    "httpx's transport no longer works over `_pool`, which zoea/llm/http.py (_Lane) replaces: "
    "follow the new name there, or hold httpx below this version in pyproject.toml"
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


async def test_a_transport_of_httpx_is_a_pool_of_httpcore_and_nothing_else() -> None:
    transport = httpx.AsyncHTTPTransport(verify=False)
    assert list(vars(transport)) == ["_pool"], POOL
    assert isinstance(vars(transport)["_pool"], httpcore.AsyncConnectionPool), POOL
    await transport.aclose()


def test_a_pool_takes_the_sockets_it_is_given() -> None:
    wanted = {"ssl_context", "max_connections", "max_keepalive_connections", "keepalive_expiry", "network_backend"}
    missing = wanted - inspect.signature(httpcore.AsyncConnectionPool).parameters.keys()
    assert not missing, f"httpcore's pool lost {missing}, which zoea/llm/http.py (_Lane) gives it"
