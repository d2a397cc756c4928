"""SECURITY.md: each promise names tests, and the tests exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)`:`(?:\w+\.)?(\w+)`")
PROMISES = re.findall(r"^- .+$", PAGE.split("## Promises")[1].split("## Not promised")[0], re.MULTILINE)


def read_names(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise[2:40])
def test_each_promise_names_tests_that_exist(promise: str) -> None:
    named = NAMED.findall(promise)
    assert named, "a promise without a test"
    for file, name in named:
        assert (ROOT / file).is_file(), file
        assert name in read_names(ROOT / file), f"{file} has no {name}"


def test_the_page_has_promises_about_every_party() -> None:
    assert len(PROMISES) >= 25
