"""Checks the last answer of a turn against the output schema of its role."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from zoea.text import clean
from zoea.text.large_json import MAX_DEPTH, is_deep

NO_OBJECT = "it is not one JSON object"
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?```", re.DOTALL | re.IGNORECASE)
_ERROR_CHARS = 300
_MOST_TRIES = 1000
"""Braces of an answer from which on an object is looked for."""


class OutputCheck(Struct, frozen=True):
    """The output as JSON, or why there is none."""

    data: str = ""
    error: str = ""


def check_output(text: str, schema: Mapping[str, Any]) -> OutputCheck:
    """Read the output of an answer, which is one JSON object. It may stand in a code block or between sentences."""
    # Only roles with a schema need the library, which takes a while to load.
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    found = _read_object(text)
    if isinstance(found, str):
        return OutputCheck(error=found)
    if is_deep(found):
        return OutputCheck(error=f"it is nested more than {MAX_DEPTH} levels deep")
    error = best_match(Draft202012Validator(schema).iter_errors(found))
    if error is None:
        return OutputCheck(json.dumps(found, ensure_ascii=False))
    where = ".".join(map(str, error.absolute_path))
    sentence = clean(f"{where}: {error.message}" if where else error.message)
    return OutputCheck(error=sentence if len(sentence) <= _ERROR_CHARS else f"{sentence[:_ERROR_CHARS]}...")


def _read_object(text: str) -> dict[str, Any] | str:
    """Return the object of an answer, or say why there is none.

    The whole answer is tried first, then its last code block, then the last object within the text.
    """
    why = NO_OBJECT
    for candidate in (text, *_FENCED.findall(text)[-1:]):
        try:
            value = _DECODER.decode(candidate.strip())
        except (ValueError, RecursionError) as error:
            if candidate.lstrip().startswith("{"):
                why = f"it is not valid JSON: {error}"
            continue
        if isinstance(value, dict):
            return value
    last = None
    begin = text.find("{")
    # Within a broken object that is meant as the output, no inner one is taken for it.
    for _ in range(_MOST_TRIES if why == NO_OBJECT else 1):
        if begin < 0:
            break
        try:
            last, end = _DECODER.raw_decode(text, begin)
        except (ValueError, RecursionError):
            end = begin + 1
        begin = text.find("{", end)
    return why if last is None else last


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(parse_constant=_reject_constant)
