"""What the continuous integration runs tells a flaky test from a failing one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import until_true

ROOT = Path(__file__).parents[2]

FLAKY = """
from pathlib import Path

def test_flaky():
    mark = Path(__file__).with_name("mark")
    is_first = not mark.exists()
    mark.touch()
    assert not is_first
"""
FLAKY_PROGRAM = "sh -c 'rmdir mark 2> error || { mkdir mark; exit 2; }'"
FAILING = "def test_failing(): assert False\n"


@pytest.mark.parametrize(("more", "code"), [("", 0), (FAILING, 1)], ids=["flaky", "flaky and failing"])
def test_a_test_that_passes_when_it_is_run_again_alone_is_named_and_another_fails(
    tmp_path: Path, more: str, code: int
) -> None:
    (tmp_path / "test_both.py").write_text(FLAKY + more)
    (tmp_path / "pytest.ini").touch()
    command: list[str | Path] = [ROOT / ".ci" / "tests", "-n0", "--rootdir", tmp_path, tmp_path]
    # Loading the plugins that these tests do not use is half of the time of each of the two runs.
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
    ran = subprocess.run(
        [*command, "-c", tmp_path / "pytest.ini"],
        env={**os.environ, **plugins},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    named = [line for line in ran.stdout.splitlines() if line.startswith("flaky: ")]
    assert [line.rpartition("::")[2] for line in named] == ["test_flaky"]


@pytest.mark.parametrize(
    ("beside", "command", "code", "told"),
    [
        (["echo beside"], "echo first", 0, ["first", "beside"]),
        (["echo beside"], "sh -c 'echo first; exit 3'", 3, ["first", "beside"]),
        (["sh -c 'echo beside; exit 2'"], "echo first", 1, ["first", "beside", "Once more, alone:", "beside"]),
        (["mkdir mark"], "echo first", 0, ["first"]),
        ([FLAKY_PROGRAM], "echo first", 0, ["first", "Once more, alone:", f"flaky: {FLAKY_PROGRAM}"]),
        (
            ["echo one", "sh -c 'echo two; exit 2'", FLAKY_PROGRAM],
            "echo first",
            1,
            ["first", "one", "two", "Once more, alone:", "two", "Once more, alone:", f"flaky: {FLAKY_PROGRAM}"],
        ),
    ],
    ids=["both pass", "the command fails", "beside it fails", "each runs once", "beside it is flaky", "several"],
)
def test_what_runs_beside_the_tests_is_told_after_them_and_fails_the_run(
    tmp_path: Path, beside: list[str], command: str, code: int, told: list[str]
) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.run_beside", *beside, command],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert ran.stdout.splitlines() == told


def test_what_runs_beside_the_tests_ends_with_them_when_they_are_interrupted(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.run_beside"]
    command += [f"sh -c 'echo $$ > {name}; exec sleep 300'" for name in ("beside", "other", "first")]
    notes = [tmp_path / name for name in ("beside", "other", "first")]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path) as running:
        until_true(lambda: all(note.exists() and note.read_text().strip() for note in notes))
        running.terminate()
    assert not [note.name for note in notes if Path("/proc", note.read_text().strip()).exists()]


def test_the_bytecode_that_is_written_before_the_run_is_what_pytest_reads(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_failing.py").write_text(FAILING)
    command: list[str | Path] = [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "--rootdir", tmp_path]
    written = []
    for more, code in ((["--noconftest", "-p", "tests.rewritten"], 0), (["-n0", "-p", "no:cacheprovider"], 1)):
        ran = subprocess.run([*command, *more, tmp_path], cwd=ROOT, stdout=subprocess.DEVNULL, timeout=100, check=False)
        assert ran.returncode == code
        [compiled] = tmp_path.glob("tests/__pycache__/*.pyc")
        written.append((compiled.stat().st_ino, compiled.stat().st_mtime_ns))
    assert written[0] == written[1]
