"""Parses the arguments of a call, as a model wrote them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from zoea.model.errors import UsageError
from zoea.text.control_characters import clean, pair_surrogates
from zoea.text.large_json import is_deep


def parse_arguments(text: str, *, is_stored: bool = False) -> dict[str, Any]:
    """Parse the arguments that a model wrote; an empty text is an empty object.

    Only JSON is checked here: the server checks its own schema.

    Args:
        is_stored: Whether its texts are stored, where no NUL may stand. A server gets each as it was shown.

    Raises:
        UsageError: The text is not one JSON object.
    """
    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_read_float)
        if is_deep(value):  # what marks secrets and sends it works by recursion
            raise RecursionError
        if "\\u" in text or not text.isascii():
            # A lone surrogate would break the whole transport.
            value = _map_texts(value, clean if is_stored else pair_surrogates)
    except RecursionError:
        raise UsageError("arguments are nested too deeply") from None
    except ValueError as error:
        raise UsageError(f"arguments are not JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError(f"arguments must be a JSON object, not {_json_type(value)}")
    return value


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    match value:
        case str():
            return change(value)
        case list():
            return [_map_texts(item, change) for item in value]
        case dict():
            return {change(key): _map_texts(item, change) for key, item in value.items()}
        case _:
            return value


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _read_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):  # it would be sent as null
        raise ValueError(f"{text[:20]} is beyond all bounds")
    return value


def _json_type(value: Any) -> str:
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
