"""A block of text fits its newest lines and colours roles as a conversation does."""

from __future__ import annotations

from pathlib import Path

from textual.app import App, ComposeResult
from textual.color import Color
from textual.containers import Container
from textual.content import Content
from textual.markup import parse_style

from tests.case_tables import walk_cases
from zoea.tui.theme.role_styles import ConversationPalette
from zoea.tui.theme.themes import ROLES, STATUS_ROLES, list_theme_folders, read_theme
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


@walk_cases("role", [*ROLES, *STATUS_ROLES, "ok", "called", "quiet", "key"])
def test_a_role_has_the_colour_that_it_has_in_a_conversation(role: str) -> None:
    theme = read_theme(list_theme_folders(Path("none"))[0] / "nova.toml")
    variables = theme.theme().to_color_system().generate() | theme.theme().variables
    colour = ConversationPalette(theme).style(role).color
    assert colour is not None
    block = TextBlock()
    block.put([[("text", role)]])
    assert isinstance(block.visual, Content)
    (span,) = (span for span in block.visual.spans if "$" in str(span.style))
    assert parse_style(str(span.style), variables).foreground == Color.parse(colour.name)
