"""Terminals that show no colour, or nothing but ASCII: all states still tell apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.case_tables import walk_cases
from tests.tui.cockpit import cockpit
from tests.tui.hostile_texts import HOSTILE
from zoea.tui.theme import themes
from zoea.tui.theme.themes import has_utf8, to_ascii

STATES = ("idle", "running", "stopped", "errored", "asking", "waiting")


@walk_cases(
    ("env", "can"),
    [
        ({}, True),
        ({"LANG": "en_GB.UTF-8"}, True),
        ({"LANG": "C"}, False),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, False),
        ({"LC_ALL": "POSIX", "LANG": "en_GB.UTF-8"}, False),
        ({"LC_CTYPE": "de_DE.utf8", "LANG": "C"}, True),
        ({"LANG": "de_DE.ISO-8859-1"}, False),
        ({"TERM": "dumb", "LANG": "en_GB.UTF-8"}, False),
    ],
)
def test_the_locale_decides_between_utf8_and_ascii(env: dict[str, str], can: bool) -> None:
    assert has_utf8(env) is can


def test_the_states_of_every_theme_have_glyphs_of_their_own() -> None:
    found, _ = themes.load_themes(Path("nowhere"))
    for glyphs in (*(look.glyphs for look in found.values()), themes.ASCII_GLYPHS):
        assert len({glyphs[state] for state in STATES}) == len(STATES)
    assert len({to_ascii(found["nova"].glyphs[state]) for state in STATES}) == len(STATES)


@given(st.text())
def test_any_text_becomes_ascii_of_the_same_width(text: str) -> None:
    printable = "".join(char for char in text if char.isprintable())
    assert to_ascii(printable).isascii()
    assert len(to_ascii(printable)) == sum(cell_len(char) for char in printable)


EMOJI = (
    ("\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f469"),
    ("\U0001f44d\U0001f3fd", "\U0001f44d"),
    ("\u2764\ufe0f", "\u2764 "),
    ("\U0001f3f3\ufe0f\u200d\U0001f308", "\U0001f3f3 "),
    ("1\ufe0f\u20e3", "1 "),
    ("\U0001f1e9\U0001f1ea", "\U0001f1e9\U0001f1ea"),
)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (60, 16)])
async def test_emoji_of_several_characters_keep_the_frame_in_every_terminal(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    text = "".join(whole for whole, _ in EMOJI)
    async with cockpit(tmp_path, size=size) as stage:
        await stage.api.send("alpha", f"{text} end")
        await stage.until(lambda: stage.view("alpha").turns == 1)
        await stage.press("enter", shows=" end")
        assert "".join(shown for _, shown in EMOJI) in stage.text()
        (row,) = [line for line in stage.text().splitlines() if " end" in line and "\U0001f44d" in line][:1]
        assert sum(map(cell_len, row)) == size[0]


async def test_a_screen_in_ascii_still_tells_the_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    async with cockpit(tmp_path) as stage:
        await stage.api.stop("beta")
        await stage.until(lambda: stage.view("beta").state == "stopped")
        await stage.api.send("alpha", "\n".join(HOSTILE))
        await stage.until(lambda: stage.view("alpha").turns == 1)
        await stage.pilot.pause()
        assert stage.text().isascii()
        rows = {line.split()[2]: line for line in stage.text().splitlines() if len(line.split()) > 2}
        assert "o gamma" in rows["gamma"]
        assert "- beta" in rows["beta"]
        for key in ("question_mark", "comma"):
            await stage.press(key)
            assert stage.text().isascii()
            await stage.press("escape")


async def test_without_colour_glyphs_and_words_tell_the_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with cockpit(tmp_path) as stage:
        await stage.api.stop("beta")
        await stage.until(lambda: stage.view("beta").state == "stopped")
        await stage.pilot.pause()
        assert stage.app.no_color
        assert "◌ beta" in stage.text()
        assert "⬡ gamma" in stage.text()
        for segment in (segment for strip in stage.strips() for segment in strip):
            colour = segment.style.color if segment.style else None
            if colour is not None and colour.triplet is not None:
                assert len(set(colour.triplet)) == 1
