"""Replace or remove characters that storage or a terminal cannot take.

`clean` prepares text for the database: SQLite stops indexing at a NUL and refuses lone surrogates.
`strip` prepares text for a terminal: no escape sequence may move the cursor, and every other line
end (CR, CR LF, U+2028, U+2029) becomes a newline.
"""

from __future__ import annotations

import re

_SEQUENCE = re.compile(
    r"""
    (?:\x1b\[|\x9b) [0-?]{0,256} [\ -/]{0,16} [@-~]?              # CSI: colours, cursor, modes
  | (?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f]) [^\x07\x1b\x9c\n]{0,4096} (?:\x07|\x1b\\|\x9c)?   # OSC, DCS, SOS, PM, APC
  | \x1b [\ -/]{0,16} [0-~]?                                      # two-character escapes, character sets
    """,
    re.VERBOSE,
)
_LINE_END = re.compile(r"\r\n?|[\u2028\u2029]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_SUSPECT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def strip(text: str) -> str:
    """Remove escape sequences, control characters and direction overrides; keep newline and tab.

    Returns the same object if nothing is removed. Idempotent.
    """
    if _SUSPECT.search(text) is None:
        return text
    return _CONTROL.sub("", _SEQUENCE.sub("", _LINE_END.sub("\n", text)))


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
