"""The dialog of MCP clients: HTTP server and tokens."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from textual.widgets import Input

from tests.fakes.swarm import FakeSwarm
from tests.tui.cockpit import Stage, cockpit_over
from zoea.mcp_server.tokens import Tokens, TokenScope
from zoea.model.errors import OwnerError
from zoea.model.values import McpView
from zoea.settings.credentials import Credentials
from zoea.tui.dialogs.clients import McpClientsDialog


def tokens(folder: Path) -> Tokens:
    return Tokens(Credentials(folder / "credentials.toml"))


async def opened(stage: Stage) -> McpClientsDialog:
    await stage.press("M", shows=McpClientsDialog)
    screen = stage.screen
    assert isinstance(screen, McpClientsDialog)
    await stage.until(lambda: "no client can connect" in stage.text() or "on  http" in stage.text())
    return screen


async def test_the_http_server_is_turned_on_and_off_and_its_address_copied(tmp_path: Path) -> None:
    swarm = FakeSwarm()
    await swarm.create("alpha")
    async with cockpit_over(swarm, tmp_path / "zoea.db") as stage:
        await opened(stage)
        await stage.press("ctrl+o", shows="on  http://127.0.0.1:9632/mcp")
        await stage.press("ctrl+t")
        assert stage.app.clipboard == "http://127.0.0.1:9632/mcp"
        await stage.press("ctrl+o", shows="no client can connect")
        assert not swarm.serving.is_on
        await stage.press("escape", until=lambda: not stage.shows(McpClientsDialog))


async def test_a_token_is_created_shown_once_copied_and_revoked(tmp_path: Path) -> None:
    swarm = FakeSwarm()
    await swarm.create("alpha")
    async with cockpit_over(swarm, tmp_path / "zoea.db") as stage:
        screen = await opened(stage)
        await stage.press("ctrl+t", "ctrl+r", "enter")
        assert stage.app.clipboard == ""
        await stage.press("tab", shows="search, list, read, send and broadcast")
        stage.one(Input).value = "claude"
        await stage.press("enter", until=lambda: bool(screen.token) and screen.token in stage.text())
        client = tokens(tmp_path).client_of(screen.token)
        assert client is not None
        assert (client.name, client.scope) == ("claude", TokenScope.COMMAND)
        await stage.until(lambda: "claude  command" in stage.text())
        await stage.press("ctrl+t")
        assert stage.app.clipboard == screen.token
        await stage.press("enter", shows="has a token already")
        await stage.press("escape", "M")
        await stage.until(lambda: stage.shows(McpClientsDialog) and "claude  command" in stage.text())
        assert screen.token not in stage.text()
        stage.one(Input).value = "claude"
        await stage.press("ctrl+r", until=lambda: "claude  command" not in stage.text())
        assert tokens(tmp_path).rows() == ()


async def test_an_error_of_the_http_server_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swarm = FakeSwarm()
    await swarm.create("alpha")
    swarm.serving = McpView(problem="cannot listen at 127.0.0.1:9632")
    for number in range(12):
        tokens(tmp_path).new(f"client-{number:02}", TokenScope.READ, 1_700_000_000_000_000)

    async def refuse(on: bool) -> McpView:
        raise OwnerError("the port is taken", hint="Set mcp.port to another.")

    monkeypatch.setattr(swarm, "serve_mcp", refuse)
    async with cockpit_over(swarm, tmp_path / "zoea.db") as stage:
        await opened(stage)
        await stage.until(lambda: "and 2 more" in stage.text())
        assert "cannot listen at 127.0.0.1:9632" in stage.text()
        await stage.press("ctrl+o", shows="Set mcp.port to another")


async def test_rows_that_are_read_while_the_dialog_is_removed_are_not_drawn(tmp_path: Path) -> None:
    async with cockpit_over(FakeSwarm(), tmp_path / "zoea.db") as stage:
        screen = await opened(stage)
        stage.app.pop_screen()
        while screen.parent is not None:
            screen.redraw_bars()
            await asyncio.sleep(0)
        assert not stage.shows(McpClientsDialog)
