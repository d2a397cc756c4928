"""Pytest plugin that compiles the tests and ends: `python -m pytest --noconftest -p tests.rewritten`.

Collecting would import them too, which is as much again. Each worker would compile all of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.assertion import rewrite
from _pytest.assertion.rewrite import assertstate_key
from _pytest.config import Config


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
    for pattern in ("test_*.py", "conftest.py"):
        for file in (config.rootpath / "tests").rglob(pattern):
            write_bytecode(file, config)
    return 0
