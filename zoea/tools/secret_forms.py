"""The texts that hold a secret value, and where they stand in a text. Pure."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

SHORTEST = 4
"""Shorter values are not looked for in texts, where they would be found by chance."""
SURE = 6
"""Values of fewer characters are looked for as words, and only where they are no word and no number."""
_MIXED = re.compile(r"(?=.*\d)(?=.*[^\W\d_])|(?=.*\w).*[^\w\s.,:/-]")
_ORDINARY = re.compile(
    r"(?i)access|bearer|client|default|disabled|enabled|encrypted|expired|failed|hidden|include|invalid|masked|missing"
    r"|optional|password|private|public|read-only|redacted|refresh|required|same-origin|secret|session|string|success"
    r"|unknown|unset"
)


def find_forms(value: Any) -> tuple[str, ...]:
    """Return the texts that hold a value: plain, and escaped in JSON. None if it would be found by chance."""
    plain = value if isinstance(value, str) else str(value)
    if len(plain) < SHORTEST or _ORDINARY.fullmatch(plain) or (len(plain) < SURE and not _MIXED.match(plain)):
        return ()
    escaped = {json.dumps(plain)[1:-1], json.dumps(plain, ensure_ascii=False)[1:-1]}
    return (plain, *sorted(escaped - {plain}))


def replace_form(text: str, form: str, mark: str) -> str:
    """Replace a form with a mark, a short form only where it stands by itself."""
    if form not in text:
        return text
    return text.replace(form, mark) if len(form) >= SURE else compile_form(form).sub(lambda _: mark, text)


@lru_cache(maxsize=1_024)
def compile_form(form: str) -> re.Pattern[str]:
    """Compile the pattern that finds a form. A line break that JSON escapes is no letter."""
    bounded = rf"(?:(?<!\w)|(?<=\\[nrt])){re.escape(form)}(?!\w)"
    return re.compile(bounded if len(form) < SURE else re.escape(form))
