"""Builds a `ProviderError` from a status and a body.

The class decides what the turn does next; `classify` says how it is found. No text in an error holds a key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from zoea.llm.transport.json_safety import parse
from zoea.llm.transport.refusal_tables import (
    BAD_KEY,
    CLEAR,
    CODES,
    FILTERED,
    NO_MODEL,
    QUOTA,
    QUOTA_OF_A_MINUTE,
    RATE,
    STRENGTH,
    TOO_LONG,
    TOO_LONG_FOR_ANY_WAIT,
    window_in,
)
from zoea.llm.transport.retry_times import (
    CHINA,
    LONGEST_WAIT_S,
    describe_wait,
    field_time,
    limit_reset,
    retry_after,
    sentence_time,
)
from zoea.model.enums import ErrorClass
from zoea.model.errors import REFUSED_KEY, ProviderError

MAX_TEXT = 400
MAX_SENTENCE_BYTES = 64 * 1024
"""Bytes of a document instead of an answer that are searched for its reason."""

_TITLES: dict[ErrorClass, tuple[str, str]] = {
    ErrorClass.TRANSIENT: ("The provider failed", "If it lasts, look at the provider, or give the mysis another one."),
    ErrorClass.AUTH: (
        REFUSED_KEY,
        "Enter a valid key: in the cockpit, E opens its field, and its myses go on. In the settings it is "
        "provider.{provider}.api_key.",
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

_THINKING = re.compile(r"thinking|reasoning_content|signature|reasoning_details|thought_signature", re.IGNORECASE)
_KEY = re.compile(r"\b(sk|pk|gsk|xai|key|AIza)[-_][A-Za-z0-9_\-*.]{8,}|\bAIza[A-Za-z0-9_\-]{20,}|Bearer\s+[^\s\"']+")
_TAG = re.compile(r"<[^<>]*>")
_TITLE = re.compile(r"<title[^<>]*>([^<]*)", re.IGNORECASE)
_UNSEEN = re.compile(r"<(script|style)\b", re.IGNORECASE)
_ADDRESS = re.compile(r"https?://\S+")
_TELLS_CHINESE_TIME = {"1308", "1310"}
_WAITS = {"openrouter_in_flight_budget", "in_flight_budget_exhausted"}
"""Codes of a 402 that passes by waiting."""
MAX_PARTS = 400
"""Parts of an error object that are read."""

_BY_STATUS: dict[int, ErrorClass] = {
    401: ErrorClass.AUTH,
    402: ErrorClass.QUOTA,
    403: ErrorClass.AUTH,
    404: ErrorClass.MODEL_MISSING,
    408: ErrorClass.TRANSIENT,
    424: ErrorClass.TRANSIENT,
    498: ErrorClass.TRANSIENT,
    499: ErrorClass.TRANSIENT,
    409: ErrorClass.TRANSIENT,
    413: ErrorClass.CONTEXT_LENGTH,
    425: ErrorClass.TRANSIENT,
    429: ErrorClass.TRANSIENT,
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
    window: int | None = None,
    said: str = "",
) -> ProviderError:
    """Build a `ProviderError` with the class's title and hint, and no secret in its text.

    Args:
        provider: The provider's name, for a hint that tells where to enter it.
        window: The tokens that a refusal allows a request.
        said: All sentences of a refusal.
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
        window=window,
        said=said,
    )


class RefusalBody(Struct, frozen=True):
    """What the body of a refusal says.

    Attributes:
        text: Its sentence on one line, at most `MAX_TEXT` characters.
        codes: Its machine codes and types in lower case, of all objects in it.
        said: All its sentences, without addresses, for the tables of sentences.
        fields: The names and values of all its fields.
        status: The HTTP status that it names, if it does.
    """

    text: str = ""
    codes: tuple[str, ...] = ()
    said: str = ""
    fields: tuple[tuple[str, Any], ...] = ()
    status: int | None = None

    @property
    def window(self) -> int | None:
        """The tokens that the refusal allows a request."""
        named = (value for name, value in self.fields if name == "n_ctx")
        return next((size for size in named if isinstance(size, int) and size > 0), None) or window_in(self.said)


def error_from_status(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    now_us: int,
    provider: str,
    secrets: tuple[str, ...] = (),
    fills_window: bool = False,
) -> ProviderError:
    """Build the error of an answer that is not 2xx. `headers` ignore case, `now_us` is µs UTC.

    Args:
        fills_window: The request takes most of the model's window, so that a 400 without a word is about its length.
    """
    refusal = read_error_body(body)
    if aws := headers.get("x-amzn-errortype"):
        refusal = replace(refusal, codes=(*refusal.codes, _code(aws)))
    if fills_window and status in (400, 413, 422) and not refusal.said and not refusal.codes:
        refusal = replace(refusal, codes=("context_length_exceeded",))
    what = f"{provider} answered {status}: {refusal.text or 'nothing'}"
    return _refusal_error(what, refusal, status, headers, now_us=now_us, provider=provider, secrets=secrets)


def error_from_stream(payload: Any, *, provider: str, secrets: tuple[str, ...] = ()) -> ProviderError:
    """Build the error of an error object inside a stream that began well.

    It is worth another attempt, unless it names a reason that would repeat.
    """
    refusal = read_error_object(payload)
    what = f"{provider} stopped its answer: {refusal.text or 'no reason given'}"
    error = _refusal_error(what, refusal, refusal.status, {}, now_us=None, provider=provider, secrets=secrets)
    if error.kind is not ErrorClass.BAD_REQUEST:
        return error
    return provider_error(ErrorClass.TRANSIENT, what, status=refusal.status, secrets=secrets, said=refusal.said)


def _refusal_error(
    what: str,
    refusal: RefusalBody,
    status: int | None,
    headers: Mapping[str, str],
    *,
    now_us: int | None,
    provider: str,
    secrets: tuple[str, ...],
) -> ProviderError:
    waits = (
        retry_after(headers, now_us),
        field_time(refusal.fields, now_us),
        sentence_time(refusal.said, now_us, CHINA if _TELLS_CHINESE_TIME & {*refusal.codes} else UTC),
    )
    wait = next(filter(None, waits), next((wait for wait in waits if wait is not None), None))
    hinted = limit_reset(headers, now_us) if status == 429 else None
    # A bill that is due is not paid by waiting, whatever a proxy's header says.
    has_time = any(waits[1:]) if status == 402 and not _WAITS & {*refusal.codes} else wait is not None
    kind = classify(status, refusal, has_time=has_time, has_hint=hinted is not None)
    # A time that is over, or now, says nothing: the usual pause follows.
    wait = ((hinted if wait is None else wait) or None) if kind is ErrorClass.TRANSIENT else None
    if wait is not None and wait > LONGEST_WAIT_S:
        # Later than anyone waits for: the person is told until when.
        return provider_error(
            ErrorClass.QUOTA,
            f"{provider} takes no request {describe_wait(wait, now_us)}: {refusal.text or status}",
            status=status,
            secrets=secrets,
            title="The provider asks to wait for days",
            hint="Give the mysis another model or provider, or relaunch it after that time.",
            said=refusal.said,
        )
    is_loading = status == 503 and "loading" in refusal.said.lower()
    title = "The server is still loading its model" if is_loading else _TRANSIENT_TITLES.get(status or 0)
    return provider_error(
        kind,
        what,
        status=status,
        title=title if kind is ErrorClass.TRANSIENT else None,
        retry_after=wait,
        secrets=secrets,
        names_thinking=status == 400 and _THINKING.search(refusal.said) is not None,
        provider=provider,
        window=refusal.window if kind is ErrorClass.CONTEXT_LENGTH else None,
        said=refusal.said,
    )


def no_answer_error(provider: str, body: bytes, hint: str, secrets: tuple[str, ...]) -> ProviderError:
    """Build the error of a document that came instead of an answer."""
    text = read_error_body(body[:MAX_SENTENCE_BYTES]).text or "nothing"
    title = "The provider sent no answer"
    return provider_error(ErrorClass.BAD_REQUEST, f"{provider} sent {text}", secrets=secrets, title=title, hint=hint)


def classify(status: int | None, refusal: RefusalBody, *, has_time: bool = False, has_hint: bool = False) -> ErrorClass:
    """Return the class of a refusal by its codes, then headers, status and sentence.

    Args:
        status: None for an error without one, inside a stream.
        has_time: The refusal names when to come again, so that nothing is used up for good.
        has_hint: Headers that come with every answer name when a limit is reset.
    """
    named = next((kind for kind in STRENGTH if any(CODES.get(code) is kind for code in refusal.codes)), None)
    text, is_limit = refusal.said, status in (402, 429)
    if named is ErrorClass.CONTEXT_LENGTH or _is_too_long(status, refusal):
        return ErrorClass.CONTEXT_LENGTH
    if has_time and (is_limit or status == 403 or named in (ErrorClass.QUOTA, ErrorClass.TRANSIENT)):
        return ErrorClass.TRANSIENT
    if named is ErrorClass.QUOTA or (status == 402 and not _WAITS & {*refusal.codes}):
        return ErrorClass.QUOTA
    if named is ErrorClass.TRANSIENT or (is_limit and named is None):
        is_clear = any(CODES.get(code) is ErrorClass.TRANSIENT and CLEAR.search(code) for code in refusal.codes)
        is_empty = not is_clear and QUOTA.search(text) and not RATE.search(text) and not has_hint
        return ErrorClass.QUOTA if is_empty else ErrorClass.TRANSIENT
    if status is not None and status >= 500 and status not in (501, 505):
        return named or ErrorClass.TRANSIENT
    if named is not None:
        return named
    if status in (400, 403) and QUOTA.search(text):
        return ErrorClass.QUOTA
    if status == 403 and FILTERED.search(text):
        return ErrorClass.CONTENT_FILTER
    return _BY_STATUS.get(status or 0) or _by_sentence(text)


def _is_too_long(status: int | None, refusal: RefusalBody) -> bool:
    """Return whether a refusal calls one request too long, not all of a minute."""
    text = refusal.said
    if status is not None and status < 500 and status not in (400, 403, 413, 422, 429):
        return False
    if TOO_LONG_FOR_ANY_WAIT.search(text):
        return True
    is_rate = status == 429 or RATE.search(f"{text} {' '.join(refusal.codes)}")
    return TOO_LONG.search(text) is not None and (status == 413 or not is_rate)


def _by_sentence(said: str) -> ErrorClass:
    for pattern, kind in (
        (FILTERED, ErrorClass.CONTENT_FILTER),
        (QUOTA, ErrorClass.QUOTA),
        (NO_MODEL, ErrorClass.MODEL_MISSING),
        (BAD_KEY, ErrorClass.AUTH),
    ):
        if pattern.search(said):
            return kind
    return ErrorClass.BAD_REQUEST


def read_error_body(body: bytes) -> RefusalBody:
    """Return what an error page says. Reads JSON, HTML and text under any content type."""
    text = body.decode("utf-8-sig", "replace").strip()
    try:
        return read_error_object(parse(text.removeprefix("data:")))
    except ValueError:
        pass
    if text[:1] == "<":
        title = _TITLE.search(text)
        text = f"a web page, not an answer: {title.group(1) if title else _TAG.sub(' ', _seen(text))}"
    return RefusalBody(shorten(text), said=_without_addresses(text))


def _seen(page: str) -> str:
    """Return the page without scripts and styles; an unclosed one goes to the end."""
    kept: list[str] = []
    at = 0
    while (begins := _UNSEEN.search(page, at)) is not None:
        kept.append(page[at : begins.start()])
        ends = re.compile(rf"</{begins.group(1)}[^<>]*>", re.IGNORECASE).search(page, begins.end())
        at = len(page) if ends is None else ends.end()
    return " ".join([*kept, page[at:]])


_SENTENCE_KEYS = (
    "message",
    "detail",
    "msg",
    "error_description",
    "error_message",
    "errormessage",
    "reason",
    "title",
    "raw",
)
_CODE_KEYS = (
    "code",
    "type",
    "status",
    "reason",
    "error_type",
    "errortype",
    "__type",
    "error_code",
    "errorcode",
    "quotaid",
    "limit_source",
)


def is_error(payload: dict[str, Any]) -> bool:
    """Return whether a payload is an error in a usual shape, not an answer."""
    if payload.get("error") or "error" in (payload.get("object"), payload.get("type")):
        return True
    says = any(isinstance(payload.get(key), str) and payload[key] for key in ("message", "msg", "errorMessage"))
    marks = payload.keys() & {"code", "status", "statusCode", "status_code", "error_code", "errorCode"}
    return bool(payload.get("detail")) or (says and bool(marks))


def read_error_object(payload: Any) -> RefusalBody:
    """Return what an error object of any usual shape says, with the errors inside it."""
    fields: list[tuple[str, Any]] = []
    _collect(payload, fields)
    sentences = [str(value) for name, value in fields if name in _SENTENCE_KEYS and isinstance(value, str) and value]
    codes = [_code(value) for name, value in fields if name in _CODE_KEYS and isinstance(value, str)]
    if any(QUOTA_OF_A_MINUTE.search(sentence) for sentence in sentences):
        codes = ["throttling.allocationquota", *(code for code in codes if code != "insufficient_quota")]
    numbers = [value for name, value in fields if name in ("code", "status", "status_code", "statuscode")]
    error = payload[0] if isinstance(payload, list) and payload else payload
    error = error.get("error", error) if isinstance(error, dict) else error
    if isinstance(error, dict):
        sentence = next((str(error[key]) for key in ("message", "detail", "msg") if error.get(key)), "")
        inner = error.get("metadata")
        if isinstance(inner, dict) and inner.get("raw"):
            sentence = f"{sentence} ({inner['raw']})"
        text = sentence or (sentences[0] if sentences else json.dumps(error, ensure_ascii=False) if error else "")
    else:
        text = str(error)
        sentences.append(text)
    return RefusalBody(
        shorten(text),
        tuple(codes) + tuple(str(number) for number in numbers if isinstance(number, int) and number >= 1_000),
        _without_addresses(" \n".join(sentences)),
        tuple(fields),
        next((number for number in numbers if isinstance(number, int) and 400 <= number < 600), None),
    )


def _collect(value: Any, fields: list[tuple[str, Any]], depth: int = 0) -> None:
    """Add the fields of an object at all depths, with names in lower case. A text that is JSON is read too."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            value = parse(value)
        except ValueError:
            return
    if depth > 8 or not isinstance(value, (dict, list)):
        return
    for name, one in value.items() if isinstance(value, dict) else (("msg", one) for one in value):
        if len(fields) >= MAX_PARTS:
            return
        fields.append((str(name).lower(), one))
        _collect(one, fields, depth + 1)


def _code(text: str) -> str:
    """Return a code without the namespace of AWS: `com.amazon#ValidationException:http://…`."""
    return text.rpartition("#")[2].partition(":")[0].strip().lower()[:80]


def _without_addresses(text: str) -> str:
    return _ADDRESS.sub("", text[:20_000])


def shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 1] + "…"


def clean(text: str, secrets: tuple[str, ...] = ()) -> str:
    """Replace the given secrets and everything that looks like a key."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "‹key›")
    return _KEY.sub("‹key›", text)
