"""Render the pictures of the README and the guide from real runs.

    python -m documentation.pictures

Each run has its own home and directories and uses the autopilot.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

PICTURES = Path(__file__).parent / "pictures"
ROOT = Path(__file__).parents[1]
COMMAND = ("run", "--world", "reef", "--myses", "5", "--start-swarm", "--plain", "--turns", "12", "--for", "120s")
WIDTH = 120
LINES = 26
SIZE = (140, 42)
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
    """Run Zoea and save pictures of its output."""
    PICTURES.mkdir(exist_ok=True)
    if sys.argv[1:2] == [COCKPIT]:
        return asyncio.run(cockpit())
    ran = _apart("-m", "zoea", *COMMAND)
    lines = [line for line in ran.splitlines() if line]
    draw("plain-run", "zoea run --world reef --myses 5", lines[-LINES:])
    _apart("-m", "documentation.pictures", COCKPIT)
    return 0


def _apart(*arguments: str) -> str:
    """Run Python with its own home and directories and return its output."""
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
            stdout=subprocess.PIPE,  # errors go to the terminal, where the person sees why it failed
            text=True,
            check=True,
        )
    return ran.stdout


CAREFUL = """\
extends = "miner"
title = "Asks before it sells"

[tools]
ask = ["sell*"]
"""


async def cockpit() -> int:
    """Save pictures of the cockpit in the sandbox world, where one miner asks before it sells."""
    from zoea.process.clock import SystemClock
    from zoea.runtime.run_options import RunOptions
    from zoea.settings.paths import places
    from zoea.tui.app import CockpitApp
    from zoea.tui.screens import base
    from zoea.tui.start import open_swarm

    base.LAG_SHOWN_US = 0  # how busy the machine is that draws the pictures is no part of them

    where = places("")
    templates = where.config / "templates"
    templates.mkdir(parents=True)
    (templates / "careful.toml").write_text(CAREFUL, encoding="utf-8")
    options = RunOptions(world="reef", myses=4, template="miner", provider="autopilot", start_swarm=True)
    app = CockpitApp(
        lambda: open_swarm(options, where), config=where.config, reduced_motion=True, now=SystemClock().now
    )
    async with app.run_test(size=SIZE) as pilot:

        async def until(holds: Callable[[], object]) -> None:
            async with asyncio.timeout(300):
                while not holds():
                    await pilot.pause(0.2)
            await pilot.pause(1.0)

        def is_shown(*words: str) -> bool:
            drawn = app.export_screenshot(simplify=True).replace("&#160;", " ")
            return all(word in drawn for word in words)

        await until(lambda: app.opened is not None and app.feed.view is not None)
        await app.api.create("epsilon", template="careful", provider="autopilot")
        await until(lambda: any(view.turns >= 2 for view in app.feed.myses.values()))
        await app.api.broadcast("Mine iron, share what you find, and report.")
        await until(lambda: app.approvals.open and any(view.turns >= 4 for view in app.feed.myses.values()))
        _save("cockpit", app.export_screenshot(title="zoea", simplify=True))
        await pilot.press("o")
        await until(lambda: getattr(app.screen, "is_listening", False))
        _save("approval", app.export_screenshot(title="zoea", simplify=True))
        await pilot.press("escape", "g", "enter")
        await until(lambda: is_shown("CONVERSATION", "get_status"))
        _save("conversation", app.export_screenshot(title="zoea", simplify=True))
        await pilot.press("i")
        await until(lambda: getattr(app.screen, "inspection", None))
        _save("inspector", app.export_screenshot(title="zoea", simplify=True))
        await pilot.press("escape", "escape")
        await until(lambda: is_shown("INBOX"))
        await pilot.press("ctrl+f", *"iron")
        await until(lambda: is_shown("SEARCH", "get_system"))
        _save("search", app.export_screenshot(title="zoea", simplify=True))
        await app.leave()
    return 0


def draw(name: str, title: str, lines: list[str]) -> None:
    """Save lines of a terminal as SVG: times dim, names in teal."""
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
    # Fonts would be loaded from another server; the clips of single lines only make the file larger.
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL).replace("Fira Code, monospace", "monospace")
    drawn = re.sub(r'<clipPath id="[^"]*-line-\d+">.*?</clipPath>\s*', "", drawn, flags=re.DOTALL)
    drawn = re.sub(r' clip-path="url\(#[^)]*-line-\d+\)"', "", drawn)
    drawn = re.sub(r"terminal-\d+", "t", drawn).replace("&#160;", "\N{NO-BREAK SPACE}")
    (PICTURES / f"{name}.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
