"""Cutting what goes into a request: head and tail stay, a marker says how much is gone and where to read it.

The stored text is never touched; these are pure renderings of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from zoea.model.request import RequestMessage
from zoea.text.shorten import head, middle

# A line holds the tool, its arguments up to 200 characters, how it went, and every
# identifier-like value of the result, because those are what later calls need.

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


def find_identifiers(text: str) -> list[str]:
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


def fold_slice(answer: RequestMessage, results: Sequence[RequestMessage], identifier_chars: int) -> str:
    """What remains of one slice (or of an answer without calls): its text, then a line for each call."""
    out = []
    if answer.content.strip():
        out.append(f"said: {head(' '.join(answer.content.split()), TEXT_CHARS)}")
    for call, result in zip(answer.calls, results, strict=True):
        line = f"{call.name}({head(call.arguments, ARGUMENT_CHARS)}) {'error' if result.is_error else 'ok'}"
        known = head(", ".join(find_identifiers(result.content)), identifier_chars)
        out.append(f"{line}: {known}" if known else line)
    return "\n".join(out)


def join_folds(parts: Sequence[str]) -> str:
    """The text of the assistant message that stands for a run of folded slices."""
    return "(earlier in this turn: " + "\n".join(part for part in parts if part) + ")"


TRUNCATED = "\n\n[Context truncated to fit limit]\n"
"""What ends a text that a limit cut (planner.md, "Selection" 6c)."""

LEAST = 160
"""The least a cut keeps, so that there is a head and a tail beside the marker."""


def cut_text(text: str, keep: int, memory_id: int | None) -> str:
    """Head and tail of a text around the marker, together at most `keep` characters (never under LEAST)."""
    where = "" if memory_id is None else f"zoea_read_memory(id={memory_id}) shows them"
    return middle(text, max(keep, LEAST), where)


def cut_end(text: str, keep: int) -> str:
    """The first characters, ending in TRUNCATED where that fits; exactly `keep` characters of a longer text."""
    if len(text) <= keep:
        return text
    if keep >= len(TRUNCATED):
        return text[: keep - len(TRUNCATED)] + TRUNCATED
    return text[: max(keep, 0)]


def cut_arguments(arguments: str, keep: int, memory_id: int | None) -> str:
    """The JSON object with its long values cut, or with the one key `…` where that is not enough.

    What goes out is always a JSON object, and never longer than what came in where that was one.
    """
    if len(arguments) <= keep:
        return arguments
    values = _object(arguments)
    if values is None:
        return _whole(arguments, keep, memory_id)
    share = max(keep // max(len(values), 1), LEAST)
    short = _dump({key: _cut_value(value, share, memory_id) for key, value in values.items()})
    if short is None or len(short) > 2 * max(keep, share):
        short = _whole(arguments, keep, memory_id)
    return short if len(short) < len(arguments) else arguments


def _whole(arguments: str, keep: int, memory_id: int | None) -> str:
    return json.dumps({"…": cut_text(arguments, keep, memory_id)}, ensure_ascii=False)


def _object(text: str) -> dict[str, Any] | None:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _cut_value(value: Any, keep: int, memory_id: int | None) -> Any:
    if isinstance(value, str):
        return cut_text(value, keep, memory_id)
    if isinstance(value, (dict, list)):
        text = json.dumps(value, ensure_ascii=False)
        return cut_text(text, keep, memory_id) if len(text) > keep else value
    return value


def _dump(value: Any) -> str | None:
    """Compact JSON, or None for what JSON cannot say (infinities that a number overflowed to)."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return None
