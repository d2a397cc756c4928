"""The log of a child's stderr: turned over at a bound, never in the child's way, private."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import sys
import termios
from pathlib import Path
from typing import TextIO

import pytest

from tests.tools.conftest import Opener
from tests.waiting import until
from zoea.settings.credentials import Credentials
from zoea.settings.endpoints import UpstreamSettings
from zoea.text.redact import redact_secrets
from zoea.tools import resolve_upstream
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


async def test_hidden_characters_are_written_as_escapes(tmp_path: Path) -> None:
    log = StderrLog(tmp_path / "upstream-x.log")
    with log.attach() as end:
        end.buffer.write(b"a\x1b]0;t\x07 \xc2\x9d\xe2\x80\xae \xff\r\n\tb\n")
        end.flush()
        log.close()
    assert log.path.read_text() == "a\\u001b]0;t\\u0007 \\u009d\\u202e \\udcff\n\tb\n"


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
            end.write(f"{number}" * 39 + "\n")
            end.flush()
            await until(lambda: log.path.exists() and log.path.read_text().endswith(f"{number}" * 39 + "\n"))  # noqa: B023  waited for here
        log.close()
    assert log.path.read_text() == "8" * 39 + "\n" + "9" * 39 + "\n"
    assert (tmp_path / "upstream-x.log.1").read_text() == "6" * 39 + "\n" + "7" * 39 + "\n"


async def test_a_failing_log_warns_once_and_blocks_no_child(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    log = StderrLog(tmp_path / "upstream-x.log")
    log.path.mkdir()
    with log.attach() as end:
        for _ in range(3):
            end.write("lost\n")
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


KEY = "-----BEGIN PRIVATE KEY-----\ncanary+line+of+the+key\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    "pieces",
    [
        ("login with password=can", "ary-8Xq2\nnext\n"),
        ("login with ", "password=", "canary-8Xq2", "\nnext\n"),
        ("the key:\n" + KEY[:35], KEY[35:50], KEY[50:] + "next\n"),
        ("x" * 70_000 + " password=can", "ary-8Xq2\nnext\n"),
    ],
)
async def test_a_secret_is_masked_however_its_output_comes(tmp_path: Path, pieces: tuple[str, ...]) -> None:
    log = StderrLog(tmp_path / "upstream-x.log", mask=redact_secrets)
    with log.attach() as end:
        for piece in pieces:
            for start in range(0, len(piece), 40_000):  # no more than fits into the pipe
                end.write(piece[start : start + 40_000])
                end.flush()
                await until(lambda: is_empty(end))
        await until(lambda: log.path.read_text().endswith("next\n"))
        log.close()
    text = log.path.read_text()
    assert "canary" not in text
    assert "ary-8" not in text
    assert "[REDACTED_" in text


OUTPUT = """
import os, sys
for name in ("LOGIN", "API_TOKEN", "SHORT", "SERVICE", "MODE"):
    print(f"starting {name} with {os.environ[name]}", file=sys.stderr)
print("args", sys.argv[1:], file=sys.stderr)
print("read sk-unknownAbc12345xyz and password=other-9", file=sys.stderr)
print("MODE of production", file=sys.stderr)
"""


async def test_the_log_of_a_real_server_holds_no_secret_that_zoea_handed_over(tmp_path: Path, open_box: Opener) -> None:
    credentials = Credentials(tmp_path / "credentials.toml")
    credentials.set_many(
        {"login": "canary words", "short": "c4n!", "arg": "canaryarg", "json": '{\n "key": "canary-of-a-service"\n}'}
    )
    settings = UpstreamSettings.model_validate(
        {
            "command": sys.executable,
            "args": ["-c", OUTPUT, "--login={file:arg}"],
            "env": {
                "LOGIN": "bob:{file:login}",
                "API_TOKEN": "canary",
                "SHORT": "file:short",
                "SERVICE": "file:json",
                "MODE": "production",
            },
            "retries": 0,
        }
    )
    open_box(resolve_upstream("x", settings, credentials))
    path = tmp_path / "logs" / "upstream-x.log"
    await until(lambda: path.exists() and "MODE of" in path.read_text())
    text = path.read_text()
    assert "canary" not in text
    assert "c4n!" not in text
    assert "read [REDACTED_API_KEY] and password=[REDACTED_PASSWORD]" in text, (
        "by form and name: Zoea did not hand them over"
    )
    assert "starting LOGIN with bob:‹hidden›" in text
    assert "MODE of production" in text, "an ordinary variable is no secret"
