"""The real `zoea serve` as a process, and the cockpits that it started."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.zoea_process import spawn
from tests.waiting import until


@dataclass(frozen=True)
class Served:
    """A process that serves browsers, and the address it printed."""

    process: subprocess.Popen[str]
    address: str

    def cockpits(self) -> set[int]:
        """The processes of its browsers' cockpits that are there."""
        return {pid for pid in _running() if _parent(pid) == self.process.pid}


@asynccontextmanager
async def served(*arguments: str) -> AsyncIterator[Served]:
    """Run `zoea serve` with an own swarm. It is killed at the end where the test did not end it."""
    process = spawn("serve", "--port", "0", *arguments)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = await asyncio.to_thread(process.stdout.readline)
        assert line.startswith("The cockpit is at "), line or process.stderr.read()
        yield Served(process, line.split()[-1])
    finally:
        if process.poll() is None:
            process.kill()
        await asyncio.to_thread(process.wait)
        process.stdout.close()
        process.stderr.close()


async def gone(pids: set[int]) -> None:
    """Wait until none of them is there any more."""
    await until(lambda: not pids & _running())


def _running() -> set[int]:
    """Every process of this machine that is a browser's cockpit."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"zoea.tui.terminal.browser_driver" in (folder / "cmdline").read_bytes():
                found.add(int(folder.name))
        except OSError:
            continue  # it has ended
    return found


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
