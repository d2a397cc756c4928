"""MCP servers in this process with accounts of other shapes than Reef's."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

PASSWORD = "canary-made-by-server"


class ForeignAccounts:
    """`sign_up(username, empire)` makes a password; `sign_in(username, password)` answers an inner `sessionId`."""

    def __init__(self) -> None:
        self.server = MCPServer("foreign", log_level="CRITICAL")
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.players: dict[str, str] = {}

        @self.server.tool()
        def sign_up(username: str, empire: Literal["solarian", "voidborn"]) -> dict[str, Any]:
            self.calls.append(("sign_up", {"username": username, "empire": empire}))
            if username in self.players:
                raise ToolError(f"Username {username} is already taken")
            self.players[username] = f"{PASSWORD}-{username}"
            return {"player": {"player_id": 7, "password": self.players[username]}, "message": "Welcome"}

        @self.server.tool()
        def sign_in(username: str, password: str) -> dict[str, Any]:
            self.calls.append(("sign_in", {"username": username, "password": password}))
            assert self.players[username] == password
            return {"session": {"sessionId": f"canary-session-{username}"}}

        @self.server.tool()
        def status(session_id: str) -> str:
            return f"Welcome, {session_id} is empire solarian"


class ChosenSecrets:
    """`create(nick, passphrase)` takes a secret that the client makes; `enter(nick, passphrase)` opens a session."""

    def __init__(self) -> None:
        self.server = MCPServer("chosen", log_level="CRITICAL")
        self.players: dict[str, str] = {}

        @self.server.tool()
        def create(nick: str, passphrase: Annotated[str, Field(min_length=12, max_length=20)]) -> str:
            self.players[nick] = passphrase
            return "created"

        @self.server.tool()
        def enter(nick: str, passphrase: str) -> dict[str, str]:
            assert self.players[nick] == passphrase
            return {"session_id": f"canary-session-{nick}"}

        @self.server.tool()
        def status(session_id: str) -> str:
            return f"in {session_id}"


class SessionObjects:
    """`login(name)` answers its session as an object; `status(session)` takes a text of it."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.server = MCPServer("objects", log_level="CRITICAL")

        @self.server.tool()
        def register(name: str) -> dict[str, Any]:
            return {"name": name}

        @self.server.tool()
        def login(name: str) -> dict[str, Any]:
            return {"session": answer}

        @self.server.tool()
        def status(session: str | dict[str, Any]) -> str:
            return f"in {session}" if isinstance(session, str) else f"an object: {json.dumps(session)}"
