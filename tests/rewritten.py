"""Pytest plugin that compiles the tests and ends: `python -m pytest --noconftest -p tests.rewritten`.

Collecting would import them too, which is as much again. Each worker would compile all of them.
"""

from __future__ import annotations

import ast
import gc
from pathlib import Path

import pytest
from _pytest.assertion import rewrite
from _pytest.assertion.rewrite import AssertionRewriter, assertstate_key
from _pytest.config import Config
from typing_extensions import override

_PLACE = ("lineno", "col_offset", "end_lineno", "end_col_offset")


class PlacingRewriter(AssertionRewriter):
    """Gives each node of what replaces an assertion its place in one walk.

    Pytest looks at each node by several generators, which is half of the time of compiling.
    """

    @override
    def visit_Assert(self, assert_: ast.Assert) -> list[ast.stmt]:
        """Return what replaces an assertion."""
        statements = super().visit_Assert(assert_)
        place = {name: getattr(assert_, name) for name in _PLACE}
        nodes: list[ast.AST] = [*statements]
        for node in nodes:  # to which the parts of each are added
            content = node.__dict__
            for part in content.values():
                if part.__class__ is list:
                    nodes += [one for one in part if isinstance(one, ast.AST)]
                elif isinstance(part, ast.AST):
                    nodes.append(part)
            if node._attributes and "lineno" not in content:
                content.update(place)
        return statements


def rewrite_asserts(
    mod: ast.Module, source: bytes, module_path: str | None = None, config: Config | None = None
) -> None:
    """Rewrite the assertions of a module, as the function of pytest whose place it takes."""
    PlacingRewriter(module_path, config, source).run(mod)


def write_bytecode(file: Path, config: Config) -> None:
    """Write the bytecode of a test where pytest looks for it. It holds what the assertions say."""
    folder = rewrite.get_cache_dir(file)
    rewrite.try_makedirs(folder)
    compiled = folder / (file.stem + rewrite.PYC_TAIL)
    state = config.stash[assertstate_key]
    if rewrite._read_pyc(file, compiled, state.trace) is None:
        source_hash, code = rewrite._rewrite_test(file, config)
        rewrite._write_pyc(state, code, source_hash, compiled)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: Config) -> int:
    """Compile what pytest collects, and leave out the run."""
    gc.disable()  # trees hardly hold cycles, and looking for them is a seventh of the time
    rewrite.traverse_node = lambda node: iter(())
    rewrite.rewrite_asserts = rewrite_asserts
    for pattern in ("test_*.py", "conftest.py"):
        for file in (config.rootpath / "tests").rglob(pattern):
            write_bytecode(file, config)
    return 0
