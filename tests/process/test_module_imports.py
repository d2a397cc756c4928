"""Modules that are imported in a thread."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path

import pytest

from zoea.process.module_imports import import_in_thread

PACKAGE = """\
import threading
import {name}.part
from tests.process.test_module_imports import HELD
HELD[0].set()
assert HELD[1].wait(30)
IS_WHOLE = True
THREAD = threading.get_ident()
"""
HELD = (threading.Event(), threading.Event())


async def test_all_wait_in_a_thread_until_the_package_of_a_module_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "package_that_imports_its_part_first"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text(PACKAGE.format(name=name))
    (tmp_path / name / "part.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    began, may_end = HELD
    try:
        first = asyncio.create_task(import_in_thread(f"{name}.part"))
        assert await asyncio.to_thread(began.wait, 30)
        second = asyncio.create_task(import_in_thread(f"{name}.part"))
        done, _ = await asyncio.wait({first, second}, timeout=0.1)
        assert not done, "the part is there, and its package is not"
        may_end.set()
        assert await first is await second
        package = sys.modules[name]
        assert package.IS_WHOLE
        assert threading.get_ident() != package.THREAD
    finally:
        may_end.set()
        for module in (name, f"{name}.part"):
            sys.modules.pop(module, None)


async def test_a_module_that_is_missing_is_an_error_each_time() -> None:
    for _ in range(2):
        with pytest.raises(ImportError):
            await import_in_thread("zoea.no_such_module")
