"""An MCP server over HTTP with a world unlike Reef's: other accounts, other results, one answer to another request."""

from __future__ import annotations

import json
from typing import Any

from tests.fakes.wire_server import Outgoing, Received, WireServer

TEXT: dict[str, Any] = {"type": "string"}
EMPIRE = {"type": "string", "enum": ["solarian", "voidborn"]}
READS_ONLY = {"readOnlyHint": True}


def _tool(name: str, **properties: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": f"{name} of the foreign world", "inputSchema": schema}


TOOLS = [
    _tool("sign_up", username=TEXT, empire=EMPIRE),
    _tool("sign_in", username=TEXT, password=TEXT),
    _tool("where", session_id=TEXT),
    _tool("fly", session_id=TEXT),
    _tool("unlock", password=TEXT),
    _tool("stray"),
]


class ForeignWorld(WireServer):
    """Keeps its calls; `stray` is answered with the id of another request.

    `sign_up` makes the password, `sign_in` tells an inner `sessionId`, `where` tells the tick within a wrapped result.
    """

    TICK, ARRIVAL = 41_608, 41_708
    PASSWORD, SESSION = "canary-made-by-server", "canary-session"

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, dict[str, Any]]] = []

    async def handle(self, request: Received, out: Outgoing) -> None:
        if request.method != "POST":
            return out.json(405, {})
        message = request.json
        match message.get("method"):
            case "initialize":
                version = message["params"]["protocolVersion"]
                server = {"name": "foreign", "version": "1"}
                result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
            case "tools/list":
                result = {"tools": TOOLS}
            case "tools/call":
                result = self._call(message["params"]["name"], message["params"].get("arguments") or {})
                if message["params"]["name"] == "stray":
                    message["id"] += 7
            case _ if "id" in message:
                error = {"code": -32601, "message": "no such method"}
                return out.json(200, {"jsonrpc": "2.0", "id": message["id"], "error": error})
            case _:
                return out.whole(202, b"")
        return out.json(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})

    def _call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self.calls.append((name, arguments))
        answers: dict[str, Any] = {
            "sign_up": {"player": {"player_id": 7, "password": self.PASSWORD}},
            "sign_in": {"session": {"sessionId": self.SESSION}},
            "where": {"ok": True, "result": {"status": {"place": "p16", "tick": self.TICK}}},
            "fly": {"queued": True, "ticks": 1, "arrival_tick": self.ARRIVAL},
            "unlock": {"unlocked": True},
            "stray": {"secret": "of another mysis"},
        }
        return {"content": [{"type": "text", "text": json.dumps(answers[name])}]}
