"""Lay out text in cells: wrap, cut, pad, spread, strip Markdown emphasis. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest

from rich.cells import cell_len, chop_cells, set_cell_size

from zoea.text.control_characters import prose_line, reveal

Piece = tuple[str, str]
"""Text and the theme role that draws it; an empty role is plain text."""

TAB = 4
LOW = 20
"""Rows of a screen below which a toast is one line."""
_NUMBER_MOST = 40
_NUMBER_AT_END = re.compile(r"(?<!\w)\d[\d.,]*$")
_GOES_ON = re.compile(r"[\w%]|[.,]\d")


def wrap_words(text: str, width: int) -> Iterator[str]:
    """Yield lines of at most `width` cells, broken between words.

    Blanks at a break are dropped. A line of a megabyte takes milliseconds.
    """
    width = max(2, width)
    for line in text.split("\n"):
        if "\t" in line:
            line = line.expandtabs(TAB)
        if line.isascii():
            yield from _wrap_ascii(line, width)
        else:
            yield from _wrap_cells(line, width)


def _wrap_ascii(line: str, width: int) -> Iterator[str]:
    """Wrap a line with one cell per character, so that breaks are found by index."""
    at, end = 0, len(line)
    while end - at > width:
        space = line.rfind(" ", at, at + width + 1)
        if space <= at or not line[at:space].strip():
            yield line[at : at + width]
            at += width
        else:
            yield line[at:space]
            at = space + 1
    yield line[at:]


def _wrap_cells(line: str, width: int) -> Iterator[str]:
    """Wrap a line by measured words; chop words that are wider than a line."""
    if cell_len(line) <= width:
        yield line
        return
    held, used = "", 0
    for word in line.split(" "):
        size = cell_len(word)
        gap = 1 if held else 0
        if used + gap + size <= width:
            held, used = f"{held} {word}" if held else word, used + gap + size
            continue
        if held:
            yield held
        held, used = word, size
        if size > width:
            *whole, held = chop_cells(word, width)
            yield from whole
            used = cell_len(held)
    yield held


def wrap_characters(text: str, width: int) -> list[str]:
    """Return lines of at most `width` cells, broken at any character.

    Hidden characters become escapes, tabs two blanks.
    """
    lines: list[str] = []
    for line in reveal(text).expandtabs(2).split("\n"):
        if line.isascii():
            lines += [line[at : at + width] for at in range(0, len(line), width)] or [""]
        elif cell_len(line) <= width:
            lines.append(line)
        else:
            lines += chop_cells(line, width)
    return lines


def wrap_pieces(pieces: Sequence[Piece], width: int, *, by_words: bool = False) -> Iterator[list[Piece]]:
    """Yield one line of pieces. The last piece is wrapped below itself, at any character or between words."""
    *first, (last, role) = pieces
    used = count_cells(first)
    room = max(10, width - used)
    parts = wrap_words(last, room) if by_words else iter(wrap_characters(last, room))
    yield [*first, (next(parts), role)]
    yield from ([(" " * used, ""), (part, role)] for part in parts)


def fit_text(text: str, width: int, *, right: bool = False) -> str:
    """Return exactly `width` cells: cut with an ellipsis, or padded."""
    if width <= 0:
        return ""
    if cell_len(text) > width:
        text = cut_text(text, width)
    pad = " " * (width - cell_len(text))
    return pad + text if right else text + pad


def cut_text(text: str, width: int) -> str:
    """Cut a text longer than `width` cells to that width, ending with an ellipsis.

    A number is left out whole: the beginning of `n=40` as `n=4…` would be another number.
    """
    kept = set_cell_size(text, max(0, width - 1)).rstrip("\x00")
    if (number := _NUMBER_AT_END.search(kept, max(0, len(kept) - _NUMBER_MOST))) and _GOES_ON.match(text, len(kept)):
        kept = kept[: len(kept) - len(number.group())]
    return f"{kept}…"


def count_cells(pieces: Sequence[Piece]) -> int:
    """Return the width of the pieces together."""
    return sum(cell_len(text) for text, _ in pieces)


def cut_pieces(pieces: Sequence[Piece], width: int) -> list[Piece]:
    """Return the pieces up to `width` cells, with an ellipsis if they were cut."""
    line: list[Piece] = []
    room = width
    for text, role in pieces:
        size = cell_len(text)
        if size > room:
            return [*line, (fit_text(text, room), role)] if room > 0 else line
        line.append((text, role))
        room -= size
    return line


def spread_pieces(left: Sequence[Piece], right: Sequence[Piece], width: int) -> list[Piece]:
    """Return one line with pieces at both ends. Cut the left ones if they do not fit."""
    room = width - sum(cell_len(reveal(text)) for text, _ in right)
    if room < 8:
        right, room = (), width
    pieces: list[Piece] = []
    used = 0
    for raw, role in left:
        text = reveal(raw[: 64 * width]).replace("\n", " ")  # a cell holds a letter and a few marks on it
        size = cell_len(text)
        if used >= room:
            break
        if used + size > room:
            pieces.append((fit_text(text, room - used), role))
            used = room
            break
        pieces.append((text, role))
        used += size
    return [*pieces, (" " * max(0, room - used), ""), *right]


_CODE = re.compile(r"(`[^`]*`)")
_STRONG = re.compile(r"(\*\*|__)(?=\S)(.{1,300}?)(?<=\S)\1")
_ITALIC = re.compile(r"(?<![\w*])\*(?=[^\s*])([^*]{1,300}?)(?<=\S)\*(?![\w*])")
_HEADING = re.compile(r"#{1,6} ")
_TABLE_RULE = re.compile(r"[|: -]*-[|: -]*")
_TABLE_BAR = re.compile(r"(?<!\\)\|")


def plain_lines(text: str) -> list[str]:
    """Return the lines that are not empty, without Markdown emphasis. Code is unchanged, tables are aligned."""
    lines = [line for line in map(prose_line, text.split("\n")) if line]
    found: list[str] = []
    for is_table, group in groupby(lines, lambda line: line.startswith("|")):
        rows = list(group)
        if is_table and len(rows) > 1 and _TABLE_RULE.fullmatch(rows[1]):
            found += _align_table([rows[0], *rows[2:]])
        else:
            found += map(strip_emphasis, rows)
    return found


def _align_table(rows: Sequence[str]) -> list[str]:
    cells = [[strip_emphasis(cell.strip()) for cell in _TABLE_BAR.split(row)[1:]] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip_longest(*cells, fillvalue="")]
    return ["  ".join(set_cell_size(*cell) for cell in zip(row, widths, strict=False)).rstrip() for row in cells]


def strip_emphasis(line: str) -> str:
    """Remove the marks of headings, bold and italic text from one line."""
    heading = _HEADING.match(line)
    parts = _CODE.split(line[heading.end() :] if heading else line)
    return "".join(
        part if part.startswith("`") and len(part) > 1 else _ITALIC.sub(r"\1", _STRONG.sub(r"\2", part))
        for part in parts
    )
