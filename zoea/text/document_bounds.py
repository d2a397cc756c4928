"""Bounds of documents that others wrote, checked before a parser gets them.

Parsers take memory for each value, and some take time with the square of a length. Only what stands outside of texts
and comments makes values, so all bounds count there.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from zoea.text.stepped_search import STEP, search_in_steps

MOST_MEMORY = 256 * 1024 * 1024
"""Bytes of memory that a document which others wrote may take."""
MOST_VALUES = 10_000
MOST_DEPTH = 24
"""The most values and the deepest nesting of a file of settings."""
_VALUE_BYTES = 128
"""Bytes of a value besides its text, about; the smallest object has twice as many, and counts twice."""
_FEW = 10_000
_FOUR_BYTES = bytes(range(0xF0, 0xF8)), re.compile(rb"\\u[dD][89abAB]")
_TWO_BYTES = bytes(range(0xC4, 0xF0)), re.compile(rb"\\u")
"""How characters begin that make each of their text take so many bytes: as they are, and as escapes."""
_SLICE = 262_144
_BACKSLASH = 0x5C
_TEXT_OF_JSON = re.compile(rb'([^"]++)|"(?:[^"\\]++|\\.)*+"|("(?:[^"\\]++|\\.)*+\\?\Z)', re.DOTALL)
"""What stands outside of texts, a text, or one that goes on behind the end."""
_LITERAL_OF_TOML = re.compile(
    rb"""([^"'#]++)"""
    rb"""|\"{3}(?:(?:[^"\\]++|\\.|"[^"\\]|"\\.|""[^"\\]|""\\.)*+\"{3,5}|.*)"""
    rb"""|'{3}(?:(?:[^']++|'[^']|''[^'])*+'{3,5}|.*)"""
    rb"""|"(?:(?:[^"\\\n]++|\\[^\n])*+(?:"|(?=\n))|.*)|'(?:[^'\n]*+(?:'|(?=\n))|.*)"""
    rb"""|\#[^\n]*+(?>(?:\n[ \t]*+\#[^\n]*+)*)""",
    re.DOTALL,
)
"""What stands outside of literals, a text of each kind, or comments. A text without end reaches to the end."""
_LONG_KEY = re.compile(rb'(?<![\w"-])(?:[\w"-]++[ \t]*+\.[ \t]*+){%d}' % MOST_DEPTH)
_LONG_NUMBER = re.compile(rb"(?<!\w)[0-9][\w.]{100}")
_BRACKET = re.compile(rb"[\[\]{}]")


def check_memory(size: int) -> None:
    """Refuse what would take more than `MOST_MEMORY`. Raises ValueError."""
    if size > MOST_MEMORY:
        mebibyte = 1024 * 1024
        raise ValueError(
            f"it would take over {size // mebibyte:,} MiB of memory; at most {MOST_MEMORY // mebibyte} MiB are read"
        )


def estimate_memory(data: bytes) -> int:
    """Return about how many bytes of memory a JSON document takes, without parsing it.

    Stops to count behind `MOST_MEMORY`. The text counts twice: as the document, and in its values.
    """
    width = 4 if _has_any(data, *_FOUR_BYTES) else 2 if _has_any(data, *_TWO_BYTES) else 1
    text = 2 * width * len(data)
    most = max(0, MOST_MEMORY - text) // _VALUE_BYTES + 1
    # Each name with its value, and each pair of texts in a list, needs a mark: half as many as there are texts.
    least = (data.count(b'"') - data.count(b'\\"')) // 4
    if least >= most:
        return text + _VALUE_BYTES * least
    return text + _VALUE_BYTES * count_marks(data, (b",", b"[", b"{"), most, few=_FEW)


def _has_any(data: bytes, leads: bytes, escape: re.Pattern[bytes]) -> bool:
    """Return whether a document holds one of the bytes or the escape.

    One pattern for both would take ten times as long.
    """
    if not data.isascii() and any(len(part.translate(None, leads)) < len(part) for part in _split_slices(data)):
        return True
    return bool(search_in_steps(escape, data))


def _split_slices(data: bytes) -> Iterator[bytes]:
    return (data[start : start + _SLICE] for start in range(0, len(data), _SLICE))


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a text of settings that is read in little time and memory.

    Raises:
        ValueError: It is no TOML, or `check_settings_text` refuses it.
        RecursionError: It is nested too deep.
    """
    return tomllib.loads(check_settings_text(text))


def check_settings_text(text: str) -> str:
    """Return a settings text unchanged, if a parser reads it in little time and memory.

    Raises:
        ValueError: It has too many values, keys of too many parts, or too long numbers, or is nested too deep.
    """
    plain = b'""'.join(_LITERAL_OF_TOML.findall(text.encode()))
    if sum(map(plain.count, (b"=", b",", b":", b"\n["))) > MOST_VALUES:
        raise ValueError(f"has more than {MOST_VALUES:,} values")
    if _LONG_KEY.search(plain):
        raise ValueError("is nested too deep")
    if _LONG_NUMBER.search(plain):
        raise ValueError("contains a number that is too long")
    depth = 0
    for bracket in _BRACKET.finditer(plain):
        depth += 1 if bracket[0] in b"[{" else -1
        if depth > MOST_DEPTH:
            raise ValueError("is nested too deep")
    return text


def _outside_texts(data: bytes) -> Iterator[bytes]:
    """Yield the parts of a JSON document that no text reaches, each of a slice."""
    at = 0
    while at < len(data):
        end = min(at + STEP, len(data))
        part = data[at:end]
        if b"\\" in part:
            found = _TEXT_OF_JSON.findall(part)
            yield b"".join([outside for outside, _ in found])
            opened = len(found[-1][1])
        else:  # each quote begins or ends a text, and to split at them takes a third of the time
            pieces = part.split(b'"')
            yield b"".join(pieces[::2])
            opened = 0 if len(pieces) % 2 else len(pieces[-1]) + 1
        at = _find_end_of_text(data, end - opened + 1) if opened else end


def count_marks(data: bytes, marks: Sequence[bytes], most: int, *, few: int | None = None) -> int:
    """Count marks of a JSON document outside of its texts up to `most`. If there are few, those in texts count too.

    Looking for the texts takes longer than counting everything.
    """
    count = _count_parts(_split_slices(data), marks, most if few is None else few + 1)
    if count < most if few is None else count <= few:
        return count
    return _count_parts(_outside_texts(data), marks, most)


def _count_parts(parts: Iterable[bytes], marks: Sequence[bytes], most: int) -> int:
    """Count as far as `most`, in parts, so that other threads run in between."""
    count = 0
    for part in parts:
        count += sum(map(part.count, marks))
        if count >= most:
            break
    return count


def _find_end_of_text(data: bytes, at: int) -> int:
    """Return the place after the quote that ends the text which begins here."""
    while (end := data.find(b'"', at)) >= 0:
        before = end
        while before > at and data[before - 1] == _BACKSLASH:
            before -= 1
        if (end - before) % 2 == 0:
            return end + 1
        at = end + 1
    return len(data)
