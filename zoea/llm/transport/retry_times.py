"""Reads when a refused request may be sent again from headers, body fields and sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from email.utils import parsedate_to_datetime
from typing import Any

from zoea.text.lazy_pattern import compile_lazily

LONGEST_WAIT_S = 86_400.0
"""A refusal that names a later time than one day is not waited for."""
_MEANT_S = 400 * 86_400.0
"""Longer waits are nothing that a server means."""
_LONGEST_TIME = 200
"""Characters of a date or a span; longer digits would be read from each of their places."""
_EPOCH_S, _EPOCH_MS, _FAR = 1e9, 1e12, 1e15
"""Numbers from here on are times since 1970 in seconds, in milliseconds, and nothing that a server means."""
_UNIT = r"ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?"
_PART = rf"\d+(?:\.\d+)?\s*(?:{_UNIT})(?![a-z])"
_SPAN = rf"{_PART}(?:[\s,]*(?:and\s+)?{_PART})*"
_DATE = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?\s*(?:Z|UTC|GMT|[+-]\d\d:?\d\d)?"
_CLOCK = r"\d?\d:\d\d(?::\d\d)?\s*(?:UTC|GMT|Z\b)"
_HTTP_DATE = r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT"
_SCRIPT_DATE = r"[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d? \d{4} \d\d:\d\d:\d\d GMT[+-]\d{4}"
"""As JavaScript writes a date (firecrawl/firecrawl#819)."""
_VERB = r"(?:again|retry(?:ing)?|wait|resets?|available(?! for)|refresh\w*|renews?|replenish\w*)"
_GAP = r"(?:(?!every|each)[^\d\n]){0,40}?"
CHINA = timezone(timedelta(hours=8))
"""Where Zhipu's times without a zone are told (can1357/oh-my-pi#11014)."""
_WHEN = r"(?:\b(?:in|after|for|at|on|until|about)|[:=])"
_COUNTED = r"(?![\d.]*\s*(?:times|attempts|tokens|requests|[/%]))"
_SENTENCES = tuple(
    compile_lazily(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b{_VERB}\b{_GAP}{_WHEN}\s*{_GAP}({_SPAN}|{_DATE}|{_HTTP_DATE}|{_SCRIPT_DATE}|{_CLOCK})",
        rf"\bwait\b{_GAP}({_SPAN})",
        rf"\b(?:retry(?:ing)?|again|wait)[^\d\n.]{{0,20}}\b(?:in|after|for|at|until)\s*:?\s*(\d+(?:\.\d+)?){_COUNTED}",
        r"(?<!\d)(\d+(?:\.\d+)?\s*(?:毫秒|秒|分钟|小时))钟?(?:后|之后|以后)",
        rf"({_DATE})\s*(?:重置|恢复|之后|后)",
    )
)
"""Sentences that name a time. One about each day or each minute tells a limit, not when it is lifted."""
_PARTS = compile_lazily(rf"(\d+(?:\.\d+)?)\s*({_UNIT}|毫秒|秒|分钟|小时)(?![a-z])", re.I)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "秒": 1.0, "分": 60.0, "小": 3_600.0}
_EXACT_HEADERS = ("retry-after-ms", "x-ms-retry-after-ms", "retry-after", "x-retry-after")
_RESET_HEADER = compile_lazily(r"rate-?limit.*reset|reset.*rate-?limit", re.I)
_IETF_RESET = compile_lazily(r"(?:\breset=|;\s*t=)(\d+)")
_IETF_LEFT = compile_lazily(r";\s*r=0*[1-9]")
_FIELD = compile_lazily(
    r"(?:retry(?:after|delay|in|at|time)|(?:quota|rate|limit|ratelimit|xratelimit|usage)*reset"
    r"(?:delay|timestamp|time|sat|at|sin|in|after|requests|tokens)?|wait(?:time)?|estimatedtime|cooldown|availableat)"
    r"(?:seconds|secs|s|milliseconds|millis|ms)?"
)
"""Names of fields without their signs and in lower case, as `retryDelay` of google.rpc.RetryInfo."""


def retry_after(headers: Mapping[str, str], now_us: int | None) -> float | None:
    """Return the seconds that a header for this purpose names, which may be a date. None without such a header."""
    for name in _EXACT_HEADERS:
        if (text := headers.get(name)) is not None:
            seconds = read_time(text, now_us, in_ms=name.endswith("-ms"))
            if seconds is not None:
                return seconds
    return None


def limit_reset(headers: Mapping[str, str], now_us: int | None) -> float | None:
    """Return the seconds until the most used of the limits in the headers is reset.

    Vendors send these headers with every answer, so that they say less than `retry_after`.
    """
    resets: list[tuple[float, float]] = []
    for name, text in headers.items():
        low = name.lower()
        if low == "ratelimit":
            for limit in text.split(",") if "t=" in text else [text]:  # one item for each limit (runpod/runpod-mcp#64)
                if (match := _IETF_RESET.search(limit)) is not None:
                    resets.append((1.0 if _IETF_LEFT.search(limit) else 0.0, float(match.group(1))))
        elif _RESET_HEADER.search(low) and (seconds := read_time(text, now_us)) is not None:
            resets.append((_share_left(headers, low), seconds))
    if not resets:
        return None
    least = min(share for share, _ in resets)
    return max(seconds for share, seconds in resets if share == least)


def _share_left(headers: Mapping[str, str], name: str) -> float:
    """Return which share of a limit is left; 1 where the headers do not say."""
    try:
        left = float(headers.get(name.replace("reset", "remaining"), "nan"))
        limit = float(headers.get(name.replace("reset", "limit"), "nan"))
    except ValueError:
        return 1.0
    if left == 0:
        return 0.0
    return left / limit if limit > 0 and left >= 0 else 1.0


def field_time(fields: Iterable[tuple[str, Any]], now_us: int | None) -> float | None:
    """Return the longest wait that fields of a body name. Each field is its name and its value."""
    seconds = [
        seconds
        for name, value in fields
        if _FIELD.fullmatch(plain := re.sub(r"[^a-z]", "", name.lower()))
        and (seconds := read_time(value, now_us, in_ms=plain.endswith(("ms", "milliseconds", "millis")))) is not None
    ]
    return max(seconds, default=None)


def sentence_time(text: str, now_us: int | None, zone: tzinfo = UTC) -> float | None:
    """Return the wait that a sentence names, in seconds. `zone` is of dates without one."""
    for sentence in _SENTENCES:
        if (match := sentence.search(text)) is not None:
            return read_time(match.group(1), now_us, zone=zone)
    return None


def read_time(value: Any, now_us: int | None, *, in_ms: bool = False, zone: tzinfo = UTC) -> float | None:
    """Return a wait in s, at least 0, from a number, span, date or time.

    Without the time of now, dates say nothing. None for what no server means, as a negative number.
    """
    if isinstance(value, dict):  # a Duration of protobuf
        nanos = value.get("nanos")
        seconds = read_time(value.get("seconds", 0), now_us)
        return None if seconds is None else seconds + (nanos / 1e9 if isinstance(nanos, int) and 0 < nanos < 1e9 else 0)
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    text = str(value).strip()
    if len(text) > _LONGEST_TIME:
        return None
    try:
        number = float(text)
    except (ValueError, OverflowError):
        return _span(text) if _PARTS.match(text) else _until(text, now_us, zone)
    if _EPOCH_S <= number < _FAR and not in_ms:
        if now_us is None:
            return None
        number = max(0.0, (number / 1e3 if number >= _EPOCH_MS else number) - now_us / 1e6)
    return _bounded(number / 1e3 if in_ms else number)


def describe_wait(seconds: float, now_us: int | None) -> str:
    """Say until when a wait of days lasts: `before 2026-11-11 12:00 UTC`, or `for 3 days` without the time of now."""
    if now_us is None:
        return f"for {seconds / 86_400:.0f} days"
    return f"before {datetime.fromtimestamp(now_us / 1e6 + seconds, UTC):%Y-%m-%d %H:%M} UTC"


def _span(text: str) -> float | None:
    parts = [(float(number), unit.lower()) for number, unit in _PARTS.findall(text)]
    thousandths = ("ms", "mil", "毫")
    return _bounded(sum(n / 1e3 if unit.startswith(thousandths) else n * _SECONDS[unit[0]] for n, unit in parts))


def _bounded(seconds: float) -> float | None:
    return seconds if 0 <= seconds <= _MEANT_S else None  # NaN neither


def _until(date: str, now_us: int | None, zone: tzinfo) -> float | None:
    if now_us is None:
        return None
    now = datetime.fromtimestamp(now_us / 1e6, UTC)
    if re.fullmatch(_CLOCK, date, re.IGNORECASE):  # the next time that clocks show it, past for five minutes
        hour, minute, *second = (int(part) for part in re.findall(r"\d+", date))
        wait = (hour * 3_600 + minute * 60 + sum(second) - now.hour * 3_600 - now.minute * 60 - now.second) % 86_400
        return float(wait) if wait < 86_100 else 0.0
    if re.fullmatch(_SCRIPT_DATE, date, re.IGNORECASE):
        _, month, day, year, clock, offset = date.split()
        date = f"{day} {month} {year} {clock} {offset[3:]}"
    try:
        when = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        try:
            when = datetime.fromisoformat(re.sub(r"\s*(?:UTC|GMT)$", "Z", date))
        except ValueError:
            return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=zone)
    try:
        return _bounded(max(0.0, (when - now).total_seconds()))
    except OverflowError:
        return None
