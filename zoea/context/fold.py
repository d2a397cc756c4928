"""Folding loop slices into one line a call: what was done survives where the texts cannot.

A line holds the tool, its arguments up to 200 characters, how it went, and every
identifier-like value of the result, because those are what later calls need.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from zoea.model.request import RequestMessage
from zoea.text.shorten import head

ARGUMENT_CHARS = 200
TEXT_CHARS = 200
IDENTIFIER_CHARS = 2000
FEW_IDENTIFIER_CHARS = 200

_VALUE = r"""["']?\s*[:=]\s*["']?([^\s"',;}\])]{1,80})"""
_KEYED = r"""(?<![\w-])(?:[\w-]*[_-])?(?:id|key|token|ref|uuid|hash)""" + _VALUE
_CAMEL = r"""(?<!\w)[A-Za-z]+(?:Id|Key|Token|Ref)(?!\w)""" + _VALUE
_WORD = r"""(?<![\w.-])([A-Za-z0-9][\w-]{3,}+)"""
_QUOTED = r"""["']([A-Za-z][A-Za-z0-9]*+(?:[_-][A-Za-z0-9]++)++)["'](?!\s*:)"""
_NAMED = re.compile(f"{_KEYED}|{_CAMEL}|{_QUOTED}|{_WORD}")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}(?:T[\d-]+\w*)?$")
_WORD_GROUP = 4
_LONGEST = 80


def identifiers(text: str) -> list[str]:
    """Values that look like identifiers, once each, in order.

    They are values of `id`, `*_id`, `*Id`, `key`, `token`, `ref`, `hash`; words of letters and digits;
    quoted words joined by `_` or `-` that are no key. Times are not. One pass over the text.
    """
    found: dict[str, None] = {}
    for match in _NAMED.finditer(text):
        value = match[match.lastindex or 0]
        if match.lastindex == _WORD_GROUP and not _is_mixed(value):
            continue
        if not _TIME.match(value):
            found[value] = None
    return list(found)


def _is_mixed(word: str) -> bool:
    """Letters and digits in one word of a length that names something."""
    if len(word) > _LONGEST:
        return False
    return any(one.isdigit() for one in word) and any(one.isalpha() for one in word)


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
