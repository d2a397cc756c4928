"""A streamable HTTP server of the 2025 kind, by hand: it has sessions and can forget, refuse and hang up."""

from __future__ import annotations

import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


class SessionServer:
    """Listens on loopback while the block lasts. Set `fault` to choose what the next tool calls meet.

    Faults: `` none, `hang_up` closes the connection, `html_503`, `json_400` with the
    TypeScript SDK's text for a missing session, `bare_404`; or a status with a body.
    With `clings` it never acknowledges the end of a session.
    """

    def __init__(self) -> None:
        self.sessions: set[str] = set()
        self.calls: list[dict[str, Any]] = []
        self.initialized = 0
        self.fault: str | tuple[int, str] = ""
        self.headers: dict[str, str] = {}
        self.farewells = 0
        self.clings = False
        self.closing = threading.Event()
        outer = self

        class Handler(_Handler):
            server_state = outer

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/mcp"

    def __enter__(self) -> SessionServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(5)

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        match message["method"]:
            case "initialize":
                self.initialized += 1
                info = {"name": "sessions", "version": "1"}
                return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                schema = {"type": "object", "properties": {"text": {"type": "string"}}}
                read = {"name": "read", "inputSchema": schema, "annotations": {"readOnlyHint": True}}
                return {"tools": [read, {"name": "write", "inputSchema": schema}]}
            case _:
                return {"content": [{"type": "text", "text": message["params"]["arguments"].get("text", "")}]}


class _Handler(BaseHTTPRequestHandler):
    server_state: SessionServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Silence: tests own the terminal."""

    def do_GET(self) -> None:
        self.reply(405, "")

    def do_DELETE(self) -> None:
        self.server_state.farewells += 1
        if self.server_state.clings:
            self.server_state.closing.wait(20)
        self.server_state.sessions.discard(self.headers.get("mcp-session-id", ""))
        self.reply(200, "")

    def do_POST(self) -> None:
        state = self.server_state
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        state.headers = {key.lower(): value for key, value in self.headers.items()}
        method = message["method"]
        if method == "server/discover":
            self.reply(400, "", kind="text/plain")
        elif method == "initialize":
            session = uuid.uuid4().hex
            state.sessions.add(session)
            self.result(message, {"mcp-session-id": session})
        elif "id" not in message:
            self.reply(202, "")
        elif self.headers.get("mcp-session-id") not in state.sessions:
            self.lost(message)
        elif method == "tools/call" and self.failed(message):
            return
        else:
            if method == "tools/call":
                state.calls.append(message["params"])
            self.result(message, {})

    def failed(self, message: dict[str, Any]) -> bool:
        fault = self.server_state.fault
        if not fault:
            return False
        self.server_state.fault = ""
        self.server_state.calls.append(message["params"])
        match fault:
            case "hang_up":
                self.close_connection = True
                self.connection.shutdown(2)
            case "html_503":
                self.reply(503, "<html>busy</html>", kind="text/html")
            case "json_400":
                error = {"code": -32000, "message": "Bad Request: No valid session ID provided"}
                self.reply(400, json.dumps({"jsonrpc": "2.0", "id": None, "error": error}))
            case "bare_404":
                self.reply(404, "", kind="text/plain")
            case (status, body):
                self.reply(status, body, kind="application/json" if body.startswith("{") else "text/plain")
        return True

    def lost(self, message: dict[str, Any]) -> None:
        error = {"code": -32001, "message": "Session not found"}
        self.reply(404, json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}))

    def result(self, message: dict[str, Any], headers: dict[str, str]) -> None:
        body = {"jsonrpc": "2.0", "id": message["id"], "result": self.server_state.answer(message)}
        self.reply(200, json.dumps(body), headers=headers)

    def reply(
        self, status: int, body: str, *, kind: str = "application/json", headers: dict[str, str] | None = None
    ) -> None:
        data = body.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(data)
