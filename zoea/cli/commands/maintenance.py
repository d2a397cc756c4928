"""`zoea doctor` and `zoea vacuum`: check and shrink the database."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Annotated

import typer
from msgspec.structs import asdict

from zoea.cli.options import AsJson, Workspace, write_json
from zoea.cli.swarm_access import ask_at
from zoea.runtime.maintenance import check_database, rebuild_indexes
from zoea.runtime.maintenance import vacuum as give_back
from zoea.settings.paths import Places, places
from zoea.store.file_modes import close_files
from zoea.store.integrity import IntegrityFinding
from zoea.text.control_characters import strip
from zoea.text.sentences import count_of

_MB = 1_000_000
_LABELS = {"modes": "access rights", "file": "database file", "blobs": "long texts", "event loop": "stalls"}
"""Words for the checks that JSON names otherwise."""


def doctor(
    should_rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Rebuild the search indexes first; no swarm may run.")
    ] = False,
    should_fix: Annotated[
        bool,
        typer.Option("--fix", help="Take away the access of other users to the data directory and its files first."),
    ] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Check access rights, the database, its references, the search indexes and the files of long texts.

    Exit code 4: a problem was found.

    With a running swarm it also lists the tools that were left out, cut or renamed because an upstream offers more than
    its limits allow, and the last time that Zoea stood still for more than 250 ms.
    """
    where = places(workspace)
    if should_fix and (closed := close_files(where.data)):
        _say(f"{count_of(closed, 'entry')} of the data directory: only you have access now")
    if should_rebuild:
        rebuild_indexes(where, _say)
    wrong, found = 0, []
    for finding in check_database(where, lambda what: _say(f"Checking {what}")):
        found.append(asdict(finding))
        wrong += bool(finding.problem) and finding.name != "unused files"
        if not as_json:
            typer.echo(f"{_LABELS.get(finding.name, finding.name):<18}{finding.problem or 'good'}")
            if finding.problem:
                typer.echo(f"{'':<18}{finding.hint}")
    for note in [*_upstream_notes(where), *_lag_notes(where)]:
        found.append(asdict(note))
        if not as_json:
            typer.echo(f"{_LABELS.get(note.name, note.name):<18}{strip(note.problem)}")
    if as_json:
        write_json({"is_good": not wrong, "findings": found})
    if wrong:
        raise typer.Exit(4)


def vacuum(as_json: AsJson = False, workspace: Workspace = "") -> None:
    """Shrink the database file to its contents.

    No swarm may run. Needs free disk space of the size of the database while it works.
    """
    done = give_back(places(workspace), _say)
    if as_json:
        write_json(asdict(done))
        return
    typer.echo(f"{done.before / _MB:,.1f} MB before, {done.after / _MB:,.1f} MB now")
    if done.files:
        typer.echo(f"{count_of(done.files, 'unused file')} deleted")


def _upstream_notes(where: Places) -> list[IntegrityFinding]:
    """Return what the running swarm's upstreams left out, cut or renamed. Nothing without a running swarm."""
    views = ask_at(where, lambda swarm: swarm.upstreams(), lambda _: ())
    return [IntegrityFinding(f"upstream {view.name}", note) for view in views for note in view.notes]


def _lag_notes(where: Places) -> list[IntegrityFinding]:
    """Return how long the running swarm's event loop was held up the last time. Nothing if it never was."""
    view = ask_at(where, lambda swarm: swarm.view(), lambda _: None)
    if view is None or not view.lag_ms:
        return []
    when = datetime.fromtimestamp(view.lagged_at / 1_000_000).strftime("%H:%M:%S")
    said = f"Zoea did not react for {view.lag_ms / 1_000:.1f} s until {when}; {where.log} names the code that ran"
    return [IntegrityFinding("event loop", said)]


def _say(what: str) -> None:
    """Write progress to stderr if it is a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{what}\n")
