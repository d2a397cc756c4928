"""Breaking text into lines of so many cells, by words; a line of a megabyte takes milliseconds. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len, chop_cells

TAB = 4


def wrap(text: str, width: int) -> Iterator[str]:
    """The lines of the text, none wider than `width` cells; spaces at a break are left out."""
    width = max(2, width)
    for line in text.split("\n"):
        if "\t" in line:
            line = line.expandtabs(TAB)
        if line.isascii():
            yield from _ascii(line, width)
        else:
            yield from _cells(line, width)


def _ascii(line: str, width: int) -> Iterator[str]:
    """One cell a character, so a break is found by index."""
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


def _cells(line: str, width: int) -> Iterator[str]:
    """Words measured as the terminal shows them; a word that is wider than a line is chopped."""
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
