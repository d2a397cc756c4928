"""The Makefile sets up `.venv` again after a first try that failed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]

WITHOUT_ENSUREPIP = """#!/bin/sh
case "$*" in
  "-m venv "*) mkdir -p "$3/bin"; touch "$3/bin/python"; echo "apt install python3-venv"; exit 1 ;;
esac
"""
"""A Python as Debian has it without the package `python3-venv`: it makes the environment, but for pip."""


def test_an_environment_that_could_not_be_completed_is_made_again(tmp_path: Path) -> None:
    python, made = tmp_path / "python3", tmp_path / "venv" / "bin" / "python"
    python.write_text(WITHOUT_ENSUREPIP, encoding="utf-8")
    python.chmod(0o700)
    environ = {"PATH": os.environ["PATH"]}
    for _ in range(2):
        command = ["make", "-C", str(ROOT), f"VENV={tmp_path / 'venv'}", f"PYTHON={python}", str(made)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=30, env=environ, check=False)
        assert ran.returncode != 0
        assert "apt install python3-venv" in ran.stdout
        assert not made.exists()
