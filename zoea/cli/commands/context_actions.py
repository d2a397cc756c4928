"""`zoea ctx` commands that write: through the running swarm, or to the database where none runs."""

from __future__ import annotations

from zoea.chain import context_edits
from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit import SUMMARY_TOKENS
from zoea.chain.commit_rows import read_refs, shortest_id
from zoea.chain.ref_names import find_branch
from zoea.cli.commands.context_access import (
    COMMIT,
    describe_commit,
    estimate_first_request,
    find_commit,
    locate_commit,
    name_commits,
    open_contexts,
)
from zoea.cli.output import Output, warn
from zoea.cli.swarm_access import command, edit
from zoea.model.errors import UsageError
from zoea.process.command_line import REQUIRED, argument, flag, number, option
from zoea.runtime.first_request_estimate import describe_price
from zoea.settings.paths import Places
from zoea.store import Store
from zoea.text.control_characters import prose_line
from zoea.text.shorten import head

_TEXT = 100


def tag(
    where: Places,
    name: str = argument(
        "NAME", "The name to give, shown as tag/NAME; with --delete any name that `zoea ctx refs` shows."
    ),
    revision: str = argument("COMMIT", "The commit that it names.", ""),
    delete: bool = flag("--delete", "Remove the name; the commit stays until `zoea ctx gc`."),
) -> Output:
    """Name a commit, so that it outlives its mysis.

    A name such as tkt-7 is a ticket; it stands for its newest commit wherever a commit is named.

    Example: zoea ctx tag before-the-storm alpha~3
    """
    if delete is bool(revision):
        raise UsageError("give a commit, or --delete", hint="`zoea ctx refs` lists names.")
    found = locate_commit(where, revision).id if revision else ""
    ref = edit(
        where,
        lambda swarm: swarm.name_commit(name, found),
        lambda store: context_edits.name_commit(store, name, found),
    )
    return Output({"ref": ref, "context": found or None}, f"{ref} is removed" if delete else f"{ref} names {revision}")


def checkpoint(
    where: Places,
    name: str = argument("NAME", "A mysis, as @alpha."),
    message: str = option("-m, --message TEXT", "The summary of the commit; if not given, Zoea makes one."),
    timeout: float = option(
        "--timeout SECONDS", "Longest time to wait for that answer or result.", 20.0, number(1, 3600)
    ),
) -> Output:
    """Make a commit of what a mysis knows now. During a turn it is made with the next answer or result.

    Example: zoea ctx checkpoint @alpha -m "Knows the parser"
    """
    made = command(where, lambda swarm: swarm.checkpoint(name, summary=message, timeout_s=timeout))
    return _show(where, made, f"nothing is new since the newest commit of {name}")


def snapshot(
    where: Places,
    revision: str = COMMIT,
) -> Output:
    """Store the conversation up to a commit as one commit.

    Reading it is then fast, however many commits are before it.

    After the newest commit of a mysis, the snapshot is its newest one; elsewhere it gets the name snapshot/ID.
    """
    found = locate_commit(where, revision).id

    async def store(opened: Store) -> str:
        return (await context_edits.take_snapshot(opened, found)).id

    return _show(where, edit(where, lambda swarm: swarm.snapshot(found), store))


def pick(
    where: Places,
    revision: str = COMMIT,
    to: str = option("--to NAME", "The mysis that gets them.", REQUIRED),
) -> Output:
    """Add the messages of one commit to what a mysis knows. Its next turn begins with its whole conversation.

    Example: zoea ctx pick alpha~2 --to beta
    """
    chosen = locate_commit(where, revision).id
    return _show(where, command(where, lambda swarm: swarm.pick(chosen, to.removeprefix("@"))))


def compact(
    where: Places,
    revision: str = COMMIT,
    extract: bool = flag("--extract", "Choose lines of the conversation instead, without a model and at no cost."),
    payer: str = option("--by NAME", "The mysis whose model writes it; the cost counts as its own."),
    timeout: float = option("--timeout SECONDS", "Longest time to wait for the model.", 300.0, number(1, 3600)),
) -> Output:
    """Store a summary of the conversation up to a commit. It is a new commit with the name compact/ID.

    A model writes it, as background work (budget.background); the cost is said first, on stderr.

    Example: zoea ctx compact alpha
    """
    with open_contexts(where) as conn:
        is_branch = find_branch(read_refs(conn), revision).startswith("@")
        found = find_commit(conn, revision)
        size = ChainReader(conn).materialize(found).token_count
    if not extract:
        said = estimate_first_request(where, revision, "")
        price = describe_price(said.price_of(size, SUMMARY_TOKENS))
        warn(f"{said.short_id}: a summary of about {size:,} tokens, {price}")
    asked = revision if is_branch else found.id
    made = command(where, lambda swarm: swarm.compact(asked, extract=extract, payer=payer, timeout_s=timeout))
    return _show(where, made)


def _show(where: Places, commit_id: str, nothing: str = "") -> Output:
    """Return a new commit, or that there is none."""
    if not commit_id:
        return Output(None, nothing)
    with open_contexts(where) as conn:
        commit = find_commit(conn, commit_id)
        names = name_commits(conn, [commit])[commit.seq]
        about = head(prose_line(commit.note.summary), _TEXT)
        text = f"{shortest_id(conn, commit)}  {commit.kind}  {', '.join(names)}  {about}"
        return Output(describe_commit(conn, commit, names), text)
