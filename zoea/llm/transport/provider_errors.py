"""Builds a `ProviderError` from a status and a body.

The class decides what the turn does next; `classify` says how it is found. No text in an error holds a key.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from zoea.llm.transport.json_safety import parse
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError

MAX_TEXT = 400

_TITLES: dict[ErrorClass, tuple[str, str]] = {
    ErrorClass.TRANSIENT: ("The provider failed", "If it lasts, look at the provider, or give the mysis another one."),
    ErrorClass.AUTH: (
        "The provider refused the key",
        "Enter a valid key (api_key): in the settings (key ,) choose '+ connect a model', with the name {provider}. "
        "Then relaunch the mysis.",
    ),
    ErrorClass.QUOTA: (
        "The provider's quota is used up",
        "Add credit or raise the limit at the provider, then relaunch the mysis.",
    ),
    ErrorClass.CONTEXT_LENGTH: (
        "The request is longer than the model's window",
        "Set the provider's context_window to what the model has, or lower budget.token_budget_per_agent.",
    ),
    ErrorClass.BAD_REQUEST: (
        "The provider refused the request",
        "See what it says; the provider's options and the model's abilities are the usual causes.",
    ),
    ErrorClass.MODEL_MISSING: (
        "The provider does not have this model",
        "Run 'zoea providers' to see its models, then correct the model's name or the provider's base_url.",
    ),
    ErrorClass.CONTENT_FILTER: (
        "The provider's content filter stopped the answer",
        "Change the prompt, or use another model.",
    ),
    ErrorClass.CANCELLED: ("The request was cancelled", ""),
}

_TRANSIENT_TITLES = {
    408: "The provider did not answer in time",
    429: "The provider asks for fewer requests",
    503: "The provider is overloaded",
    504: "The provider did not answer in time",
    529: "The provider is overloaded",
}
"""Titles of temporary refusals by their status; the class has the title of all others."""

_TOO_LONG = re.compile(
    r"context[ _-]?(length|window|size|limit)|maximum context|prompt is too long|too many (input )?tokens"
    r"|exceeds? the available context|input (is )?too long|exceed_context|max_seq_len|num_ctx",
    re.IGNORECASE,
)
_FILTERED = re.compile(r"content[ _-]?(filter|policy|management)|safety system|flagged", re.IGNORECASE)
_QUOTA = re.compile(
    r"insufficient[ _](quota|balance|credit|funds)|exceeded your current quota|billing|credit balance|out of credits",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model[^.]{0,80}(not found|does not exist|not exist|not available)|no such model|unknown model|invalid model",
    re.IGNORECASE,
)
_THINKING = re.compile(r"thinking|reasoning_content|signature|reasoning_details|thought_signature", re.IGNORECASE)
_KEY = re.compile(r"\b(sk|pk|gsk|xai|key|AIza)[-_][A-Za-z0-9_\-*.]{8,}|\bAIza[A-Za-z0-9_\-]{20,}|Bearer\s+[^\s\"']+")
_TAG = re.compile(r"<[^<>]*>")
_TITLE = re.compile(r"<title[^<>]*>([^<]*)", re.IGNORECASE)
_UNSEEN = re.compile(r"<(script|style)\b", re.IGNORECASE)
MAX_RETRY_AFTER_S = 86_400.0
"""The longest wait that is honoured: one day."""

_BY_STATUS: dict[int, ErrorClass] = {
    401: ErrorClass.AUTH,
    402: ErrorClass.QUOTA,
    403: ErrorClass.AUTH,
    404: ErrorClass.MODEL_MISSING,
    408: ErrorClass.TRANSIENT,
    409: ErrorClass.TRANSIENT,
    413: ErrorClass.CONTEXT_LENGTH,
    425: ErrorClass.TRANSIENT,
    429: ErrorClass.TRANSIENT,
}
_BY_CODE: dict[str, ErrorClass] = {
    "insufficient_quota": ErrorClass.QUOTA,
    "billing_error": ErrorClass.QUOTA,
    "billing_not_active": ErrorClass.QUOTA,
    "context_length_exceeded": ErrorClass.CONTEXT_LENGTH,
    "exceed_context_size_error": ErrorClass.CONTEXT_LENGTH,
    "content_filter": ErrorClass.CONTENT_FILTER,
    "content_policy_violation": ErrorClass.CONTENT_FILTER,
    "invalid_api_key": ErrorClass.AUTH,
    "authentication_error": ErrorClass.AUTH,
    "permission_error": ErrorClass.AUTH,
    "model_not_found": ErrorClass.MODEL_MISSING,
    "overloaded_error": ErrorClass.TRANSIENT,
    "api_error": ErrorClass.TRANSIENT,
    "timeout_error": ErrorClass.TRANSIENT,
    "rate_limit_error": ErrorClass.TRANSIENT,
    "rate_limit_exceeded": ErrorClass.TRANSIENT,
    "server_error": ErrorClass.TRANSIENT,
}


def provider_error(
    kind: ErrorClass,
    what: str,
    *,
    status: int | None = None,
    retry_after: float | None = None,
    secrets: tuple[str, ...] = (),
    title: str | None = None,
    hint: str | None = None,
    names_thinking: bool = False,
    provider: str = "that it has now",
) -> ProviderError:
    """Build a `ProviderError` with the class's title and hint, and no secret in its text.

    Args:
        provider: The provider's name, for a hint that tells where to enter it.
    """
    own_title, own_hint = _TITLES[kind]
    return ProviderError(
        clean(what, secrets),
        kind=kind,
        title=title or own_title,
        hint=own_hint.format(provider=provider) if hint is None else hint,
        status=status,
        retry_after=retry_after,
        names_thinking=names_thinking,
    )


def error_from_status(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    now_us: int,
    provider: str,
    secrets: tuple[str, ...] = (),
) -> ProviderError:
    """Build the error of an answer that is not 2xx. `headers` ignore case, `now_us` is µs UTC."""
    text, code = read_error_body(body)
    kind = classify(status, code, text)
    return provider_error(
        kind,
        f"{provider} answered {status}: {text or 'nothing'}",
        status=status,
        title=_TRANSIENT_TITLES.get(status) if kind is ErrorClass.TRANSIENT else None,
        retry_after=retry_after(headers, now_us) if kind is ErrorClass.TRANSIENT else None,
        secrets=secrets,
        names_thinking=status == 400 and _THINKING.search(text) is not None,
        provider=provider,
    )


def error_from_stream(payload: Any, *, provider: str, secrets: tuple[str, ...] = ()) -> ProviderError:
    """Build the error of an error object inside a stream that began well."""
    text, code = read_error_object(payload)
    number = payload.get("code") if isinstance(payload, dict) else None
    status = number if isinstance(number, int) and 400 <= number < 600 else None
    # an error in mid-stream is worth another attempt, unless the request is too long
    otherwise = ErrorClass.CONTEXT_LENGTH if _TOO_LONG.search(text) else ErrorClass.TRANSIENT
    kind = _BY_CODE.get(code) or (classify(status, code, text) if status else otherwise)
    return provider_error(
        kind, f"{provider} stopped its answer: {text or 'no reason given'}", status=status, secrets=secrets
    )


def classify(status: int, code: str, text: str) -> ErrorClass:
    """Return the class of an error; the first rule that applies decides.

    A status of 500 or more (without 501 and 505) is transient, unless the sentence says the request is too long. Then
    the vendor's code, sentences about quota and length at statuses that have them, the status, and the sentence.
    """
    if status >= 500 and status not in (501, 505) and not _TOO_LONG.search(text):
        return ErrorClass.TRANSIENT
    if (known := _BY_CODE.get(code)) is not None and known is not ErrorClass.TRANSIENT:
        return known
    if status in (402, 403, 429) and _QUOTA.search(text):
        return ErrorClass.QUOTA
    if status in (400, 403, 413, 422, 500) and _TOO_LONG.search(text):
        return ErrorClass.CONTEXT_LENGTH
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if _FILTERED.search(text):
        return ErrorClass.CONTENT_FILTER
    if _QUOTA.search(text):
        return ErrorClass.QUOTA
    if _NO_MODEL.search(text):
        return ErrorClass.MODEL_MISSING
    return known or ErrorClass.BAD_REQUEST


def read_error_body(body: bytes) -> tuple[str, str]:
    """Return the sentence of an error page, on one line, and its code. Reads JSON, HTML and text."""
    text = body.decode("utf-8", "replace").strip()
    try:
        return read_error_object(parse(text))
    except ValueError:
        pass
    if text[:1] == "<":
        title = _TITLE.search(text)
        text = f"a web page, not an answer: {title.group(1) if title else _TAG.sub(' ', _seen(text))}"
    return shorten(text), ""


def _seen(page: str) -> str:
    """Return the page without scripts and styles; an unclosed one goes to the end."""
    kept: list[str] = []
    at = 0
    while (begins := _UNSEEN.search(page, at)) is not None:
        kept.append(page[at : begins.start()])
        ends = re.compile(rf"</{begins.group(1)}[^<>]*>", re.IGNORECASE).search(page, begins.end())
        at = len(page) if ends is None else ends.end()
    return " ".join([*kept, page[at:]])


def read_error_object(payload: Any) -> tuple[str, str]:
    """Return the sentence and the code of an error object, in any of the usual shapes."""
    if isinstance(payload, list) and payload:
        payload = payload[0]
    if not isinstance(payload, dict):
        return shorten(str(payload)), ""
    error = payload.get("error", payload)
    if not isinstance(error, dict):
        return shorten(str(error)), str(payload.get("code") or payload.get("type") or "")
    text = error.get("message") or error.get("detail") or error.get("msg") or json.dumps(error)
    inner = error.get("metadata")
    if isinstance(inner, dict) and inner.get("raw"):
        text = f"{text} ({inner['raw']})"
    codes = [str(error[key]) for key in ("code", "type", "status") if isinstance(error.get(key), str)]
    return shorten(str(text)), next((code for code in codes if code in _BY_CODE), codes[0] if codes else "")


def shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 1] + "…"


def clean(text: str, secrets: tuple[str, ...] = ()) -> str:
    """Replace the given secrets and everything that looks like a key."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "‹key›")
    return _KEY.sub("‹key›", text)


def retry_after(headers: Mapping[str, str], now_us: int) -> float | None:
    """Return the seconds of `retry-after-ms` or `retry-after`, which may be a date."""
    if (exact := headers.get("retry-after-ms")) is not None:
        try:
            return _bounded(float(exact) / 1000)
        except ValueError:
            pass
    given = (headers.get("retry-after") or "").strip()
    if not given:
        return None
    try:
        seconds = float(given)
    except ValueError:
        return _until(given, now_us)
    return _bounded(seconds)


def _bounded(seconds: float) -> float | None:
    """Return the seconds between 0 and the maximum; None if they are not finite."""
    return min(max(0.0, seconds), MAX_RETRY_AFTER_S) if math.isfinite(seconds) else None


def _until(date: str, now_us: int) -> float | None:
    try:
        when = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return _bounded((when - datetime.fromtimestamp(now_us / 1e6, UTC)).total_seconds())
