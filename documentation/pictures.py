"""Renders the pictures of the README from real runs.

    python -m documentation.pictures

Each run has a home and directories of its own, and no model: the autopilot plays.
"""

from __future__ import annotations

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
    """Run, and draw what the run showed."""
    with tempfile.TemporaryDirectory(prefix="zoea-") as folder:
        ran = subprocess.run(
            [sys.executable, "-m", "zoea", *COMMAND],
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
    PICTURES.mkdir(exist_ok=True)
    lines = [line for line in ran.stdout.splitlines() if line]
    draw("plain-run", "zoea run --world reef --myses 5", lines[-LINES:])
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
    drawn = console.export_svg(title=title, theme=NOVA, unique_id="zoea")
    # No fonts from elsewhere: a picture of a README asks no other server.
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL).replace("Fira Code, monospace", "monospace")
    (PICTURES / f"{name}.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
