"""Reads and writes files for an external agent, as far as it may."""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec import Struct, field

from zoea.agents.updates import CHANGE_KINDS, MergedCall
from zoea.files.safe_folder import SafeFolder
from zoea.model.errors import FilesError
from zoea.swarm.turn.agent_policy import relative_path

MOST_BYTES = 10_000_000


class AgentFiles(Struct):
    """The folder of one mysis's agent.

    Attributes:
        agent: The name of the agent.
        folder: The path, with its links resolved.
        uses_gateway: Whether the agent's requests go through Zoea's gateway.
        closed: Folders and files of it that the agent may not see.
        allowed: Paths relative to the folder that allowed calls of this turn change.
    """

    agent: str
    folder: str
    uses_gateway: bool = False
    closed: tuple[Path, ...] = ()
    allowed: set[str] = field(default_factory=set)

    def allow(self, call: MergedCall) -> None:
        """Note that a call was allowed. What it writes is not asked for again."""
        if call.name in CHANGE_KINDS:
            inner = (relative_path(path, self.folder) for path in call.files)
            self.allowed.update(path for path in inner if path is not None)

    def may_write(self, path: str) -> bool:
        """Return whether an allowed call names this file."""
        return relative_path(path, self.folder) in self.allowed

    async def read(self, path: str, line: int | None, limit: int | None) -> str:
        """Return a text file, or so many of its lines from one on. Raises FilesError."""
        data = await asyncio.to_thread(self._read, path)
        if data is None:
            raise FilesError(f"there is no file {path[:200]}")
        text = data.decode("utf-8", "replace")
        if line is None and limit is None:
            return text
        lines = text.splitlines(keepends=True)
        first = max(0, (line or 1) - 1)
        return "".join(lines[first : None if limit is None else first + limit])

    def _read(self, path: str) -> bytes | None:
        folder = SafeFolder(Path(self.folder), self.closed)
        try:
            return folder.read(path, MOST_BYTES)
        finally:
            folder.close()

    async def check(self, path: str) -> None:
        """Raise FilesError where a write would be refused, so that it is not asked for."""
        await asyncio.to_thread(self._read, path)

    async def write(self, path: str, content: str) -> None:
        """Replace a file. Raises FilesError."""
        await asyncio.to_thread(self._write, path, content)

    def _write(self, path: str, content: str) -> None:
        folder = SafeFolder(Path(self.folder), self.closed)
        try:
            folder.write(path, content.encode("utf-8", "replace"), folder.read(path, MOST_BYTES))
        finally:
            folder.close()
