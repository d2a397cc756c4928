"""Render the pictures of the README and the guide from real runs.

    python -m documentation.pictures

Each run has its own home and directories. Two pictures show the sandbox world, which needs no model. The others show
myses that work on a small software project: their model is a server on loopback that answers by a table, their tools
are those of `documentation/examples/project_server.py`.
"""

from __future__ import annotations

import asyncio
import html
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from tests.fakes import openai_server
from tests.fakes.openai_server import Call, OpenAIServer, Say
from tests.fakes.wire_server import Received
from zoea.process.clock import SystemClock
from zoea.runtime.run_options import RunOptions
from zoea.settings.paths import Places, places
from zoea.tui.app import CockpitApp
from zoea.tui.screens import base
from zoea.tui.start import open_swarm

PICTURES = Path(__file__).parent / "pictures"
ROOT = Path(__file__).parents[1]
SIZE = (140, 42)
README_SIZE = (140, 36)
"""Columns and lines of the picture of the README, which has no empty half."""
COCKPIT, WORK = "--cockpit", "--work"


def main() -> int:
    """Run the cockpit and save pictures of it."""
    PICTURES.mkdir(exist_ok=True)
    if sys.argv[1:2] == [COCKPIT]:
        return asyncio.run(cockpit())
    if sys.argv[1:2] == [WORK]:
        return asyncio.run(work())
    _apart("-m", "documentation.pictures", COCKPIT)
    _apart("-m", "documentation.pictures", WORK)
    return 0


def _apart(*arguments: str) -> None:
    """Run Python with its own home and directories."""
    with tempfile.TemporaryDirectory(prefix="zoea-") as folder:
        subprocess.run(
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
            check=True,
        )


CAREFUL = """\
extends = "miner"
title = "Asks before it sells"

[tools]
ask = ["sell*"]
"""


CONFIG = """\
[swarm]
default_provider = "studio"

[provider.studio]
type = "openai"
base_url = "{address}"
model = "qwen3-coder-30b"
context_window = 32768

[context]
snapshot_tools = ["list_failed_tests"]

[upstream.project]
command = "{python}"
args = ["{server}"]
"""
ENGINEER = """\
title = "Works on tidemark, asks before it closes an issue"
prompt = "You maintain tidemark, a converter of Markdown. Find the cause before you change anything, and test it."

[tools]
ask = ["close_*"]
"""
FINDING = """\
The row is split at every bar before its escapes are read, so one cell becomes two. \
A pattern that passes escaped bars mends it, and the failing test passes then. Details:

| step | does | should |
|---|---|---|
| `columns` | splits at every bar | skip `\\\\|` |
| `cell` | unescapes | the same |

1. Split with a pattern that passes escaped bars.
2. Keep the test that fails today.
"""
REVIEW = (
    "The pattern of links is greedy only for the address. I check what a bracket inside the text does to it, then I "
)
TASKS = {
    "alpha": "Issue 41: find out why a bar in a table cell splits the cell.",
    "beta": "Run the tests and close what is fixed already.",
    "gamma": "Review how links are read, issue 43.",
    "delta": "Write the section of the README for issue 44.",
    "epsilon": "Measure how long a file of 10,000 tables takes.",
}


def choose_answer(request: Received) -> Say:
    """Return the next answer of a mysis for its task. The number of results it has says which."""
    messages = request.json["messages"]
    text = " ".join(str(message.get("content")) for message in messages if message["role"] == "user")
    step = sum(message["role"] == "tool" for message in messages)
    name = next((name for name, task in TASKS.items() if task in text), "")
    steps: dict[str, tuple[Say, ...]] = {
        "alpha": (
            Say("I look for the code that reads a row.", calls=(Call("search_code", '{"words": "columns"}', "c1"),)),
            Say(calls=(Call("read_file", '{"path": "tidemark/table.py"}', "c2"),)),
            Say(reasoning="Does the test fail for that reason?", calls=(Call("list_failed_tests", "{}", "c3"),)),
            Say(FINDING, first_after=0.5),
        ),
        "beta": (
            Say(calls=(Call("list_failed_tests", "{}", "c4"),)),
            Say(calls=(Call("close_issue", '{"number": 43, "comment": "Fixed by the new pattern of links."}', "c5"),)),
        ),
        "gamma": (
            Say(calls=(Call("read_file", '{"path": "tidemark/links.py"}', "c6"),)),
            Say(REVIEW * 3, stall_after=20),
        ),
        "delta": (
            Say(calls=(Call("read_file", '{"path": "README.md"}', "c7"),)),
            Say("The section names CommonMark 0.31 and tables, and says what is left out: HTML and footnotes."),
        ),
        "epsilon": (
            Say("I measure the version of today first.", calls=(Call("measure_speed", '{"tables": 10000}', "c8"),)),
        ),
    }  # fmt: skip
    answers = steps.get(name, (Say("Understood: I look first, and say what I found."),))
    answer: Say = answers[min(step, len(answers) - 1)]
    return answer


def count_usage(step: Say, body: dict[str, Any]) -> dict[str, Any]:
    """Count about four characters a token, of messages and tools alike."""
    prompt, answer = (
        len(json.dumps(what)) // 4 + 1
        for what in ([body["messages"], body.get("tools")], [step.text, step.reasoning, len(step.calls)])
    )
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}


class Camera:
    """A cockpit of `SIZE` whose screens are saved.

    Args:
        options: The swarm to show.
        where: Its directories.
    """

    def __init__(self, options: RunOptions, where: Places) -> None:
        base.LAG_SHOWN_US = 0  # how busy the machine is that draws the pictures is no part of them
        self.app = CockpitApp(
            lambda: open_swarm(options, where), config=where.config, reduced_motion=True, now=SystemClock().now
        )
        self.pilot: Pilot[Any]

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(300):
            while not holds():
                await self.pilot.pause(0.2)
        await self.pilot.pause(1.0)

    async def press(self, *keys: str, shows: tuple[str, ...]) -> None:
        """Press keys, and wait until all of these words are on the screen."""
        await self.pilot.press(*keys)
        await self.until(lambda: self.shows(*shows))

    def shows(self, *words: str) -> bool:
        drawn = read_picture(self.app.export_screenshot(simplify=True))
        return all(word in drawn for word in words)

    def save(self, name: str) -> None:
        _save(name, self.app.export_screenshot(title="zoea", simplify=True))


async def cockpit() -> int:
    """Save pictures of the cockpit in the sandbox world. One miner asks before it sells."""
    where = places("")
    templates = where.config / "templates"
    templates.mkdir(parents=True)
    (templates / "careful.toml").write_text(CAREFUL, encoding="utf-8")
    options = RunOptions(world="reef", myses=4, template="miner", provider="autopilot", start_swarm=True)
    camera = Camera(options, where)
    app = camera.app
    async with app.run_test(size=SIZE) as camera.pilot:
        await camera.until(lambda: app.opened is not None and app.feed.view is not None)
        await app.api.create("epsilon", template="careful", provider="autopilot")
        await camera.until(lambda: any(view.turns >= 2 for view in app.feed.myses.values()))
        await app.api.broadcast("Mine iron, share what you find, and report.")
        await camera.until(lambda: app.approvals.open and any(view.turns >= 4 for view in app.feed.myses.values()))
        camera.save("cockpit")
        await camera.press("ctrl+f", *"iron", shows=("SEARCH", "get_system"))
        camera.save("search")
        await app.leave()
    return 0


async def work() -> int:
    """Save pictures of five myses that work on a software project. One asks before it closes an issue."""
    where = places("")
    templates = where.config / "templates"
    templates.mkdir(parents=True)
    (templates / "engineer.toml").write_text(ENGINEER, encoding="utf-8")
    server = ROOT / "documentation" / "examples" / "project_server.py"
    openai_server.usage_of = count_usage
    async with OpenAIServer(otherwise=choose_answer) as model:
        config = CONFIG.format(address=model.base_url, python=sys.executable, server=server)
        where.config_file.write_text(config, encoding="utf-8")
        camera = Camera(RunOptions(), where)
        app = camera.app
        async with app.run_test(size=SIZE) as camera.pilot:
            await camera.until(lambda: app.opened is not None and app.feed.view is not None)
            if len(app.screen_stack) > 2:
                await camera.pilot.press("escape")
            for name in TASKS:
                await app.api.create(name, template="engineer")
            await app.api.broadcast("One issue each. Say what you found before you change anything.")
            await camera.until(lambda: all(view.turns >= 1 for view in app.feed.myses.values()))
            for name, task in TASKS.items():
                await app.api.send(name, task)
            await camera.pilot.resize_terminal(*README_SIZE)
            await camera.until(
                lambda: app.approvals.open and camera.shows("The pattern of links", "measure_speed", "The row is split")
            )
            camera.save("work")
            await camera.pilot.resize_terminal(*SIZE)
            await camera.press("o", shows=("close_issue", "allow once"))
            camera.save("approval")
            await camera.press(
                "escape", "g", "enter", shows=("CONVERSATION", "list_failed_tests", "Split with a pattern")
            )
            camera.save("conversation")
            await camera.press("i", shows=("PARTS OF THE REQUEST", "this turn", "in full"))
            camera.save("inspector")
            await app.leave()
    return 0


def read_picture(drawn: str) -> str:
    """Return the texts of a picture, line by line."""
    lines: dict[float, list[tuple[float, str]]] = {}
    for x, y, text in re.findall(r'<text class="[^"]*" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>', drawn):
        lines.setdefault(float(y), []).append((float(x), html.unescape(text).replace("\N{NO-BREAK SPACE}", " ")))
    return "\n".join(" ".join(text for _, text in sorted(lines[y])) for y in sorted(lines))


def _save(name: str, drawn: str) -> None:
    # Fonts would be loaded from another server; the clips of single lines only make the file larger.
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL).replace("Fira Code, monospace", "monospace")
    drawn = re.sub(r'<clipPath id="[^"]*-line-\d+">.*?</clipPath>\s*', "", drawn, flags=re.DOTALL)
    drawn = re.sub(r' clip-path="url\(#[^)]*-line-\d+\)"', "", drawn)
    drawn = re.sub(r"terminal-\d+", "t", drawn).replace("&#160;", "\N{NO-BREAK SPACE}")
    (PICTURES / f"{name}.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
