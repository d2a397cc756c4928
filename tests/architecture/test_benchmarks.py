"""Benchmarks run seldom: what they put in the place of the program's functions must be there."""

from __future__ import annotations

import ast
import importlib

from tests.architecture.sources import ROOT, nodes_of


def test_what_a_benchmark_replaces_is_there() -> None:
    replaced, missing = 0, []
    for file in sorted((ROOT / "benchmarks").glob("*.py")):
        for node in nodes_of(file):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="patch"), attr="object"),
                    args=[owner, ast.Constant(value=str(name)), *_],
                ):
                    replaced += 1
                    module = importlib.import_module(f"benchmarks.{file.stem}")
                    if not hasattr(eval(ast.unparse(owner), vars(module)), name):
                        missing.append(f"{file.name}:{node.lineno}: {ast.unparse(owner)} has no {name}")
    assert not missing, "\n".join(missing)
    assert replaced >= 6
