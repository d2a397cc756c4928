"""Options that several commands share, and their JSON output."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from zoea.cli.output import write_document as write_document
from zoea.cli.output import write_json as write_json
from zoea.process.command_line import LARGEST_ID as LARGEST_ID
from zoea.process.command_line import WORKSPACE_HELP, argument, arguments, flag


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


def is_typed() -> bool:
    """Return whether stdin is a terminal, where a person can be asked."""
    return sys.stdin.isatty()


MYSIS = argument("NAME", "Name of a mysis (upper and lower case are the same), or #ID.", completes="names")
MYSES = arguments("NAME", "Names of myses (upper and lower case are the same), or #ID.", completes="names")
YES = flag("-y, --yes", "Do not ask.")
ALLOW_FRESH = flag("--allow-fresh", "Start without the conversation if it cannot be read.")
KEEP_MODEL = flag("--keep-model", "Accept a model that its server does not list, from now on.")
