"""What a person changes while the cockpit runs applies without opening it again: a connected model, stored keys."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.terminal_screen import TerminalScreen
from tests.e2e.zoea_process import environment
from tests.fakes.openai_server import OpenAIServer, Say

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(autouse=True)
def _runtime(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))


def set_key(name: str, value: str) -> None:
    """Store a key as another program would: without telling the running swarm."""
    code = (
        "import sys; from zoea.settings.credentials import Credentials; "
        "from zoea.settings.paths import places; "
        "Credentials(places('').credentials).set(*sys.argv[1:])"
    )
    subprocess.run([sys.executable, "-c", code, name, value], env=environment(), timeout=60, check=True)


def leave(glass: TerminalScreen) -> None:
    glass.press("q", shows="end the swarm")
    glass.press("s")
    assert glass.end() == 0


async def test_a_model_connected_beside_working_myses_serves_at_once() -> None:
    async with OpenAIServer(otherwise=lambda _: Say("from the connected model")) as server:

        def connect() -> None:
            options = ("run", "--myses", "1", "--provider", "scripted")
            with closing(TerminalScreen(*options, environ={"ZOEA_SWARM__DISCOVER": "false"})) as glass:
                glass.until("1 mysis", "alpha")
                glass.press(":welcome", "enter", shows="connect a model")
                glass.press("c", shows="CONNECT A MODEL")
                glass.press("lab", "tab", server.base_url, "tab", "\x14", shows="It answers")
                glass.press("enter", shows="window, as 32768")
                glass.press("tab", "32768", "enter")
                glass.until("lab is connected. Myses that name no provider use it from their next turn on")
                assert "settings changed" not in glass.text
                glass.press("escape", ":new beta", "enter", shows="2 myses")
                glass.press(":send beta hello", "enter", shows="from the connected model")
                leave(glass)

        await asyncio.to_thread(connect)


async def test_a_key_replaced_by_connecting_again_serves_the_relaunched_mysis() -> None:
    async with OpenAIServer(otherwise=lambda _: Say("from the connected model")) as server:

        def connect() -> None:
            with closing(TerminalScreen("run", environ={"ZOEA_SWARM__DISCOVER": "false"})) as glass:
                glass.until("There is no mysis yet")
                glass.press("escape", ",", shows="+ connect a model")
                glass.press("G", "enter", shows="CONNECT A MODEL")
                glass.press("lab", "tab", server.base_url, "tab", "reef-1", "tab", "32768", "tab", "sk-old", "enter")
                glass.until("The settings are applied", "Provider of new myses                lab")
                server.key = "sk-new"
                glass.press("escape", ":new beta", "enter")
                glass.until("1 mysis", "beta")
                glass.press(":send beta hello", "enter")
                glass.until("1 needs you: beta", "E replaces its key")
                glass.press("enter", shows="provider.lab.api_key")
                glass.press("escape", ",", shows="Provider of new myses                lab")
                glass.press("G", "enter", shows="CONNECT A MODEL")
                glass.press("lab", "tab")
                glass.until("lab is connected already", server.base_url, "reef-1", "32768")
                glass.press("tab", "tab", "tab", "sk-new", "enter")
                glass.until(lambda text: "CONNECT A MODEL" not in text)
                glass.press("escape", "r", shows="from the connected model")
                leave(glass)

        await asyncio.to_thread(connect)


def test_a_key_stored_in_a_shell_while_the_swarm_runs_leaves_nothing_to_apply() -> None:
    options = ("run", "--myses", "1", "--provider", "scripted")
    with closing(TerminalScreen(*options, environ={"ZOEA_SWARM__DISCOVER": "false"})) as glass:
        glass.until("1 mysis", "alpha")
        set_key("other", "not-applied-by-its-program")
        glass.until("settings changed: f5 loads them")
        command = [sys.executable, "-m", "zoea", "credentials", "set", "lab"]
        ran = subprocess.run(
            command, input="key", capture_output=True, text=True, timeout=60, check=True, env=environment()
        )
        assert "In the running swarm" in ran.stdout
        glass.until(lambda text: "settings changed" not in text)
        leave(glass)


def test_a_key_that_another_program_stores_is_noticed_and_applied() -> None:
    options = ("run", "--myses", "1", "--provider", "scripted")
    with closing(TerminalScreen(*options, environ={"ZOEA_SWARM__DISCOVER": "false"})) as glass:
        glass.until("1 mysis", "alpha")
        set_key("lab", "not-shown-anywhere")
        glass.until("settings changed: f5 loads them")
        assert "not-shown-anywhere" not in glass.text
        glass.press(":reload", "enter")
        glass.until(lambda text: "settings changed" not in text)
        set_key("account/reef/uid", '{"password": "x"}')
        glass.press("l", shows="LOG")
        glass.press("escape", shows="1 mysis")
        assert "settings changed" not in glass.text
        leave(glass)
