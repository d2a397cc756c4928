"""The keys of the upstreams screen, over a real terminal with real MCP servers."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.e2e.terminal_screen import TerminalScreen, paste
from tests.e2e.zoea_process import environment
from tests.fakes.mcp_faulty import TOOLS
from tests.fakes.toolboxes import FAULTY
from zoea.settings.paths import places

pytestmark = [pytest.mark.timeout(240), pytest.mark.usefixtures("own_runtime")]

OPEN = f"ready {len(TOOLS)}"


@pytest.fixture
def address() -> Iterator[str]:
    """The address of an MCP server in a process of its own."""
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True, "env": environment()}
    with subprocess.Popen([sys.executable, "-m", "tests.fakes.mcp_http"], **options) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        finally:
            process.kill()


def upstreams() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(places("").config_file.read_text()).get("upstream", {})
    return found


def row_of(name: str, text: str) -> str:
    """Return state and number of tools as the list shows them: `open 5`. Empty without such a row."""
    found = re.search(rf" {name} +([a-z]+) .*? (\d+) tools? ", text)
    return " ".join(found.groups()) if found else ""


def test_servers_are_added_switched_tried_and_removed_by_keys(address: str) -> None:
    command = [sys.executable, "-I", str(FAULTY)]
    options = ("run", "--myses", "1", "--provider", "scripted")
    with closing(TerminalScreen(*options, size=(160, 44), environ={})) as screen:
        screen.until("alpha", "1 mysis")
        screen.press("u")
        screen.until("no tool servers yet: n adds one")

        screen.press("n")
        screen.until("ADD AN MCP SERVER", "enter add")
        screen.press("near", "tab", shlex.join(command), "enter")
        screen.until("The settings are applied; upstreams: near")
        screen.until(lambda text: row_of("near", text) == OPEN)
        assert upstreams() == {"near": {"command": command[0], "args": command[1:]}}

        screen.press("n")
        screen.until("ADD AN MCP SERVER")
        screen.press("wiki", "tab", address, "enter")
        screen.until(lambda text: row_of("wiki", text) == "ready 5")
        assert upstreams()["wiki"] == {"url": address}

        of_client = {"mcpServers": {"pasted": {"command": command[0], "args": command[1:]}}}
        screen.press("n")
        screen.until("ADD AN MCP SERVER")
        screen.press("tab")
        screen.write(paste(json.dumps(of_client, indent=2)) + b"\r")
        screen.until(lambda text: row_of("pasted", text) == OPEN)
        assert upstreams()["pasted"] == {"command": command[0], "args": command[1:]}

        screen.press("g", " ")
        screen.until(lambda text: row_of("near", text) == "off 0")
        assert upstreams()["near"]["enabled"] is False
        screen.press(" ")
        screen.until(lambda text: row_of("near", text) == OPEN)
        assert "enabled" not in upstreams()["near"]

        screen.press("tab", "t")
        screen.until("echo of the faulty server", "^r call it")
        screen.press("\x12")
        screen.until("done")
        screen.press("escape", "tab", "tab")
        screen.press("j", "D")
        screen.until("Remove wiki?")
        screen.press("y")
        screen.until(lambda text: not row_of("wiki", text))
        assert set(upstreams()) == {"near", "pasted"}

        file = places("").config_file
        file.write_text(file.read_text() + f'[upstream.late]\nurl = "{address}"\n')
        screen.until("settings changed: f5 loads them")
        screen.press("f5")
        screen.until(lambda text: row_of("late", text) == "ready 5" and "settings changed" not in text)
        screen.press("escape")
        screen.until("alpha", "1 mysis")
