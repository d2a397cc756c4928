"""Selecting text in a view that draws its lines one by one: how the chosen is shown, and what it reads."""

from __future__ import annotations

from collections.abc import Callable

from rich.segment import Segment
from rich.style import Style
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

COPY_LINES = 5_000


def highlighted(widget: Widget, line: Strip, place: int) -> Strip:
    """The line at this place with what is selected of it in the screen's colour of selections."""
    selection = widget.text_selection
    span = selection.get_span(place) if selection is not None else None
    if span is None:
        return line
    start, end = span
    length = line.cell_length
    end = length if end == -1 else min(end, length)
    if start >= end:
        return line
    chosen = widget.screen.get_component_rich_style("screen--selection")
    before, middle, after = line.crop(0, start), line.crop(start, end), line.crop(end, length)
    return Strip([*before, *(Segment(each.text, (each.style or Style()) + chosen) for each in middle), *after])


def read(selection: Selection, count: int, text_of: Callable[[int], str]) -> tuple[str, str] | None:
    """What is selected among `count` lines, as Textual wants it; None where that is nothing."""
    first = selection.start.y if selection.start is not None else 0
    last = min(count - 1, selection.end.y if selection.end is not None else count - 1)
    if last < first or not count:
        return None
    last = min(last, first + COPY_LINES)
    lines = [text_of(place).rstrip() for place in range(first, last + 1)]
    if selection.end is not None and selection.end.y == last:
        lines[-1] = lines[-1][: selection.end.x]
    if selection.start is not None:
        lines[0] = lines[0][selection.start.x :]
    return "\n".join(lines), "\n"
