"""Runs the real `zoea` as a process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

from tests.fakes.fork_server import ForkedProgram
from tests.waiting import until
from zoea.process.lock import read_holder
from zoea.settings.paths import places

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
"""Long enough for a loaded machine; what is waited for ends the wait at once."""


def environment() -> dict[str, str]:
    """The test's own home and directories, and this checkout's Zoea."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}


def spawn(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """`zoea ARGUMENTS` with its output in pipes, unless options of Popen say otherwise. The caller waits for it."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return ForkedProgram(
        [sys.executable, "-m", "zoea", *arguments], env=environment(), text=True, **(streams | options)
    )


def zoea(
    *arguments: str, timeout: float = PATIENCE_S, typed: str = "", **options: Any
) -> subprocess.CompletedProcess[str]:
    """`zoea ARGUMENTS`, run to its end, with `typed` as its stdin; with options of Popen."""
    with spawn(*arguments, stdin=subprocess.PIPE, **options) as process:
        try:
            out, err = process.communicate(typed, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@asynccontextmanager
async def run_headless(*arguments: str, **options: Any) -> AsyncIterator[subprocess.Popen[str]]:
    """Run a swarm without a screen, and end it when the block is left.

    It can be reached before the myses that `--myses` asks for are there, so they are waited for.
    """
    process = spawn("run", "--headless", *arguments, **options)
    wanted = int(arguments[arguments.index("--myses") + 1]) if "--myses" in arguments else 0
    try:
        assert await until(find_owner, within=PATIENCE_S)
        await until(lambda: len(ask("SELECT id FROM mysis")) >= wanted, within=PATIENCE_S)
        yield process
    finally:
        process.terminate()
        await asyncio.to_thread(process.communicate, timeout=PATIENCE_S)


def events(output: str) -> list[dict[str, Any]]:
    """The JSON lines of a run."""
    return [json.loads(line) for line in output.splitlines()]


def ask(query: str) -> list[tuple[Any, ...]]:
    """Read the database, also while a swarm writes it; nothing before it is there."""
    try:
        with closing(sqlite3.connect(f"file:{places('').database}?mode=ro", uri=True, timeout=5)) as reader:
            return reader.execute(query).fetchall()
    except sqlite3.OperationalError:
        return []


def kill_owner() -> None:
    """Kill the process that owns the workspace, if there is one."""
    holder = read_holder(places("").data)
    # An owner that ends does not name itself; a pid of 0 would kill the tests themselves.
    if holder is not None and holder.pid is not None:
        with suppress(ProcessLookupError):
            os.kill(holder.pid, signal.SIGKILL)


def find_owner() -> int:
    """The process that runs the swarm and takes connections; 0 where there is none."""
    holder = read_holder(places("").data)
    if holder is None:
        return 0
    with socket.socket(socket.AF_UNIX) as door:
        try:
            door.connect(holder.socket)
        except OSError:
            return 0
    return holder.pid or 0


def read_peak_kb(pid: int) -> int:
    """The most memory that a process has had."""
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0])
