"""A JSON value as a tree of lines: what fits on a line stays on one. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from zoea.text.control_characters import strip
from zoea.tui.conversation.blocks import Marks, Piece

DEPTH = 20
VALUE_CHARS = 400


def tree(value: Any, width: int, marks: Marks) -> Iterator[list[Piece]]:
    """The lines below the value itself, each at most about `width` characters before it is wrapped."""
    yield from _children(value, "", width, marks, DEPTH)


def _children(value: Any, indent: str, width: int, marks: Marks, depth: int) -> Iterator[list[Piece]]:
    if isinstance(value, dict):
        items = [(f"{_text(str(key))}: ", item) for key, item in value.items()]
    elif isinstance(value, list):
        items = [("", item) for item in value]
    else:
        yield [(indent, "quiet"), (_inline(value), "")]
        return
    if not items:
        yield [(indent, "quiet"), ("empty", "quiet")]
    for place, (key, item) in enumerate(items):
        is_last = place == len(items) - 1
        branch = indent + (marks.last if is_last else marks.branch)
        short = _fitting(item, width - len(branch) - len(key))
        if short is not None or depth == 0:
            yield [(branch, "quiet"), (key, "llm"), (short if short is not None else _inline(item)[:VALUE_CHARS], "")]
            continue
        count = f"{len(item)} {'field' if isinstance(item, dict) else 'item'}{'s' * (len(item) != 1)}"
        yield [(branch, "quiet"), (key, "llm"), (count, "quiet")]
        below = indent + (" " * len(marks.last) if is_last else marks.down)
        yield from _children(item, below, width, marks, depth - 1)


def _fitting(value: Any, width: int) -> str | None:
    """The value on one line, where it has room there; what has no parts always has."""
    if isinstance(value, dict | list) and len(value) * 3 > width:
        return None
    text = _inline(value)
    return text if len(text) <= width or not isinstance(value, dict | list) else None


def _inline(value: Any) -> str:
    """`iron_ore, buy 5.1, sell 4.8`: braces and quotes only where they tell something."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict) and value and not any(isinstance(item, dict | list) for item in value.values()):
        return "  ".join(f"{_text(str(key))} {_inline(item)}" for key, item in value.items())
    return _text(json.dumps(value, ensure_ascii=False))


def _text(text: str) -> str:
    return " ".join(strip(text).split())
