"""`zoea ctx commit` and `pick`: make commits."""

from __future__ import annotations

from zoea.chain import commit_edits
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
from zoea.store.store import Store
from zoea.text.control_characters import prose_line
from zoea.text.shorten import head

_TEXT = 100


def commit(
    where: Places,
    revision: str = argument("COMMIT", "A mysis, as @alpha; for --snapshot and --compact any commit."),
    message: str = option("-m, --message TEXT", "The summary of the commit; if not given, Zoea makes one."),
    snapshot: bool = flag("--snapshot", "Store the conversation up to COMMIT as one commit, which is fast to read."),
    compact: bool = flag("--compact", "Store a summary of the conversation up to COMMIT, which a model writes."),
    extract: bool = flag("--extract", "With --compact: choose lines instead, without a model and at no cost."),
    payer: str = option("--by NAME", "With --compact: the mysis whose model writes it; the cost counts as its own."),
    timeout: float | None = option(
        "--timeout SECONDS",
        "Longest time to wait for the model, 300 if not given, or for the next answer or result, 20 if not given.",
        None,
        number(1, 3_600),
    ),
) -> Output:
    """Commit what a mysis knows now. During a turn the commit is made with the next answer or result.

    The snapshot of the newest commit of a mysis is its newest one; that of another gets the name snapshot/ID.
    The summary of --compact gets the name compact/ID. A model writes it as background work (budget.background), and the
    cost is said first, on stderr.

    Examples: zoea ctx commit @alpha -m "Knows the parser"; zoea ctx commit alpha --compact
    """
    if snapshot and compact:
        raise UsageError("--snapshot and --compact exclude each other", hint="Give one of them.")
    if (extract or payer) and not compact:
        raise UsageError("--extract and --by go with --compact", hint="Add --compact.")
    if message and (snapshot or compact):
        raise UsageError("--message goes with neither --snapshot nor --compact", hint="Leave it out.")
    if snapshot:
        return _take_snapshot(where, revision)
    if compact:
        return _compact(where, revision, extract=extract, payer=payer, timeout=timeout or 300.0)
    made = command(where, lambda swarm: swarm.checkpoint(revision, summary=message, timeout_s=timeout or 20.0))
    return _show(where, made, f"nothing is new since the newest commit of {revision}")


def _take_snapshot(where: Places, revision: str) -> Output:
    commit_id = locate_commit(where, revision).id

    async def store(opened: Store) -> str:
        return (await commit_edits.take_snapshot(opened, commit_id)).id

    return _show(where, edit(where, lambda swarm: swarm.snapshot(commit_id), store))


def _compact(where: Places, revision: str, *, extract: bool, payer: str, timeout: float) -> Output:
    with open_contexts(where) as conn:
        is_branch = find_branch(read_refs(conn), revision).startswith("@")
        point = find_commit(conn, revision)
        size = ChainReader(conn).materialize(point).token_count
    if not extract:
        request = estimate_first_request(where, revision, "")
        price = describe_price(request.price_of(size, SUMMARY_TOKENS))
        warn(f"{request.short_id}: a summary of about {size:,} tokens, {price}")
    asked = revision if is_branch else point.id
    made = command(where, lambda swarm: swarm.compact(asked, extract=extract, payer=payer, timeout_s=timeout))
    return _show(where, made)


def pick(
    where: Places, revision: str = COMMIT, to: str = option("--to NAME", "The mysis that gets them.", REQUIRED)
) -> Output:
    """Add the messages of one commit to what a mysis knows. Its next turn begins with its whole conversation.

    Example: zoea ctx pick alpha~2 --to beta
    """
    chosen = locate_commit(where, revision).id
    return _show(where, command(where, lambda swarm: swarm.pick(chosen, to.removeprefix("@"))))


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
