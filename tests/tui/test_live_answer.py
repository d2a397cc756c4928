"""The answer that is being streamed: its Markdown, and its room below the conversation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.containers import Vertical
from textual.widgets import Markdown

from tests.fakes.slow_mount import delay_mounts
from tests.tui.cockpit import Stage, answering, cockpit
from zoea.tui.screens.focus import FocusScreen
from zoea.tui.widgets.conversation_view import ConversationView
from zoea.tui.widgets.live_answer import LiveAnswer

TABLE = "| ore | price |\n|---|---|\n| iron | 14 |\n"
STORED = "\n\n".join(f"paragraph {number}" for number in range(12))
STREAMED = "\n\n".join(f"streamed {number}" for number in range(4))


@asynccontextmanager
async def conversation(folder: Path) -> AsyncIterator[Stage]:
    """The conversation of alpha with one stored answer, which leaves few lines free."""
    async with cockpit(folder, answering(STORED), start=True, size=(120, 36)) as stage:
        await stage.swarm.commander.send("alpha", "Look around.")
        await stage.swarm.settled()
        await stage.press("enter")
        await stage.until(lambda: stage.shows(FocusScreen) and "paragraph 11" in stage.one(ConversationView).plain)
        yield stage


async def say_until(stage: Stage, text: str, has_room: Callable[[], bool] = lambda: True) -> None:
    """Say it until its last words are shown: late news of the swarm clear what the swarm did not stream."""

    def is_shown() -> bool:
        stage.one(LiveAnswer).say(text, 0)
        return has_room() and text.splitlines()[-1] in stage.text()

    await stage.until(is_shown)


PIECES = {
    "code": ("``", "`py\nsell()\n", "```\nthe end"),
    "list": ("1", ". sell", "\n\nthe end"),
    "rule": ("--", "-", "\n\nthe end"),
}
"""What the last row of a table becomes, piece by piece."""


async def test_a_table_whose_last_row_becomes_another_block_is_drawn(tmp_path: Path) -> None:
    async with conversation(tmp_path) as stage:
        live = stage.one(LiveAnswer)
        for kind, pieces in PIECES.items():
            said = TABLE
            for piece in ("", *pieces):
                said += piece
                live.say(said, 0)
                await stage.pilot.pause()
            await say_until(stage, said)
            assert "iron" in stage.text(), kind
            live.clear()
            live.say("another answer", 100)
            await stage.until(lambda: "another answer" in stage.text() and "iron" not in stage.text())
            assert stage.app.reported_defects == [], kind
            live.clear()


async def test_the_end_of_a_streamed_answer_is_in_sight_however_late_it_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with conversation(tmp_path) as stage:
        live, transcript = stage.one(LiveAnswer), stage.one(ConversationView)
        delay_mounts(monkeypatch, Markdown.BLOCKS["paragraph_open"])
        await say_until(stage, STREAMED, lambda: live.size.height >= live.virtual_size.height > 4)
        assert transcript.scroll_offset.y == transcript.max_scroll_y > 0
        assert transcript.size.height + live.size.height <= stage.one(Vertical, "#talk").content_size.height
