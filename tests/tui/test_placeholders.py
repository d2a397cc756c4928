"""What an empty input says is readable in every theme, as it is drawn."""

from __future__ import annotations

import os
from pathlib import Path

from textual.widgets import Input, TextArea

from tests.fakes.swarm import FakeSwarm
from tests.tui.cockpit import Stage, cockpit_over
from tests.tui.test_theme_files import contrast
from zoea.tui.screens.dashboard import DashboardScreen

OPENED_BY = ("ctrl+f", "question_mark", "ctrl+p", "n", "slash")
EVERY = 1 if os.environ.get("ZOEA_SOAK") else 3
"""Each input is shown in every third theme, each theme with some inputs; the other strength shows all pairs."""


def inputs(stage: Stage) -> list[Input | TextArea]:
    return [*stage.screen.query(Input), *stage.screen.query(TextArea)]


def poorest(stage: Stage) -> float:
    """Return the least contrast of any placeholder on the screen, as drawn. The cursor's own cell is left out."""
    found: list[float] = []
    lines = stage.strips()
    for shown in inputs(stage):
        text = shown.text if isinstance(shown, TextArea) else shown.value
        if shown.placeholder and not text and shown.region:
            region = shown.content_region
            for segment in lines[region.y].crop(region.x + 1, region.right):
                style = segment.style
                if segment.text.strip() and style is not None and not style.reverse:
                    assert style.color is not None
                    assert style.bgcolor is not None
                    found.append(contrast(style.color.get_truecolor().hex, style.bgcolor.get_truecolor().hex))
    assert found
    return min(found)


async def test_a_placeholder_is_readable_in_every_theme(tmp_path: Path) -> None:
    fake = FakeSwarm()
    await fake.create("alpha")
    poor: dict[tuple[str, str], float] = {}
    async with cockpit_over(fake, tmp_path / "no.db", size=(80, 24)) as stage:
        for at, key in enumerate(OPENED_BY):
            await stage.press(key, until=lambda: any(shown.region for shown in inputs(stage)))
            for name in list(stage.app.theme_specs)[at % EVERY :: EVERY]:
                if name != "ansi":  # its colours are the terminal's own
                    stage.app.use_theme(name)
                    await stage.pilot.pause()
                    least = 4.5 if name == "high-contrast" else 3.0
                    if (ratio := poorest(stage)) < least:
                        poor[key, name] = ratio
            for _ in range(3):
                if not stage.shows(DashboardScreen) or key == "slash":
                    await stage.press("escape")
        assert poor == {}
