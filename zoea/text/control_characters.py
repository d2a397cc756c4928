"""Replace or remove characters that storage or a terminal cannot take.

`clean` prepares text for the database: SQLite stops indexing at a NUL and refuses lone surrogates.
`strip` prepares text for a terminal: no escape sequence may move the cursor, and every other line
end (CR, CR LF, U+2028, U+2029) becomes a newline. At most `MAX_MARKS` marks stay on a character, because
thousands of them would be painted over the lines around it.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

MAX_MARKS = 8
"""Characters without a width that may follow each other; the languages of the world need at most six."""
_SEQUENCE = re.compile(
    r"""
    (?:\x1b\[|\x9b) [0-?]{0,256} [\ -/]{0,16} [@-~]?              # CSI: colours, cursor, modes
  | (?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f]) [^\x07\x1b\x9c\n]{0,4096} (?:\x07|\x1b\\|\x9c)?   # OSC, DCS, SOS, PM, APC
  | \x1b [\ -/]{0,16} [0-~]?                                      # two-character escapes, character sets
    """,
    re.VERBOSE,
)
_MARK_BLOCKS = (
    *((0x300, 0x3100), (0xA66F, 0xABEE), (0xFB1E, 0xFB1F), (0xFE00, 0xFF00), (0x101FD, 0x10380), (0x10A01, 0x11DA0)),
    *((0x16AF0, 0x16B40), (0x1BC9D, 0x1BCA4), (0x1D165, 0x1D250), (0x1DA00, 0x1E2F0), (0x1E8D0, 0x1E950)),
    (0xE0100, 0xE01F0),
)
_LINE_END = re.compile(r"\r\n?|[\u2028\u2029]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_SUSPECT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def strip(text: str) -> str:
    """Remove escape sequences, control characters, direction overrides and piled up marks; keep newline and tab.

    Returns the same object if nothing is removed. Idempotent.
    """
    if _SUSPECT.search(text) is not None:
        text = _CONTROL.sub("", _SEQUENCE.sub("", _LINE_END.sub("\n", text)))
    if text.isascii() or _piled_marks().search(text) is None:
        return text
    return _piled_marks().sub(r"\1", text)


@cache
def _piled_marks() -> re.Pattern[str]:
    """Build the pattern of more than `MAX_MARKS` characters without a width. Only the first text that needs it does."""
    marks = [code for first, last in _MARK_BLOCKS for code in range(first, last) if _has_no_width(chr(code))]
    ranges: list[list[int]] = []
    for code in marks:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    group = "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
    return re.compile(f"([{group}]{{{MAX_MARKS}}})[{group}]+")


def _has_no_width(char: str) -> bool:
    """Return True for marks, joiners and other invisible characters, and vowels and ends of Hangul syllables."""
    return unicodedata.category(char) in ("Mn", "Me", "Cf") or "\u1160" <= char <= "\u11ff"


def one_line(text: str) -> str:
    """Return the text on one line, without control characters or repeated spaces."""
    return " ".join(strip(text).split())


_NUL_SHOWN = "\u2400"


def clean(text: str) -> str:
    """Replace each NUL by U+2400 and each lone surrogate by U+FFFD.

    Two surrogates that form a pair become their character, because a stream may split an escaped
    character. Returns the same object if nothing changes. Idempotent.
    """
    if "\0" in text:
        text = text.replace("\0", _NUL_SHOWN)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
