"""Output beside the screen goes to the log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import os, pathlib, subprocess, sys
from zoea.tui.terminal.output_redirect import redirect_output
print("before")
with redirect_output(pathlib.Path(sys.argv[1])):
    os.write(1, b"noise on one\\n")
    os.write(2, b"noise on two\\n")
    subprocess.run(["echo", "a child"])
    sys.__stdout__.write("drawn\\n")
    sys.__stderr__.write("drawn too\\n")
    print("said", flush=True)
    subprocess.run(["echo", "the editor"], stdout=sys.__stdout__)
print("after")
sys.stderr.write("at the end\\n")
"""


def ran(log: Path) -> tuple[list[str], list[str]]:
    done = subprocess.run([sys.executable, "-c", _PROGRAM, str(log)], capture_output=True, text=True, check=True)
    return done.stdout.splitlines(), done.stderr.splitlines()


def test_output_of_others_goes_to_the_log(tmp_path: Path) -> None:
    out, err = ran(tmp_path / "zoea.log")
    assert out == ["before", "drawn", "said", "the editor", "after"]
    assert err == ["drawn too", "at the end"]
    assert (tmp_path / "zoea.log").read_text().splitlines() == ["noise on one", "noise on two", "a child"]
    assert (tmp_path / "zoea.log").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["not there/zoea.log", "."])
def test_a_log_that_cannot_be_written_does_not_stop_the_screen(tmp_path: Path, name: str) -> None:
    out, _ = ran(tmp_path / name)
    assert out == ["before", "drawn", "said", "the editor", "after"]
