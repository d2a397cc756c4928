"""Repair of tool arguments as models write them, where only one reading is possible.

What cannot be repaired is reported to the model with its place, so that it writes the call again; nothing is
guessed into a call that may cost money.
"""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from zoea.llm.transport.json_safety import TOO_DEEP, parse
from zoea.text.large_json import is_deep

_FENCE = re.compile(r"^```[a-zA-Z]*\s*\n?(.*?)\n?```$", re.DOTALL)
MAX_REPAIR = 200_000
MAX_GUESSED = 2_000
"""Characters from the first fault on that `json_repair` reads: it may take the square of their number."""
MAX_UNCLOSED = 100
"""Brackets that a text may leave open. A model that runs away repeats them, and `json_repair` reads each to the end."""
_TEXT = re.compile(r'("(?:[^"\\]|\\.)*(?:"|\\?\Z))', re.DOTALL)
"""A text, or its beginning at the end: else each quote that it holds would be looked from to the end."""
_ESCAPE = re.compile(r"\\([\"\\/bfnrt]|u[0-9a-fA-F]{4})?")
_PATH_ESCAPE = re.compile(r"\\([\"\\])?")
_DRIVE = re.compile(r"[A-Za-z]:\\(?!\\)")
_BLANK_ESCAPE = re.compile(r"\\[nrt]")
_CONTROL = re.compile(r"[\x00-\x1f]")
_QUOTED = re.compile(r"""("(?:[^"\\]|\\.)*(?:"|\\?\Z)|'(?:[^'\\]|\\.)*(?:'|\\?\Z))""", re.DOTALL)
_LAST_COMMA = re.compile(r",(?=\s*[}\]])")
_BARE_KEY = re.compile(r"(?<=[{,])(\s*)([A-Za-z_]\w*)(?=\s*:)")
_WORD = re.compile(r"\b(?:True|False|None)\b")
_WORDS = {"True": "true", "False": "false", "None": "null"}
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def repair(text: str, *, is_cut: bool = False) -> tuple[str, str]:
    """Return arguments as compact JSON text, and why they are broken, else an empty text.

    Broken arguments come back unchanged. `is_cut` means that the model was stopped at its output limit: nothing is
    repaired then, because the missing rest is unknown.
    """
    stripped = text.strip()
    if not stripped:
        return "{}", ""
    try:
        value = parse(stripped, constant=_no_constant)
    except ValueError as error:
        return (text, f"{_reason(error)} (the output limit was reached)") if is_cut else _mend(text, stripped, error)
    return _object(text, value)


def _object(text: str, value: Any) -> tuple[str, str]:
    if value is None:
        return "{}", ""
    if isinstance(value, str):  # some models encode the object twice
        try:
            inner = parse(value, constant=_no_constant)
        except ValueError:
            inner = None
        if isinstance(inner, dict):
            value = inner
    if not isinstance(value, dict):
        return text, f"the arguments must be one JSON object, not {_kind(value)}"
    try:
        return _COMPACT.encode(value), ""
    except ValueError:  # as 1e999 is
        return text, "the arguments are not valid JSON: a number is beyond all bounds"


def _mend(text: str, stripped: str, error: ValueError) -> tuple[str, str]:
    reason, place = _reason(error), getattr(error, "pos", 0)
    fenced = _FENCE.match(stripped)
    if fenced:
        stripped = fenced.group(1).strip()
    if len(stripped) > MAX_REPAIR or not stripped.startswith("{") or _is_cut(stripped):
        return text, reason
    for mend in (_mend_signs, lambda broken: _mend_signs(_mend_marks(broken))):
        try:
            return _object(text, parse(mend(stripped), constant=_no_constant))
        except (ValueError, SyntaxError):
            continue
    if len(stripped) - place > MAX_GUESSED:
        return text, reason
    if any(stripped.count(one) - stripped.count(end) > MAX_UNCLOSED for one, end in ("{}", "[]")):
        return text, reason
    from json_repair import loads  # slow to import, and rarely needed

    try:
        value = loads(stripped)
    except (ValueError, RecursionError):  # nested too deeply for it
        return text, reason
    if is_deep(value):
        return text, f"the arguments are not valid JSON: {TOO_DEEP}"
    if not isinstance(value, dict) or not value or not _keeps(stripped, value):
        return text, reason
    try:
        return _COMPACT.encode(value), ""
    except ValueError:  # not a number, or infinite
        return text, reason


def _mend_signs(text: str) -> str:
    """Escape line ends, tabs and lone backslashes in the texts of JSON.

    In a text that begins as a path of Windows every backslash is one; elsewhere those that begin no escape.
    Written line ends between values are blanks.
    """
    parts = _TEXT.split(text)
    for place, part in enumerate(parts):
        if place % 2 == 0:
            parts[place] = _BLANK_ESCAPE.sub(" ", part)
            continue
        inner = part[1:-1]
        if any(not match.group(1) for match in _ESCAPE.finditer(inner)):
            inner = (_PATH_ESCAPE if _DRIVE.match(inner) else _ESCAPE).sub(_double_lone, inner)
        parts[place] = f'"{_CONTROL.sub(_escape_control, inner)}"'
    return "".join(parts)


def _mend_marks(text: str) -> str:
    """Mend the signs between the texts of JSON. The texts stay as they are.

    That is a comma before a closing bracket, words and texts of Python, a key without quotes, and brackets left open.
    """
    parts = _QUOTED.split(text)
    closing: list[str] = []
    for place, part in enumerate(parts):
        if place % 2:
            if part.startswith("'"):
                parts[place] = json.dumps(ast.literal_eval(part))
            continue
        mended = _BARE_KEY.sub(r'\1"\2"', _LAST_COMMA.sub("", part))
        parts[place] = _WORD.sub(lambda word: _WORDS[word.group()], mended)
        for sign in part:
            if sign in "{[":
                closing.append("}" if sign == "{" else "]")
            elif sign in "}]" and closing:
                closing.pop()
    return "".join(parts + closing[::-1])


def _double_lone(match: re.Match[str]) -> str:
    return match.group() if match.group(1) else "\\\\"


def _escape_control(match: re.Match[str]) -> str:
    return json.dumps(match.group())[1:-1]


def _is_cut(text: str) -> bool:
    """Return True if the text ends inside a string or before a value."""
    if text[-1] in ":,":
        return True
    inside = False
    quote = ""
    escaped = False
    for char in text:
        if escaped:
            escaped = False
        elif inside:
            if char == "\\":
                escaped = True
            elif char == quote:
                inside = False
        elif char == '"':
            inside, quote = True, char
    return inside


def _keeps(text: str, value: Any) -> bool:
    """Return whether a repaired value has the words, numbers and line ends of its text."""
    written = json.dumps(value, ensure_ascii=False)
    return _words(written) == _words(text) and written.count("\\n") >= text.count("\\n")


def _words(text: str) -> list[str]:
    text = re.sub(r"\\(u[0-9a-fA-F]{4}|.)", " ", text)
    return [_WORDS.get(word, word) for word in re.findall(r"[^\W_]+", text)]


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def _reason(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        what = error.msg[:1].lower() + error.msg[1:]
        return f"the arguments are not valid JSON: {what} at line {error.lineno}, column {error.colno}"
    return f"the arguments are not valid JSON: {error}"


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case _:
            return "a list"
