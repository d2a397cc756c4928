"""`zoea purge` and `zoea redact`: remove deleted myses and texts for good."""

from __future__ import annotations

import sys

from msgspec.structs import asdict

from zoea.cli import output
from zoea.cli.commands.myses import find_deleted
from zoea.cli.options import YES
from zoea.cli.output import Output
from zoea.model.errors import UsageError
from zoea.process.command_line import argument, arguments, flag
from zoea.queries.stored_swarm import read_deleted_myses
from zoea.runtime import erasure
from zoea.settings.paths import Places
from zoea.store.redaction import REDACTED, RedactedCounts
from zoea.store.retention import RemovedCounts
from zoea.text.sentences import count_of


def purge(
    where: Places,
    refs: tuple[str, ...] = arguments("NAME", "Names of deleted myses, or #ID; `zoea undelete` lists them.", ()),
    all_deleted: bool = flag("--all", "Every deleted mysis."),
    yes: bool = YES,
) -> Output:
    """Remove deleted myses with all their messages, turns and memories. This cannot be undone.

    No swarm may run. Messages that other myses received from them stay.
    """
    _check_can_ask(yes)
    myses = read_deleted_myses(where.database)
    if bool(refs) == all_deleted:
        raise UsageError("name deleted myses, or give --all", hint="`zoea undelete` lists them; `zoea delete` deletes.")
    chosen = [one.id for one in myses] if all_deleted else [find_deleted(ref, myses) for ref in refs]
    if unknown := set(chosen) - {one.id for one in myses}:
        raise UsageError(f"there is no deleted mysis #{min(unknown)}", hint="`zoea undelete` lists them.")
    names = ", ".join(f"{one.name} (#{one.id})" for one in myses if one.id in chosen)

    def confirm(counts: RemovedCounts) -> bool:
        lost = f"{count_of(counts.memories, 'message')} and {count_of(counts.characters, 'character')}"
        return yes or output.confirm(
            f"Remove {names} with {count_of(counts.turns, 'turn')}, {lost}? This cannot be undone"
        )

    try:
        removed = erasure.purge(where, chosen, confirm, output.say_progress)
    except erasure.Declined:
        raise UsageError("nothing was removed", hint="Answer y, or give --yes.") from None
    lost = f"{count_of(removed.memories, 'message')} and {count_of(removed.characters, 'character')}"
    text = f"{names} removed for good, with {count_of(removed.turns, 'turn')}, {lost}"
    return Output({"myses": chosen, **asdict(removed)}, text)


def redact(
    where: Places,
    text: str = argument("TEXT", "The text, exactly as it stands; - reads it from stdin, without a line end."),
    yes: bool = YES,
) -> Output:
    """Replace a text by [REDACTED] wherever it is stored, also in indexes and files. This cannot be undone.

    No swarm may run. Only the whole text is found, not a part of it, for example where a result was cut.

    Example: pbpaste | zoea redact - --yes
    """
    if text == "-":
        text = output.read_stdin().removesuffix("\n")
    _check_can_ask(yes)

    def confirm(counts: RedactedCounts) -> bool:
        if yes or not (counts.occurrences or counts.blobs):
            return True
        turns = count_of(counts.turns, "turn")
        what = f"{count_of(counts.occurrences, 'place')}, also in {count_of(counts.memories, 'message')} of {turns}"
        blobs = f", and empty {count_of(counts.blobs, 'long text')} that hold it" if counts.blobs else ""
        return output.confirm(f"Replace it by {REDACTED} in {what}{blobs}? This cannot be undone")

    try:
        done = erasure.redact(where, text, confirm, output.say_progress)
    except erasure.Declined:
        raise UsageError("nothing was replaced", hint="Answer y, or give --yes.") from None
    were = "was" if done.occurrences == 1 else "were"
    also = f", also in {count_of(done.blobs, 'long text')}" if done.blobs else ""
    lines = [f"{count_of(done.occurrences, 'place')} {were} replaced by {REDACTED}{also}"]
    if done.remaining:
        lines.append(f"These files still hold it; delete them if you can: {', '.join(done.remaining)}")
    return Output(done, lines)


def _check_can_ask(yes: bool) -> None:
    if not yes and (output.is_json or not sys.stdin.isatty()):
        raise UsageError("this cannot be undone and asks for confirmation", hint="Add --yes.")
