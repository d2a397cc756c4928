"""`zoea ctx grep`, `blame` and `at`: search commits by text and time."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator

from msgspec import UNSET, Struct

from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit import ContextCommit
from zoea.chain.commit_rows import read_descendants, read_refs, shortest_id, walk_newest
from zoea.chain.entries import ContextEntry
from zoea.chain.ref_names import branch_ref
from zoea.cli import output
from zoea.cli.commands.context_access import (
    describe_commit,
    describe_entry,
    find_commit,
    name_commits,
    open_contexts,
    read_time,
)
from zoea.cli.output import Output, Outputs, moment
from zoea.model.errors import MissingBlob, RevisionError, UsageError
from zoea.process.command_line import argument
from zoea.queries.commit_details import read_known_then
from zoea.settings.paths import Places
from zoea.text.control_characters import one_line, prose_line
from zoea.text.sentences import count_of
from zoea.text.shorten import head

_TEXT = 100

TEXT = argument("TEXT", "The text, exactly.")


class _Line(Struct, frozen=True):
    """A line of a message; a call is one line."""

    text: str
    is_call: bool = False


def grep(
    where: Places,
    text: str = TEXT,
    revision: str = argument(
        "COMMIT", "Search this commit and those before it; if not given, all that a name reaches.", ""
    ),
) -> Outputs:
    """Find messages that contain a text, also in reasoning and the arguments of calls."""
    hits = 0
    with open_contexts(where) as conn:
        tips = [find_commit(conn, revision).seq] if revision else list(read_refs(conn).values())
        for commit, entry, line in _find(conn, text, tips):
            hits += 1
            value = {"commit": commit.id, **describe_entry(entry), "line": line.text}
            yield Output(value, f"{shortest_id(conn, commit)}  {entry.role}  {_cut(line, text)}")
    if not hits:
        yield Output(UNSET, exit_code=1)


def blame(where: Places, text: str = TEXT) -> Output:
    """Find the oldest message with a text, over all names, and who inherited it.

    Example: zoea ctx blame "port 8443"
    """
    with open_contexts(where) as conn:
        hits = list(_find(conn, text, list(read_refs(conn).values())))
        oldest = min(hits, key=lambda hit: (hit[1].at or hit[0].created_at, hit[0].seq), default=None)
        if oldest is None:
            return Output(UNSET, exit_code=1)
        commit, entry, line = oldest
        holders = {one.seq for one, its_entry, _ in hits if its_entry == entry}  # that were picked for others too
        after = set[int]().union(*(read_descendants(conn, seq) for seq in holders))
        own = branch_ref(commit.provenance.principal)
        heirs = sorted(name for name, seq in read_refs(conn).items() if seq in after and name != own)
        who = entry.sender or {"user": "commander", "tool": "a tool"}.get(entry.role.value, commit.provenance.principal)
        who = "a note of Zoea or its program" if entry.is_synthetic else who
        about = describe_commit(conn, commit, name_commits(conn, [commit])[commit.seq])
        at = moment(entry.at or commit.created_at)
        lines = [
            f"{shortest_id(conn, commit)}  {at}  {commit.provenance.principal}  {entry.role} by {who}",
            f"  {_cut(line, text)}",
            *([f"inherited by  {', '.join(heirs)}"] if heirs else []),
        ]
    value = {"commit": about, "message": describe_entry(entry), "line": line.text, "inherited_by": heirs}
    return Output(value, lines)


def at(
    where: Places, time: str = argument("TIME", "10:30 today, 2h (two hours ago), 2026-01-31, or a time in ISO 8601.")
) -> Output:
    """Show which commit of each mysis was the newest at a time.

    Example: zoea ctx at 10:30
    """
    asked = read_time(time)
    with open_contexts(where) as conn:
        commits = read_known_then(where.database, asked).commits
        names = name_commits(conn, list(commits))
        value = [describe_commit(conn, one, names[one.seq]) for one in commits]
        if not commits and not output.is_json:
            raise RevisionError(f"no mysis has a commit at {time} or before", hint="`zoea ctx log` lists commits.")
        widest = max((len(one.provenance.principal) for one in commits), default=0)
        lines = [
            f"{one.provenance.principal:<{widest}}  {shortest_id(conn, one)}  {moment(one.created_at)}  "
            f"{head(prose_line(one.note.summary), _TEXT)}"
            for one in commits
        ]
    return Output(value, lines)


def _find(conn: sqlite3.Connection, text: str, tips: list[int]) -> Iterator[tuple[ContextCommit, ContextEntry, _Line]]:
    """Yield the messages that contain a text, with the line that does, oldest commit first.

    Say how many commits could not be read.
    """
    if not text:
        raise UsageError("the text is empty", hint="Give at least one character.")
    reader, missing = ChainReader(conn), 0
    for commit in reversed(walk_newest(conn, tips)):
        try:
            entries = reader.read_messages(commit, stop=commit)
        except MissingBlob:
            missing += 1
            continue
        for entry in entries:
            line = _find_line(entry, text)
            if line is not None:
                yield commit, entry, line
    if missing:
        sys.stderr.write(f"{count_of(missing, 'commit')} could not be read; `zoea ctx fsck` says why.\n")


def _find_line(entry: ContextEntry, text: str) -> _Line | None:
    """Return the first line of a message that contains a text; None where none does."""
    in_json = json.dumps(text, ensure_ascii=False)[1:-1]
    for call in entry.calls:
        if in_json in call.arguments or text in call.arguments or text in call.name:
            return _Line(f"{call.name}({call.arguments})", is_call=True)
    for part in (entry.content, entry.reasoning):
        if text in part:
            begin = part.rfind("\n", 0, part.find(text)) + 1
            end = part.find("\n", part.find(text) + len(text))
            return _Line(part[begin : end if end >= 0 else None])
    return None


def _cut(line: _Line, text: str) -> str:
    """Cut a line to the surroundings of a text. A call is shown as it was sent."""
    begin = max(0, line.text.find(text) - _TEXT // 2)
    end = begin + len(text) + 2 * _TEXT
    shown = (one_line if line.is_call else prose_line)(line.text[begin:end])
    return f"{'… ' if begin else ''}{shown}{' …' if end < len(line.text) else ''}"
