"""`zoea ctx annotate`: summaries and tags of commits, with their history."""

from __future__ import annotations

from zoea.chain.commit_rows import read_notes, shortest_id
from zoea.chain.context_edits import annotate_commit
from zoea.cli.commands.context_access import COMMIT, find_commit, open_contexts
from zoea.cli.output import Output, moment
from zoea.cli.swarm_access import edit
from zoea.model.errors import UsageError
from zoea.process.command_line import option, options
from zoea.settings.paths import Places
from zoea.text.control_characters import clean

_LONGEST_SUMMARY = 20_000
_LONGEST_TAG = 80


def annotate(
    where: Places,
    revision: str = COMMIT,
    summary: str | None = option("--summary TEXT", "The new summary.", None),
    tag: tuple[str, ...] = options("--tag TAG", "Add a tag; may be repeated."),
    untag: tuple[str, ...] = options("--untag TAG", "Remove a tag; may be repeated."),
) -> Output:
    """Change the summary or tags of a commit; without options, list all it had.

    Example: zoea ctx annotate alpha~3 --summary "Knows the parser, not yet the tests" --tag parser
    """
    if summary is not None and len(summary) > _LONGEST_SUMMARY:
        raise UsageError(f"the summary has {len(summary):,} characters", hint=f"Write at most {_LONGEST_SUMMARY:,}.")
    for one in tag:
        if not one.strip() or len(one) > _LONGEST_TAG or clean(one) != one:
            raise UsageError(f"{one!r:.60} cannot be a tag", hint=f"Use 1 to {_LONGEST_TAG} characters.")

    with open_contexts(where) as conn:
        commit = find_commit(conn, revision)
        missing = [one for one in untag if one not in commit.note.tags]
        if missing:
            has = ", ".join(commit.note.tags) or "none"
            raise UsageError(f"the commit has no tag {missing[0]!r:.60}", hint=f"Its tags: {has}.")
    changed = tuple(sorted((set(commit.note.tags) | set(tag)) - set(untag)))
    if summary is not None or tag or untag:
        edit(
            where,
            lambda swarm: swarm.annotate(commit.id, summary=summary, tags=changed),
            lambda store: annotate_commit(store, commit.id, summary, changed),
        )
    with open_contexts(where) as conn:
        commit = find_commit(conn, revision)
        notes = read_notes(conn, commit.seq)
        lines = [shortest_id(conn, commit)]
    history = [{"at": at, "summary": note.summary, "tags": note.tags, "model": note.model} for at, note in notes]
    for at, note in notes:
        by = f"  by {note.model}" if note.model else ""
        tags = f"  [{', '.join(note.tags)}]" if note.tags else ""
        lines.append(f"{moment(at)}{by}{tags}  {note.summary}")
    value = {"id": commit.id, "summary": commit.note.summary, "tags": commit.note.tags, "history": history}
    return Output(value, lines)
