"""Commands on what is stored, with or without a running swarm: export, explain."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from zoea.cli.options import LARGEST_ID, AsJson, MysisRef, Workspace, write_json
from zoea.cli.terminal_rows import moment
from zoea.context.explain import explain as explained
from zoea.context.explain import explain_data
from zoea.ipc.codec import encode
from zoea.model.errors import UsageError
from zoea.queries.phrases import failure_phrase
from zoea.queries.request_inspection import Inspection, StoredRequest, inspect_request, read_requests
from zoea.queries.stored_swarm import read_mysis_view
from zoea.settings.paths import places
from zoea.text.control_characters import strip
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
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The name of a mysis in any case, or #ID; or --all.")
    ] = "",
    form: Annotated[Format, typer.Option("--format", "-f", help="What to write it as.")] = Format.MARKDOWN,
    given: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="Where to; stdout if not given.")] = "",
    everyone: Annotated[
        bool,
        typer.Option("--all", help="Every mysis: into one FILE, or a file each where FILE is a folder/."),
    ] = False,
    archived: Annotated[bool, typer.Option("--archived", help="With --all: the deleted ones too.")] = False,
    redact: Annotated[
        bool | None,
        typer.Option("--redact/--no-redact", help="Take secrets and personal data out; md and html do by default."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """The whole conversation of a mysis, or of all, as a document or as JSON lines that `zoea import` reads."""
    database = places(workspace).database
    output = Path(given) if given else None
    if output is None and as_json:
        raise UsageError("--json says what was written to a file", hint="Give -o FILE, or --format jsonl.")
    if bool(name) == everyone:
        raise UsageError("say whose conversation: NAME, or --all for everybody's")
    if everyone:
        if output is not None and given.endswith(os.sep) and read_exportable(database, archived=archived):
            _make_folder(output)
        _export_all(database, form, output, archived=archived, redact=redact, replace=force, as_json=as_json)
        return
    mysis = read_mysis_view(database, name)
    if output is None:
        for piece in export_pieces(database, mysis.id, form, redact=redact):
            sys.stdout.write(piece)
        return
    turns = export_to_file(database, mysis.id, output, form, redact=redact, replace=force)
    if as_json:
        write_json({"mysis": mysis.name, "format": form.value, "path": str(output), "turns": turns})
    else:
        typer.echo(f"{turns} turn{'s' * (turns != 1)} of {strip(mysis.name)} are in {output}")


def _make_folder(folder: Path) -> None:
    """A name that ends in a slash means a folder, also where there is none yet. Raises UsageError."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}", hint="Choose another folder.") from error


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
    """Everybody's: on stdout, in one file, or in a folder with a file each."""
    myses = read_exportable(database, archived=archived)
    if not myses:
        raise UsageError("there is no mysis", hint="`zoea new NAME` creates one.")
    if output is None:
        for piece in swarm_pieces(database, list(myses), form, redact=redact):
            sys.stdout.write(piece)
        return
    if output.is_dir():
        files = {mysis_id: output / f"{file_stem(mysis_id, name)}.{form}" for mysis_id, name in myses.items()}
        for file in files.values():
            if file.exists() and not replace:  # before the first is written
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
        typer.echo(f"{turns} turn{'s' * (turns != 1)} of {len(myses)} myses are in {output}")


def explain(
    name: MysisRef,
    request: Annotated[
        int | None,
        typer.Argument(
            metavar="[REQUEST]", min=1, max=LARGEST_ID, help="Its number; the newest that is kept if not given."
        ),
    ] = None,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """What a request of a mysis held, what was left out, and why."""
    database = places(workspace).database
    mysis = read_mysis_view(database, name)
    if request is None:
        found = read_requests(database, mysis.id)
        if not found:
            raise UsageError(f"{mysis.name} has made no request yet")
        request = next((one.id for one in found if one.has_plan), found[0].id)
    inspection = inspect_request(database, request)
    if inspection.request.mysis_id != mysis.id:
        raise UsageError(
            f"request {request} is one of {inspection.request.mysis}'s", hint=f"Ask `zoea explain {mysis.name}`."
        )
    if as_json:
        write_json(_data(inspection))
        return
    lines = [_title(inspection.request), _numbers(inspection.request), ""]
    lines.append(explained(inspection.plan) if inspection.plan is not None else inspection.gone)
    typer.echo(strip("\n".join(lines)))


def _title(request: StoredRequest) -> str:
    where = f", turn {request.turn_number}, its request {request.iteration}" if request.turn_number else ""
    model = f": {request.model}" if request.model else ""
    return f"Request {request.id} of {request.mysis}{where}, {moment(request.created_at)}{model}"


def _numbers(request: StoredRequest) -> str:
    actual = request.usage.input_tokens
    said = f"estimated {request.planned_tokens:,} tokens, "
    said += f"the provider counted {actual:,}" if actual is not None else "the provider did not count"
    off = request.off_by
    said += f" (estimate {off:+.0%})" if off is not None else ""
    failed = failure_phrase(request.state, request.error_class)
    return said + (f"; it {failed}" if failed else "")


def _data(inspection: Inspection) -> dict[str, Any]:
    plan = inspection.plan
    return {
        "request": encode(inspection.request),
        "plan": explain_data(plan) if plan is not None else None,
        "gone": inspection.gone,
        "tools": [tool.name for tool in inspection.tools],
    }
