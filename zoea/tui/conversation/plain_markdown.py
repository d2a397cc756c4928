"""An answer where there is no room for Markdown: its lines as they were, without the marks of emphasis. Pure."""

from __future__ import annotations

import re

from zoea.text.control_characters import one_line

_CODE = re.compile(r"(`[^`]*`)")
_STRONG = re.compile(r"(\*\*|__)(?=\S)(.{1,300}?)(?<=\S)\1")
_LEANING = re.compile(r"(?<![\w*])\*(?=[^\s*])([^*]{1,300}?)(?<=\S)\*(?![\w*])")
_HEADING = re.compile(r"#{1,6} ")


def lines_of(text: str) -> list[str]:
    """The lines that say something, each on one line of its own; code stays as it was written."""
    return [unmarked(line) for line in map(one_line, text.split("\n")) if line]


def unmarked(line: str) -> str:
    """One line without what makes it a heading, strong or leaning."""
    heading = _HEADING.match(line)
    parts = _CODE.split(line[heading.end() :] if heading else line)
    return "".join(part if part.startswith("`") and len(part) > 1 else _even(part) for part in parts)


def _even(text: str) -> str:
    return _LEANING.sub(r"\1", _STRONG.sub(r"\2", text))
