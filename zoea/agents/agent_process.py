"""Runs the process of an agent in a group of its own.

Messages are lines; the end of its stderr is kept for errors.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import re
import signal
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from zoea.model.errors import AgentError, AgentLost
from zoea.process.group_guard import end_marked, find_marked, guard, make_mark, start_child
from zoea.text.control_characters import reveal

_log = logging.getLogger(__name__)

MAX_LINE_BYTES = 16 * 1024 * 1024
CHUNK_BYTES = 65_536
LARGE_BYTES = 262_144
"""A longer message is parsed in a thread."""
STDERR_LINES = 20
MOST_NOISE = 50
"""Lines of stdout that are no message and are put with those of stderr; after more in a row the agent is ended."""
EOF_GRACE_S = 1.0
TERM_GRACE_S = 1.0
REAP_S = 5.0
_POLL_S = 0.01
_EXIT_POLL_S = 0.1
_LAST_EXIT_S = 1.0
_LAST_OUTPUT_S = 0.2
_LINES_AT_ONCE = 20
_MOST_LINE_CHARS = 2_000
_KEPT = re.compile(
    "HOME|LOGNAME|PATH|SHELL|TERM|USER|LANG|TMPDIR|TZ|SSL_CERT_(FILE|DIR)|NODE_EXTRA_CA_CERTS"
    "|LC_(ALL|ADDRESS|COLLATE|CTYPE|IDENTIFICATION|MEASUREMENT|MESSAGES|MONETARY|NAME|NUMERIC|PAPER|TELEPHONE|TIME)"
    "|XDG_((CACHE|CONFIG|DATA|STATE)_HOME|RUNTIME_DIR|(CONFIG|DATA)_DIRS)"
)
"""Of the environment, by whole names, because people pass keys as `LC_…`; templates name all else."""


def base_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the part of the environment that every agent gets."""
    return {name: value for name, value in environ.items() if _KEPT.fullmatch(name)}


class AgentProcess:
    """A running agent, as a transport of messages for the SDK. Neither `send` nor `receive` raises.

    Attributes:
        lost: Why no more messages come, once that is so.
        mark: Stands in the environment of the process and of what it starts.
    """

    def __init__(self, name: str, process: Process, mark: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.name = name
        self.lost = ""
        self.mark = mark
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._buffer = bytearray()
        self._noise = self._lines = 0
        self._errors = asyncio.create_task(self._read_errors(process.stderr), name=f"stderr of {name}")
        self._exit = asyncio.create_task(self._watch_exit(), name=f"exit of {name}")
        self._ending: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, name: str, command: Iterable[str], env: Mapping[str, str], cwd: Path) -> AgentProcess:
        """Start an agent; it ends with this process. Raises AgentError."""
        command = tuple(command)
        mark = make_mark()
        try:
            process = await start_child(
                *command,
                mark=mark,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env={**base_environment(), **env},
                cwd=cwd,
                limit=CHUNK_BYTES,
            )
        except (OSError, ValueError) as error:
            if str(getattr(error, "filename", None)) == str(cwd):
                raise AgentError(f"the folder {cwd} of {name} is gone", hint="Bring it back.") from error
            raise AgentError(
                f"the program {command[0]} cannot be started: {getattr(error, 'strerror', None) or error}",
                hint="`zoea agents list` shows which agents are installed, and how to install the others.",
            ) from error
        return cls(name, process, mark)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.returncode is not None or bool(self.lost)

    def describe_loss(self) -> AgentLost:
        """Return why the agent is gone, with the last lines of its stderr."""
        lines = self.last_errors()
        return AgentLost(f"{self.name} is gone: {self._why()}" + (f". The last it wrote:\n{lines}" if lines else ""))

    def _why(self) -> str:
        code = self._process.returncode
        if self.lost or code is None:
            return self.lost or "it closed its output"
        return f"it was ended by signal {-code}" if code < 0 else f"it ended with exit code {code}"

    def last_errors(self) -> str:
        """Return the last lines of stderr, with hidden characters as escapes."""
        return reveal("\n".join(self._stderr))

    # The transport.

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message; where the agent is gone, `receive` says so."""
        text = json.dumps(message, separators=(",", ":"), ensure_ascii=False)
        with suppress(ConnectionError, RuntimeError):
            self._stdin.write(text.encode("utf-8", "replace") + b"\n")
            await self._stdin.drain()

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message, None after the last."""
        while not self.lost:
            line = await self._read_line()
            if line is None:
                await self._wait(_LAST_EXIT_S)
                self.lost = self._why()
                break
            if not line.strip():
                continue
            self._lines += 1
            if self._lines % _LINES_AT_ONCE == 0:
                await asyncio.sleep(0)  # a flood must not keep the loop to itself
            message = await asyncio.to_thread(parse, line) if len(line) > LARGE_BYTES else parse(line)
            if message is not None:
                self._noise = 0
                return message
            if line.lstrip().startswith(b"{"):
                self.lost = f"it sent a line that is no message: {reveal(line[:200].decode('utf-8', 'replace'))}"
            else:
                self._noise += 1
                self._keep(line)
                if self._noise > MOST_NOISE:
                    self.lost = f"it wrote {self._noise} lines in a row that are no messages"
        return None

    async def close(self) -> None:
        """End the process and what it started: end of input, SIGTERM, SIGKILL. Safe to call twice."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._end(), name=f"end of {self.name}")
        await asyncio.shield(self._ending)

    async def _read_line(self) -> bytes | None:
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > MAX_LINE_BYTES:
                self.lost = f"it sent a line of over {MAX_LINE_BYTES:,} bytes"
                return None
            data = await self._stdout.read(CHUNK_BYTES)
            if not data:
                return None
            self._buffer += data
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    async def _read_errors(self, stderr: asyncio.StreamReader) -> None:
        rest = b""
        while data := await stderr.read(CHUNK_BYTES):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._keep(line)
            rest = rest[-_MOST_LINE_CHARS:]
            await asyncio.sleep(0)  # a flood must not keep the loop to itself
        self._keep(rest)

    async def _watch_exit(self) -> None:
        """End the output of a process that is gone although its children still hold it."""
        await self._wait(float("inf"), _EXIT_POLL_S)
        await asyncio.sleep(_LAST_OUTPUT_S)
        if (transport := getattr(self._process, "_transport", None)) is not None:
            transport.get_pipe_transport(1).close()

    def _keep(self, line: bytes) -> None:
        if text := line.decode("utf-8", "replace").strip():
            self._stderr.append(text[:_MOST_LINE_CHARS])
            _log.debug("%s: %s", self.name, text[:_MOST_LINE_CHARS])

    async def _end(self) -> None:
        self.lost = self.lost or "it was ended"
        drain = asyncio.create_task(self._discard())
        try:
            self._stdin.close()
            if not await self._wait(EOF_GRACE_S):
                guard.signal(self.pid, signal.SIGTERM)
                await self._wait(TERM_GRACE_S)
        finally:
            guard.end(self.pid)  # also the children that outlive it
            for task in (drain, self._errors, self._exit):
                task.cancel()
        await self._wait(REAP_S)
        await asyncio.to_thread(end_marked, self.mark)  # also those with a session of their own
        # A process outside the group may hold the pipes; nothing of asyncio closes them then.
        if (transport := getattr(self._process, "_transport", None)) is not None:
            transport.close()
        await asyncio.wait({drain, self._errors, self._exit})

    async def _discard(self) -> None:
        """Read what it still writes. Blocked in a write, it would not see its input end."""
        with suppress(RuntimeError):  # the connection still reads
            while True:
                if not await self._stdout.read(CHUNK_BYTES):
                    return
                await asyncio.sleep(0)

    async def _wait(self, within: float, every: float = _POLL_S) -> bool:
        """Wait for the process alone: `Process.wait` waits for its pipes too, which others may hold."""
        loop = asyncio.get_running_loop()
        until = loop.time() + within
        while self._process.returncode is None:
            if loop.time() >= until:
                return False
            await asyncio.sleep(every)
        return True


def read_processor_time(mark: str) -> float:
    """Return the seconds that processes with a mark have run. Systems without /proc give 0."""
    ticks = 0
    for pid in find_marked(mark):
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def parse(line: bytes) -> dict[str, Any] | None:
    """Return a JSON-RPC message in the form that the SDK can take. None for anything else.

    NaN and infinite numbers become texts, because JSON has none and a model is sent what is stored.
    """
    try:
        message = json.loads(line, parse_constant=str, parse_float=_read_number)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict):
        return None
    if not isinstance(message.get("id"), int | str | None) or not isinstance(message.get("method"), str | None):
        return None
    if isinstance(message.get("id"), bool) or ("method" not in message and "id" not in message):
        return None
    error = message.get("error")
    if error is not None and not isinstance(error, dict):
        message["error"] = {"code": -32603, "message": str(error)}
    return message


def _read_number(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text
