"""A run of the tests that is ended from outside leaves no process behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.processes import wait_for_end
from tests.waiting import until_true

ROOT = Path(__file__).parents[2]
TEST = """
import signal, subprocess, sys, time
from pathlib import Path

signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background of a script ignores it

def test_a_child_is_ended():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        Path({told!r}).write_text(str(child.pid))
        time.sleep(600)
    finally:
        child.kill()
        child.wait()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_interrupted_ends_the_processes_of_its_tests(tmp_path: Path, number: signal.Signals) -> None:
    told, file = tmp_path / "pid", tmp_path / "test_child.py"
    file.write_text(TEST.format(told=str(told)))
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    run = subprocess.Popen([*command, str(file)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    child = int(until_true(lambda: told.exists() and told.read_text()))
    run.send_signal(number)
    output, _ = run.communicate(timeout=60)
    assert run.returncode == pytest.ExitCode.INTERRUPTED, output
    wait_for_end(child)
