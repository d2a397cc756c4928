"""Parse a JSON file into a tree with lines, as `document.py` does for TOML."""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import Struct

from zoea.settings.key_paths import KeyPath

_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|[{}\[\],:]|[^\s{}\[\],:"]++')

_HALF = re.compile(r"[\ud800-\udfff]")


class JsonInvalid(ValueError):
    """The text is no JSON object; `line` is from 1, 0 where there is none."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


def parse_json(text: str) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """Return a JSON object's tree, and the line of each key and list item.

    The key of an item is its index.

    Raises:
        JsonInvalid: The text is not valid, a key stands twice in one object, it is no object, or it holds half of a
            surrogate pair, which no database and no file can store.
    """
    try:
        tree = json.loads(text, object_pairs_hook=_reject_twice)
    except json.JSONDecodeError as error:
        raise JsonInvalid(f"is not valid JSON: {error.msg[:1].lower()}{error.msg[1:]}", error.lineno) from None
    if not isinstance(tree, dict):
        raise JsonInvalid("is not a JSON object", 1)
    if half := _HALF.search(json.dumps(tree, ensure_ascii=False)) if "\\u" in text else None:
        raise JsonInvalid(f"holds \\u{ord(half[0]):x}, which is half of a character; write both halves")
    return tree, _find_lines(text)


def _reject_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise JsonInvalid(f"holds the key {twice!r:.60} twice in one object")
    return tree


class _Level(Struct):
    """An open object or list; `key` is that of the value that is being read."""

    path: KeyPath
    is_list: bool
    key: str | None = None
    count: int = 0


def _find_lines(text: str) -> dict[KeyPath, int]:
    lines: dict[KeyPath, int] = {}
    stack: list[_Level] = []
    line, counted = 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", counted, match.start())
        counted = match.start()
        token, top = match[0], stack[-1] if stack else None
        if token in "}]":
            stack.pop()
        elif token == "," and top is not None:
            top.key, top.count = None, top.count + 1
        elif token != ":":
            if top is not None and top.key is None:
                top.key = str(top.count) if top.is_list else json.loads(token)
                lines.setdefault((*top.path, top.key), line)
            if token in "{[":
                above = () if top is None or top.key is None else (*top.path, top.key)
                stack.append(_Level(above, token == "["))
    return lines
