"""`zoea ctx note`: summaries, tags, names and the lifetime of commits."""

from __future__ import annotations

from msgspec import UNSET

from zoea.chain import blob_policies
from zoea.chain.commit import NOTE_TOKENS, ContextCommit
from zoea.chain.commit_edits import annotate_commit, keep_commit, name_commit
from zoea.chain.commit_rows import read_notes, read_unsummarised, shortest_id
from zoea.cli import output
from zoea.cli.commands.context_access import estimate_first_request, find_commit, locate_commit, open_contexts
from zoea.cli.output import Output, moment, tell, warn
from zoea.cli.swarm_access import command, edit
from zoea.model.errors import MissingBlob, MysisMissing, UsageError
from zoea.model.swarm_api import SwarmApi
from zoea.process.command_line import argument, flag, number, option, options, whole_number
from zoea.runtime.first_request_estimate import describe_price
from zoea.settings.paths import Places
from zoea.text.control_characters import clean, prose_line
from zoea.text.sentences import count_of
from zoea.text.shorten import head

_LONGEST_SUMMARY = 20_000
_LONGEST_TAG = 80
_TEXT = 100


def note(
    where: Places,
    revision: str = argument("COMMIT", "An id or a name, as `zoea ctx log` and `zoea ctx refs` show them.", ""),
    summary: str | None = option("--summary TEXT", "The new summary.", None),
    tag: tuple[str, ...] = options("--tag TAG", "Add a tag; may be repeated."),
    untag: tuple[str, ...] = options("--untag TAG", "Remove a tag; may be repeated."),
    name: str | None = option("--name NAME", "Name it, shown as tag/NAME, so that it outlives its mysis.", None),
    removed_name: str | None = option(
        "--remove-name NAME", "Remove a name; its commit stays until `zoea ctx gc`.", None
    ),
    pin: bool = flag("--pin", "Keep it, all before it, and their texts."),
    days: float | None = option("--days N", "Remove its texts N days from now.", None, number()),
    default: bool = flag("--default", "Keep it while a name stands for it or for a later commit."),
    whole: bool = flag("--whole", "With --pin, --days or --default: the same for all commits before it."),
    write: bool = flag("--write", "Let a model write its summary, in place of that of Zoea; the cost is said first."),
    missing: bool = flag(
        "--missing", "With --write: all without a summary by a model, of the commits before COMMIT or of all."
    ),
    limit: int = option(
        "-n, --limit N", "With --missing: at most so many commits, newest first.", 50, whole_number(1, 10_000)
    ),
    payer: str = option("--by NAME", "With --write: the mysis whose model writes them; the cost counts as its own."),
    timeout: float = option(
        "--timeout SECONDS", "With --write: longest time to wait for each.", 300.0, number(1, 3_600)
    ),
    dry_run: bool = flag("--dry-run", "With --write: only say what it would cost."),
) -> Output:
    """Note something about a commit: summary, tags, a name, how long its texts are kept; or list what was noted.

    A name such as tkt-7 is a ticket; it stands for its newest commit wherever a commit is named. With --pin, --days and
    --default the summary, size and origin stay in any case, and a text that another commit or a memory needs stays too.
    The model of --write is that of the mysis that made the commit, or of --by; its tokens count in `budget.background`.

    Examples: zoea ctx note alpha~3 --summary "Knows the parser, not yet the tests" --tag parser;
    zoea ctx note alpha~3 --name before-the-storm; zoea ctx note import/shop --days 7 --whole;
    zoea ctx note alpha --write --missing
    """
    is_kept = pin or default or days is not None
    if pin + default + (days is not None) > 1:
        raise UsageError("--pin, --days and --default exclude each other", hint="Give one of them.")
    if (summary is not None or bool(tag or untag)) + (name is not None) + (
        removed_name is not None
    ) + is_kept + write > 1:
        raise UsageError("these options exclude each other", hint="Note one thing at a time.")
    if whole and not is_kept:
        raise UsageError("--whole goes with --pin, --days or --default", hint="Add one of them.")
    if (missing or dry_run or payer) and not write:
        raise UsageError("--missing, --by and --dry-run go with --write", hint="Add --write.")
    if not revision and removed_name is None and not (write and missing):
        raise UsageError("COMMIT is missing", hint="`zoea ctx log` lists commits; --write --missing takes all.")
    if write:
        return _summarize(where, revision, missing=missing, limit=limit, payer=payer, timeout=timeout, dry_run=dry_run)
    if removed_name is not None:
        return _name(where, removed_name, "")
    if name is not None:
        return _name(where, name, revision)
    if is_kept:
        policy = "pin" if pin else "default" if default else "ephemeral"
        return _keep(where, revision, policy, days or 0.0, whole=whole)
    return _annotate(where, revision, summary, tag, untag)


def _name(where: Places, name: str, revision: str) -> Output:
    """Name a commit; without a commit, remove the name."""
    commit_id = locate_commit(where, revision).id if revision else ""
    ref = edit(
        where, lambda swarm: swarm.name_commit(name, commit_id), lambda store: name_commit(store, name, commit_id)
    )
    return Output(
        {"ref": ref, "context": commit_id or None}, f"{ref} names {revision}" if commit_id else f"{ref} is removed"
    )


def _keep(where: Places, revision: str, policy: str, days: float, *, whole: bool) -> Output:
    """Set how long the texts of a commit are kept."""
    commit = locate_commit(where, revision)
    count = edit(
        where,
        lambda swarm: swarm.keep_commit(commit.id, policy, days=days, whole=whole),
        lambda store: keep_commit(store, commit.id, policy, days, whole=whole),
    )
    with open_contexts(where) as conn:
        stored, until = blob_policies.read_policy(conn, find_commit(conn, commit.id).seq)
    kept = {"pin": "is pinned, with all before it", "": "stays while a name stands for it or for a later commit"}
    until_text = "" if until is None else f"keeps its texts until {moment(until)}"
    more = f"; so do {count_of(count - 1, 'commit')} before it" if whole and count > 1 else ""
    return Output(
        {"context": commit.id, "policy": stored or "default", "until": until, "commits": count},
        f"{revision} {kept.get(stored, until_text)}{more}",
    )


def _annotate(
    where: Places, revision: str, summary: str | None, tag: tuple[str, ...], untag: tuple[str, ...]
) -> Output:
    """Change summary and tags of a commit, and return all that it had."""
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


def _summarize(
    where: Places, revision: str, *, missing: bool, limit: int, payer: str, timeout: float, dry_run: bool
) -> Output:
    """Let a model write the summaries of a commit, or of all that have none; say the cost first."""
    with open_contexts(where) as conn:
        tip = find_commit(conn, revision) if revision else None
        chosen = read_unsummarised(conn, limit, None if tip is None else tip.seq) if missing else [tip] if tip else []
        short = {one.id: shortest_id(conn, one) for one in chosen}
    tokens, micros = _estimate(where, chosen, payer)
    price = describe_price(micros) if chosen else "at no cost"
    tell(f"{count_of(len(chosen), 'commit')}, about {tokens:,} tokens, {price}")
    written: dict[str, str] = {}
    skipped: dict[str, str] = {}

    async def work(swarm: SwarmApi) -> None:
        for one in chosen:
            try:
                written[one.id] = await swarm.summarise(one.id, payer=payer, timeout_s=timeout)
            except (MysisMissing, MissingBlob) as error:
                skipped[one.id] = error.what  # the others can still be written
            text = written.get(one.id) or f"left out: {skipped.get(one.id, '')}"
            tell(f"{short[one.id]}  {head(prose_line(text), _TEXT)}")

    try:
        if chosen and not dry_run:
            command(where, work)
    finally:  # also those that were written before one failed
        counts = {"commits": len(chosen), "tokens": tokens, "cost_micros": micros}
        output.write(Output({**counts, "summaries": written, "skipped": skipped}))
    if skipped and not output.is_json:
        warn("Where the mysis that made a commit is gone, name another one whose model writes it: --by NAME.")
    return Output(UNSET)


def _estimate(where: Places, chosen: list[ContextCommit], payer: str) -> tuple[int, int | None]:
    """Return the tokens that are read, and what all costs in millionths of a dollar. None where that is unknown."""
    tokens = sum(one.token_count for one in chosen)
    if not chosen:
        return 0, 0
    try:
        request = estimate_first_request(where, payer or chosen[0].id, "")
    except MissingBlob:
        return tokens, None
    return tokens, request.price_of(tokens, NOTE_TOKENS * len(chosen))
