"""Runs a program of a conformance run to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path


class Refused(Exception):
    """A program did not do what it has to."""


async def run_program(
    *command: str, environment: Mapping[str, str], folder: Path, within_s: float
) -> tuple[int, str, str]:
    """Return the exit code of a program, and what it wrote to stdout and stderr. Raises Refused if it takes longer."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(within_s):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise Refused(f"{' '.join(command)[:200]} did not end within {within_s:g} s") from None
    return process.returncode or 0, out.decode(), err.decode()
