"""A cursor blinks for five seconds after input, and never with reduced motion."""

from __future__ import annotations

from pathlib import Path

from textual.widgets import Input, TextArea

from tests.tui.cockpit import cockpit
from zoea.settings.schema import Settings
from zoea.tui.terminal.terminal_control import IDLE_S


class Watch:
    """A clock by hand, in seconds."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


async def test_an_input_blinks_until_five_seconds_have_passed_without_a_key(tmp_path: Path) -> None:
    watch = Watch()
    async with cockpit(tmp_path, calm=False, seconds=watch) as stage:
        await stage.press("question_mark")
        field = stage.one(Input)
        seen = [field.cursor_blink]
        for seconds in (IDLE_S - 0.1, 0.2):
            watch.seconds += seconds
            stage.app.tick()
            seen.append(field.cursor_blink)
        assert field._cursor_visible
        await stage.press("a")
        assert [*seen, field.cursor_blink] == [True, True, False, True]


async def test_a_text_area_stops_blinking_too(tmp_path: Path) -> None:
    watch = Watch()
    async with cockpit(tmp_path, calm=False, seconds=watch) as stage:
        await stage.press("b")
        area = stage.one(TextArea)
        assert area.cursor_blink
        watch.seconds += IDLE_S
        stage.app.tick()
        assert not area.cursor_blink


async def test_with_reduced_motion_nothing_ever_blinks(tmp_path: Path) -> None:
    async with cockpit(tmp_path, calm=True) as stage:
        await stage.press("question_mark", "a")
        before = stage.one(Input).cursor_blink
        levels = [stage.app.animation_level]
        stage.app.use_settings(Settings())
        assert (before, stage.one(Input).cursor_blink) == (False, True)
        assert [*levels, stage.app.animation_level] == ["none", "full"]
