"""One browser's cockpit: a process of its own that speaks Textual's web protocol over its pipes.

The protocol's packets are textual-serve's. What is ours: no shell between, a browser
that hears when the cockpit ends, and a process that never outlives its browser.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager

from zoea.text.control_characters import strip

log = logging.getLogger(__name__)

END_S = 2.0
"""What a cockpit may take to end once its browser is gone; then it is killed. It holds nothing that is not stored."""

GREETING = b"__GANGLION__\n"
"""What Textual's web driver writes before its first packet."""

SMALLEST, LARGEST = 1, 1_000
"""Columns and rows that a browser may ask for."""

LAST_WORDS = 4_096


class BrowserCockpit(AppService):
    """See the module.

    Args:
        command: The cockpit's command line.
        write_bytes: Takes what the terminal is to show.
        write_text: Takes packets for the page's script.
        close: Ends the browser's connection.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        write_bytes: Callable[[bytes], Awaitable[None]],
        write_text: Callable[[str], Awaitable[None]],
        close: Callable[[], Awaitable[Any]],
    ) -> None:
        super().__init__(
            "",
            write_bytes=write_bytes,
            write_str=write_text,
            close=close,
            download_manager=DownloadManager(),
        )
        self._arguments = tuple(command)
        self._end: asyncio.Task[None] | None = None

    async def take(self, text: str) -> None:
        """Carry out what the page's script sent; what cannot be read is left out."""
        try:
            packet = json.loads(text)
        except (ValueError, RecursionError):
            return
        match packet:
            case ["stdin", str(keys)]:
                await self.send_bytes(keys.encode("utf-8", "replace"))
            case ["resize", {"width": int(width), "height": int(height)}]:
                await self.set_terminal_size(bounded(width), bounded(height))
            case ["ping", str(when)]:
                await self.remote_write_str(json.dumps(["pong", when]))
            case ["focus"]:
                await self.focus()
            case ["blur"]:
                await self.blur()

    async def run(self) -> None:
        """Hand on what the cockpit writes until it ends, then close the browser's connection."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        assert process.stderr is not None
        last_words = asyncio.create_task(_tail(process.stderr))
        try:
            await self._hand_on(process.stdout)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            log.debug("a cockpit in a browser closed its output")
        if said := (await last_words).strip():
            log.warning("a cockpit in a browser said: %s", strip(said))
        await self.remote_close()

    async def stop(self) -> None:
        """End the process, which notices that its input has ended; in `END_S` it is gone either way."""
        if self._process is None:
            return
        if self._end is None:
            self._end = asyncio.create_task(self._stop(self._process), name="end of a cockpit in a browser")
        # Whoever waits may be cancelled; the end may not.
        await asyncio.shield(self._end)

    def _build_environment(self, width: int = 80, height: int = 24) -> dict[str, str]:
        # A browser shows every colour and letter, whatever the terminal does that it is served from.
        apart = {"LC_ALL": "C.UTF-8", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        size = {"COLUMNS": str(bounded(width)), "ROWS": str(bounded(height))}
        return {**os.environ, **apart, **size, "TEXTUAL_COLOR_SYSTEM": "truecolor"}

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        self._process = await asyncio.create_subprocess_exec(
            *self._arguments,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=self._build_environment(width, height),
            start_new_session=True,  # ctrl+c in the terminal is for whoever serves
        )
        self._stdin = self._process.stdin
        return self._process

    async def _hand_on(self, output: asyncio.StreamReader) -> None:
        """Raises IncompleteReadError at the end."""
        await output.readuntil(GREETING)
        is_watched = True
        while True:
            head = await output.readexactly(5)
            payload = await output.readexactly(int.from_bytes(head[1:], "big"))
            if not is_watched:
                continue  # it still has last words, which keep it from ending until somebody reads them
            try:
                match head[:1]:
                    case b"D":
                        await self.on_data(payload)
                    case b"M":
                        await self.on_meta(payload)
            except ConnectionError:
                is_watched = False

    async def _stop(self, process: Process) -> None:
        self.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), END_S)
        except TimeoutError:
            _kill(process)
            await process.wait()
        if self._task is not None:
            await self._task


async def _tail(stream: asyncio.StreamReader) -> str:
    """The end of all that is written there."""
    kept = b""
    while data := await stream.read(LAST_WORDS):
        kept = (kept + data)[-LAST_WORDS:]
    return kept.decode("utf-8", "replace")


def _kill(process: Process) -> None:
    """Kill it with everything that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        log.debug("a cockpit in a browser was gone already")


def bounded(cells: int) -> int:
    """Columns or rows that a screen may have."""
    return min(max(cells, SMALLEST), LARGEST)
