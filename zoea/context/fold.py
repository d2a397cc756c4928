"""Folding loop slices into one line a call: what was done survives where the texts cannot.

A line holds the tool, its arguments up to 200 characters, how it went, and every
identifier-like value of the result, because those are what later calls need.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from zoea.model.request import RequestMessage
from zoea.text.cut import head

ARGUMENT_CHARS = 200
TEXT_CHARS = 200
IDENTIFIER_CHARS = 2000
FEW_IDENTIFIER_CHARS = 200

_KEYED = r"""\b(?:\w*[_-])?(?:id|key|token|ref|uuid|hash)["']?\s*[:=]\s*["']?([^\s"',;}\])]{1,80})"""
_CAMEL = r"""\b\w*[a-z](?:Id|Key|Token|Ref)["']?\s*[:=]\s*["']?([^\s"',;}\])]{1,80})"""
_MIXED = r"""(?<![\w.])((?=[\w-]*\d)(?=[\w-]*[A-Za-z])[A-Za-z0-9][\w-]{3,79})(?![\w.]*\()"""
_JOINED = r"""["']([A-Za-z][A-Za-z0-9]*(?:[_-][A-Za-z0-9]+)+)["'](?!\s*:)"""
_IDENTIFIER = re.compile("|".join((_KEYED, _CAMEL, _MIXED, _JOINED)))
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}(?:T[\d-]+\w*)?$")


def identifiers(text: str) -> list[str]:
    """Values that look like identifiers, once each, in order.

    They are values of `id`, `*_id`, `*Id`, `key`, `token`, `ref`, `hash`; words of letters and digits;
    quoted words joined by `_` or `-` that are no key. Times are not.
    """
    found = (next(filter(None, match.groups()), "") for match in _IDENTIFIER.finditer(text))
    return list(dict.fromkeys(value for value in found if value and not _TIME.match(value)))


def lines(answer: RequestMessage, results: Sequence[RequestMessage], identifier_chars: int) -> str:
    """What remains of one slice (or of an answer without calls): its text, then a line for each call."""
    out = []
    if answer.content.strip():
        out.append(f"said: {head(' '.join(answer.content.split()), TEXT_CHARS)}")
    for call, result in zip(answer.calls, results, strict=True):
        line = f"{call.name}({head(call.arguments, ARGUMENT_CHARS)}) {'error' if result.is_error else 'ok'}"
        known = head(", ".join(identifiers(result.content)), identifier_chars)
        out.append(f"{line}: {known}" if known else line)
    return "\n".join(out)


def folded(parts: Sequence[str]) -> str:
    """The text of the assistant message that stands for a run of folded slices."""
    return "(earlier in this turn: " + "\n".join(part for part in parts if part) + ")"
