"""Draw every line in ASCII of the same width, for terminals without UTF-8.

One filter over all output keeps the widgets free of this; the themes' ASCII glyphs keep the states apart.
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
    "✓": "+",
    "√": "v",
    # Glyphs of states that may occur in text.
    "●": "*",
    "◆": "+",
    "▣": "%",
    "▤": "=",
    "★": "!",
    "⬡": "o",
    "⬢": "*",
    "◌": "-",
    "✖": "x",
    "⚑": "?",
    "◔": "~",
    "⚙": ">",
    "≡": "=",
    "↻": "@",
    "◫": "H",
    "‖": "P",
}


def has_utf8(env: Mapping[str, str]) -> bool:
    """Return whether the locale allows more than ASCII; an unset locale counts as UTF-8.

    Python sets `LC_CTYPE=C.UTF-8` itself if the locale is C, so that value is ignored.
    """
    if env.get("TERM") == "dumb":
        return False
    coerced = env.get("LC_CTYPE") == "C.UTF-8"
    locale = env.get("LC_ALL") or ("" if coerced else env.get("LC_CTYPE")) or env.get("LANG") or ""
    return not locale or "utf" in locale.lower()


@lru_cache(4096)
def to_ascii(text: str) -> str:
    """Return the text in ASCII with the same number of cells."""
    if text.isascii():
        return text
    return "".join(char if char.isascii() else _LETTERS.get(char, "?" * cell_len(char)) for char in text)


class AsciiFilter(LineFilter):
    """Replace characters that the terminal cannot show."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment if segment.control or segment.text.isascii() else Segment(to_ascii(segment.text), segment.style)
            for segment in segments
        ]
