"""The options that many commands share, and how their results are written."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from zoea.app.codec import encode

AsJson = Annotated[bool, typer.Option("--json", help="Write JSON for machines.")]
Workspace = Annotated[
    str, typer.Option("--workspace", "-w", metavar="NAME", help="The workspace; the default one if not given.")
]
MysisRef = Annotated[str, typer.Argument(metavar="NAME", help="The name of a mysis in any case, or #ID.")]
MysisRefs = Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of myses in any case, or #ID.")]


def write_json(value: Any) -> None:
    """One JSON value on stdout."""
    typer.echo(json.dumps(encode(value), ensure_ascii=False))
