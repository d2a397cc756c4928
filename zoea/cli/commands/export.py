"""`zoea export`: reads the database, with or without a running swarm."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from zoea.cli.options import AsJson, Workspace, write_json
from zoea.model.errors import UsageError
from zoea.queries.stored_swarm import read_mysis_view
from zoea.settings.paths import places
from zoea.text.control_characters import reveal_exactly, strip
from zoea.text.sentences import count_of
from zoea.transfer.export import (
    Format,
    export_pieces,
    export_to_file,
    file_stem,
    read_exportable,
    swarm_pieces,
    write_pieces,
)


def export(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a mysis, or #ID; or --all.")] = "",
    form: Annotated[Format, typer.Option("--format", "-f", help="Format of the output.")] = Format.MARKDOWN,
    given: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="File to write; stdout if not given, or for -.")
    ] = "",
    everyone: Annotated[
        bool,
        typer.Option(
            "--all", help="Export every mysis: into one FILE, or into one file each if FILE is a folder or ends with /."
        ),
    ] = False,
    archived: Annotated[bool, typer.Option("--archived", help="With --all: include deleted myses.")] = False,
    redact: Annotated[
        bool | None,
        typer.Option("--redact/--no-redact", help="Remove secrets and personal data; the default for md and html."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Write the conversation of a mysis, or of all myses.

    md and html are documents; jsonl is for `zoea import`.

    Example: zoea export alpha --format html -o alpha.html
    """
    database = places(workspace).database
    output = None if given in ("", "-") else Path(given)
    if output is None and as_json:
        raise UsageError("--json needs an output file", hint="Give -o FILE, or --format jsonl.")
    if bool(name) == everyone:
        raise UsageError("name one mysis, or give --all for all conversations")
    if everyone:
        if output is not None and given.endswith(os.sep) and read_exportable(database, archived=archived):
            _make_folder(output)
        _export_all(database, form, output, archived=archived, redact=redact, replace=force, as_json=as_json)
        return
    mysis = read_mysis_view(database, name)
    if output is None:
        for piece in export_pieces(database, mysis.id, form, redact=redact):
            sys.stdout.write(reveal_exactly(piece) if form is Format.JSONL else piece)
        return
    turns = export_to_file(database, mysis.id, output, form, redact=redact, replace=force)
    if as_json:
        write_json({"mysis": mysis.name, "format": form.value, "path": str(output), "turns": turns})
    else:
        typer.echo(f"{turns} turn{'s' * (turns != 1)} of {strip(mysis.name)} are in {output}")


def _make_folder(folder: Path) -> None:
    """Create the folder named by an output that ends in a slash. Raises UsageError."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot create {folder}: {error.strerror}", hint="Choose another folder.") from error


def _export_all(
    database: Path,
    form: Format,
    output: Path | None,
    *,
    archived: bool,
    redact: bool | None,
    replace: bool,
    as_json: bool,
) -> None:
    """Export all myses to stdout, to one file, or to one file each in a folder."""
    myses = read_exportable(database, archived=archived)
    if not myses:
        raise UsageError("there are no myses", hint="`zoea new NAME` creates one.")
    if output is None:
        for piece in swarm_pieces(database, list(myses), form, redact=redact):
            sys.stdout.write(reveal_exactly(piece) if form is Format.JSONL else piece)
        return
    if output.is_dir():
        files = {mysis_id: output / f"{file_stem(mysis_id, name)}.{form}" for mysis_id, name in myses.items()}
        for file in files.values():
            if file.exists() and not replace:  # checked for all files before the first is written
                raise UsageError(f"{file} exists", hint="Choose another folder, or add --force.")
        turns = sum(
            export_to_file(database, mysis_id, file, form, redact=redact, replace=replace)
            for mysis_id, file in files.items()
        )
    else:
        turns = write_pieces(swarm_pieces(database, list(myses), form, redact=redact), output, replace=replace)
    if as_json:
        write_json({"myses": list(myses.values()), "format": form.value, "path": str(output), "turns": turns})
    else:
        typer.echo(
            f"{count_of(turns, 'turn')} of {count_of(len(myses), 'mysis')} {'is' if turns == 1 else 'are'} in {output}"
        )
