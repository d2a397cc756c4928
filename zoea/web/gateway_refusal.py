"""Refusals of the model gateway, in the form in which each vendor's clients expect them."""

from __future__ import annotations

import json
from typing import Any

from zoea.llm.messages.wire_bodies import Wire

RETRY_S = 15
"""When a client may ask again after a refusal that passes."""
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    415: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_OPENAI_TYPES = {402: "insufficient_quota", 403: "invalid_request_error"}


class GatewayRefusal(Exception):
    """A request that the gateway does not send, or that its provider does not answer.

    Attributes:
        what: What happened and what to do, for the person who reads the agent's words.
        code: A word for programs.
    """

    def __init__(self, status: int, what: str, *, code: str) -> None:
        super().__init__(what)
        self.status = status
        self.what = what
        self.code = code

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers that say whether to ask again; vendors' clients obey them."""
        if self.status == 429:
            return {"retry-after": str(RETRY_S)}
        return {"x-should-retry": "false"} if self.status < 500 else {}


def write_error(wire: Wire | None, refusal: GatewayRefusal) -> dict[str, Any]:
    """Return the body of a refusal. Without a wire it has the form of the chat completions."""
    kind = _TYPES.get(refusal.status, "api_error")
    message = f"Zoea: {refusal.what}"
    if wire is Wire.MESSAGES:
        return {"type": "error", "error": {"type": kind, "message": message}}
    kind = _OPENAI_TYPES.get(refusal.status, kind)
    return {"error": {"message": message, "type": kind, "param": None, "code": refusal.code}}


def write_error_event(wire: Wire | None, refusal: GatewayRefusal) -> bytes:
    """Return a refusal as an event of a stream that has begun."""
    body = write_error(wire, refusal)
    if wire is Wire.RESPONSES:
        body = {**body["error"], "type": "error"}
    name = "" if wire in (None, Wire.CHAT) else "event: error\n"
    return f"{name}data: {json.dumps(body)}\n\n".encode()
