"""Read a small file that a person, another program or a folder from elsewhere may have replaced by anything.

`check_text` bounds what a parser is given, because some of them take time or memory with the square of it.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

MOST_BYTES = 1_000_000
MOST_FOREIGN_BYTES = 16_000_000
"""Bytes of a file of another program, which may keep more than its settings there."""
MOST_VALUES = 10_000
MOST_DEPTH = 24
_LITERAL = re.compile(r'"""|\'\'\'|["\'#]')
_LITERAL_ENDS = {
    '"': re.compile(r'(?:[^"\\\n]|\\.)*+["\n]'),
    "'": re.compile(r"[^'\n]*+['\n]"),
    '"""': re.compile(r'(?:[^"\\]|\\.|"(?!""))*+"{3,5}', re.DOTALL),
    "'''": re.compile(r"(?:[^']|'(?!''))*+'{3,5}"),
    "#": re.compile(r"[^\n]*+"),
}
_LONG_KEY = re.compile(rf'(?<![\w"-])(?:[\w"-]++[ \t]*+\.[ \t]*+){{{MOST_DEPTH}}}')
_LONG_NUMBER = re.compile(r"(?<!\w)[0-9][\w.]{100}")
_BRACKET = re.compile(r"[\[\]{}]")


def open_regular(file: Path) -> BinaryIO:
    """Open a regular file to read its bytes. Never waits for the writer of a pipe.

    Raises:
        OSError: It cannot be read, or is no file.
    """
    handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a file", str(file))
    return os.fdopen(handle, "rb")


def read_small_file(file: Path, most: int = MOST_BYTES) -> bytes:
    """Return the bytes of a regular file.

    Never waits for the writer of a pipe, and reads no device or file without end.

    Raises:
        OSError: It cannot be read, is no file, or is larger than `most` bytes.
    """
    with open_regular(file) as stream:
        raw = stream.read(most + 1)
    if len(raw) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most:,} bytes", str(file))
    return raw


def read_small_text(file: Path, most: int = MOST_BYTES) -> str:
    """Return the text of a regular file. Raises as `read_small_file`, and UnicodeDecodeError."""
    return read_small_file(file, most).decode("utf-8-sig").replace("\r\n", "\n")


def check_text(text: str) -> str:
    """Return a TOML or JSON text as it is, if a parser reads it in little time and memory.

    Raises:
        ValueError: It has too many values, keys of too many parts, or too long numbers, or is nested too deep.
    """
    plain = _without_literals(text)
    if plain.count("=") + plain.count(",") + plain.count(":") + plain.count("\n[") > MOST_VALUES:
        raise ValueError(f"has more than {MOST_VALUES:,} values")
    if _LONG_KEY.search(plain):
        raise ValueError("is nested too deep")
    if _LONG_NUMBER.search(plain):
        raise ValueError("contains a number that is too long")
    depth = 0
    for bracket in _BRACKET.findall(plain):
        depth += 1 if bracket in "[{" else -1
        if depth > MOST_DEPTH:
            raise ValueError("is nested too deep")
    return text


def _without_literals(text: str) -> str:
    """Return the text with empty strings for its strings, and without comments."""
    kept, position = list[str](), 0
    while match := _LITERAL.search(text, position):
        kept.append(text[position : match.start()])
        end = _LITERAL_ENDS[match[0]].match(text, match.end())
        kept.append("" if match[0] == "#" else '""')
        position = end.end() if end else len(text)
        if end and end[0].endswith("\n"):
            kept.append("\n")
    kept.append(text[position:])
    return "".join(kept)
