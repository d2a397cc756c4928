"""A block of text has room for the lines that were put into it last."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.containers import Container

from zoea.tui.widgets.clickable_text import TextBlock


class BlockApp(App[None]):
    """One block of text, as high as its lines."""

    CSS = "TextBlock { height: auto; }"

    def compose(self) -> ComposeResult:
        with Container():
            yield TextBlock()


async def test_a_block_is_as_high_as_its_newest_lines_though_a_layout_came_between() -> None:
    app = BlockApp()
    async with app.run_test() as pilot:
        block = app.query_one(TextBlock)
        block.put([[("first", "")]] * 2)
        app.screen._refresh_layout()  # as another widget's change or a resize does on a busy machine
        block.put([[("second", "")]] * 6)
        await pilot.pause()
        assert block.size.height == 6
