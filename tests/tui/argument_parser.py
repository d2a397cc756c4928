"""Parse shown arguments of a call back to their values, as a careful reader would."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Sequence
from typing import Any

_ESCAPE = re.compile(r"(\\+)(u[0-9a-f]{4}|t)")
_STEP = re.compile(r"\[(\d+)\]|\.?([A-Za-z_][\w-]*)")


def parse_shown(lines: Sequence[str]) -> Any:
    """Return the arguments that these unwrapped lines show."""
    if lines[0].startswith("{") or not lines[0].partition(":")[1]:
        return json.loads("\n".join(lines))
    values: dict[str, Any] = {}
    at = 0
    while at < len(lines):
        name, _, value = lines[at].partition(":")
        at += 1
        if value:
            _put(values, name, json.loads(value))
            continue
        old, _, new = name.partition(" → ")
        old_lines: list[str] = []
        new_lines: list[str] = []
        while at < len(lines) and lines[at][1:2] == " " and "│ " in lines[at][:4]:
            sign, _, text = lines[at].partition("│ ")
            if sign[0] in " -":
                old_lines.append(_unescape(text))
            if sign[0] in " +":
                new_lines.append(_unescape(text))
            at += 1
        if old.endswith(" (words)"):
            _put(values, old.removesuffix(" (words)"), shlex.split("\n".join(old_lines)))
        else:
            _put(values, old, "\n".join(old_lines))
        if new:
            _put(values, f"{old.rpartition('.')[0]}.{new}".lstrip("."), "\n".join(new_lines))
    return values


def _unescape(line: str) -> str:
    def undo(match: re.Match[str]) -> str:
        half, odd = divmod(len(match[1]), 2)
        return "\\" * half + (json.loads(f'"\\{match[2]}"') if odd else match[2])

    text = _ESCAPE.sub(undo, line)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _put(values: Any, name: str, value: Any) -> None:
    steps = [int(place) if place else key for place, key in _STEP.findall(name)]
    for step, after in itertools.pairwise(steps):
        empty: Any = [] if isinstance(after, int) else {}
        if isinstance(step, int):
            values.extend([empty] * (step + 1 - len(values)))
            values = values[step]
        else:
            values = values.setdefault(step, empty)
    last = steps[-1]
    if isinstance(last, int):
        assert last == len(values)
        values.append(value)
    else:
        values[last] = value
