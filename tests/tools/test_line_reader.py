"""Output of a process is read in whole lines; an endless line ends only its session."""

from __future__ import annotations

import inspect
import sys

import anyio
import pytest
from anyio import BrokenResourceError, EndOfStream
from mcp.client import stdio

from tests.tools.conftest import Opener
from tests.waiting import until
from zoea.tools import UpstreamConfig
from zoea.tools.results import parse_fields
from zoea.tools.upstream import mcp_connection
from zoea.tools.upstream.mcp_connection import BoundedLineStream

ENDLESS = "import sys\nwhile True: sys.stdout.write('x' * 65536)"


async def _read(*pieces: bytes) -> list[str]:
    send, receive = anyio.create_memory_object_stream[bytes](len(pieces))
    for piece in pieces:
        await send.send(piece)
    await send.aclose()
    reading = BoundedLineStream(receive, encoding="utf-8", errors="replace")
    found = []
    try:
        while True:
            found.append(await reading.receive())
    except EndOfStream:
        return found
    finally:
        await reading.aclose()


async def test_pieces_wait_for_their_newline() -> None:
    assert await _read(b"on", b"e\ntw", b"o\nthree\n", b"f\xc3", b"\xbcnf") == ["one\n", "two\nthree\n", "fünf"]
    assert await _read(b"", b"a\n") == ["a\n"]


async def test_a_line_over_the_limit_ends_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_connection, "MAX_LINE_CHARS", 10)
    assert await _read(b"0123456789", b"\n0123456789\n") == ["0123456789\n0123456789\n"]
    with pytest.raises(BrokenResourceError):
        await _read(b"0123456789", b"0")


async def test_a_server_that_writes_a_line_without_end_is_given_up_soon(
    open_box: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without a bound it would stay opening until its 300 s are over, and take all memory meanwhile.
    monkeypatch.setattr(mcp_connection, "MAX_LINE_CHARS", 2**20)
    box = open_box(
        UpstreamConfig(name="endless", command=sys.executable, args=("-c", ENDLESS), start_timeout=300.0, retries=0)
    )
    await until(lambda: box.status()[0].state == "down", within=60.0)


def test_a_result_nested_without_end_has_no_fields() -> None:
    assert parse_fields({"content": [{"type": "text", "text": "[" * 100_000}]}) == {}


def test_the_sdk_still_has_no_limit_for_a_line_of_a_process() -> None:
    """When this fails, the SDK has a limit: use it instead of `BoundedLineStream`."""
    options = [*inspect.signature(stdio.stdio_client).parameters, *stdio.StdioServerParameters.model_fields]
    assert options == ["server", "errlog", "command", "args", "env", "cwd", "encoding", "encoding_error_handler"]
