"""The person's own editor: `$VISUAL`, else `$EDITOR`, else vi, on a file with mode 0600."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

DEFAULT = "vi"


def command(env: Mapping[str, str] = os.environ) -> list[str]:
    """Return the editor with its arguments. Raises OSError for a value that is no valid shell text."""
    for name in ("VISUAL", "EDITOR"):
        if env.get(name, "").strip():
            try:
                return shlex.split(env[name])
            except ValueError as error:
                raise OSError(f"${name}: {error}") from error
    return [DEFAULT]


async def edit(text: str) -> str:
    """Return the text as the editor saved it, without the final newline that editors add.

    Raises OSError when the editor cannot be started or fails, or its file cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="zoea-") as folder:
        file = Path(folder) / "message.md"
        file.write_text(text, encoding="utf-8")
        # Python's streams have the terminal, because the usual descriptors lead to the log.
        process = await asyncio.create_subprocess_exec(
            *command(), str(file), stdout=sys.__stdout__, stderr=sys.__stderr__
        )
        code = await process.wait()
        if code:
            raise OSError(f"{Path(command()[0]).name} ended with {code}; the text is as it was")
        return file.read_text(encoding="utf-8", errors="replace").removesuffix("\n")
