"""The files of the package, each read and parsed once for all tests of its structure."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "zoea"
SOURCES = sorted(PACKAGE.rglob("*.py"))


@cache
def text_of(file: Path) -> str:
    """Return the text of a file."""
    return file.read_text(encoding="utf-8")


@cache
def tree_of(file: Path) -> ast.Module:
    """Return the syntax tree of a file. No test changes it."""
    return ast.parse(text_of(file))


@cache
def nodes_of(file: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of the syntax tree of a file."""
    return tuple(ast.walk(tree_of(file)))


@cache
def read_imports() -> dict[str, frozenset[str]]:
    """Return the modules of the package that each of its modules imports anywhere, also inside functions."""
    modules = {
        ".".join(file.with_suffix("").relative_to(ROOT).parts).removesuffix(".__init__"): file for file in SOURCES
    }
    graph = {}
    for module, file in modules.items():
        wanted = set()
        for node in nodes_of(file):
            if isinstance(node, ast.ImportFrom) and node.module in modules:
                for alias in node.names:
                    part = f"{node.module}.{alias.name}"
                    wanted.add(part if part in modules else node.module)
        graph[module] = frozenset(wanted)
    return graph
