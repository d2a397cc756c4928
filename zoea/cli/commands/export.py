"""`zoea export`: reads the database, with or without a running swarm."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from zoea.cli import output
from zoea.cli.output import Output
from zoea.model.errors import UsageError
from zoea.process.command_line import argument, choice, flag, option
from zoea.queries.stored_swarm import read_mysis_view
from zoea.settings.paths import Places, is_folder
from zoea.text.control_characters import reveal_exactly
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
    where: Places,
    name: str = argument("NAME", "Name of a mysis, or #ID; or --all.", "", is_name=True),
    form: Format = option("-f, --format", "Format of the output.", Format.MARKDOWN, choice(Format)),
    given: str = option("-o, --output FILE", "File to write; stdout if not given, or for -."),
    everyone: bool = flag(
        "--all", "Export every mysis: into one FILE, or into one file each if FILE is a folder or ends with /."
    ),
    archived: bool = flag("--archived", "With --all: include deleted myses."),
    redact: bool | None = flag(
        "--redact", "Remove secrets and personal data; the default for md and html.", None, off="--no-redact"
    ),
    force: bool = flag("--force", "Overwrite existing files."),
) -> Output | None:
    """Write the conversation of a mysis, or of all myses.

    md and html are documents; jsonl is for `zoea import`.

    Example: zoea export alpha --format html -o alpha.html
    """
    database = where.database
    file = None if given in ("", "-") else Path(given)
    if file is None and output.is_json:
        raise UsageError("--json needs an output file", hint="Give -o FILE, or --format jsonl.")
    if bool(name) == everyone:
        raise UsageError("name one mysis, or give --all for all conversations")
    if everyone:
        if file is not None and given.endswith(os.sep) and read_exportable(database, archived=archived):
            _make_folder(file)
        return _export_all(database, form, file, archived=archived, redact=redact, replace=force)
    mysis = read_mysis_view(database, name)
    if file is None:
        _write_pieces(export_pieces(database, mysis.id, form, redact=redact), form)
        return None
    turns = export_to_file(database, mysis.id, file, form, redact=redact, replace=force)
    return Output(
        {"mysis": mysis.name, "format": form, "path": str(file), "turns": turns},
        f"{turns} turn{'s' * (turns != 1)} of {mysis.name} are in {file}",
    )


def _write_pieces(pieces: Iterable[str], form: Format) -> None:
    for piece in pieces:
        sys.stdout.write(reveal_exactly(piece) if form is Format.JSONL else piece)


def _make_folder(folder: Path) -> None:
    """Create the folder named by an output that ends in a slash. Raises UsageError."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot create {folder}: {error.strerror}", hint="Choose another folder.") from error


def _export_all(
    database: Path, form: Format, file: Path | None, *, archived: bool, redact: bool | None, replace: bool
) -> Output | None:
    """Export all myses to stdout, to one file, or to one file each in a folder."""
    myses = read_exportable(database, archived=archived)
    if not myses:
        raise UsageError("there are no myses", hint="`zoea new NAME` creates one.")
    if file is None:
        _write_pieces(swarm_pieces(database, list(myses), form, redact=redact), form)
        return None
    if is_folder(file):
        files = {mysis_id: file / f"{file_stem(mysis_id, name)}.{form}" for mysis_id, name in myses.items()}
        for one in files.values():
            if one.exists() and not replace:  # checked for all files before the first is written
                raise UsageError(f"{one} exists", hint="Choose another folder, or add --force.")
        turns = sum(
            export_to_file(database, mysis_id, one, form, redact=redact, replace=replace)
            for mysis_id, one in files.items()
        )
    else:
        turns = write_pieces(swarm_pieces(database, list(myses), form, redact=redact), file, replace=replace)
    return Output(
        {"myses": list(myses.values()), "format": form, "path": str(file), "turns": turns},
        f"{count_of(turns, 'turn')} of {count_of(len(myses), 'mysis')} {'is' if turns == 1 else 'are'} in {file}",
    )
