"""The sessions that each client of the MCP server has open: how many at most, and their end.

The SDK bounds the sessions of all clients together, so that one client which never
closes any would shut out the others. Here the least recently used session of a
client ends for its next one; a client that goes on in it is answered 404 and opens
another, as the protocol wants.
"""

from __future__ import annotations

import logging

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)

SESSION = "mcp-session-id"
PER_CLIENT = 64


class Sessions:
    """Knows the sessions of each client from the requests that pass through it to the protocol's `app`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: dict[str, dict[str, Scope]] = {}

    async def handle(self, client: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request of this client on."""
        opened = self._open.setdefault(client, {})
        session = Headers(scope=scope).get(SESSION, "")
        known = opened.pop(session, None)
        if known is not None and scope["method"] != "DELETE":
            opened[session] = known  # the most recently used stands last

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400 and not session:
                begun = Headers(raw=message["headers"]).get(SESSION)
                if begun is not None:
                    opened[begun] = scope
            await send(message)

        await self._app(scope, receive, watched)
        while len(opened) > PER_CLIENT:
            log.info("the client %s has more than %d sessions open: its oldest ends", client, PER_CLIENT)
            await self._end(opened, next(iter(opened)))

    async def end_all(self, client: str) -> None:
        """End every session of a client, with all that streams in them."""
        opened = self._open.pop(client, {})
        for session in tuple(opened):
            await self._end(opened, session)

    async def _end(self, opened: dict[str, Scope], session: str) -> None:
        """What its client would do: delete it. One that has ended by itself is not found, which is as good."""
        by = opened.pop(session)
        headers = [(b"host", Headers(scope=by).get("host", "").encode()), (SESSION.encode(), session.encode())]

        async def nothing() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def unheard(message: Message) -> None:
            log.debug("ending session %s: %s", session, message.get("status", ""))

        await self._app({**by, "method": "DELETE", "headers": headers, "query_string": b""}, nothing, unheard)
