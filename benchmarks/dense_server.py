"""A server process whose answers are as dense as they may be.

`python -m benchmarks.dense_server` prints its port and serves MCP at `/json` and `/events`, and the
three wires of models.
`python -m benchmarks.dense_server --stdio [--tools N]` serves MCP on its input and output.
What a model or a tool answers stands in its own question: `KIND:COUNT`.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOOL = {
    "name": "dense",
    "description": "Gives a dense answer.",
    "inputSchema": {"type": "object", "properties": {"what": {"type": "string"}}},
    "annotations": {"readOnlyHint": True},
}
_BURST = 65_536


def result(kind: str, count: int) -> dict[str, Any]:
    """Return the result of a call, with so many parts, values or characters."""
    match kind:
        case "parts":
            return {"content": [{"type": "text", "text": str(number)} for number in range(count)]}
        case "values":
            return {"content": [], "structuredContent": {f"k{number}": number for number in range(count)}}
        case "text":
            return {"content": [{"type": "text", "text": "the belt holds iron, and " * (count // 25)}]}
        case "marks":
            return {"content": [{"type": "text", "text": "e" + "\u0301" * count}]}
        case "image":
            return {"content": [{"type": "image", "mimeType": "image/png", "data": "A" * (count // 4 * 4)}]}
    return {"content": [{"type": "text", "text": "nothing"}]}


def answer(message: dict[str, Any], tools: int) -> dict[str, Any] | None:
    """Return the answer to a message of MCP; None where it has none."""
    said: dict[str, Any]
    match message.get("method"):
        case "initialize":
            version = message["params"]["protocolVersion"]
            said = {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "d", "version": "1"},
            }
        case "tools/list":
            said = {"tools": [TOOL, *({**TOOL, "name": f"dense_{number}"} for number in range(tools))]}
        case "tools/call":
            kind, _, count = message["params"]["arguments"]["what"].partition(":")
            said = result(kind, int(count))
        case _:
            return None
    return {"jsonrpc": "2.0", "id": message["id"], "result": said}


def model_events(path: str, what: str) -> list[bytes]:
    """Return the pieces of a model's answer on the wire that this path names."""
    kind, _, number = what.partition(":")
    count = int(number)
    words = "the belt holds iron, and "
    texts = [words * (count // 25)] if kind == "event" else [words] * count
    if path.endswith("/messages"):
        start: dict[str, Any] = {
            "type": "message_start",
            "message": {"id": "1", "model": "m", "usage": {"input_tokens": 1}},
        }
        block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        deltas = [
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}} for text in texts
        ]
        end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}
        events: list[dict[str, Any]] = [
            start,
            block,
            *deltas,
            {"type": "content_block_stop", "index": 0},
            end,
            {"type": "message_stop"},
        ]
        return [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events]
    if path.endswith("/api/chat"):
        lines = [{"model": "m", "message": {"role": "assistant", "content": text}, "done": False} for text in texts]
        last = {"model": "m", "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}
        return [json.dumps(line).encode() + b"\n" for line in (*lines, last)]
    if kind == "call":
        function = {"name": "dense", "arguments": json.dumps({"what": "nothing:0", "more": words * (count // 25)})}
        choices = [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c1", "function": function}]}}]
    else:
        choices = [{"index": 0, "delta": {"content": text}} for text in texts]
    chunks = [{"choices": [choice]} for choice in (*choices, {"index": 0, "delta": {}, "finish_reason": "stop"})]
    return [*(f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks), b"data: [DONE]\n\n"]


class DenseHandler(BaseHTTPRequestHandler):
    """Answers requests of both kinds."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "jsonrpc" in body:
            said = answer(body, 0)
            if said is None:
                return self._send(202, "application/json", b"")
            encoded = json.dumps(said).encode()
            if self.path == "/events":
                return self._send(200, "text/event-stream", b"data: " + encoded + b"\n\n")
            return self._send(200, "application/json", encoded)
        if self.path.endswith("/api/show"):
            return self._send(
                200, "application/json", b'{"model_info":{"a.context_length":65536},"capabilities":["tools"]}'
            )
        kind = "application/x-ndjson" if self.path.endswith("/api/chat") else "text/event-stream"
        return self._send(200, kind, b"".join(model_events(self.path, self._question(body))))

    def do_GET(self) -> None:
        self._send(405 if self.path in ("/json", "/events") else 404, "application/json", b"{}")

    def do_DELETE(self) -> None:
        self.do_GET()

    def _question(self, body: dict[str, Any]) -> str:
        """Return the newest text `KIND:COUNT` of a request; a short answer follows a result."""
        if body["messages"][-1].get("role") == "tool":
            return "tokens:1"
        words = json.dumps(body["messages"][-1]).replace('"', " ").replace("\\n", " ").split()
        return next((word for word in words if word.partition(":")[2].isdigit()), "tokens:1")

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        for start in range(0, len(body), _BURST):
            self.wfile.write(body[start : start + _BURST])

    def handle(self) -> None:
        with suppress(ConnectionError):
            super().handle()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""


def serve_stdio(tools: int) -> None:
    """Serve MCP until the input ends."""
    for line in sys.stdin:
        said = answer(json.loads(line), tools)
        if said is not None:
            sys.stdout.write(json.dumps(said) + "\n")
            sys.stdout.flush()


def serve_http() -> None:
    """Serve until the input ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), DenseHandler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    if "--stdio" in sys.argv:
        serve_stdio(int(sys.argv[-1]) if "--tools" in sys.argv else 0)
    else:
        serve_http()
