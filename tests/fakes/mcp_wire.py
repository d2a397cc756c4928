"""An MCP server over HTTP that answers calls of its only tool with any bytes."""

from __future__ import annotations

import json
from typing import Any

from tests.fakes.wire_server import Outgoing, Received, WireServer

TOOL = {"name": "write", "description": "Writes.", "inputSchema": {"type": "object"}}


class McpWire(WireServer):
    """Answers as JSON, or with `events` as server-sent events.

    `answer` is the body of the answer to a call, where ID stands for the request's id and OTHER for another one.
    `pages` are the results of `tools/list`, `opening` is added to the result of `initialize`. `page_text` is JSON.
    """

    def __init__(
        self, answer: bytes, *, events: bool = False, headers: dict[str, str] | None = None, status: int = 200
    ) -> None:
        super().__init__()
        self.answer = answer
        self.calls = 0
        self.pages: list[dict[str, Any]] = [{"tools": [TOOL]}]
        self.page_text = ""
        self.opening: dict[str, Any] = {}
        self._events = events
        self._headers = headers or {}
        self._status = status

    async def handle(self, request: Received, out: Outgoing) -> None:
        if request.method != "POST":
            out.json(405, {})
            return
        message = request.json
        match message.get("method"):
            case "initialize":
                version = message["params"]["protocolVersion"]
                server = {"name": "wire", "version": "1"}
                result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
                self._say(out, message, result | self.opening)
            case "tools/list" if self.page_text:
                self._say(out, message, "PAGE")
            case "tools/list":
                place = int((message.get("params") or {}).get("cursor") or 0)
                if place >= len(self.pages):
                    error = {"code": -32602, "message": "invalid cursor"}
                    out.json(200, {"jsonrpc": "2.0", "id": message["id"], "error": error})
                else:
                    self._say(out, message, self.pages[place])
            case "tools/call":
                self.calls += 1
                number = str(message["id"]).encode()
                answer = self.answer.replace(b"OTHER", number + b"7").replace(b"ID", number)
                self._send(out, answer, self._headers, self._status)
            case _ if "id" in message:
                out.json(200, {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}})
            case _:
                out.whole(202, b"")

    def _say(self, out: Outgoing, message: dict[str, Any], result: dict[str, Any] | str) -> None:
        answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        answer = answer.replace(b'"PAGE"', self.page_text.encode())
        self._send(out, b"data: " + answer + b"\n\n" if self._events else answer, {})

    def _send(self, out: Outgoing, body: bytes, headers: dict[str, str], status: int = 200) -> None:
        if self._events:
            out.begin("text/event-stream", headers)
            out.piece(body)
            out.end()
        else:
            out.whole(status, body, headers)
