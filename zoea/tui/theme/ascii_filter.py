"""Terminals without UTF-8: every line is drawn in ASCII of the same width, at the last moment before it is shown.

One filter over all that is drawn, so that no widget has to know; the states keep
their own letters, which the themes' ASCII glyphs give.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_CORNERS = "╭╮╰╯┌┐└┘├┤┬┴┼╔╗╚╝╠╣╦╩╬┏┓┗┛┣┫┳┻╋"
_LETTERS = {
    **dict.fromkeys(_CORNERS, "+"),
    **dict.fromkeys("─━═╌╍┄┅▔▁", "-"),
    **dict.fromkeys("│┃║╎╏┆┇▏▎▍▕▌▐", "|"),
    **dict.fromkeys("█▇▆▅▓▄▀■", "#"),
    **dict.fromkeys("▃▂▒░", ":"),
    **dict.fromkeys("·•∙", "."),
    **dict.fromkeys("–—−", "-"),
    **dict.fromkeys("“”„", '"'),
    **dict.fromkeys("‘’‹›", "'"),
    **dict.fromkeys("→▶▸", ">"),
    **dict.fromkeys("←◀◂", "<"),
    **dict.fromkeys("↑▲▴", "^"),
    **dict.fromkeys("↓▼▾", "v"),
    "…": "~",
    "×": "x",
    "✓": "v",
    "√": "v",
    # The states' glyphs, should text hold them.
    "⬡": "o",
    "⬢": "*",
    "◌": "-",
    "✖": "x",
    "⚑": "?",
    "◔": "~",
    "⚙": ">",
}


def has_utf8(env: Mapping[str, str]) -> bool:
    """Whether the terminal can show more than ASCII, as far as the locale says; unset counts as a modern one.

    Python itself sets `LC_CTYPE=C.UTF-8` where the locale is C, which says nothing of the terminal.
    """
    if env.get("TERM") == "dumb":
        return False
    coerced = env.get("LC_CTYPE") == "C.UTF-8"
    locale = env.get("LC_ALL") or ("" if coerced else env.get("LC_CTYPE")) or env.get("LANG") or ""
    return not locale or "utf" in locale.lower()


@lru_cache(4096)
def to_ascii(text: str) -> str:
    """The text in ASCII, as many cells wide."""
    if text.isascii():
        return text
    return "".join(char if char.isascii() else _LETTERS.get(char, "?" * cell_len(char)) for char in text)


class AsciiFilter(LineFilter):
    """Replaces what the terminal cannot show."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment if segment.control or segment.text.isascii() else Segment(to_ascii(segment.text), segment.style)
            for segment in segments
        ]
