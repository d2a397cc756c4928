"""What the continuous integration runs tells a flaky test from a failing one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FLAKY = """
from pathlib import Path

def test_flaky():
    mark = Path(__file__).with_name("mark")
    is_first = not mark.exists()
    mark.touch()
    assert not is_first
"""
FAILING = "def test_failing(): assert False\n"


@pytest.mark.parametrize(("more", "code"), [("", 0), (FAILING, 1)], ids=["flaky", "flaky and failing"])
def test_a_test_that_passes_when_it_is_run_again_alone_is_named_and_another_fails(
    tmp_path: Path, more: str, code: int
) -> None:
    (tmp_path / "test_both.py").write_text(FLAKY + more)
    command: list[str | Path] = [
        ROOT / ".ci" / "tests",
        "-n0",
        "-c",
        ROOT / "pyproject.toml",
        "--rootdir",
        tmp_path,
        tmp_path,
    ]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == code, ran.stdout + ran.stderr
    named = [line for line in ran.stdout.splitlines() if line.startswith("flaky: ")]
    assert [line.rpartition("::")[2] for line in named] == ["test_flaky"]
