"""The tools of the workbench, for files and commands in one folder.

Their texts are what a model reads.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from difflib import unified_diff
from pathlib import Path
from typing import Any

from msgspec import Struct

from zoea.files.changes import find_base, open_apart, open_diff
from zoea.files.file_search import FileSearch
from zoea.files.git import Git
from zoea.files.ownership import Record
from zoea.files.safe_folder import SafeFolder
from zoea.files.workbench_tools import COMMAND_S
from zoea.model.errors import FilesError
from zoea.process.command_runs import CommandRuns
from zoea.process.sandbox import Sandbox
from zoea.text.control_characters import split_lines

MOST_BYTES = 10_000_000
"""The largest file that is read or written."""
MOST_SHOWN = 60_000
"""Characters of a file that one answer holds."""
_MOST_SEEN = 200
_MOST_SEEN_BYTES = 200_000
_MOST_EDITS = 100
_SNIFF = 8_000
_IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


class Picture(Struct, frozen=True):
    """An image as it stands in a file, in base64."""

    data: str
    media: str


class FailedRun(str):
    """The answer of a command that did not end with the exit status 0."""


class _Seen(Struct, frozen=True):
    """A file when it was read or written; the content only of a small one."""

    digest: bytes
    content: bytes | None


class Workbench:
    """The tools over one folder.

    Args:
        record: Of the worktree, if the folder is one.
    """

    def __init__(self, folder: SafeFolder, sandbox: Sandbox, record: Record | None = None) -> None:
        self.folder = folder
        self.runs = CommandRuns(sandbox, folder.path)
        self._search = FileSearch(folder.path, folder.closed)
        self._record = record
        self._seen: OrderedDict[str, _Seen] = OrderedDict()

    async def close(self) -> None:
        """End all commands and close the folder."""
        await self.runs.close()
        self.folder.close()

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str | Picture:
        """Call a tool with arguments that fit its schema. Raises FilesError."""
        match name:
            case "read_file":
                return self.read_file(**arguments)
            case "write_file":
                return self.write_file(**arguments)
            case "edit_file":
                return self.edit_file(**arguments)
            case "list_files":
                return await self.list_files(**arguments)
            case "search_files":
                return await self.search_files(**arguments)
            case "run":
                return await self.run(**arguments)
            case "run_output":
                return self.runs.find(arguments["number"]).text
            case "run_stop":
                run = self.runs.find(arguments["number"])
                await run.stop()
                return run.text
            case "diff":
                return await asyncio.to_thread(self.diff)
        raise FilesError(f"there is no tool {name[:100]!r}")

    def read_file(self, path: str, start: int = 1, lines: int = 2_000) -> str | Picture:
        """Return numbered lines of a text, or an image. Raises FilesError for another binary file."""
        if (content := self.folder.read(path, MOST_BYTES)) is None:
            raise FilesError(f"there is no file {path}", hint="list_files shows what is there.")
        self._remember(path, content)
        if (media := _find_media(content)) is not None:
            return Picture(base64.b64encode(content).decode(), media)
        if b"\0" in content[:_SNIFF]:
            raise FilesError(
                f"{path} is binary and has {len(content):,} bytes", hint="Only texts and images are shown."
            )
        text = content.decode("utf-8", "replace")
        all_lines = split_lines(text.replace("\r\n", "\n"))
        shown, size = [], 0
        for number, line in enumerate(all_lines[start - 1 : start - 1 + lines], start):
            size += len(line) + 8
            if size > MOST_SHOWN:
                break
            shown.append(f"{number:>6}\t{line}")
        if not shown and all_lines[start - 1 : start]:
            shown = [f"{start:>6}\t{all_lines[start - 1][:MOST_SHOWN]}", "[the rest of this line is left out]"]
        rest = len(all_lines) - (start - 1 + len(shown))
        notes = [f"[{rest:,} more lines: read on with start={start + len(shown)}]"] if rest > 0 and shown else []
        notes += ["[lines end with CR LF]"] if b"\r\n" in content else []
        notes += [] if shown else [f"[{len(all_lines):,} lines; none from {start} on]"]
        return "\n".join([*shown, *notes])

    def write_file(self, path: str, content: str) -> str:
        """Replace a whole file. Raises FilesError for one that was not read, or was changed since."""
        before = self.folder.read(path, MOST_BYTES)
        if before is not None:
            if self._key(path) not in self._seen:
                raise FilesError(f"{path} is there and was not read", hint="Read it first, or use edit_file.")
            self._check_unchanged(path, before)
        data = _encode(content, before)
        self._write(path, data, before)
        return f"{'replaced' if before is not None else 'made'} {path}: {len(data):,} bytes"

    def edit_file(self, path: str, edits: Sequence[Mapping[str, str]]) -> str:
        """Replace texts, each of which must stand once in the file; all or none. Raises FilesError."""
        if (before := self.folder.read(path, MOST_BYTES)) is None:
            raise FilesError(f"there is no file {path}", hint="write_file makes one.")
        self._check_unchanged(path, before)
        if len(edits) > _MOST_EDITS:
            raise FilesError(f"{len(edits)} edits are too many", hint=f"At most {_MOST_EDITS} at once.")
        after = before
        for number, edit in enumerate(edits, 1):
            old, new = _encode(edit["old"], before), _encode(edit["new"], before)
            count = after.count(old) if old else 0
            if count != 1:
                raise FilesError(
                    f"edit {number}: the old text stands {count} times in {path}; nothing was changed",
                    hint="Give more of the lines around it, exactly as they stand.",
                )
            after = after.replace(old, new)
        if after == before:
            raise FilesError("the edits change nothing", hint="Give another new text.")
        self._write(path, after, before)
        return _show_diff(path, before, after)

    async def list_files(self, path: str = "", pattern: str = "", most: int = 1_000) -> str:
        """Return the files below a folder, without those that `.gitignore` names. Raises FilesError."""
        hits = await self._search.list_names(self.folder.split(path), pattern, most)
        return "\n".join([*hits.lines, *([f"[{hits.cut}]"] if hits.cut else [])]) or "[no files]"

    async def search_files(
        self, expression: str, path: str = "", pattern: str = "", most: int = 200, ignore_case: bool = False
    ) -> str:
        """Return the lines that match, as `file:line:text`. Raises FilesError."""
        under = self.folder.split(path)
        hits = await self._search.search(expression, under, pattern, most, ignore_case=ignore_case)
        return "\n".join([*hits.lines, *([f"[{hits.cut}]"] if hits.cut else [])]) or "[no matches]"

    async def run(self, command: str, timeout: float = COMMAND_S, background: bool = False) -> str:
        """Run a command line. The answer holds its exit status, its confinement, and the ends of its output."""
        how = f"[{self.runs.sandbox.text}]"
        if background:
            number = await self.runs.start_background(command, timeout)
            return f"[command {number} runs in the background]\n{how}"
        run = await self.runs.start(command, timeout)
        await run.wait()
        return (FailedRun if run.end or run.code else str)(f"{run.text}\n{how}")

    def diff(self) -> str:
        """Return what was changed since the base. Raises FilesError outside a repository."""
        record = self._record
        own = (
            nullcontext(Git(self.folder.path, git_dir=Path(record.git_dir))) if record else open_apart(self.folder.path)
        )
        with own as git, open_diff(git, find_base(git, record), self.folder.closed) as changed:
            counts = changed.count()
            return f"{counts.text}\n{changed.patch()}" if counts.files else "[no changes]"

    def _key(self, path: str) -> str:
        return "/".join(self.folder.split(path))

    def _remember(self, path: str, content: bytes) -> None:
        kept = content if len(content) <= _MOST_SEEN_BYTES else None
        key = self._key(path)
        self._seen[key] = _Seen(hashlib.blake2b(content).digest(), kept)
        self._seen.move_to_end(key)
        if len(self._seen) > _MOST_SEEN:
            self._seen.popitem(last=False)

    def _check_unchanged(self, path: str, now: bytes) -> None:
        seen = self._seen.get(self._key(path))
        if seen is None or seen.digest == hashlib.blake2b(now).digest():
            return
        change = _show_diff(path, seen.content, now) if seen.content is not None else "It is too large to compare."
        raise FilesError(f"{path} was changed since you read it:\n{change}", hint="Read it again.")

    def _write(self, path: str, data: bytes, before: bytes | None) -> None:
        if len(data) > MOST_BYTES:
            raise FilesError(f"{len(data):,} bytes are too many", hint=f"At most {MOST_BYTES:,}.")
        self.folder.write(path, data, before)
        self._remember(path, data)


def _find_media(content: bytes) -> str | None:
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((media for magic, media in _IMAGES.items() if content.startswith(magic)), None)


def _encode(text: str, before: bytes | None) -> bytes:
    """Encode a text with the line ends of its file."""
    data = text.encode("utf-8", "replace")
    if before and b"\r\n" in before and before.count(b"\r\n") == before.count(b"\n"):
        data = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    return data


def _show_diff(path: str, before: bytes, after: bytes) -> str:
    """Return the lines that changed, cut where they are long."""
    old, new = (split_lines(data.decode("utf-8", "replace")) for data in (before, after))
    lines = list(unified_diff(old, new, f"a/{path}", f"b/{path}", lineterm=""))
    text = "\n".join(lines)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}\n[{len(text) - MOST_SHOWN:,} characters left out]"
