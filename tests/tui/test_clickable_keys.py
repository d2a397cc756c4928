"""Keys shown in questions, dialogs and borders can be clicked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textual.screen import Screen
from textual.style import Style

from tests.case_tables import walk_cases
from tests.tui.cockpit import Stage, cockpit
from zoea.tui.dialogs.connect import ConnectDialog
from zoea.tui.dialogs.new_mysis import NewMysisDialog
from zoea.tui.dialogs.quit import QuitDialog
from zoea.tui.widgets.clickable_text import key_click_style, key_hints


async def click_on(stage: Stage, words: str) -> None:
    """Click the first cell of words, wherever they stand."""
    for row, line in enumerate(stage.text().splitlines()):
        if words in line:
            await stage.pilot.click(offset=(line.index(words), row))
            await stage.pilot.pause()
            return
    raise AssertionError(f"{words!r} is not on the screen")


def shows(stage: Stage, kind: type[Screen[Any]]) -> bool:
    return isinstance(stage.screen, kind)


@walk_cases("words", ["back", "leave it running", ""])
def test_text_that_is_no_key_is_not_clickable(words: str) -> None:
    assert key_click_style(words) is None


def test_each_part_of_a_hint_is_a_clickable_key() -> None:
    content = key_hints("enter write · ^t try · words alone · esc back")
    assert content.plain == "enter write · ^t try · words alone · esc back"
    pressed = [span for span in content.spans if isinstance(span.style, Style) and span.style.meta]
    assert [content.plain[span.start : span.end] for span in pressed] == ["enter write", "^t try", "esc back"]
    coloured = [span for span in content.spans if span not in pressed]
    assert [content.plain[span.start : span.end] for span in coloured] == ["enter", "^t", "esc"]


@walk_cases(
    ("width", "shown"),
    [
        (39, "enter new · ^o on/off · esc back"),
        (44, "enter new · ^o on/off · ^r revoke · esc back"),
        (20, "enter new · esc back"),
        (10, "esc back"),
        (5, "esc …"),
    ],
)
def test_hints_without_room_go_as_a_whole_and_the_way_back_last(width: int, shown: str) -> None:
    cut = key_hints("enter new · ^o on/off · ^r revoke · esc back").truncate(width, ellipsis=True)
    assert cut.plain == shown
    assert key_hints("oldest first · a sorts by name · < > sort").truncate(30).plain == "oldest first · a sorts by name"


async def test_the_keys_of_a_dialog_can_be_clicked(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.press("q")
        assert shows(stage, QuitDialog)
        await click_on(stage, "back")
        await stage.until(lambda: not shows(stage, QuitDialog))


async def test_the_hints_in_a_dialogs_border_can_be_clicked(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.press("n")
        assert shows(stage, NewMysisDialog)
        await click_on(stage, "enter create")
        await stage.until(lambda: len(stage.app.feed.myses) == 4 and not shows(stage, NewMysisDialog))
        stage.app.push_screen(ConnectDialog())
        await stage.pilot.pause()
        await click_on(stage, "esc back")
        await stage.until(lambda: not shows(stage, ConnectDialog))
