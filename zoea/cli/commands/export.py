"""`zoea export` and `zoea explain`: read the database, with or without a running swarm."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from zoea.cli.local_time import moment
from zoea.cli.options import AsJson, MysisRef, Workspace, row_ids, write_json
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
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a mysis, or #ID; or --all.")] = "",
    form: Annotated[Format, typer.Option("--format", "-f", help="Format of the output.")] = Format.MARKDOWN,
    given: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="File to write; stdout if not given.")
    ] = "",
    everyone: Annotated[
        bool,
        typer.Option("--all", help="Export every mysis: into one FILE, or into one file each where FILE is a folder/."),
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
    output = Path(given) if given else None
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
            sys.stdout.write(piece)
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
            sys.stdout.write(piece)
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
        typer.echo(f"{turns} turn{'s' * (turns != 1)} of {len(myses)} myses are in {output}")


def explain(
    name: MysisRef,
    request: Annotated[
        int | None,
        typer.Argument(
            metavar="REQUEST", callback=row_ids, help="Id of the request; the newest one kept if not given."
        ),
    ] = None,
    with_text: Annotated[
        bool, typer.Option("--text", help="Show also the text of each message, as it was sent.")
    ] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Show the parts of a request, their sizes, and the reason of each cut.

    Example: zoea explain alpha
    """
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
            f"request {request} belongs to {inspection.request.mysis}", hint=f"Run `zoea explain {mysis.name}`."
        )
    if as_json:
        write_json(_data(inspection, with_text=with_text))
        return
    lines = [_title(inspection.request), _numbers(inspection.request), ""]
    lines.append(explained(inspection.plan) if inspection.plan is not None else inspection.gone)
    lines += _tool_lines(inspection)
    if with_text:
        lines += _sent_lines(inspection)
    typer.echo(strip("\n".join(lines)))


def _tool_lines(inspection: Inspection) -> list[str]:
    """List the offered tools by size, because each costs its tokens in every request."""
    tools = sorted(inspection.tools, key=lambda tool: (-tool.tokens, tool.name))
    return ["", "Tools:", *(f"  {tool.name:<28} ~{tool.tokens:,} tokens" for tool in tools)] if tools else []


def _sent_lines(inspection: Inspection) -> list[str]:
    """Return each message as it was sent, with its calls."""
    lines = ["", "Sent:"]
    for message in inspection.messages:
        lines += ["", f"--- {message.role}", message.content]
        lines += [f"{call.name} {call.arguments}" for call in message.calls]
    return lines


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


def _data(inspection: Inspection, *, with_text: bool) -> dict[str, Any]:
    plan = inspection.plan
    return {
        "request": encode(inspection.request),
        "plan": explain_data(plan) if plan is not None else None,
        "gone": inspection.gone,
        "tools": [tool.name for tool in inspection.tools],
        "tool_tokens": {tool.name: tool.tokens for tool in inspection.tools},
        **({"sent": [encode(message) for message in inspection.messages]} if with_text else {}),
    }
