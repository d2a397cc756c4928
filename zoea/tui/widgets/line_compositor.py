"""Composes only the changed lines of a screen, and shades lines behind a dialog.

Textual goes through all lines of all widgets for each update, and shades the whole screen behind a dialog again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.geometry import Region
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import Compositor  # type: ignore[attr-defined]  # Textual has no public name for it
from textual.strip import Strip


class LineCompositor(Compositor):
    """Gets the changed lines of the widgets in front, and nothing of what they cover."""

    def _render_chops(self, crop: Region, is_rendered_line: Callable[[int], bool]) -> Sequence[Mapping[int, Strip]]:
        """Return the strips of the wanted lines by their first cell. The lines in between have none."""
        cuts: list[list[int]] = self.cuts
        chops: list[dict[int, Strip | None]] = [dict.fromkeys(of_line[:-1]) for of_line in cuts]
        missing = {y: len(chops[y]) for y in crop.line_range if y < len(chops) and is_rendered_line(y)}
        for widget, (region, clip) in self.visible_widgets.items():
            shown = region.intersection(clip)
            for first, end in _find_runs(y for y in shown.line_range if missing.get(y)):
                part = Region(shown.x - region.x, first - region.y, shown.width, end - first)
                for y, strip in enumerate(widget.render_lines(part), first):
                    places = [cut for cut in cuts[y] if shown.x <= cut <= shown.right]
                    line = chops[y]
                    for place, piece in zip(places, strip.divide([cut - shown.x for cut in places[1:]]), strict=False):
                        if line.get(place, piece) is None:
                            line[place] = piece
                            missing[y] -= 1
        return chops  # type: ignore[return-value]  # only lines that are not wanted have places without a strip


def _find_runs(lines: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the begin and the end of each run of consecutive lines."""
    first = end = -1
    for y in lines:
        if y != end:
            if end > first:
                yield first, end
            first = y
        end = y + 1
    if end > first:
        yield first, end


ShadedLines = dict[int, tuple[tuple[list[Strip], Color, Style], Strip]]
"""Shaded lines with what they were made of."""


def shade_lines(
    behind: BackgroundScreen, lines: set[int], plain: Style, made: ShadedLines | None = None
) -> dict[int, Strip]:
    """Return lines of the screen behind a dialog, in its shade and without links.

    Args:
        plain: The style of the dialog, for what a text does not define.
        made: Lines of earlier frames; those that still hold are used again, and the others put in.
    """
    made = {} if made is None else made
    screen = behind.screen
    chops = screen._compositor._render_chops(screen.size.region, lines.__contains__)
    shaded: dict[int, Strip] = {}
    for y in lines:
        pieces = list(chops[y].values()) if y < len(chops) else []
        origin = pieces, behind.color, plain
        if y not in made or made[y][0] != origin:
            line = Strip.join(pieces)
            segments = [Segment(text, _shade(style or Style.null(), behind.color, plain)) for text, style, _ in line]
            made[y] = origin, Strip(segments, line.cell_length)
        shaded[y] = made[y][1]
    return shaded


_MOST_SHADES = 4_000
_shades: dict[tuple[object, ...], Style] = {}


def _shade(style: Style, color: Color, plain: Style) -> Style:
    """Return the style of a text behind a dialog. Where the text stands is in its style too, and plays no part."""
    key = (style.color, style.bgcolor, style._attributes, style._set_attributes, color, plain)
    shade = _shades.get(key)
    if shade is None:
        if len(_shades) > _MOST_SHADES:
            _shades.clear()
        (segment,) = BackgroundScreen.process_segments([Segment(" ", style)], color)
        shade = _shades[key] = plain + segment.style
    return shade
