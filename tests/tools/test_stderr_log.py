"""The log of a child's stderr: turned over at a bound, never in the child's way, private."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.waiting import until
from zoea.tools.upstream.stderr_log import StderrLog


async def test_output_arrives_in_the_log_and_the_end_is_noticed(tmp_path: Path) -> None:
    log = StderrLog(tmp_path / "logs" / "upstream-x.log")
    with log.attach() as end:
        end.write("hello\n")
    await until(lambda: log.path.exists() and log.path.read_text() == "hello\n")
    await until(lambda: not log._readers)
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
            log._copy(next(iter(log._readers)))
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
            log._copy(next(iter(log._readers)))
        log.path.rmdir()
        end.write("kept")
        end.flush()
        log.close()
    assert caplog.text.count("cannot write") == 1
    assert log.path.read_text() == "kept"


async def test_an_empty_pipe_is_no_end(tmp_path: Path) -> None:
    log = StderrLog(tmp_path / "upstream-x.log")
    with log.attach():
        reader = next(iter(log._readers))
        log._copy(reader)
        assert log._readers == {reader}
        log.close()
        log._copy(reader)
    assert not log.path.exists()
