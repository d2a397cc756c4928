"""The pictures of the README and the guide show what they are for.

None shows an empty or waiting part of the cockpit.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from documentation.pictures import PICTURES, read_picture
from tests.architecture.sources import PACKAGE, ROOT, nodes_of, tree_of
from tests.case_tables import walk_cases

COCKPIT = PACKAGE / "tui"
PAGES = (ROOT / "README.md", *sorted((ROOT / "documentation" / "guide").glob("*.md")))
NOTHING = re.compile(r"(No|Nothing) \w|\w{4,}…$")
"""How texts begin that say that there is nothing yet, and how those end that say that something is read."""


@cache
def empty_texts() -> frozenset[str]:
    """The texts of the cockpit that stand for something that is not there: what it calls empty, and what it says so."""
    found: set[str] = set()
    for file in COCKPIT.rglob("*.py"):
        constants = {
            target.id: node.value
            for node in tree_of(file).body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        docstrings = {id(node.value) for node in nodes_of(file) if isinstance(node, ast.Expr)}
        for node in nodes_of(file):
            if isinstance(node, ast.keyword) and node.arg == "empty":
                found |= set(texts_of(node.value, constants))
            elif isinstance(node, ast.Constant) and id(node) not in docstrings and isinstance(node.value, str):
                found |= {node.value.strip()} if NOTHING.search(node.value.strip()) else set()
    return frozenset(text for text in found if len(text) > 5)


def texts_of(value: ast.expr, constants: dict[str, ast.expr]) -> Iterator[str]:
    """The texts that an expression may have, also by the name of a constant."""
    for node in ast.walk(value):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.strip()
        elif isinstance(node, ast.Name) and node.id in constants:
            yield from texts_of(constants[node.id], {})


def shown_pictures() -> list[str]:
    """The names of the pictures that the pages show."""
    shown = re.findall(r"pictures/([\w-]+)\.svg", "".join(page.read_text(encoding="utf-8") for page in PAGES))
    return sorted(set(shown))


def test_the_empty_texts_of_the_cockpit_are_found() -> None:
    found = empty_texts()
    assert {
        "No request yet",
        "No event yet",
        "Reading…",
        "No broadcast yet: b sends one message to many myses",
    } <= found


def test_each_picture_is_shown() -> None:
    assert shown_pictures() == sorted(file.stem for file in PICTURES.glob("*.svg"))


@walk_cases("name", shown_pictures())
def test_a_picture_shows_no_part_that_is_empty_or_still_read(name: str) -> None:
    lines = read_picture((PICTURES / f"{name}.svg").read_text(encoding="utf-8")).splitlines()
    assert len(lines) > 10
    empty = empty_texts()
    assert [line for line in lines if any(text in line for text in empty)] == []
