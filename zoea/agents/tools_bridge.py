"""Forwards MCP messages from stdin to the gateway, for agents without MCP over HTTP.

It is a program of its own that needs no library, so that it starts fast. Address and token stand in its environment.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import threading
from urllib.parse import urlsplit

from zoea.text.json_text import parse_object

URL, TOKEN = "ZOEA_TOOLS_URL", "ZOEA_TOOLS_TOKEN"
CALL_S = 3_600.0
_GONE = -32000
_lock = threading.Lock()


def _forward(line: bytes, url: str, token: str) -> None:
    """Send one message, and write its answer where it has one."""
    try:
        answer = _post(line, url, token)
    except (OSError, http.client.HTTPException) as error:
        answer = _refuse(line, f"Zoea is gone: {error}")
    if answer:
        with _lock:
            sys.stdout.buffer.write(answer.replace(b"\n", b" ") + b"\n")
            sys.stdout.buffer.flush()


def _post(line: bytes, url: str, token: str) -> bytes:
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=CALL_S)
    try:
        head = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request("POST", address.path, line, head)
        response = connection.getresponse()
        body = response.read()
        return body if response.status in (200, 202) else _refuse(line, body.decode("utf-8", "replace")[:500])
    finally:
        connection.close()


def _refuse(line: bytes, why: str) -> bytes:
    """Return an error for a request; nothing for what wants no answer."""
    message = parse_object(line)
    if message is None or "id" not in message or "method" not in message:
        return b""
    error = {"code": _GONE, "message": why}
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode()


def main() -> None:
    """Serve until stdin ends."""
    url, token = os.environ[URL], os.environ[TOKEN]
    for line in sys.stdin.buffer:
        if line.strip():
            # A call that waits for the commander must not hold up the others.
            threading.Thread(target=_forward, args=(line, url, token), daemon=True).start()


if __name__ == "__main__":
    main()
