"""Drawing over a finished strip: what is selected, what was found, where the cursor is. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip


def restyle(strip: Strip, start: int, end: int, style: Style) -> Strip:
    """The strip with its characters `start` to `end` drawn in `style` over their own; -1 is its end."""
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


def clipped(strip: Strip, width: int) -> Strip:
    """The strip, at most `width` cells; where words are cut off, an ellipsis stands for them."""
    if strip.cell_length <= width or cell_len(strip.text.rstrip()) <= width:
        return strip
    kept = strip.crop(0, max(0, width - 1))
    style = next((segment.style for segment in reversed(list(kept)) if segment.text), None)
    return Strip([*kept, Segment("…", style)])


def occurrences(text: str, words: str) -> Iterator[tuple[int, int]]:
    """Where the words stand in the text, as `finding` finds them: small letters find any case."""
    if not words:
        return
    if words == words.lower():
        lowered = text.lower()
        # A few letters change their length; then only what stands exactly so is marked.
        text = lowered if len(lowered) == len(text) else text
    at = text.find(words)
    while at >= 0:
        yield at, at + len(words)
        at = text.find(words, at + len(words))
