"""Checks the last answer of a turn against the output schema of its role."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NO_OBJECT = "it is not one JSON object"
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?```", re.DOTALL | re.IGNORECASE)
_ERROR_CHARS = 300


@dataclass(frozen=True, slots=True)
class OutputCheck:
    """The output as JSON, or why there is none."""

    data: str = ""
    error: str = ""


def check_output(text: str, schema: Mapping[str, Any]) -> OutputCheck:
    """Read the output of an answer: one JSON object, which may stand in a code block or between sentences."""
    # Only roles with a schema need the library, which takes a while to load.
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    found = _read_object(text)
    if isinstance(found, str):
        return OutputCheck(error=found)
    error = best_match(Draft202012Validator(schema).iter_errors(found))
    if error is None:
        return OutputCheck(json.dumps(found, ensure_ascii=False))
    where = ".".join(map(str, error.absolute_path))
    said = f"{where}: {error.message}" if where else error.message
    return OutputCheck(error=said if len(said) <= _ERROR_CHARS else f"{said[:_ERROR_CHARS]}...")


def _read_object(text: str) -> dict[str, Any] | str:
    """Return the object of an answer, or what is wrong with it."""
    fenced = _FENCED.findall(text)
    begin, end = text.find("{"), text.rfind("}")
    why = NO_OBJECT
    for candidate in (text, *fenced[-1:], text[begin : end + 1]):
        if not candidate.strip():
            continue
        try:
            found = json.loads(candidate, parse_constant=_reject_constant)
        except (ValueError, RecursionError) as error:
            if candidate.lstrip().startswith("{"):
                why = f"it is not valid JSON: {error}"
            continue
        if isinstance(found, dict):
            return found
    return why


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")
