"""The log of a child's stderr: turned over at a bound, never in the child's way, private."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import termios
from pathlib import Path
from typing import TextIO

import pytest

from tests.waiting import until
from zoea.tools.upstream.stderr_log import StderrLog


def is_empty(end: TextIO) -> bool:
    """Return whether all bytes that were written to the pipe have been read."""
    return fcntl.ioctl(end.fileno(), termios.FIONREAD, b"\0" * 4) == b"\0" * 4


async def test_output_arrives_in_the_log_and_the_end_is_noticed(tmp_path: Path) -> None:
    log = StderrLog(tmp_path / "logs" / "upstream-x.log")
    with log.attach() as end:
        end.write("hello\n")
    await until(lambda: log.path.exists() and log.path.read_text() == "hello\n")
    await until(lambda: not log.is_read)
    log.close()


async def test_closing_keeps_the_last_output(tmp_path: Path) -> None:
    log = StderrLog(tmp_path / "upstream-x.log")
    with log.attach() as end:
        end.write("last words")
        end.flush()
        log.close()
    assert log.path.read_text() == "last words"


async def test_the_file_is_turned_over_at_its_bound(tmp_path: Path) -> None:
    log = StderrLog(tmp_path / "upstream-x.log", max_bytes=100)
    with log.attach() as end:
        for number in range(10):
            end.write(f"{number}" * 40)
            end.flush()
            await until(lambda: log.path.exists() and log.path.read_text().endswith(f"{number}" * 40))  # noqa: B023  waited for here
        log.close()
    assert log.path.read_text() == "8" * 40 + "9" * 40
    assert (tmp_path / "upstream-x.log.1").read_text() == "6" * 40 + "7" * 40


async def test_a_failing_log_warns_once_and_blocks_no_child(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    log = StderrLog(tmp_path / "upstream-x.log")
    log.path.mkdir()
    with log.attach() as end:
        for _ in range(3):
            end.write("lost")
            end.flush()
            await until(lambda: is_empty(end))
        log.path.rmdir()
        end.write("kept")
        end.flush()
        log.close()
    assert caplog.text.count("cannot write") == 1
    assert log.path.read_text() == "kept"


async def test_an_empty_pipe_is_no_end(tmp_path: Path) -> None:
    log = StderrLog(tmp_path / "upstream-x.log")
    with log.attach():
        await asyncio.sleep(0)
        assert log.is_read
        log.close()
    assert (log.is_read, log.path.exists()) == (False, False)
