"""Lines that are drawn when they come into sight: cursor, mouse, selection, theme."""

from __future__ import annotations

from pathlib import Path

from rich.cells import cell_len
from textual.geometry import Offset
from textual.selection import Selection

from tests.tui.cockpit import Stage, cockpit
from tests.tui.test_log import happen, open_log
from zoea.tui.screens.focus import FocusScreen
from zoea.tui.text_layout import spread_pieces
from zoea.tui.widgets.line_list import LineList


async def many(stage: Stage) -> LineList:
    await happen(stage.swarm, 50)
    return await open_log(stage)


async def test_a_click_moves_the_cursor_and_a_second_click_chooses(tmp_path: Path) -> None:
    async with cockpit(tmp_path, names=("alpha",)) as stage:
        await stage.api.stop("alpha")
        lines = await open_log(stage)
        place = next(at for at in range(lines.count) if "alpha" in lines.text_of(at))
        await stage.pilot.click(lines, offset=(10, place + 1))
        assert lines.place == place
        await stage.pilot.click(lines, offset=(10, place + 1), times=2)
        await stage.until(lambda: isinstance(stage.screen, FocusScreen))


async def test_text_is_selected_across_lines_and_highlighted(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        lines = await many(stage)
        await stage.press("g")
        first, second = lines.text_of(0).rstrip(), lines.text_of(1).rstrip()
        chosen = Selection(Offset(5, 0), Offset(8, 1))
        assert lines.get_selection(chosen) == (f"{first[5:]}\n{second[:8]}", "\n")
        assert lines.get_selection(Selection(Offset(0, 3), None)) is not None
        plain = [segment.style for segment in lines.render_line(0)]
        stage.screen.selections = {lines: chosen}
        await stage.pilot.pause()
        assert [segment.style for segment in lines.render_line(0)] != plain
        assert lines.render_line(0).text.startswith(first[:20])


async def test_keys_move_by_page_and_to_both_ends(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        lines = await many(stage)
        await stage.press("g")
        assert lines.place == 0
        await stage.press("pagedown", "j", "k")
        assert lines.place == lines.leaf
        await stage.press("G")
        assert lines.is_at_end
        stage.app.use_theme("tide")
        await stage.pilot.pause()
        assert "reason 49" in stage.text()


def test_both_ends_of_a_line_fit_for_any_text() -> None:
    for width in (3, 10, 20, 41):
        for left in ("", "short", "漢字" * 20, "a" * 40):
            pieces = spread_pieces([(left, ""), ("more", "")], [(" 12.3 kB", "quiet")], width)
            assert cell_len("".join(text for text, _ in pieces)) <= width
    assert "".join(text for text, _ in spread_pieces([("a\nb\x1b[2J", "")], [("c", "")], 16)) == "a b\\u001b[2J   c"
