"""`zoea ctx summarize`: have models write the summaries of commits."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from zoea.chain.commit import NOTE_TOKENS, ContextCommit
from zoea.chain.commit_rows import read_unsummarised, shortest_id
from zoea.cli.commands.context_access import find_commit, open_contexts
from zoea.cli.context_cost import estimate_first_request
from zoea.cli.options import AsJson, Workspace, write_json
from zoea.cli.swarm_access import command
from zoea.model.errors import MissingBlob, MysisMissing, UsageError
from zoea.model.swarm_api import SwarmApi
from zoea.runtime.first_request_estimate import describe_price
from zoea.text.control_characters import prose_line, strip
from zoea.text.sentences import count_of
from zoea.text.shorten import head

_TEXT = 100


def summarize(
    revision: Annotated[
        str, typer.Argument(metavar="COMMIT", help="This commit; with --missing also those before it.")
    ] = "",
    missing: Annotated[
        bool,
        typer.Option("--missing", help="All that have no summary by a model: of the commits before COMMIT, or of all."),
    ] = False,
    limit: Annotated[
        int,
        typer.Option("--limit", "-n", metavar="N", min=1, max=10_000, help="At most so many commits, newest first."),
    ] = 50,
    payer: Annotated[
        str, typer.Option("--by", metavar="NAME", help="The mysis whose model writes them; the cost counts as its own.")
    ] = "",
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, max=3_600, help="Longest time to wait for each.")
    ] = 300.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would cost.")] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Let a model write summaries of commits, in place of those that Zoea made. The cost is said first.

    The model is that of the mysis that made the commit, or of --by. Its tokens count in `budget.background`.

    Example: zoea ctx summarize --missing alpha
    """
    if not revision and not missing:
        raise UsageError("give a commit, or --missing", hint="`zoea ctx log` lists commits.")
    with open_contexts(workspace) as conn:
        tip = find_commit(conn, revision) if revision else None
        chosen = read_unsummarised(conn, limit, None if tip is None else tip.seq) if missing else [tip] if tip else []
        short = {one.id: shortest_id(conn, one) for one in chosen}
    tokens, micros = _estimate(workspace, chosen, payer)
    if not as_json:
        price = describe_price(micros) if chosen else "at no cost"
        typer.echo(strip(f"{count_of(len(chosen), 'commit')}, about {tokens:,} tokens, {price}"))
    written: dict[str, str] = {}
    skipped: dict[str, str] = {}

    async def work(swarm: SwarmApi) -> None:
        for one in chosen:
            try:
                written[one.id] = await swarm.summarise(one.id, payer=payer, timeout_s=timeout)
            except (MysisMissing, MissingBlob) as error:
                skipped[one.id] = error.what  # the others can still be written
            if not as_json:
                said = written.get(one.id) or f"left out: {skipped.get(one.id, '')}"
                typer.echo(strip(f"{short[one.id]}  {head(prose_line(said), _TEXT)}"))

    try:
        if chosen and not dry_run:
            command(workspace, work)
    finally:
        if as_json:
            write_json(_as_dict(chosen, tokens, micros, written, skipped))
    if skipped and not as_json:
        typer.echo(
            "Where the mysis that made a commit is gone, name another one whose model writes it: --by NAME.", err=True
        )


def _estimate(workspace: str, chosen: list[ContextCommit], payer: str) -> tuple[int, int | None]:
    """Return the tokens that are read, and what all costs in millionths of a dollar. None where that is unknown."""
    tokens = sum(one.token_count for one in chosen)
    if not chosen:
        return 0, 0
    try:
        said = estimate_first_request(workspace, payer or chosen[0].id, "")
    except MissingBlob:
        return tokens, None
    return tokens, said.price_of(tokens, NOTE_TOKENS * len(chosen))


def _as_dict(
    chosen: list[ContextCommit], tokens: int, micros: int | None, written: dict[str, str], skipped: dict[str, str]
) -> dict[str, Any]:
    return {
        "commits": len(chosen),
        "tokens": tokens,
        "cost_micros": micros,
        "summaries": written,
        "skipped": skipped,
    }
