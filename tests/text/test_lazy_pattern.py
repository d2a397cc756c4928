"""Patterns that are compiled at their first use."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, cast

import pytest
from msgspec import Struct

import zoea
from zoea.text import lazy_pattern
from zoea.text.lazy_pattern import compile_lazily

PACKAGES = ("context", "llm", "store", "text", "tools")


def test_a_lazy_pattern_does_what_a_pattern_does() -> None:
    lazy, pattern = compile_lazily(r"(?P<number>\d)x", re.IGNORECASE), re.compile(r"(?P<number>\d)x", re.IGNORECASE)
    text = "1x 2X 3y"
    assert lazy.findall(text) == pattern.findall(text)
    assert lazy.sub("-", text) == pattern.sub("-", text)
    assert [match["number"] for match in lazy.finditer(text)] == ["1", "2"]
    assert lazy.fullmatch(text) is None
    assert (lazy.pattern, lazy.flags, lazy.groupindex) == (pattern.pattern, pattern.flags, pattern.groupindex)


def test_a_lazy_pattern_is_compiled_once_and_at_its_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def count(source: str, flags: int) -> re.Pattern[str]:
        compiled.append(source)
        return re.compile(source, flags)

    lazy = compile_lazily("a+")
    monkeypatch.setattr(lazy_pattern, "re", _Re(count))
    assert compiled == []
    assert lazy.search("caat")
    assert lazy.search("caat")
    assert compiled == ["a+"]


class _Re:
    def __init__(self, compile_pattern: Any) -> None:
        self.compile = compile_pattern


_LIST_LARGE = """
import re, sys
large, real = [], re.compile

def compile_and_count(source, flags=0):
    importer = sys._getframe(1).f_globals["__name__"]
    if importer.startswith("zoea.") and len(source) > 400:
        large.append(importer)
    return real(source, flags)

re.compile = compile_and_count
import zoea.context.window.conversation_summary, zoea.llm.model_traits, zoea.llm.transport.refusal_tables
import zoea.store.search.unspaced_words, zoea.text.redact, zoea.tools.secret_arguments
print(*large)
"""


def test_imports_compile_no_large_pattern() -> None:
    done = subprocess.run([sys.executable, "-c", _LIST_LARGE], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "", "these take milliseconds of each start: use compile_lazily"


def test_every_lazy_pattern_of_the_package_can_be_compiled() -> None:
    patterns = list(_find_lazy_patterns())
    assert len(patterns) > 80
    for where, pattern in patterns:
        assert pattern.groups >= 0, where


def _find_lazy_patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    for package in PACKAGES:
        for module in pkgutil.walk_packages([f"{zoea.__path__[0]}/{package}"], f"zoea.{package}."):
            for name, value in vars(importlib.import_module(module.name)).items():
                for one in value if isinstance(value, tuple) else (value,):
                    pattern = getattr(one, "pattern", None) if isinstance(one, Struct) else one
                    if type(pattern) is lazy_pattern._LazyPattern:
                        yield f"{module.name}.{name}", cast("re.Pattern[str]", pattern)
