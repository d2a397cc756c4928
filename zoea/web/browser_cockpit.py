"""The cockpit of one browser: a process that speaks Textual's web protocol over its pipes.

A packet is a letter (`D` data, `M` meta data as JSON), its length as 4 bytes, and the payload.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from zoea.process.group_guard import guard, start_child
from zoea.text.control_characters import reveal
from zoea.text.screen_size import clamp_cells

log = logging.getLogger(__name__)

END_S = 2.0
"""Seconds that a cockpit may take to end after its browser is gone; then it is killed. Its state is in the database."""

START_S = 10.0
"""Seconds that a cockpit may take until it draws before the next one starts."""

GREETING = b"__GANGLION__\n"
"""The line that Textual's web driver writes before its first packet."""

STDERR_BYTES = 4_096

STALLED_S = 30.0
"""Seconds after which a browser or a cockpit that reads nothing of what waits for it is given up."""

SHORT = 4_096
"""Characters of a packet at most, unless it is a text for the terminal."""

_LONG_TEXT = re.compile(r'\s*\[\s*"stdin"\s*,\s*(?=")')
_DECODER = json.JSONDecoder()


class BrowserCockpit:
    """Runs the cockpit process of one browser and passes packets between the two.

    Args:
        command: The cockpit's command line.
        write_bytes: Sends terminal output to the browser.
        write_text: Sends a packet to the page's script.
        close: Closes the browser's connection.
        abort: Breaks it off, also where the browser reads nothing.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        write_bytes: Callable[[bytes], Awaitable[None]],
        write_text: Callable[[str], Awaitable[None]],
        close: Callable[[], Awaitable[Any]],
        abort: Callable[[], None],
    ) -> None:
        self._command = tuple(command)
        self._write_bytes = write_bytes
        self._write_text = write_text
        self._close = close
        self._abort = abort
        self._process: Process | None = None
        self._output: asyncio.Task[None] | None = None
        self._end: asyncio.Task[None] | None = None
        self._has_started = asyncio.Event()

    async def start(self, width: int, height: int) -> None:
        """Start the process with a screen of this size, in cells. Return when it draws, or after `START_S`."""
        # Colours and letters do not depend on the terminal that `zoea serve` runs in.
        terminal = {"LC_ALL": "C.UTF-8", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        size = {"COLUMNS": str(clamp_cells(width)), "ROWS": str(clamp_cells(height))}
        self._process = await start_child(
            *self._command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={**os.environ, **terminal, **size, "TEXTUAL_COLOR_SYSTEM": "truecolor"},
        )
        self._output = asyncio.create_task(self._forward_output(self._process), name="output of a browser's cockpit")
        with suppress(TimeoutError):
            async with asyncio.timeout(START_S):
                await self._has_started.wait()

    async def receive(self, text: str) -> None:
        """Carry out a packet of the page's script. Log and ignore anything else."""
        try:
            packet = read_packet(text)
        except (ValueError, RecursionError):
            log.warning("a browser's message was ignored, because it is no JSON of a length that the page sends")
            return
        match packet:
            case ["stdin", ""]:
                return
            case ["stdin", str(keys)]:
                await self._send(b"D", keys.encode("utf-8", "replace"))
            case ["resize", {"width": int(width), "height": int(height)}]:
                await self._send_meta(type="resize", width=clamp_cells(width), height=clamp_cells(height))
            case ["ping", str(when)]:
                await self._write_text(json.dumps(["pong", when]))
            case ["focus" | "blur" as change]:
                await self._send_meta(type=change)
            case _:
                log.warning("a browser's message was ignored, because the page sends none of this form")

    async def stop(self) -> None:
        """End the process by closing its input; kill it after `END_S`."""
        if self._process is None:
            return
        if self._end is None:
            self._end = asyncio.create_task(self._stop(self._process), name="end of a browser's cockpit")
        await asyncio.shield(self._end)  # a cancelled caller does not stop the ending

    async def _send_meta(self, **values: str | int) -> None:
        await self._send(b"M", json.dumps(values).encode())

    async def _send(self, kind: bytes, payload: bytes) -> None:
        """Write a packet to the process; one that has ended is noticed by its output."""
        if self._process is None or self._process.stdin is None or self._process.stdin.is_closing():
            return
        self._process.stdin.write(kind + len(payload).to_bytes(4, "big") + payload)
        try:
            async with asyncio.timeout(STALLED_S):
                await self._process.stdin.drain()
        except TimeoutError:
            log.warning("a browser's cockpit is ended, because it took too little input for %.0f s", STALLED_S)
            await self._close_connection()
        except ConnectionError:
            log.debug("a browser's cockpit reads no more input")

    async def _forward_output(self, process: Process) -> None:
        """Pass on the process's output until it ends, then close the browser's connection."""
        assert process.stdout is not None
        assert process.stderr is not None
        errors = asyncio.create_task(_log_errors(process.stderr), name="errors of a browser's cockpit")
        try:
            await self._forward_packets(process.stdout)
        except asyncio.IncompleteReadError:
            log.debug("a browser's cockpit closed its output")
        except (asyncio.LimitOverrunError, ValueError) as error:
            log.warning("a browser's cockpit is ended, because its output cannot be read: %s", error)
        self._has_started.set()
        await self._close_connection()
        while await process.stdout.read(STDERR_BYTES):
            """A full pipe would keep the process from ending, and asyncio from seeing its end."""
        await errors

    async def _forward_packets(self, output: asyncio.StreamReader) -> None:
        """Pass packets on as long as there is a browser that reads them.

        Raises:
            IncompleteReadError: The output has ended.
            ValueError: It holds a packet that cannot be read.
        """
        await output.readuntil(GREETING)
        self._has_started.set()
        is_connected = True
        while True:
            head = await output.readexactly(5)
            payload = await output.readexactly(int.from_bytes(head[1:], "big"))
            if not is_connected:
                continue
            try:
                async with asyncio.timeout(STALLED_S):
                    match head[:1]:
                        case b"D":
                            await self._write_bytes(payload)
                        case b"M":
                            await self._receive_meta(json.loads(payload))
            except TimeoutError:
                log.warning("a browser is given up, because it read too little for %.0f s", STALLED_S)
                self._abort()  # a closing handshake would wait behind what is not read
                is_connected = False
            except ConnectionError:
                is_connected = False

    async def _receive_meta(self, meta: dict[str, Any]) -> None:
        match meta:
            case {"type": "exit"}:
                await self._close()
            case {"type": "open_url", "url": url, "new_tab": new_tab}:
                await self._write_text(json.dumps(["open_url", {"url": url, "new_tab": new_tab}]))
            case _:
                log.debug("ignored meta data of a browser's cockpit: %s", meta.get("type"))

    async def _close_connection(self) -> None:
        try:
            async with asyncio.timeout(END_S):
                await self._close()
        except TimeoutError:
            self._abort()

    async def _stop(self, process: Process) -> None:
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), END_S)
        except TimeoutError:
            self._abort()  # what waits for a browser that does not read would hold the output open
            kill_group(process)
            await process.wait()
        else:
            if process.returncode:
                log.warning("a browser's cockpit ended by itself, with the exit code %d", process.returncode)
        finally:
            guard.end(process.pid)
        if self._output is not None:
            await self._output


async def _log_errors(stream: asyncio.StreamReader) -> None:
    """Log what a cockpit writes to stderr, until its end."""
    while data := await stream.read(STDERR_BYTES):
        if text := data.decode("utf-8", "replace").strip():
            log.warning("a browser's cockpit wrote: %s", reveal(text))


def read_packet(text: str) -> Any:
    """Parse a packet of the page's script, in a time that its form cannot prolong.

    Raises:
        ValueError: It is no JSON, or it is longer than `SHORT` and no text for the terminal.
        RecursionError: It is too deep.
    """
    if len(text) <= SHORT:
        return json.loads(text)
    start = _LONG_TEXT.match(text)
    if start is None:
        raise ValueError("too long")
    keys, end = _DECODER.raw_decode(text, start.end())
    if text[end:].strip() != "]":
        raise ValueError("more than a text")
    return ["stdin", keys]


def kill_group(process: Process) -> None:
    """Kill a process with all processes it started."""
    guard.end(process.pid)
