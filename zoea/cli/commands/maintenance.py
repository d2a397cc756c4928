"""`zoea doctor`: check, rebuild and shrink the database."""

from __future__ import annotations

from datetime import datetime

from zoea.cli import output
from zoea.cli.output import Output
from zoea.cli.swarm_access import ask
from zoea.model.errors import StoreError
from zoea.process.command_line import flag
from zoea.runtime.maintenance import check_database, rebuild_indexes, vacuum
from zoea.settings.paths import Places, list_data_folders
from zoea.store.integrity import IntegrityFinding, close_files
from zoea.text.sentences import count_of

_MB = 1_000_000
_LABELS = {"modes": "access rights", "file": "database file", "blobs": "long texts", "event loop": "stalls"}
"""Words for the checks that JSON names otherwise."""


def doctor(
    where: Places,
    should_rebuild: bool = flag("--rebuild", "Rebuild the search indexes first; no swarm may run."),
    should_fix: bool = flag("--fix", "Take away the access of other users to the data directory and its files first."),
    should_shrink: bool = flag(
        "--vacuum", "Shrink the database file to its contents first; needs free disk space of its size, and no swarm."
    ),
) -> Output:
    """Check access rights, the database, its references, the search indexes and the files of long texts.

    Exit code 4: a problem was found.

    With a running swarm it also lists the tools that were left out, cut or renamed because an upstream offers more than
    its limits allow, and the last time that Zoea stood still for more than 250 ms.
    """
    if should_fix and (closed := close_files(*list_data_folders(where.data))):
        output.say_progress(f"{count_of(closed, 'entry')} of the data directory: only you have access now")
    if should_rebuild:
        rebuild_indexes(where, output.say_progress)
    shrunk = vacuum(where, output.say_progress) if should_shrink else None
    if shrunk is not None:
        output.tell(f"{shrunk.before / _MB:,.1f} MB before, {shrunk.after / _MB:,.1f} MB now")
        if shrunk.files:
            output.tell(f"{count_of(shrunk.files, 'unused file')} deleted")
    wrong, found = 0, []
    if not where.database.exists():
        _tell(_worktree_notes(where))  # `zoea workbench` and `zoea merge` need no database
    for finding in check_database(where, lambda what: output.say_progress(f"Checking {what}")):
        found.append(finding)
        wrong += bool(finding.problem) and finding.name != "unused files"
        output.tell(f"{_LABELS.get(finding.name, finding.name):<17} {finding.problem or 'good'}")
        if finding.problem:
            output.tell(f"{'':<18}{finding.hint}")
    notes = [*_upstream_notes(where), *_lag_notes(where), *_worktree_notes(where)]
    found += notes
    _tell(notes)
    value = {"is_good": not wrong, "findings": found} | ({} if shrunk is None else {"vacuum": shrunk})
    return Output(value, exit_code=StoreError.exit_code if wrong else 0)


def _tell(notes: list[IntegrityFinding]) -> None:
    for note in notes:
        output.tell(f"{_LABELS.get(note.name, note.name):<17} {note.problem}")
        if note.hint:
            output.tell(f"{'':<18}{note.hint}")


def _upstream_notes(where: Places) -> list[IntegrityFinding]:
    """Return what the running swarm's upstreams left out, cut or renamed. Nothing without a running swarm."""
    views = ask(where, lambda swarm: swarm.upstreams(), lambda _: ())
    return [IntegrityFinding(f"upstream {view.name}", note) for view in views for note in view.notes]


def _worktree_notes(where: Places) -> list[IntegrityFinding]:
    """Return what killed commands left among the worktrees. Loads nothing where none was ever made."""
    if not (where.data / "worktrees").is_dir():
        return []
    from zoea.files.leftovers import find_leftovers

    return [IntegrityFinding(f"worktree {one.name}", one.problem, one.hint) for one in find_leftovers(where.data)]


def _lag_notes(where: Places) -> list[IntegrityFinding]:
    """Return how long the running swarm's event loop was held up the last time. Nothing if it never was."""
    view = ask(where, lambda swarm: swarm.view(), lambda _: None)
    if view is None or not view.lag_ms:
        return []
    when = datetime.fromtimestamp(view.lagged_at / 1_000_000).strftime("%H:%M:%S")
    sentence = f"Zoea did not react for {view.lag_ms / 1_000:.1f} s until {when}; {where.log} names the code that ran"
    return [IntegrityFinding("event loop", sentence)]
