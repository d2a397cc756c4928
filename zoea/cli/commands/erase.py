"""`zoea purge` and `zoea redact`: remove deleted myses and texts for good."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from msgspec.structs import asdict

from zoea.cli.commands.myses import find_deleted
from zoea.cli.options import AsJson, Workspace, write_json
from zoea.model.errors import UsageError
from zoea.queries.stored_swarm import read_deleted_myses
from zoea.runtime import erasure
from zoea.settings.paths import places
from zoea.store.redaction import REDACTED, RedactedCounts
from zoea.store.retention import RemovedCounts
from zoea.text.control_characters import strip
from zoea.text.sentences import count_of

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def purge(
    refs: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Names of deleted myses, or #ID; `zoea undelete` lists them."),
    ] = None,
    all_deleted: Annotated[bool, typer.Option("--all", help="Every deleted mysis.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Remove deleted myses with all their messages, turns and memories. This cannot be undone.

    No swarm may run. Messages that other myses received from them stay.
    """
    _check_can_ask(yes, as_json)
    where = places(workspace)
    found = read_deleted_myses(where.database)
    if bool(refs) == all_deleted:
        raise UsageError("name deleted myses, or give --all", hint="`zoea undelete` lists them; `zoea delete` deletes.")
    chosen = [one.id for one in found] if all_deleted else [find_deleted(ref, found) for ref in refs or ()]
    if unknown := set(chosen) - {one.id for one in found}:
        raise UsageError(f"there is no deleted mysis #{min(unknown)}", hint="`zoea undelete` lists them.")
    names = ", ".join(f"{one.name} (#{one.id})" for one in found if one.id in chosen)

    def confirm(counts: RemovedCounts) -> bool:
        lost = f"{count_of(counts.memories, 'message')} and {count_of(counts.characters, 'character')}"
        return yes or typer.confirm(
            strip(f"Remove {names} with {count_of(counts.turns, 'turn')}, {lost}? This cannot be undone"), err=True
        )

    try:
        removed = erasure.purge(where, chosen, confirm, _say)
    except erasure.Declined:
        raise UsageError("nothing was removed", hint="Answer y, or give --yes.") from None
    if as_json:
        write_json({"myses": chosen, **asdict(removed)})
    else:
        lost = f"{count_of(removed.memories, 'message')} and {count_of(removed.characters, 'character')}"
        typer.echo(f"{names} removed for good, with {count_of(removed.turns, 'turn')}, {lost}")


def redact(
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT", help="The text, exactly as it stands; - reads it from stdin, without a line end."
        ),
    ],
    yes: Yes = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Replace a text by [REDACTED] wherever it is stored, also in indexes and files. This cannot be undone.

    No swarm may run. Only the whole text is found, not a part of it, for example where a result was cut.

    Example: pbpaste | zoea redact - --yes
    """
    if text == "-":
        text = sys.stdin.read().removesuffix("\n")
    _check_can_ask(yes, as_json)

    def confirm(counts: RedactedCounts) -> bool:
        if yes or not (counts.occurrences or counts.blobs):
            return True
        turns = count_of(counts.turns, "turn")
        what = f"{count_of(counts.occurrences, 'place')}, also in {count_of(counts.memories, 'message')} of {turns}"
        blobs = f", and empty {count_of(counts.blobs, 'long text')} that hold it" if counts.blobs else ""
        return typer.confirm(f"Replace it by {REDACTED} in {what}{blobs}? This cannot be undone", err=True)

    try:
        done = erasure.redact(places(workspace), text, confirm, _say)
    except erasure.Declined:
        raise UsageError("nothing was replaced", hint="Answer y, or give --yes.") from None
    if as_json:
        write_json(asdict(done))
        return
    were = "was" if done.occurrences == 1 else "were"
    also = f", also in {count_of(done.blobs, 'long text')}" if done.blobs else ""
    typer.echo(f"{count_of(done.occurrences, 'place')} {were} replaced by {REDACTED}{also}")
    if done.remaining:
        typer.echo(f"These files still hold it; delete them if you can: {', '.join(done.remaining)}")


def _check_can_ask(yes: bool, as_json: bool) -> None:
    if not yes and (as_json or not sys.stdin.isatty()):
        raise UsageError("this cannot be undone and asks for confirmation", hint="Add --yes.")


def _say(what: str) -> None:
    """Write progress to stderr if it is a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{what}\n")
