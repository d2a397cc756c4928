"""`zoea keep`: messages that the strategy `window` always shows."""

from __future__ import annotations

from zoea.cli.output import Output, moment
from zoea.cli.swarm_access import command
from zoea.model.errors import UsageError
from zoea.model.swarm_api import SwarmApi
from zoea.process.command_line import arguments, flag, option, row_id
from zoea.queries.stored_swarm import read_preserved
from zoea.settings.paths import Places
from zoea.text.control_characters import prose_line
from zoea.text.shorten import head

_TEXT = 100


def keep(
    where: Places,
    ids: tuple[int, ...] = arguments("ID", "Ids of messages, as `zoea search` shows them.", (), row_id),
    name: str = option("--of NAME", "List the messages of this mysis that are kept."),
    remove: bool = flag("--remove", "Stop keeping them."),
) -> Output:
    """Keep messages word for word in each request, for templates with `strategy = "window"`; --of lists them.

    Other strategies do not show them.
    """
    if bool(ids) == bool(name):
        raise UsageError("name the messages, or list them with --of NAME", hint="For example: zoea keep 41 42")
    if name:
        messages = read_preserved(where.database, name)
        lines = [
            f"{one.id}  {moment(one.created_at)}  turn {one.turn_number}  {one.role}: "
            f"{head(prose_line(one.content), _TEXT)}"
            for one in messages
        ]
        return Output(messages, lines or "No message is kept; `zoea keep ID` keeps one")

    async def work(swarm: SwarmApi) -> None:
        for memory in ids:
            await swarm.preserve(memory, not remove)

    command(where, work)
    word = "is kept no longer" if remove else "is kept"
    return Output({"released" if remove else "preserved": ids}, [f"{memory} {word}" for memory in ids])
