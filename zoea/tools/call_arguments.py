"""The arguments of a call, from the text a model wrote to what may be sent. Pure.

Checked lightly: they must be one JSON object of what JSON can say. Schema errors
come from the server, which knows its own schema best.
"""

from __future__ import annotations

import json
from typing import Any

from zoea.model.errors import UsageError
from zoea.text.control_characters import clean


def parse(text: str) -> dict[str, Any]:
    """The object; an empty text is an empty object.

    Raises:
        UsageError: Says what is wrong and where.
    """
    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_constant=_refuse)
        if "\\u" in text or not text.isascii():
            # A lone surrogate would break the whole transport, not just this call.
            value = _clean(value)
    except RecursionError:
        raise UsageError("arguments are nested too deeply") from None
    except ValueError as error:
        raise UsageError(f"arguments are not JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError(f"arguments must be a JSON object, not {_kind(value)}")
    return value


def _clean(value: Any) -> Any:
    match value:
        case str():
            return clean(value)
        case list():
            return [_clean(item) for item in value]
        case dict():
            return {_clean(key): _clean(item) for key, item in value.items()}
        case _:
            return value


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "a number"
