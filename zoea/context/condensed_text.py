"""Shorten texts and tool calls for a request; the stored text never changes.

A cut keeps head and tail around a marker that says how much is missing and where to read it. A
folded slice keeps one line per call: tool, arguments, outcome, and the identifiers of its result,
because later calls need those.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from zoea.model.request import RequestMessage
from zoea.text.json_text import parse_object
from zoea.text.lazy_pattern import compile_lazily
from zoea.text.sentences import UNSPACED
from zoea.text.shorten import head, middle

TRUNCATED = "\n\n[Context truncated to fit limit]\n"
"""Ends a text that was cut at its end to fit a limit."""
LEAST = 160
"""The least a cut keeps, in characters, so that head and tail stay readable beside the marker."""
ARGUMENT_CHARS = 200
TEXT_CHARS = 200
IDENTIFIER_CHARS = 2000
FEW_IDENTIFIER_CHARS = 200
_VALUE = r"""["']?\s*[:=]\s*["']?([^\s"',;}\])]{1,80})"""
_QUOTED = r"""["']([A-Za-z][A-Za-z0-9]*+(?>(?:[_-][A-Za-z0-9]++)+))["'](?!\s*:)"""


def _compile_names(in_word: str) -> re.Pattern[str]:
    """Return the pattern of what names a thing. `in_word` matches one character of a word."""
    keyed = rf"""(?<!{in_word})(?:{in_word}*[_-])?(?:id|key|token|ref|uuid|hash)""" + _VALUE
    camel = rf"""(?<!{in_word})[A-Za-z]+(?:Id|Key|Token|Ref)(?!\w)""" + _VALUE
    word = rf"""(?<!{in_word})(?<!\.)([A-Za-z0-9](?>{in_word}{{3,}}))"""
    return compile_lazily(f"{keyed}|{camel}|{_QUOTED}|{word}")


_NAMED = _compile_names(r"[\w-]")
_NAMED_UNSPACED = _compile_names(rf"(?:(?![{UNSPACED}])[\w-])")  # takes twice the time
_UNSPACED = compile_lazily(f"[{UNSPACED}]")
_TIME = compile_lazily(r"\d{4}-\d{2}-\d{2}(?:T[\d-]+\w*)?$")
_WORD_GROUP = 4
_LONGEST = 80


def cut_text(text: str, keep: int, memory_id: int | None) -> str:
    """Return head and tail of a text around the marker, at most `max(keep, LEAST)` characters."""
    where = "" if memory_id is None else f"zoea_read_memory(id={memory_id}) shows them"
    return middle(text, max(keep, LEAST), where)


def cut_end(text: str, keep: int) -> str:
    """Return the first `keep` characters, ending in TRUNCATED where that fits."""
    if len(text) <= keep:
        return text
    if keep >= len(TRUNCATED):
        return text[: keep - len(TRUNCATED)] + TRUNCATED
    return text[: max(keep, 0)]


def cut_arguments(arguments: str, keep: int, memory_id: int | None) -> str:
    """Shorten the long values of a JSON object, or replace it by one key `…`.

    Returns a JSON object, never longer than an input that was one.
    """
    if len(arguments) <= keep:
        return arguments
    values = parse_object(arguments)
    if values is None:
        return _whole(arguments, keep, memory_id)
    share = max(keep // max(len(values), 1), LEAST)
    short = _dump({key: _cut_value(value, share, memory_id) for key, value in values.items()})
    if short is None or len(short) > 2 * max(keep, share):
        short = _whole(arguments, keep, memory_id)
    return short if len(short) < len(arguments) else arguments


def _whole(arguments: str, keep: int, memory_id: int | None) -> str:
    return json.dumps({"…": cut_text(arguments, keep, memory_id)}, ensure_ascii=False)


def _cut_value(value: Any, keep: int, memory_id: int | None) -> Any:
    if isinstance(value, str):
        return cut_text(value, keep, memory_id)
    if isinstance(value, (dict, list)):
        text = json.dumps(value, ensure_ascii=False)
        return cut_text(text, keep, memory_id) if len(text) > keep else value
    return value


def _dump(value: Any) -> str | None:
    """Return compact JSON, or None for values JSON cannot express (overflow to infinity)."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return None


def fold_slice(answer: RequestMessage, results: Sequence[RequestMessage], identifier_chars: int) -> str:
    """Return one slice as lines: the answer's text, then a line for each call. It is never empty."""
    out = []
    if answer.content.strip():
        out.append(f"said: {head(' '.join(answer.content.split()), TEXT_CHARS)}")
    for call, result in zip(answer.calls, results, strict=True):
        line = f"{call.name}({head(call.arguments, ARGUMENT_CHARS)}) {'error' if result.is_error else 'ok'}"
        identifiers = head(", ".join(find_identifiers(result.content)), identifier_chars)
        out.append(f"{line}: {identifiers}" if identifiers else line)
    return "\n".join(out) or "said: nothing"


def join_folds(parts: Sequence[str]) -> str:
    """Return the text of the assistant message that stands for adjacent folded slices."""
    return "(earlier in this turn: " + "\n".join(parts) + ")"


def find_identifiers(text: str) -> list[str]:
    """Return values that look like identifiers, once each, in order.

    These are values of `id`, `*_id`, `*Id`, `key`, `token`, `ref`, `hash`; words that mix letters and
    digits; and quoted words joined by `_` or `-` that are not keys. Times are excluded. One pass.
    """
    identifiers: dict[str, None] = {}
    named = _NAMED if text.isascii() or _UNSPACED.search(text) is None else _NAMED_UNSPACED
    for match in named.finditer(text):
        value = match[match.lastindex or 0]
        if match.lastindex == _WORD_GROUP and not _is_mixed(value):
            continue
        if not _TIME.match(value):
            identifiers[value] = None
    return list(identifiers)


def _is_mixed(word: str) -> bool:
    """Return whether a word has letters and digits and at most `_LONGEST` characters."""
    if len(word) > _LONGEST or word.isalpha() or word.isdigit():  # most words
        return False
    return any(one.isdigit() for one in word) and any(one.isalpha() for one in word)
