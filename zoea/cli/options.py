"""The options that many commands share, and how their results are written."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from zoea.ipc.codec import encode
from zoea.text.control_characters import clean

LARGEST_ID = 2**63 - 1
"""The largest number that a row can have."""


def row_ids(given: int | list[int]) -> int | list[int]:
    """A callback of typer's: numbers as they were given, each one that a row could have."""
    for number in given if isinstance(given, list) else [given]:
        if not 0 < number <= LARGEST_ID:
            raise typer.BadParameter(f"nothing has the number {number}")
    return given


AsJson = Annotated[bool, typer.Option("--json", help="Write JSON for machines.")]
Workspace = Annotated[
    str, typer.Option("--workspace", "-w", metavar="NAME", help="The workspace; the default one if not given.")
]
MysisRef = Annotated[str, typer.Argument(metavar="NAME", help="The name of a mysis in any case, or #ID.")]
MysisRefs = Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of myses in any case, or #ID.")]


def write_json(value: Any) -> None:
    """One JSON value on stdout, as UTF-8 can say it: a path may hold bytes that are none."""
    typer.echo(clean(json.dumps(encode(value), ensure_ascii=False)))
