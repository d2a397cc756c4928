"""Changes the few bytes of an agent's request and answer that may not pass as they are. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

from zoea.llm.messages.wire_bodies import Wire

_STATEFUL = ("previous_response_id", "conversation", "background")
_MODEL = re.compile(rb'"model"\s*:\s*("(?:[^"\\]|\\.)*")')
_USAGE_OPTION = b'{"stream_options":{"include_usage":true},'


def find_unsupported(wire: Wire, body: dict[str, Any]) -> str:
    """Return why a request cannot be counted and shown whole; empty where it can."""
    if wire is not Wire.RESPONSES:
        return ""
    named = next((key for key in _STATEFUL if body.get(key)), None)
    if named is None:
        return ""
    return f"{named}: a request must hold all of its input and be answered at once, so that it can be shown and counted"


def set_model(content: bytes, body: dict[str, Any], model: str) -> bytes:
    """Return the request for another model. Its bytes stay where one place alone can name the model."""
    named = list(_MODEL.finditer(content))
    if len(named) == 1 == content.count(b'"model"') and b"\\u00" not in content:
        start, end = named[0].span(1)
        return content[:start] + json.dumps(model, ensure_ascii=False).encode() + content[end:]
    return json.dumps({**body, "model": model}, ensure_ascii=False).encode("utf-8", "replace")


def ask_for_usage(content: bytes) -> bytes:
    """Return a streamed chat completion's request that asks for its usage too."""
    return _USAGE_OPTION + content.lstrip()[1:]


class UsageFilter:
    """Takes out of a stream the event with the usage, which the client did not ask for."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Return the whole events so far, without that one."""
        *events, self._rest = (self._rest + data).replace(b"\r\n", b"\n").split(b"\n\n")
        return b"".join([event + b"\n\n" for event in events if not _is_usage(event)])

    def end(self) -> bytes:
        rest, self._rest = self._rest, b""
        return b"" if _is_usage(rest) else rest


def _is_usage(event: bytes) -> bool:
    if b'"usage"' not in event or not event.startswith(b"data:"):
        return False
    try:
        payload = json.loads(event[5:])
    except ValueError:
        return False
    return isinstance(payload, dict) and payload.get("choices") == [] and bool(payload.get("usage"))
