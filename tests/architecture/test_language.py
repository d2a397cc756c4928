"""Names are unique, imports have no circles, and prose is plain: each limit is a figure that was reached."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

from tests.architecture.sources import ROOT, SOURCES, nodes_of, read_imports, text_of, tree_of

RIDDLE = re.compile(r"\b(whoever|nobody|anew|whose|meanwhile|beyond|what is)\b", re.IGNORECASE)
MOST_RIDDLES = 1.0
"""Per 1,000 words of docstrings and comments."""

TOKEN = re.compile(
    r"""\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|(#[^\n]*)""",
    re.DOTALL,
)
"""A text, or a comment as its group. The same comments as those of `tokenize`, in a tenth of its time."""

NAMED_BY_SUBJECT = {"screens", "dialogs", "commands"}
LARGEST_CIRCLE = 3


def prose(file: Path) -> Iterator[str]:
    """The docstrings and comments of a file."""
    for node in nodes_of(file):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
    for token in TOKEN.finditer(text_of(file)):
        yield token[1] or ""


def test_docstrings_and_comments_use_few_riddle_words() -> None:
    words, riddles = 0, []
    for file in SOURCES:
        for text in prose(file):
            words += len(text.split())
            riddles += [f"{file.relative_to(ROOT)}: {found}" for found in RIDDLE.findall(text)]
    assert 1000 * len(riddles) / words <= MOST_RIDDLES, "\n".join(riddles)


def test_class_names_are_unique() -> None:
    """Screens, dialogs and commands may share a name with the thing they show or run.

    Private classes may repeat.
    """
    files: defaultdict[str, list[str]] = defaultdict(list)
    for file in SOURCES:
        if file.parent.name in NAMED_BY_SUBJECT:
            continue
        for node in tree_of(file).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].append(str(file.relative_to(ROOT)))
    assert {name: places for name, places in files.items() if len(places) > 1} == {}


def reachable(graph: Mapping[str, Set[str]], start: str) -> set[str]:
    """The modules that a module imports, directly or through others."""
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += graph[module]
    return found


def within_circles(graph: Mapping[str, Set[str]]) -> Mapping[str, Set[str]]:
    """Return the graph without modules that reach no circle or that no circle reaches."""
    while True:
        imported = set().union(*graph.values()) if graph else set()
        kept = {module for module in graph if graph[module] and module in imported}
        if len(kept) == len(graph):
            return graph
        graph = {module: graph[module] & kept for module in kept}


def test_import_circles_are_small() -> None:
    graph = within_circles(read_imports())
    reached = {module: reachable(graph, module) for module in graph}
    circles = {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in graph
        if module in reached[module]
    }
    assert [sorted(circle) for circle in circles if len(circle) > LARGEST_CIRCLE] == []
