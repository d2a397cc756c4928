"""Redact the strings of a JSON value without changing its structure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from zoea.text.redact import secret_patterns

_OPTION = re.compile(r"--?[A-Za-z][\w-]{0,60}")
_PAIRED = re.compile(r"(?i)(?:pass|pw|pin|otp|mnemonic|secret|key|token)[\w-]{0,20}\\{0,4}\"\s{0,8}[:,]")
_LABEL = re.compile(r"\[REDACTED_[A-Z_]+\]")


def redact_json(value: Any, redact: Callable[[str], str]) -> Any:
    """Return the value with `redact` applied to each string.

    A string or number is also redacted if its key names a secret (`"password": 123456`). Keys stay.

    Raises:
        RecursionError: The value is nested too deeply.
    """
    match value:
        case str():
            return redact(value)
        case list():
            before = ["", *value]
            flags = ["--cookie" if one == "-b" else one for one in before]
            return [_redact_item(flag, inner, redact) for flag, inner in zip(flags, value, strict=False)]
        case dict():
            return {key: _redact_member(key, inner, redact) for key, inner in value.items()}
    return value


def redact_json_text(text: str, redact: Callable[[str], str]) -> str:
    """Apply `redact_json` to JSON text; other text is redacted as plain text.

    Text without anything to redact is returned unchanged.
    """
    if (
        "\\u" not in text
        and redact(text) == text
        and secret_patterns.redact(text) == text
        # JSON may hold a secret in a list, where its name does not stand before it.
        and not ("[" in text and ('"-b"' in text or _PAIRED.search(text)))
    ):
        return text
    try:
        value = json.loads(text)
        cleaned = redact_json(value, redact)
    except (ValueError, RecursionError):
        return redact(text)
    return text if cleaned == value else json.dumps(cleaned, ensure_ascii=False)


def _redact_item(before: Any, value: Any, redact: Callable[[str], str]) -> Any:
    """Redact a list's item, such as a value behind its option in a command."""
    is_value = isinstance(value, str) and not value.startswith("-")
    if is_value and isinstance(before, str) and _OPTION.fullmatch(before):
        return _redact_member(before.lstrip("-"), value, redact)
    return redact_json(value, redact)


def _redact_member(key: str, value: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(value, list):
        return [
            _redact_member(key, one, redact) if isinstance(one, str) and redacted == one else redacted
            for one, redacted in zip(value, redact_json(value, redact), strict=True)
        ]
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return redact_json(value, redact)
    plain = str(value)
    member = f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(plain, ensure_ascii=False)}"
    judged = (redact if isinstance(value, str) else secret_patterns.redact)(member)
    if judged == member:
        return redact(value) if isinstance(value, str) else value
    if isinstance(value, str):
        by_itself = redact(value)
        if by_itself != value:
            return by_itself
    label = _LABEL.search(judged)
    return label.group() if label else value
