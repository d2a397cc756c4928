"""SECURITY.md: each promise names tests, and the tests exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)`:`((?:\w+\.)?\w+)`")
SECTION = PAGE.split("## Promises")[1].split("## Not promised")[0]
PROMISES = re.findall(r"^- .+$", SECTION, re.MULTILINE)


def read_tests(file: Path) -> set[str]:
    """Return the tests of a file that run, those of a class as `TestClass.test_name`."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for group in tree.body:
        if isinstance(group, ast.ClassDef) and group.name.startswith("Test"):
            found |= {
                f"{group.name}.{node.name}"
                for node in group.body
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return {name for name in found if name.rpartition(".")[2].startswith("test_")}


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise[2:40])
def test_each_promise_names_tests_that_exist(promise: str) -> None:
    named = NAMED.findall(promise)
    assert named, "a promise without a test"
    assert promise.count("tests/") == len(named), "a test that is not named as `FILE`:`TEST`"
    for file, name in named:
        assert (ROOT / file).is_file(), file
        assert name in read_tests(ROOT / file), f"{file} has no {name}"


def test_each_line_of_the_section_is_a_promise_in_one_line() -> None:
    lines = [line for line in SECTION.splitlines() if line.strip() and not line.startswith("### ")]
    assert lines == PROMISES


def test_the_page_has_promises_about_every_party() -> None:
    assert len(PROMISES) >= 25
