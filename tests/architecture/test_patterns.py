"""Regular expressions mean the same in every release of Python that Zoea supports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages
from re import _constants, _parser  # type: ignore[attr-defined]  # what `re` itself parses with
from typing import Any

import zoea
from zoea.text.lazy_pattern import compile_lazily

OF_ONE_CHARACTER = (_constants.IN, _constants.LITERAL, _constants.NOT_LITERAL, _constants.ANY)


def is_exact(body: Any) -> bool:
    """Return whether a part is one repetition, or only characters: then it fails before it has stored a place."""
    if len(body) == 1 and body[0][0] is _constants.BRANCH:
        return all(map(is_exact, body[0][1][1]))
    repeats = len(body) == 1 and body[0][0] is _constants.POSSESSIVE_REPEAT and len(body[0][1][2]) == 1
    characters = body[0][1][2] if repeats else body
    return all(one[0] in OF_ONE_CHARACTER for one in characters)


def find_possessive_groups(parsed: Any) -> Iterator[str]:
    """Yield what repeats more than one character and gives nothing back, as `(?:ab?c)++` does.

    `(?:[^"\\\\]++|\\\\.)*+` may stand: an atomic group would take 130 bytes of memory for each repetition.
    """
    for kind, value in parsed:
        if kind is _constants.POSSESSIVE_REPEAT and not is_exact(value[2]):
            yield str(value[2])
        for part in value if isinstance(value, tuple | list) else (value,):
            parts = part if isinstance(part, list) else (part,)  # the alternatives of a branch
            for one in parts:
                if isinstance(one, _parser.SubPattern):
                    yield from find_possessive_groups(one)


def patterns_of(module: Any) -> Iterator[tuple[str, Any, int]]:
    """Yield name, source and flags of the patterns of a module, its tuples and tables."""
    for name, value in vars(module).items():
        held = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else (value,)
        for one in held:
            if isinstance(one, re.Pattern):
                yield name, one.pattern, one.flags & ~re.UNICODE
            elif isinstance(one, type(compile_lazily(""))):
                yield name, vars(one)["_source"], vars(one)["_flags"]


def test_no_pattern_repeats_a_group_without_giving_back() -> None:
    """Until 3.11.5 a repetition that fails within the group takes what it had read: `(?>(?:...)*)` does not."""
    found = set()
    seen = 0
    for info in walk_packages(zoea.__path__, "zoea."):
        if info.name.endswith(("__main__", "llama_child")):
            continue
        for name, source, flags in patterns_of(import_module(info.name)):
            seen += 1
            found |= {f"{info.name}.{name}: {one}" for one in find_possessive_groups(_parser.parse(source, flags))}
    assert not found, found
    assert seen > 100
    assert list(find_possessive_groups(_parser.parse(r"x|(?:a(?:b?c)*+)")))
