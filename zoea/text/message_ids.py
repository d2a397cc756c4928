"""Finds the id of a JSON-RPC message that cannot be parsed, or not cheaply."""

from __future__ import annotations

import json
import re

_ID = rb'"id"\s*:\s*(-?\d+|"[^"\\]*")\s*'
_AT_START = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID + rb"[,}]")
_AT_END = re.compile(_ID + rb"\}\s*$")
_EDGE_BYTES = 200


def find_id(data: bytes) -> int | str | None:
    """Find the id at the begin or the end of a message. None if it is elsewhere."""
    match = _AT_START.match(data[:_EDGE_BYTES]) or _AT_END.search(data[-_EDGE_BYTES:])
    try:
        value: int | str | None = json.loads(match[1].decode("utf-8", "replace")) if match else None
    except ValueError:  # such as a number of 5,000 digits
        return None
    return value
