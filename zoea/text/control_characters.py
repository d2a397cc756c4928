"""Escape or replace characters that storage or a terminal cannot take.

`clean` prepares text for the database: SQLite stops indexing at a NUL and refuses lone surrogates.
`reveal` and `reveal_exactly` prepare text for a screen and delete nothing. A character that controls a terminal or is
invisible is shown as the escape that JSON has for it, so that what is shown of a call can be parsed to what is sent.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache

from zoea.text.lazy_pattern import compile_lazily

MAX_MARKS = 8
"""Characters without a width that may follow each other; the languages of the world need at most six."""
_MARK_BLOCKS = (
    *((0x300, 0x3100), (0xA66F, 0xABEE), (0xFB1E, 0xFB1F), (0xFE00, 0xFF00), (0x101FD, 0x10380), (0x10A01, 0x11DA0)),
    *((0x16AF0, 0x16B40), (0x1BC9D, 0x1BCA4), (0x1D165, 0x1D250), (0x1DA00, 0x1E2F0), (0x1E8D0, 0x1E950)),
    (0xE0100, 0xE01F0),
)
_NEAR_MARKS = (
    r"\u0300-\u036f\u0483-\u0489\u0591-\u1dff\u200b-\u200f\u202a-\u202e\u2060-\u206f\u20d0-\u20ff\u2cef-\u2cf1\u2d7f"
    r"\u2de0-\u2dff\u302a-\u302f\u3099\u309a\ua66f-\uabed\ufb1e\ufe00-\ufeff\U000101fd-\U000e01ef"
)
"""All characters without a width and the scripts around them, but no dashes, frames, Latin, Cyrillic or Chinese."""
_MAYBE_PILED = compile_lazily(f"[{_NEAR_MARKS}][{_NEAR_MARKS}]{{{MAX_MARKS}}}")
_HIDDEN = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u2800\u3164\ud800-\udfff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    r"\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Control characters except newline and tab, and whatever has no ink: format characters, fillers, surrogates."""
_SYMBOL = (
    r"\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u2460-\u24ff\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff"
    r"\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_JOINING = r"\u0600-\u060b\u0620-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17b3\u17b6-\u17ff\u1820-\u18aa\ua9e0-\ua9ff"
_VIRAMA = r"\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca"
_SUSPECT = re.compile(f"[{_HIDDEN}]")
_SUSPECT_ASCII = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")  # a third of the time of the pattern above
_EXACT = compile_lazily(f"[{_HIDDEN}]+")
_BEFORE_ESCAPE = compile_lazily(rf"\\+(?=u[0-9a-f]{{4}}|[{_HIDDEN}])")
_IN_LINE = rf"[{_HIDDEN}\t\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]|\ +$"
_INEXACT = compile_lazily(_IN_LINE)
_BEFORE_INEXACT = compile_lazily(rf"\\+(?=u[0-9a-f]{{4}}|t|{_IN_LINE})")
_PROSE = compile_lazily(
    rf"""
    \r(?=\n)                                                                          # shown as the end of a line
  | (?P<kept>
      [{_SYMBOL}][\ufe0e\ufe0f]?(?:\u200d[{_SYMBOL}]\ufe0f?|[\U0001f3fb-\U0001f3ff])*  # emoji
    | [#*0-9]\ufe0f\u20e3                                                             # keycaps
    | (?<=[{_JOINING}])[\u200c\u200d](?=[{_JOINING}]) | (?<=[{_VIRAMA}])[\u200c\u200d]  # Arabic, Indic scripts
    | (?<=[\u1820-\u18aa])[\u180b-\u180f]                                             # Mongolian
    | \u2800*[\u2801-\u28ff][\u2800-\u28ff]*                                          # charts
    )
  | [{_HIDDEN}]+?(?=\r\n) | [{_HIDDEN}]+
    """,
    re.VERBOSE,
)


def split_lines(text: str) -> list[str]:
    """Split a text at newlines alone. Other separators stay and are shown as escapes."""
    return text.removesuffix("\n").split("\n") if text else []


def drop_hidden(text: str) -> str:
    """Return a text without hidden characters, for a search of words. What is shown keeps them."""
    return text if text.isascii() else _EXACT.sub("", text)


def reveal(text: str) -> str:
    """Show hidden characters of prose as escapes such as `\\u009d`; keep newline and tab.

    Joiners stay inside emoji and where scripts need them, and CR LF becomes a newline. At most `MAX_MARKS` marks stay
    on a character, because thousands of them would be painted over the lines around it.

    Returns the same object if nothing is hidden. Idempotent.
    """
    return _escape_hidden(text, _PROSE, _escape_prose)


def reveal_exactly(text: str) -> str:
    """Show every hidden character as an escape, for names, calls, and wherever a person decides. Keep newline and tab.

    Of JSON, the result parses to the same value. Returns the same object if nothing is hidden. Idempotent.
    """
    return _escape_hidden(text, _EXACT, _escape_match)


def reveal_unambiguously(text: str) -> str:
    """Show hidden characters of a text that is no JSON as escapes that are unambiguous.

    Someone may write the six characters of an escape. So backslashes before such characters, or before a hidden one,
    are doubled: an even number of them stands for themselves. Not idempotent.
    """
    return (
        reveal_exactly(_BEFORE_ESCAPE.sub(lambda match: match[0] * 2, text)) if "\\" in text else reveal_exactly(text)
    )


def reveal_line(line: str) -> str:
    """Show a line of a text exactly: hidden characters, tabs, unusual blanks and blanks at its end are escapes.

    A backslash before what could be read as such an escape is doubled. Not idempotent.
    """
    doubled = _BEFORE_INEXACT.sub(lambda match: match[0] * 2, line)
    return reveal_exactly(_INEXACT.sub(lambda match: "\\t" if match[0] == "\t" else escape(match[0]), doubled))


def _escape_hidden(text: str, pattern: re.Pattern[str], escape_match: Callable[[re.Match[str]], str]) -> str:
    if text.isascii():
        return text if _SUSPECT_ASCII.search(text) is None else pattern.sub(escape_match, text)
    shown = text if _SUSPECT.search(text) is None else pattern.sub(escape_match, text)
    if _MAYBE_PILED.search(shown) is not None:
        possible, piled = _piled_marks()
        if possible.search(shown) is not None:
            shown = piled.sub(_escape_piled, shown)
    return text if shown == text else shown


def escape(text: str) -> str:
    """Return each character of a text as the escape that JSON has for it."""
    units = text.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _escape_match(match: re.Match[str]) -> str:
    return escape(match[0])


def _escape_prose(match: re.Match[str]) -> str:
    if match["kept"] is not None:
        return match[0]
    return "" if match[0] == "\r" and match.string.startswith("\n", match.end()) else escape(match[0])


def _escape_piled(match: re.Match[str]) -> str:
    return match[1] + escape(match[2])


@cache
def _piled_marks() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Build the pattern of more than `MAX_MARKS` characters without a width. Only the first text that needs it does.

    It takes 130 ns a character, because its ranges beyond U+FFFF are compared one by one. The first pattern of the two
    takes a tenth of that and finds every text that the second may find.
    """
    marks = [code for first, last in _MARK_BLOCKS for code in range(first, last) if _has_no_width(chr(code))]
    ranges: list[list[int]] = []
    for code in marks:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    group = "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
    near = "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges if last < 0x10000)
    near += "".join(f"{chr(first)}-{chr(last - 1)}" for first, last in _MARK_BLOCKS if first >= 0x10000)
    possible = f"[{near}][{near}]{{{MAX_MARKS}}}"
    return re.compile(possible), re.compile(f"([{group}]{{{MAX_MARKS}}})([{group}]+)")


def _has_no_width(char: str) -> bool:
    """Return True for marks, joiners, other invisible characters, and vowels and ends of Hangul syllables."""
    return unicodedata.category(char) in ("Mn", "Me", "Cf") or "\u1160" <= char <= "\u11ff"


def one_line(text: str) -> str:
    """Return a short text on one line, with hidden characters as escapes."""
    return _join_lines(reveal_exactly(text))


def prose_line(text: str) -> str:
    """Return prose on one line, with hidden characters as escapes as `reveal` shows them."""
    return _join_lines(reveal(text))


def _join_lines(text: str) -> str:
    if "\n" not in text and "\t" not in text:
        return text.strip()
    parts = (part.strip() for part in text.replace("\t", "\n").split("\n"))
    return " ".join(part for part in parts if part)


_NUL_SHOWN = "\u2400"


def clean(text: str) -> str:
    """Replace each NUL by U+2400 and each lone surrogate by U+FFFD.

    Two surrogates that form a pair become their character, because a stream may split an escaped
    character. Returns the same object if nothing changes. Idempotent.
    """
    return pair_surrogates(text.replace("\0", _NUL_SHOWN) if "\0" in text else text)


def pair_surrogates(text: str) -> str:
    """Join surrogates that form a pair, and replace each lone one by U+FFFD. Idempotent."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
