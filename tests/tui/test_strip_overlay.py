"""Drawing over finished strips: what does not fit is cut visibly."""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from zoea.tui.widgets.strip_overlay import clip_strip, place_strip


def test_a_cut_strip_ends_with_an_ellipsis_in_its_own_style() -> None:
    red = Style(color="red")
    line = clip_strip(Strip([Segment("14 a unit "), Segment("there", red)]), 12)
    assert line.text == "14 a unit t…"
    assert list(line)[-1].style == red


def test_a_strip_that_fits_or_ends_in_blanks_is_unchanged() -> None:
    for text in ("14 a unit", "14 a unit     ", ""):
        line = Strip([Segment(text)])
        assert clip_strip(line, 9) is line


def test_wide_characters_are_never_halved() -> None:
    for width in range(1, 8):
        assert cell_len(clip_strip(Strip([Segment("漢字漢字漢字")]), width).text) <= width


def test_a_place_is_that_of_textual_in_a_style_that_is_made_once() -> None:
    strip = Strip(
        [Segment("ab", Style(bold=True)), Segment("é界"), Segment("", Style()), Segment("c", Style(dim=True))]
    )
    placed = place_strip(strip, 7)
    expected = list(strip.apply_offsets(0, 7))
    assert [(text, style) for text, style, _ in placed] == [(text, style) for text, style, _ in expected]
    again = place_strip(strip, 7)
    assert all(one.style is other.style for one, other in zip(placed, again, strict=True))
