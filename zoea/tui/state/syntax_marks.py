"""Reads the syntax of changed lines, by `syntax_lexer` in a process of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired

import msgspec

from zoea.process.group_guard import guard
from zoea.settings.paths import Places
from zoea.text.control_characters import reveal
from zoea.text.patches import ChangedLine, FileDiff
from zoea.tui.state import worktree_access

_PROGRAM = (sys.executable, "-I", str(Path(__file__).parents[1] / "conversation" / "syntax_lexer.py"))
_SIGNS = ("+", "-", " ")
DEADLINE_S = 10.0
"""A loaded machine may take as long for the CPU time that the lexer has."""


async def read_marks(places: Places, name: str, files: Sequence[FileDiff]) -> list[Sequence[str]]:
    """Return the marks of `syntax_lexer` for each line of each file, as shown. None for one that stays plain.

    Where the lexer was ended at a file, those after it are not in the list.
    """
    started: list[Popen[bytes]] = []
    try:
        return await asyncio.to_thread(_read, places, name, files, started)
    finally:
        for process in started:
            guard.end(process.pid)  # where this was cancelled; the thread then waits for it


def _read(places: Places, name: str, files: Sequence[FileDiff], started: list[Popen[bytes]]) -> list[Sequence[str]]:
    answer = _lex(msgspec.json.encode([_build_request(places, name, file) for file in files]), started)
    marks = [_read_answer(line, file) for line, file in zip(answer.splitlines(), files, strict=False)]
    return [*marks, ()] if len(marks) < len(files) else marks


def _build_request(places: Places, name: str, file: FileDiff) -> dict[str, object]:
    shown = [line for line in file.lines if line.sign in _SIGNS]
    texts = worktree_access.read_change(places, name, file) if shown else None
    if texts is None:
        return {"name": "", "texts": (), "last": ()}
    drawn = [reveal("\n".join(lines)).expandtabs(2) for lines in texts]
    last = max(line.old for line in shown), max(line.new for line in shown)
    return {"name": file.path.encode("utf-8", "replace").decode(), "texts": drawn, "last": last}


def _lex(request: bytes, started: list[Popen[bytes]]) -> bytes:
    try:
        process = Popen(_PROGRAM, env={}, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True)
    except OSError:
        return b""
    with process:
        guard.add(process.pid)
        started.append(process)
        try:
            return process.communicate(request, DEADLINE_S)[0]
        except TimeoutExpired as error:
            return error.stdout or b""
        finally:
            guard.end(process.pid)


def _read_answer(answer: bytes, file: FileDiff) -> Sequence[str]:
    try:
        old, new = msgspec.json.decode(answer, type=tuple[list[str], list[str]])
    except msgspec.MsgspecError:
        return ()

    def find(line: ChangedLine) -> str:
        marks, number = (new, line.new) if line.new else (old, line.old)
        return marks[number - 1] if line.sign in _SIGNS and number <= len(marks) else ""

    return [find(line) for line in file.lines]
