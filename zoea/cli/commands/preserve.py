"""`zoea preserve` and `zoea preserved`: messages that the strategy `window` always shows."""

from __future__ import annotations

from zoea.cli.options import MYSIS
from zoea.cli.output import Output, moment
from zoea.cli.swarm_access import command
from zoea.model.swarm_api import SwarmApi
from zoea.process.command_line import arguments, flag, row_id
from zoea.queries.stored_swarm import read_preserved
from zoea.settings.paths import Places
from zoea.text.control_characters import prose_line
from zoea.text.shorten import head

_TEXT = 100


def preserve(
    where: Places,
    ids: tuple[int, ...] = arguments("ID", "Ids of messages, as `zoea search` shows them.", read=row_id),
    remove: bool = flag("--remove", "Stop keeping them."),
) -> Output:
    """Keep messages word for word in each request, for templates with `strategy = "window"`.

    Other strategies do not show them.
    """

    async def work(swarm: SwarmApi) -> None:
        for memory in ids:
            await swarm.preserve(memory, not remove)

    command(where, work)
    return Output(
        {"released" if remove else "preserved": ids},
        [f"{memory} is kept{' no longer' if remove else ''}" for memory in ids],
    )


def preserved(
    where: Places,
    name: str = MYSIS,
) -> Output:
    """List the messages of a mysis that are kept word for word."""
    found = read_preserved(where.database, name)
    texts = (head(prose_line(one.content), _TEXT) for one in found)
    lines = [
        f"{one.id}  {moment(one.created_at)}  turn {one.turn_number}  {one.role}: {text}"
        for one, text in zip(found, texts, strict=True)
    ]
    return Output(found, lines or "No message is kept; `zoea preserve ID` keeps one")
