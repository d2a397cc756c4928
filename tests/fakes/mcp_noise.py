"""Malformed requests: broken bodies, wrong shapes, headers and arguments; none can be carried out."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from zoea.tools.builtin.definitions import CLIENT_TOOLS

METHODS = ("initialize", "ping", "tools/list", "tools/call", "resources/read", "resources/list", "nonsense", "")
TEXTS = ("", " ", "\x00", "\ud800", "😀" * 50, "%_'\"*", "a" * 3_000, "../../etc/passwd", "zoea://myses/%00/transcript")
NUMBERS = (-1, 0, 2**31, 2**63, 2**200, 1e308, -0.5)


@dataclass(frozen=True)
class Malformed:
    """One request."""

    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    verb: str = "POST"


def malformed(seed: int, count: int) -> Iterator[Malformed]:
    """`count` requests, the same for the same seed."""
    source = random.Random(seed)
    kinds = (_garbage, _cut_off, _wrong_shape, _wrong_arguments, _wrong_headers, _deep)
    for _ in range(count):
        yield source.choice(kinds)(source)


def _junk(source: random.Random, depth: int = 2) -> Any:
    kinds: list[Any] = [None, True, source.choice(TEXTS), source.choice(NUMBERS)]
    if depth:
        kinds += [[_junk(source, depth - 1)], {source.choice(TEXTS): _junk(source, depth - 1)}]
    return source.choice(kinds)


def _dumped(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


def _garbage(source: random.Random) -> Malformed:
    return Malformed(source.randbytes(source.randrange(200)))


def _cut_off(source: random.Random) -> Malformed:
    whole = _dumped(_request(source, _call(source)))
    return Malformed(whole[: source.randrange(len(whole) - 1)])


def _wrong_shape(source: random.Random) -> Malformed:
    request: Any = _request(source, _call(source))
    for key in source.sample(sorted(request), source.randrange(1, 3)):
        request[key] = _junk(source)
    return Malformed(_dumped(source.choice([request, [request], [request, request], _junk(source)])))


def _wrong_arguments(source: random.Random) -> Malformed:
    return Malformed(_dumped(_request(source, _call(source), "tools/call")))


def _wrong_headers(source: random.Random) -> Malformed:
    wrong = {
        "Content-Type": source.choice(["text/plain", "application/xml", "application/json; charset=utf-16"]),
        "Accept": source.choice(["text/html", "", "*/*"]),
        "Mcp-Session-Id": source.choice(["", "no-such-session", "\x7f", "a" * 500]),
        "Mcp-Protocol-Version": source.choice(["1999-01-01", "2026-07-28", "2025-11-25", "x" * 100]),
        "Mcp-Method": source.choice(METHODS),
    }
    chosen = {name: wrong[name] for name in source.sample(sorted(wrong), source.randrange(1, 4))}
    body = _dumped(_request(source, _call(source)))
    return Malformed(body, chosen, source.choice(["POST", "POST", "DELETE", "PUT", "PATCH", "OPTIONS"]))


def _deep(source: random.Random) -> Malformed:
    depth = source.choice([100, 2_000, 20_000])
    return Malformed(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b"[" * depth + b"]" * depth + b"}")


def _request(source: random.Random, params: Any, method: str = "") -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": source.choice([1, "one"]),
        "method": method or source.choice(METHODS),
        "params": params,
    }


def _call(source: random.Random) -> dict[str, Any]:
    """A call with arguments that no tool takes: an unknown one is always among them."""
    tool = source.choice(CLIENT_TOOLS)
    arguments = {name: _junk(source) for name in tool.input_schema["properties"] if source.random() < 0.7}
    name = source.choice([tool.name, tool.name, tool.name.upper(), source.choice(TEXTS)])
    return {"name": name, "arguments": {**arguments, "unknown": _junk(source, 0) or "x"}}
