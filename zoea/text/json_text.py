"""Reads JSON that a model, a server or a person wrote. Anything else is no error. Pure."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str | bytes, default: Any = None) -> Any:
    """Return the value of a JSON text. `default` if it is not JSON, or nested too deeply."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return default


def parse_object(text: str | bytes) -> dict[str, Any] | None:
    """Return the object that a JSON text holds; None for anything else."""
    value = parse_json(text)
    return value if isinstance(value, dict) else None
