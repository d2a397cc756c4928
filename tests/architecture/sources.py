"""Read and parse each file of the package once, for all tests of its structure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
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
    """Return all nodes of the syntax tree of a file, in the order of `ast.walk`.

    That takes twice as long.
    """
    nodes: list[ast.AST] = [tree_of(file)]
    for node in nodes:
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                nodes += [one for one in value if isinstance(one, ast.AST)]
            elif isinstance(value, ast.AST):
                nodes.append(value)
    return tuple(nodes)


@cache
def read_imports() -> dict[str, frozenset[str]]:
    """Return the modules of the package that each of its modules imports. Imports inside functions count too."""
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


@cache
def read_early_imports() -> dict[str, frozenset[str]]:
    """Return the modules that each module of the package loads with it, without those above."""
    above = {module: _list_above(module) for module in read_imports()}
    graph = {}
    for file in SOURCES:
        module = ".".join(file.with_suffix("").relative_to(ROOT).parts).removesuffix(".__init__")
        wanted = set()
        for node in _list_early(tree_of(file).body):
            if isinstance(node, ast.ImportFrom):
                wanted |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)} & above.keys()
            elif isinstance(node, ast.Import):
                wanted |= {alias.name for alias in node.names} & above.keys()
        wanted |= {name for one in wanted for name in above[one]}
        graph[module] = frozenset(wanted - above[module] - {module})
    return graph


def _list_above(module: str) -> set[str]:
    parts = module.split(".")
    return {".".join(parts[:count]) for count in range(1, len(parts))}


def _list_early(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """List the statements that run while a module is loaded."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        is_typing = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        yield node
        for name in ("body", "orelse", "finalbody", "handlers")[is_typing:]:
            for part in getattr(node, name, ()):
                yield from _list_early(part.body if isinstance(part, ast.ExceptHandler) else [part])
