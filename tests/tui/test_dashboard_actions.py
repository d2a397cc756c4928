"""What a person does on the dashboard, key by key, over a real swarm."""

from __future__ import annotations

from pathlib import Path

from tests.tui.cockpit import cockpit


async def test_space_marks_the_mysis_under_the_cursor_and_goes_on(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.press("space", "space")
        assert stage.app.marks == {stage.view("alpha").id, stage.view("beta").id}
        assert "alpha" in stage.text()
