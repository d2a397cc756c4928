"""`zoea fork`: make myses that know a conversation up to a commit."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from zoea.cli import output
from zoea.cli.commands.context_access import estimate_first_request
from zoea.cli.commands.myses import settle_model
from zoea.cli.options import KEEP_MODEL
from zoea.cli.output import Output, tell
from zoea.cli.swarm_access import command
from zoea.model.errors import MissingBlob, UsageError
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import MysisOverrides, MysisView
from zoea.process.command_line import argument, flag, option, whole_number
from zoea.runtime.first_request_estimate import MOST_FORKS, describe_first_request
from zoea.settings.paths import Places

if TYPE_CHECKING:
    from zoea.runtime.first_request_estimate import FirstRequestEstimate


def fork(
    where: Places,
    revision: str = argument(
        "COMMIT", "A mysis, for what it knows now; alpha~3, 3 commits earlier; or an id such as ctx-1a2b3c4d."
    ),
    count: int = option("-n, --count N", "How many myses to make.", 1, whole_number(1, MOST_FORKS)),
    message: str = option("-m, --message TEXT", "Their first message."),
    name: str = option("--name NAME", "Its name, if one is made; if not given, the origin's name and a number."),
    template: str = option("--template NAME", "Another template than the commit's."),
    provider: str = option("--provider NAME", "Another provider."),
    model: str | None = option("--model NAME", "Another model.", None),
    keep_model: bool = KEEP_MODEL,
    dry_run: bool = flag("--dry-run", "Only say what it would cost."),
    key: str = option("--key KEY", "Idempotency key: a repeated command with the same key makes no more myses."),
) -> Output:
    """Make myses that know a conversation up to a commit. The cost of their first requests is said first.

    Example: zoea fork alpha -n 3 -m "Try it differently"
    """
    if name and count > 1:
        raise UsageError(f"one name cannot be that of {count} myses", hint="Leave out --name.")
    try:
        request = estimate_first_request(where, revision, message, MysisOverrides(template, provider, model or ""))
    except MissingBlob as gone:
        hint = "`zoea new --from COMMIT --allow-fresh` makes a mysis without the conversation."
        raise MissingBlob(gone.what, hint=hint) from gone
    cost, commit_id, short = request.cost, request.commit.id, request.short_id
    if not dry_run:
        settle_model(model, where, provider=cost.provider, template=template, keeps=keep_model)
    micros = request.price(count)
    tell(describe_first_request(request, count, micros))
    made: list[MysisView] = []

    async def work(swarm: SwarmApi) -> None:
        for number in range(count):
            own = f"{key}-{number}" if key else ""
            one = await swarm.create(
                name, template=template, provider=provider, model=model or "", commit=commit_id, idempotency_key=own
            )
            made.append(one)
            if message:
                await swarm.send(f"#{one.id}", message, idempotency_key=own)

    try:
        if not dry_run:
            command(where, work)
    finally:
        # Those made before one was refused stay, and have to be named.
        if made or sys.exc_info()[0] is None:
            output.write(Output(_as_dict(request, count, micros, made), _describe_made(made, short)))
    return Output(UNSET)


def _describe_made(made: list[MysisView], short: str) -> Iterator[str]:
    if made:
        yield f"{', '.join(one.name for one in made)}: made from {short}"
        yield f"Undo: zoea delete {' '.join(shlex.quote(one.name) for one in made)}"


def _as_dict(said: FirstRequestEstimate, count: int, micros: int | None, made: list[MysisView]) -> dict[str, Any]:
    return {
        "context": said.commit.id,
        "messages": said.cost.messages,
        "shown": said.cost.shown,
        "tier": said.cost.tier,
        "tokens_each": said.cost.tokens,
        "tokens": said.cost.tokens * count,
        "cost_micros": micros,
        "myses": made,
    }
