"""Options that several commands share, and their JSON output."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from zoea.ipc.codec import encode
from zoea.process.command_line import WORKSPACE_HELP
from zoea.text.control_characters import reveal_exactly
from zoea.text.large_json import dump_shown

LARGEST_ID = 2**63 - 1
"""The largest row id that SQLite can hold."""


def row_ids(given: int | list[int] | None) -> int | list[int] | None:
    """Typer callback: check that each number can be a row id, and return them unchanged."""
    for number in given if isinstance(given, list) else [] if given is None else [given]:
        if not 0 < number <= LARGEST_ID:
            raise typer.BadParameter(f"there is no id {number}")
    return given


AllowFresh = Annotated[bool, typer.Option("--allow-fresh", help="Start without the conversation if it cannot be read.")]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON.")]
Workspace = Annotated[
    str,
    typer.Option("--workspace", "-w", metavar="NAME", help=WORKSPACE_HELP),
]
MysisRef = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of a mysis (upper and lower case are the same), or #ID.")
]
MysisRefs = Annotated[
    list[str], typer.Argument(metavar="NAME", help="Names of myses (upper and lower case are the same), or #ID.")
]


def write_json(value: Any) -> None:
    """Write one JSON value to stdout; characters that UTF-8 cannot encode are replaced."""
    typer.echo(dump_shown(encode(value)))


def write_document(data: bytes) -> None:
    """Write JSON, or lines of it, as it is; to a terminal with hidden characters as escapes, which mean the same."""
    if sys.stdout.isatty():
        data = reveal_exactly(data.decode("utf-8", "replace")).encode("utf-8", "replace")
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.flush()


def is_typed() -> bool:
    """Return whether stdin is a terminal, where a person can be asked."""
    return sys.stdin.isatty()
