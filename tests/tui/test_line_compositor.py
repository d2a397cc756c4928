"""Frames are those of Textual, and only what changed is composed: counted, not timed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.style import Style
from textual._compositor import Compositor
from textual._context import visible_screen_stack
from textual.color import Color
from textual.css.stylesheet import Stylesheet
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tests.tui.cockpit import Stage, cockpit
from zoea.tui.dialogs import modal
from zoea.tui.dialogs.modal import CockpitDialog
from zoea.tui.screens.base import BaseScreen
from zoea.tui.widgets import line_compositor
from zoea.tui.widgets.line_compositor import LineCompositor


def compose(stage: Stage) -> list[Strip]:
    """Compose the screen as a frame does."""
    visible_screen_stack.set(stage.app._background_screens)
    return stage.app.screen._compositor.render_strips()


def look(stage: Stage) -> list[list[tuple[Any, ...]]]:
    """Draw everything, and return what each line shows and what a click there does."""
    for widget in (stage.app.screen, *stage.app.screen.query("*")):
        widget.refresh()
    return [
        [
            (text, style and (style.color, style.bgcolor, style.bold, style.underline, style.meta.get("@click")))
            for text, style, _ in line.simplify()
        ]
        for line in compose(stage)
    ]


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_frames_are_those_of_textual(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    async with cockpit(tmp_path, size=size) as stage:
        for keys in (("j",), ("D",), ("escape", "n"), ("escape", "escape", "colon"), ("escape", "enter"), ("m",)):
            await stage.press(*keys)
            found = look(stage)
            with monkeypatch.context() as textual:
                textual.setattr(LineCompositor, "_render_chops", Compositor._render_chops)
                textual.setattr(CockpitDialog, "_render_content", Widget._render_content)
                assert found == look(stage), keys


async def test_a_changed_line_behind_a_dialog_is_the_only_one_that_is_shaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shaded: list[int] = []
    shade_lines = line_compositor.shade_lines

    def count(behind: Any, lines: set[int], *more: Any) -> dict[int, Strip]:
        shaded.extend(lines)
        return shade_lines(behind, lines, *more)

    monkeypatch.setattr(modal, "shade_lines", count)
    shades: list[Style] = []
    shade = line_compositor._shade

    def count_shade(style: Style, color: Color, plain: Style) -> Style:
        shades.append(style)
        return shade(style, color, plain)

    monkeypatch.setattr(line_compositor, "_shade", count_shade)
    async with cockpit(tmp_path, size=(200, 60)) as stage:
        await stage.press("D")
        compose(stage)
        assert set(shaded) == set(range(60))
        shaded.clear()
        # As Textual tells the dialog that a line behind it changed.
        stage.app.screen.refresh(Region(0, 5, 200, 1))
        compose(stage)
        assert shaded == [5]
        shades.clear()
        stage.app.screen.refresh()
        compose(stage)
        assert not shades, "nothing behind the dialog changed"


async def test_an_opening_styles_its_text_and_arranges_for_its_size_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    styled: Counter[str] = Counter()
    sized, apply = BaseScreen._refresh_layout, Stylesheet.apply

    def count_sized(self: BaseScreen[Any], size: Any = None, scroll: bool = False) -> None:
        done.extend([type(self).__name__] if size else [])
        sized(self, size, scroll)

    def count_styled(self: Stylesheet, node: Any, **more: Any) -> None:
        styled[node.id or type(node).__name__] += 1
        apply(self, node, **more)

    async with cockpit(tmp_path, size=(200, 60)) as stage:
        monkeypatch.setattr(BaseScreen, "_refresh_layout", count_sized)
        monkeypatch.setattr(Stylesheet, "apply", count_styled)
        await stage.press("D")
        assert styled["words"] == 1
        assert done == ["ConfirmDialog"], "the screen behind has its size already"


async def test_only_the_changed_lines_of_widgets_in_sight_are_composed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cockpit(tmp_path, size=(200, 60)) as stage:
        compose(stage)
        composed: list[str] = []
        render_lines = Widget.render_lines

        def count(self: Widget, crop: Any) -> list[Strip]:
            composed.extend([self.id or type(self).__name__] * crop.height)
            return render_lines(self, crop)

        monkeypatch.setattr(Widget, "render_lines", count)
        compositor = stage.screen._compositor
        compositor._render_chops(compositor.size.region, {0, 59}.__contains__)
        assert sorted(composed) == ["keys", "top"]
