"""Directories of tests are in memory where there is room. At full strength they are on the disk."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.memory_folders import is_roomy, put_folders_into_memory

GIB = 1 << 30


@pytest.mark.parametrize(
    ("free", "flags", "roomy"), [(4 * GIB, 0, True), (4 * GIB - 1, 0, False), (9 * GIB, os.ST_NOEXEC, False)]
)
def test_a_directory_is_roomy_with_four_gib_where_programs_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, flags: int, roomy: bool
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=free, f_frsize=1, f_flag=flags))
    assert is_roomy(tmp_path) == roomy
    assert not is_roomy(tmp_path / "none")


@pytest.mark.parametrize(("soak", "kept"), [("", "elsewhere"), ("1", None)])
def test_a_choice_of_the_person_is_kept_and_full_strength_uses_the_disk(
    monkeypatch: pytest.MonkeyPatch, soak: str, kept: str | None
) -> None:
    monkeypatch.setenv("ZOEA_SOAK", soak)
    monkeypatch.delenv("PYTEST_DEBUG_TEMPROOT", raising=False)
    if kept:
        monkeypatch.setenv("PYTEST_DEBUG_TEMPROOT", kept)
    put_folders_into_memory()
    assert os.environ.get("PYTEST_DEBUG_TEMPROOT") == kept
