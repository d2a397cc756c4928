"""Runs the real `zoea` as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PATIENCE_S = 40.0


def environment() -> dict[str, str]:
    """The test's own home and directories, and this checkout's Zoea."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}


def spawn(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """`zoea ARGUMENTS` with its output in pipes. The caller waits for it."""
    return subprocess.Popen(
        [sys.executable, "-m", "zoea", *arguments],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def zoea(*arguments: str, timeout: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
    """`zoea ARGUMENTS`, run to its end."""
    return subprocess.run(
        [sys.executable, "-m", "zoea", *arguments],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def events(output: str) -> list[dict[str, Any]]:
    """The JSON lines of a run."""
    return [json.loads(line) for line in output.splitlines()]
