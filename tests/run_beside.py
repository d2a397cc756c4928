"""Runs a command with another beside it that waits much: `python -m tests.run_beside BESIDE COMMAND`.

BESIDE gives way to COMMAND, and what it says is printed after COMMAND's end. Where it fails it runs again, alone: what
passes then is printed as `flaky:`. The exit code is COMMAND's, or 1 where BESIDE failed twice.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile

_NICENESS = "5"
"""A third of the weight of a test: with less, its own limits of time would be too short."""


def run_beside(beside: str, command: str) -> int:
    """Run both and return the exit code."""
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(
            ["nice", "-n", _NICENESS, *shlex.split(beside)],
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=subprocess.STDOUT,
            process_group=0,  # to end it with all that it started
        )
        first = subprocess.Popen(shlex.split(command))
        try:
            code, failed = first.wait(), process.wait() != 0
        except KeyboardInterrupt:
            first.terminate()
            os.killpg(process.pid, signal.SIGTERM)
            first.wait()
            process.wait()
            raise
        told.seek(0)
        sys.stdout.write(told.read().decode(errors="replace"))
    if failed:
        sys.stdout.write("Once more, alone:\n")
        sys.stdout.flush()
        failed = subprocess.run(shlex.split(beside), check=False).returncode != 0
        if not failed:
            sys.stdout.write(f"flaky: {beside}\n")
    return code or int(failed)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(run_beside(*sys.argv[1:]))
