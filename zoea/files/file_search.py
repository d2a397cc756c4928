"""Lists and searches the files of a folder with ripgrep, else git, else Python.

Each is a process of its own, so that a pattern that takes for ever can be ended. None follows links.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from zoea.files.git import find_top
from zoea.files.plain_search import compile_glob
from zoea.files.safe_folder import is_git
from zoea.files.work_left import DRAFT
from zoea.model.errors import FilesError
from zoea.process.command_runs import kill_and_wait, wait_for_end
from zoea.process.group_guard import start_child
from zoea.process.sandbox import build_environment

DEADLINE_S = 20.0
MOST_CHARS = 300
"""Characters of a line that are shown."""
_CHUNK = 262_144
_MOST_RECORD = 1_000_000
_RIPGREP = ("--no-config", "--null", "--hidden", "--no-require-git", "--no-messages")
_GIT = ("-c", "core.fsmonitor=false")
_PLAIN = (sys.executable, "-I", str(Path(__file__).with_name("plain_search.py")))
_HIT = re.compile(rb"([^\0]*)\0(\d+)[:\0](.*)", re.DOTALL)


class Hits(Struct):
    """Lines or names that were found.

    Attributes:
        cut: Why there may be more; empty where these are all.
    """

    lines: list[str]
    cut: str = ""


class FileSearch:
    """Lists and searches one folder, without the `closed` ones in it."""

    def __init__(self, folder: Path, closed: Sequence[Path] = ()) -> None:
        self._folder = folder
        self._closed = [one.relative_to(folder).parts for one in closed if one.is_relative_to(folder)]
        self._ripgrep = shutil.which("rg")
        self._git = shutil.which("git") if self._ripgrep is None and find_top(folder) is not None else None

    async def list_names(self, under: list[str], pattern: str, most: int) -> Hits:
        """List files below a folder that match a glob, of which `**` covers any folders."""
        hits = await self._run(self._list_line(), lambda record: (record, ""), b"\0", under, pattern, most)
        hits.lines.sort()
        return hits

    async def search(self, expression: str, under: list[str], pattern: str, most: int, *, ignore_case: bool) -> Hits:
        """Search lines that match a regular expression. Raises FilesError for one that cannot be read."""
        if "\n" in expression or "\0" in expression:
            raise FilesError("the pattern has more than one line", hint="Lines are searched one by one.")
        hits = await self._run(self._search_line(expression, ignore_case), _read_hit, b"\n", under, pattern, most)
        hits.lines.sort(key=lambda line: line.partition(":")[0])
        return hits

    def _list_line(self) -> list[str]:
        if self._ripgrep:
            return [self._ripgrep, "--files", *_RIPGREP]
        if self._git:
            return [self._git, *_GIT, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"]
        return list(_PLAIN)

    def _search_line(self, expression: str, ignore_case: bool) -> list[str]:
        case = ["-i"] if ignore_case else []
        if self._ripgrep:
            cut = ("--max-columns=20000", "--max-columns-preview")
            return [self._ripgrep, *_RIPGREP, "-n", "--no-heading", "--color=never", *cut, *case, "-e", expression, "."]
        if self._git:
            settings = ("--no-color", "--no-column", "--no-heading", "--no-recurse-submodules")
            shown = ("-I", "-n", "-z", "--untracked", "-E", *settings)
            return [self._git, *_GIT, "grep", *shown, *case, "-e", expression]
        return [*_PLAIN, *case, expression]

    def _fit(self, name: bytes, under: list[str]) -> str | None:
        """Return the name of a file below a folder that may be shown, else None."""
        text = name.decode("utf-8", "backslashreplace").removeprefix("./")
        parts = text.split("/")
        if parts[: len(under)] != under or any(is_git(part) for part in parts) or DRAFT.fullmatch(parts[-1]):
            return None
        if any(tuple(parts[: len(closed)]) == closed for closed in self._closed):
            return None
        return text

    async def _run(
        self,
        line: list[str],
        read: Callable[[bytes], tuple[bytes, str] | None],
        end: bytes,
        under: list[str],
        pattern: str,
        most: int,
    ) -> Hits:
        """Run a program in the folder and collect up to `most` of its records."""
        matches = _compile(pattern)
        hits = Hits([])

        def take(record: bytes) -> bool:
            found = read(record)
            name = self._fit(found[0], under) if found is not None else None
            if found is not None and name is not None and (matches is None or matches(name)):
                hits.lines.append(name + found[1])
            return len(hits.lines) < most

        process = await start_child(
            *line, cwd=self._folder, stdin=DEVNULL, stdout=PIPE, stderr=PIPE,
            env={**build_environment(), "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1"},
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        errors = asyncio.create_task(process.stderr.read(4_000))
        try:
            async with asyncio.timeout(DEADLINE_S):
                if not await _take_records(process.stdout, take, end):
                    hits.cut = f"cut at {most:,}"
                    return hits
                await wait_for_end(process)
                problem = (await errors).decode("utf-8", "replace").strip()
        except TimeoutError:
            hits.cut = f"ended after {DEADLINE_S:g} s"
            return hits
        finally:
            await kill_and_wait(process)
            errors.cancel()
            if (transport := getattr(process, "_transport", None)) is not None:
                transport.close()
        if process.returncode not in (0, 1) and problem:
            raise FilesError(f"the search failed: {problem[:500]}", hint="Change the pattern.")
        return hits


def _read_hit(record: bytes) -> tuple[bytes, str] | None:
    if (hit := _HIT.fullmatch(record)) is None:
        return None
    line = hit[3].decode("utf-8", "replace").rstrip("\r")
    cut = f"… [{len(line):,} characters]" if len(line) > MOST_CHARS else ""
    return hit[1], f":{int(hit[2])}:{line[:MOST_CHARS]}{cut}"


async def _take_records(stdout: asyncio.StreamReader, take: Callable[[bytes], bool], end: bytes) -> bool:
    rest = b""
    while data := await stdout.read(_CHUNK):
        *records, rest = (rest + data).split(end)
        for record in records:
            if not take(record):
                return False
        rest = rest[:_MOST_RECORD]
    return not rest or take(rest)


def _compile(pattern: str) -> Callable[[str], object] | None:
    """Return a function that tells whether a name matches a glob. One without `/` is matched in every folder."""
    if not pattern:
        return None
    plain = pattern.removeprefix("./").removeprefix("/")
    if (compiled := compile_glob(plain if "/" in plain else f"**/{plain}")) is None:
        raise FilesError(f"the glob {pattern[:100]!r} is too complicated", hint="Give one such as `src/**/*.py`.")
    return compiled.match
