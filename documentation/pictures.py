"""Renders the pictures of the README from real runs.

    python -m documentation.pictures

Each run has a home and directories of its own, and no model: the autopilot plays.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

PICTURES = Path(__file__).parent / "pictures"
ROOT = Path(__file__).parents[1]
COMMAND = ("run", "--world", "reef", "--myses", "5", "--start-swarm", "--plain", "--for", "16s")
WIDTH = 120
LINES = 26
SIZE = (132, 36)
COCKPIT = "--cockpit"

NOVA = TerminalTheme(
    (10, 10, 18),
    (232, 230, 240),
    [
        (10, 10, 18),
        (255, 92, 122),
        (0, 230, 168),
        (255, 197, 61),
        (157, 0, 255),
        (255, 0, 204),
        (0, 255, 204),
        (232, 230, 240),
    ],
)


def main() -> int:
    """Run, and draw what the runs showed."""
    PICTURES.mkdir(exist_ok=True)
    if sys.argv[1:2] == [COCKPIT]:
        return asyncio.run(cockpit())
    ran = _apart("-m", "zoea", *COMMAND)
    lines = [line for line in ran.splitlines() if line]
    draw("plain-run", "zoea run --world reef --myses 5", lines[-LINES:])
    _apart("-m", "documentation.pictures", COCKPIT)
    return 0


def _apart(*arguments: str) -> str:
    """Run Python with a home and directories of its own; what it printed."""
    with tempfile.TemporaryDirectory(prefix="zoea-") as folder:
        ran = subprocess.run(
            [sys.executable, *arguments],
            env={
                **os.environ,
                "HOME": folder,
                "ZOEA_DATA_DIR": f"{folder}/data",
                "ZOEA_CONFIG_DIR": f"{folder}/config",
                "XDG_RUNTIME_DIR": folder,
                "PYTHONPATH": str(ROOT),
                "ZOEA_WORLD__TICK": "1",
            },
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
    return ran.stdout


async def cockpit() -> int:
    """The dashboard and a conversation, as a person sees them some seconds into the sandbox world."""
    from zoea.app.clock import SystemClock
    from zoea.app.running import RunOptions
    from zoea.settings.paths import places
    from zoea.tui.app import Cockpit
    from zoea.tui.start import opened

    where = places("")
    options = RunOptions(world="reef", myses=5, template="miner", provider="autopilot", start_swarm=True)
    app = Cockpit(lambda: opened(options, where), config=where.config, now=SystemClock().now)
    async with app.run_test(size=SIZE) as pilot:
        async with asyncio.timeout(60):
            while app.opened is None or app.feed.view is None:
                await pilot.pause(0.2)
            await app.api.broadcast("Mine iron, share what you find, and report.")
            while not any(view.turns >= 3 for view in app.feed.myses.values()):
                await pilot.pause(0.5)
        await pilot.pause(1.0)
        _save("cockpit", app.export_screenshot(title="zoea"))
        await pilot.press("enter")
        await pilot.pause(3.0)
        _save("conversation", app.export_screenshot(title="zoea"))
        await app.leave()
    return 0


def draw(name: str, title: str, lines: list[str]) -> None:
    """One terminal picture as SVG: times dim, names in teal."""
    console = Console(record=True, width=WIDTH, force_terminal=True, file=io.StringIO())
    for line in lines:
        shown = Text(line)
        shown.truncate(WIDTH, overflow="ellipsis")
        shown.highlight_regex(r"^\d\d:\d\d:\d\d", "dim")
        shown.highlight_regex(r"\b(alpha|beta|gamma|delta|epsilon)\b", "cyan")
        shown.highlight_regex(r"[\d,]+ credits\b( earned)?", "magenta")
        console.print(shown)
    _save(name, console.export_svg(title=title, theme=NOVA, unique_id="zoea"))


def _save(name: str, drawn: str) -> None:
    # No fonts from elsewhere: a picture of a README asks no other server.
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL).replace("Fira Code, monospace", "monospace")
    (PICTURES / f"{name}.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
