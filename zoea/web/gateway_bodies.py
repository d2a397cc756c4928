"""Changes the parts of an agent's request and answer that may not pass. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

from zoea.llm.messages.wire_bodies import Wire, WireBody, is_model_key, names_model, read_whole
from zoea.llm.transport.json_safety import as_mappings
from zoea.text.json_text import parse_object

_ELSEWHERE: dict[Wire, tuple[str, ...]] = {
    Wire.CHAT: (),
    Wire.MESSAGES: ("container",),
    Wire.RESPONSES: ("previous_response_id", "conversation", "background", "prompt"),
}
"""Keys for input that the vendor keeps, and for work that goes on after the request."""
_HOSTS = re.compile(r"provider|^(?:api|base|custom)_?(?:base|key|url|config)$|^user_config$", re.IGNORECASE)
"""Keys of OpenRouter, Vercel and LiteLLM that say which host answers for the model."""
_ANY_HOST = frozenset({"allow_fallbacks", "data_collection", "max_price", "require_parameters", "zdr"})
"""Keys in one of them that rank no host before a cheaper one and name none."""
_WHOLE = "a request must hold all of its input and be answered at once, so that it can be shown and counted"
_NUMBERS = ("n", "best_of")
_OTHER_NAMES = {"n_predict": "max_tokens", "n_cmpl": "n"}
"""Keys that llama.cpp reads before those of the API."""
_DEARER = {"service_tier": "priority", "speed": "fast", "inference_geo": "us"}
_LIMITS = ("n", "max_tokens", "max_completion_tokens", "max_output_tokens")
_READ = ("model", "stream", "system", "instructions", "tools", *_LIMITS, "messages", "input")
"""Keys that Zoea reads, which a vendor must read alike."""
_KEY = re.compile(rb'[\s{,]*"([^"\\]*)"\s*:\s*')
_USAGE_OPTION = b'{"stream_options":{"include_usage":true},'


def find_unsupported(wire: Wire, body: dict[str, Any], read: WireBody) -> str:
    """Return why a request cannot be counted and shown whole, or asks another model. Empty otherwise."""
    for key, value in body.items():
        if key not in _READ and key.casefold() in _READ:
            return f"{key}: write {key.casefold()}, because some servers do not tell them apart"
        if key in _OTHER_NAMES:
            return f"{key}: write {_OTHER_NAMES[key]}, which Zoea counts"
        if key != "model" and value and is_model_key(key):
            return f"{key}: only the model of the mysis is asked"
        if value and _HOSTS.search(key) and _chooses_host(value):
            return f"{key}: the host is that of the model of the mysis; others have other prices"
        if value and _DEARER.get(key) == value:
            return f"{key}: {value} costs more than the prices that Zoea counts with"
        if key in _NUMBERS and (read_whole(value) or 1) > 1:
            return f"{key}: ask for one answer at a time"
        if key in _ELSEWHERE[wire] and value:
            return f"{key}: {_WHOLE}"
    names = {"tools": read.tools_name_model, "plugins": any(map(names_model, as_mappings(body.get("plugins"))))}
    for key, is_named in names.items():
        if is_named:
            return f"{key}: one names a model, and only the model of the mysis is asked"
    return f"{read.reference}: {_WHOLE}" if read.reference else ""


def _chooses_host(value: Any) -> bool:
    if not isinstance(value, dict):
        return True
    return any(one and key not in _ANY_HOST and (key, one) != ("sort", "price") for key, one in value.items())


def set_model(content: bytes, parts: dict[str, bytes], model: str) -> bytes:
    """Return the request for another model.

    Its bytes stay where each key stands once and as it is read: of two, some servers take the first.

    Args:
        parts: Its values as they were written.
    """
    named, place, at = json.dumps(model).encode(), 0, 0
    for name, part in parts.items():
        key = _KEY.match(content, place)
        if key is None or key[1].decode("utf-8", "replace") != name or not content.startswith(part, key.end()):
            break
        place = key.end() + len(part)
        at = key.end() if name == "model" else at
    if content[place:].strip() == b"}":
        return b"".join((content[:at], named, content[at + len(parts["model"]) :]))
    values = {**parts, "model": named}
    return b"{%s}" % b",".join([b"%s:%s" % (json.dumps(name).encode(), part) for name, part in values.items()])


def ask_for_usage(content: bytes) -> bytes:
    """Return a streamed chat completion's request that asks for its usage too."""
    return _USAGE_OPTION + content.lstrip()[1:]


class UsageFilter:
    """Removes from a stream the usage event that the client did not ask for."""

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
    payload = parse_object(event[5:]) or {}
    return payload.get("choices") == [] and bool(payload.get("usage"))
