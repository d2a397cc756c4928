"""Runs a command with others beside it: `python -m tests.run_beside BESIDE ... COMMAND`.

Each BESIDE gives way to COMMAND, and what it says is printed after COMMAND's end. Where it fails it runs again, alone:
what passes then is printed as `flaky:`. The exit code is COMMAND's, or 1 where a BESIDE failed twice.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile

_NICENESS = "5"
"""A third of the weight of a test: with less, its own limits of time would be too short."""


def run_beside(*commands: str) -> int:
    """Run the last of the commands with the others beside it. Return the exit code."""
    *beside, command = commands
    with contextlib.ExitStack() as stack:
        told = [stack.enter_context(tempfile.TemporaryFile()) for _ in beside]
        processes = [
            subprocess.Popen(
                ["nice", "-n", _NICENESS, *shlex.split(one)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                process_group=0,  # to end it with all that it started
            )
            for one, file in zip(beside, told, strict=True)
        ]
        first = subprocess.Popen(shlex.split(command))
        try:
            code, codes = first.wait(), [process.wait() for process in processes]
        except KeyboardInterrupt:
            first.terminate()
            for process in processes:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGTERM)
            for process in (first, *processes):
                process.wait()
            raise
        for file in told:
            file.seek(0)
            sys.stdout.write(file.read().decode(errors="replace"))
    for one in (one for one, ended in zip(beside, codes, strict=True) if ended != 0):
        sys.stdout.write("Once more, alone:\n")
        sys.stdout.flush()
        if subprocess.run(shlex.split(one), check=False).returncode == 0:
            sys.stdout.write(f"flaky: {one}\n")
        else:
            code = code or 1
    return code


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(run_beside(*sys.argv[1:]))
