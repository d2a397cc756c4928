"""Draw over finished strips: selection, matches, ellipsis. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget


def restyle_span(strip: Strip, start: int, end: int, style: Style) -> Strip:
    """Return the strip with characters `start` to `end` in `style`. An end of -1 means all."""
    end = len(strip.text) if end < 0 else end
    if end <= start:
        return strip
    segments: list[Segment] = []
    at = 0
    for text, own, _ in strip:
        size = len(text)
        left, right = max(0, start - at), min(size, end - at)
        if left >= right:
            segments.append(Segment(text, own))
        else:
            drawn = style if own is None else own + style
            segments += [
                Segment(part, kind)
                for part, kind in ((text[:left], own), (text[left:right], drawn), (text[right:], own))
                if part
            ]
        at += size
    return Strip(segments, strip.cell_length)


def clip_strip(strip: Strip, width: int) -> Strip:
    """Return the strip cut to `width` cells, with an ellipsis if text was cut."""
    if strip.cell_length <= width or cell_len(strip.text.rstrip()) <= width:
        return strip
    kept = strip.crop(0, max(0, width - 1))
    style = next((segment.style for segment in reversed(list(kept)) if segment.text), None)
    return Strip([*kept, Segment("…", style)])


def find_occurrences(text: str, words: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of `words` in `text`. Words in lower case match any case, as in `zoea.queries.search_reader`.

    Those that touch are one span, because drawing each takes a pass over its line.
    """
    if not words:
        return
    if words == words.lower():
        lowered = text.lower()
        # Lowering changes the length of a few letters; the match is then exact.
        text = lowered if len(lowered) == len(text) else text
    at = text.find(words)
    while at >= 0:
        end = at + len(words)
        while text.startswith(words, end):
            end += len(words)
        yield at, end
        at = text.find(words, end)


_MOST_PLACED = 10_000
_placed: dict[tuple[Style, int, int], Style] = {}


def place_strip(strip: Strip, y: int) -> Strip:
    """Return the strip with each text's place in its style, for selections: as `Strip.apply_offsets`.

    A style is made once for each place, so that it also keeps its hash and its escape codes.
    """
    if len(_placed) > _MOST_PLACED:
        _placed.clear()
    segments: list[Segment] = []
    x = 0
    for text, style, _ in strip:
        own = style or Style.null()
        placed = _placed.get((own, x, y))
        if placed is None:
            placed = own + Style.from_meta({"offset": (x, y)})
            if not own.link:  # each link has an id of its own
                _placed[own, x, y] = placed
        segments.append(Segment(text, placed))
        x += len(text)
    return Strip(segments, strip.cell_length)


COPY_LINES = 5_000


def highlight_selection(widget: Widget, line: Strip, place: int) -> Strip:
    """Return the line at `place` with its selected part in the selection colour."""
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


def read_selection(selection: Selection, count: int, text_of: Callable[[int], str]) -> tuple[str, str] | None:
    """Return the selected text of `count` lines for Textual; None if it is empty."""
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
