"""Runs the person's own editor on a file or a text."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

EDITOR = "vi"
_TAKE_LINE = frozenset({"vi", "vim", "nvim", "nano", "emacs", "emacsclient", "micro", "kak", "joe"})


def read_command(env: Mapping[str, str] = os.environ) -> list[str]:
    """Return the editor with its arguments. Raises OSError for a value that is no valid shell text."""
    for name in ("VISUAL", "EDITOR"):
        if env.get(name, "").strip():
            try:
                return shlex.split(env[name])
            except ValueError as error:
                raise OSError(f"${name}: {error}") from error
    return [EDITOR]


async def open_editor(file: Path, line: int = 0) -> int:
    """Open a file in the person's editor and return its exit code. Raises OSError when it cannot be started.

    Args:
        line: The line to go to, for editors that take `+LINE`.
    """
    words = read_command()
    place = [f"+{line}"] if line and Path(words[0]).name in _TAKE_LINE else []
    # Python's streams have the terminal, because the usual descriptors lead to the log.
    process = await asyncio.create_subprocess_exec(
        *words, *place, str(file), stdout=sys.__stdout__, stderr=sys.__stderr__
    )
    return await process.wait()


async def edit_text(text: str) -> str:
    """Return the text as the editor saved it, without the final newline that editors add.

    Raises OSError when the editor cannot be started or fails, or its file cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="zoea-") as folder:
        file = Path(folder) / "message.md"
        file.write_text(text, encoding="utf-8")
        if code := await open_editor(file):
            raise OSError(f"{Path(read_command()[0]).name} ended with {code}; the text is as it was")
        return file.read_text(encoding="utf-8", errors="replace").removesuffix("\n")
