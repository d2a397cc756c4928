"""The person's own editor: `$VISUAL`, else `$EDITOR`, else vi, over a file that only they can read."""

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
    """The editor with its arguments. Raises OSError for a value that no shell would understand."""
    for name in ("VISUAL", "EDITOR"):
        if env.get(name, "").strip():
            try:
                return shlex.split(env[name])
            except ValueError as error:
                raise OSError(f"${name}: {error}") from error
    return [DEFAULT]


async def edit(text: str) -> str:
    """The text as it was saved; one line end that the editor adds is taken off. The loop goes on meanwhile.

    Raises OSError where there is no such editor or what it saved cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="zoea-") as folder:
        file = Path(folder) / "message.md"
        file.write_text(text, encoding="utf-8")
        # Python's own streams have the terminal, whatever their usual descriptors are for just now.
        process = await asyncio.create_subprocess_exec(
            *command(), str(file), stdout=sys.__stdout__, stderr=sys.__stderr__
        )
        code = await process.wait()
        if code:
            raise OSError(f"{Path(command()[0]).name} ended with {code}; the text is as it was")
        return file.read_text(encoding="utf-8", errors="replace").removesuffix("\n")
