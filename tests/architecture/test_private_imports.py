"""Zoea imports no private name of a library."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.sources import SOURCES, nodes_of


def private_imports(file: Path) -> Iterator[str]:
    """Yield the dotted names imported from other packages that have a private part."""
    for node in nodes_of(file):
        match node:
            case ast.ImportFrom(module=str(module), names=names, level=0) if module != "__future__":
                imported = [f"{module}.{name.name}" for name in names]
            case ast.Import(names=names):
                imported = [name.name for name in names]
            case _:
                continue
        for name in imported:
            if not name.startswith("zoea.") and any(part[0] == "_" for part in name.split(".")):
                yield name


def test_private_names_of_libraries_are_not_imported() -> None:
    found = {name for file in SOURCES for name in private_imports(file)}
    assert found == set()
