"""Let models write the summaries of commits, for `zoea ctx note --write`."""

from __future__ import annotations

from msgspec import UNSET

from zoea.chain.commit import NOTE_TOKENS, ContextCommit
from zoea.chain.commit_rows import read_unsummarised, shortest_id
from zoea.cli import output
from zoea.cli.commands.context_access import estimate_first_request, find_commit, open_contexts
from zoea.cli.output import Output, tell, warn
from zoea.cli.swarm_access import command
from zoea.model.errors import MissingBlob, MysisMissing
from zoea.model.swarm_api import SwarmApi
from zoea.runtime.first_request_estimate import describe_price
from zoea.settings.paths import Places
from zoea.text.control_characters import prose_line
from zoea.text.sentences import count_of
from zoea.text.shorten import head

_TEXT = 100


def summarize(
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
        said = estimate_first_request(where, payer or chosen[0].id, "")
    except MissingBlob:
        return tokens, None
    return tokens, said.price_of(tokens, NOTE_TOKENS * len(chosen))
