"""Open the database for `zoea ctx`, find commits by revision, and describe them as JSON."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from zoea.chain.commit import ContextCommit
from zoea.chain.commit_rows import read_identity, read_refs, read_template_name, shortest_id, walk_chain
from zoea.chain.entries import ContextEntry
from zoea.chain.revisions import resolve_revision
from zoea.cli.output import warn
from zoea.model.errors import StoreMissing
from zoea.model.values import SAME_MYSIS, MysisOverrides
from zoea.process.clock import SystemClock
from zoea.process.command_line import argument
from zoea.queries.written_times import read_moment
from zoea.settings.paths import Places
from zoea.store.database_file import connect_reader
from zoea.store.sqlite_errors import translate_errors
from zoea.text.sentences import count_of

if TYPE_CHECKING:
    from zoea.runtime.first_request_estimate import FirstRequestEstimate

COMMIT = argument(
    "COMMIT",
    "An id such as ctx-1a2b3c4d, or a name: alpha, import/talk, tkt-7. alpha~3 is 3 commits earlier, "
    "alpha@{10:30} the newest at 10:30.",
)


@contextmanager
def open_contexts(where: Places) -> Iterator[sqlite3.Connection]:
    """Open the database read-only. Raises StoreMissing, StoreError."""
    database = where.database
    if not database.exists():
        raise StoreMissing(f"there is no database {database}", hint="`zoea run` or `zoea ctx import` makes it.")
    with translate_errors():
        connection = connect_reader(database)
        try:
            yield connection
        finally:
            connection.close()


def read_time(text: str) -> int:
    """Return the µs UTC up to which a person looks back. Raises UsageError."""
    return read_moment(text, SystemClock().now())


def find_commit(conn: sqlite3.Connection, revision: str) -> ContextCommit:
    return resolve_revision(conn, revision, read_time)


def locate_commit(where: Places, revision: str) -> ContextCommit:
    """Return the commit that a person named, also by a time. Raises RevisionError, StoreMissing."""
    with open_contexts(where) as conn:
        return find_commit(conn, revision)


def commit_with(conn: sqlite3.Connection, seq: int) -> ContextCommit:
    return walk_chain(conn, seq, limit=1)[0]


def name_commits(conn: sqlite3.Connection, commits: list[ContextCommit]) -> dict[int, list[str]]:
    names: dict[int, list[str]] = {one.seq: [] for one in commits}
    for name, seq in read_refs(conn, names).items():
        names[seq].append(name)
    return names


def describe_commit(conn: sqlite3.Connection, commit: ContextCommit, names: list[str]) -> dict[str, Any]:
    about, template = commit.provenance, read_identity(conn, commit).template_hash
    parent = None if commit.parent is None else commit_with(conn, commit.parent).id
    return {
        "id": commit.id,
        "short_id": shortest_id(conn, commit),
        "refs": names,
        "parent": parent,
        "type": commit.kind.value,
        "checkpoint": commit.checkpoint.value,
        "format": commit.format,
        "principal": about.principal,
        "machine": about.machine,
        "template": template.hex() if template else None,
        "template_name": read_template_name(conn, template) or None,
        "session": about.session_id,
        "ticket": about.ticket_id,
        "thread": about.thread_id,
        "messages": commit.message_count,
        "tokens": commit.token_count,
        "created_at": commit.created_at,
        "summary": commit.note.summary,
        "tags": list(commit.note.tags),
        "blob": commit.blob.hex(),
    }


def describe_entry(entry: ContextEntry) -> dict[str, Any]:
    values: dict[str, Any] = {"role": entry.role.value, "content": entry.content, "source": entry.source}
    if entry.sender:
        values["sender"] = entry.sender
    if entry.at:
        values["at"] = entry.at
    if entry.reasoning:
        values["reasoning"] = entry.reasoning
    if entry.calls:
        values["calls"] = [{"name": call.name, "arguments": call.arguments} for call in entry.calls]
    if entry.position is not None:
        values["call"] = entry.position
    flags = {"is_error": entry.is_error, "is_partial": entry.is_partial, "is_synthetic": entry.is_synthetic}
    return values | {name: True for name, value in flags.items() if value}


def tell_left_out(entries: Iterable[ContextEntry]) -> None:
    """Say on stderr which reasoning a translation for Claude Code leaves out."""
    thought = sum(bool(entry.reasoning) for entry in entries)
    if thought:
        what = f"the reasoning of {count_of(thought, 'answer')}, because Claude Code takes only what its model signed"
        warn(f"left out: {what}")


def estimate_first_request(
    where: Places, revision: str, message: str, overrides: MysisOverrides = SAME_MYSIS, *, thread: str = ""
) -> FirstRequestEstimate:
    """Estimate the first request of a mysis made from a commit that gets this message.

    See `estimate_from_commit`.

    Raises:
        StoreMissing, RevisionError: There is no database, or no such commit.
        MissingBlob: A part of the conversation is gone.
    """
    # Only the commands that show a cost need it: it is half of what they load.
    from zoea.runtime.first_request_estimate import estimate_from_commit

    seq = locate_commit(where, revision).seq
    return estimate_from_commit(where, where.database, seq, message, overrides, thread=thread)
