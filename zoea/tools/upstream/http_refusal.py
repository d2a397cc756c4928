"""Describes an HTTP answer that is no message of MCP. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from zoea.text.control_characters import one_line
from zoea.text.json_text import parse_object

MAX_SENTENCE = 200
_KEYS = ("error_description", "message", "detail", "details", "title", "reason", "msg", "error", "errors", "code")
_CHALLENGE = re.compile(r'error_description="([^"]*)"')
_TITLE = re.compile(r"<title[^<>]*>([^<]*)|<h1[^<>]*>([^<]*)", re.IGNORECASE)
_TAG = re.compile(r"<(script|style)\b.*?(</\1|$)|<[^<>]*>", re.IGNORECASE | re.DOTALL)
_ADVICE = {
    401: "Check the key or token in its headers",
    403: "Check what its key or token may do",
    404: "Check its url",
    405: "Check its url: this address takes no MCP requests",
}

_LOST = re.compile(
    r"session[^.\n]{0,60}\b(?:not (?:found|registered|initiali[sz]ed)|unknown|invalid|expired|terminated|no longer"
    r"|(?:does not|doesn't) exist)"
    r"|(?:unknown|invalid|expired|missing|no valid|no such)[^.\n]{0,20}session|expect initialize request",
    re.IGNORECASE,
)
_LOST_STATUSES = frozenset({400, 401, 403, 404, 410, 422, 500, 503})
_UNOPENED = re.compile(
    r"(?:^|: |\")(?:the |mcp )*(?:server|client|session|transport) (?:is )?not (?:yet )?initiali[sz]ed"
    r"|invalid during session initiali[sz]ation|received request before initiali[sz]ation",
    re.IGNORECASE,
)
_OTHER_SESSION = re.compile(
    r"\b(?:log|sign)(?:ged)?[ -]?in|\b(?:user|browser|login|database)\b|authenti|cookie", re.IGNORECASE
)


def names_lost_session(status: int, text: str, *, is_message: bool) -> bool:
    """Return whether a refusal says that the server no longer has the session.

    The protocol asks for a 404; servers send others too, among them a 200, and say it in words.
    """
    return (status == 404 and not is_message) or (
        (status in _LOST_STATUSES or status < 400) and bool(_LOST.search(text))
    )


def is_lost_session_error(text: str, *, is_about_sessions: bool) -> bool:
    """Return whether a JSON-RPC error says that the MCP session is lost.

    Args:
        is_about_sessions: The request names sessions of the tool's own, which the error may mean as well.
    """
    if _UNOPENED.search(text):
        return True
    is_other = "mcp" not in text.casefold() and (is_about_sessions or _OTHER_SESSION.search(text))
    return not is_other and bool(_LOST.search(text))


def describe_refusal(status: int, headers: Mapping[str, str], body: bytes) -> str:
    """Describe a status of 400 or more: `HTTP 401 Unauthorized: The access token expired. Check …`."""
    sentence = read_sentence(body) or _read_challenge(headers)
    wait = headers.get("retry-after", "").strip()
    named = _name_status(status)
    parts = [f"{named}: {sentence}" if sentence and sentence not in named else named]
    parts += [f"It asks to wait {one_line(wait)[:40]}{' s' if wait.isdecimal() else ''}"] if wait else []
    parts += [_ADVICE[status]] if status in _ADVICE else []
    return ". ".join(part.rstrip(".") for part in parts)


def describe_other_answer(status: int, kind: str, body: bytes) -> str:
    """Describe a success without a message of MCP, for example the page of a login."""
    content = "a web page" if _is_page(body) else one_line(kind)[:60] or ("a text" if body else "nothing")
    shown = f"{_name_status(status)}, but with {content}"
    sentence = read_sentence(body)
    return f"{shown} in place of an MCP message{f' ({sentence})' if sentence else ''}. Check its url"


def name_status_in(body: bytes, status: int) -> tuple[int, str, Any] | None:
    """Return code, sentence with status, and data of a refusal that is a JSON-RPC error. None for any other."""
    message = parse_object(body)
    error = message.get("error") if message is not None and "jsonrpc" in message else None
    if not isinstance(error, dict) or not isinstance(error.get("code"), int):
        return None
    text = error.get("message")
    sentence = one_line(text) if isinstance(text, str) else ""
    shown = sentence if str(status) in sentence else f"{_name_status(status)}: {sentence}"
    return error["code"], shown, error.get("data")


def read_sentence(body: bytes) -> str:
    """Return what a body says on one line: a JSON member, a page's title, or its text."""
    text = body.decode("utf-8", "replace").strip()
    try:
        sentence = _find_sentence(json.loads(text), 4)
    except (ValueError, RecursionError):
        sentence = ""
        if _is_page(body):
            title = _TITLE.search(text)
            text = (title[1] or title[2] or "") if title is not None else _TAG.sub(" ", text)
        sentence = text
    line = " ".join(one_line(sentence).split())
    return line if len(line) <= MAX_SENTENCE else line[: MAX_SENTENCE - 1] + "…"


def _find_sentence(value: Any, depth: int) -> str:
    """Return the first text under a key that usually holds the reason."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) or not depth:
        return ""
    if isinstance(value, list):
        return next((sentence for item in value if (sentence := _find_sentence(item, depth - 1))), "")
    if not isinstance(value, dict):
        return ""
    return next((sentence for key in _KEYS if (sentence := _find_sentence(value.get(key), depth - 1))), "")


def _read_challenge(headers: Mapping[str, str]) -> str:
    challenge = headers.get("www-authenticate", "")
    described = _CHALLENGE.search(challenge)
    return one_line(described[1])[:MAX_SENTENCE] if described is not None else ""


def _is_page(body: bytes) -> bool:
    return body.lstrip()[:1] == b"<"


def _name_status(status: int) -> str:
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"
