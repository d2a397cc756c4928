"""`zoea list`, where no swarm runs without asyncio.

It is the command that is called most often, so its start time matters.
"""

from __future__ import annotations

from zoea.cli import output
from zoea.cli.output import Output
from zoea.cli.terminal_rows import table
from zoea.model.errors import StoreFull, StoreMissing, StoreMoved
from zoea.model.values import SwarmView
from zoea.process.lock import read_holder
from zoea.queries.stored_swarm import read_swarm_view
from zoea.settings.paths import Places


def list_myses(where: Places) -> Output:
    """List all myses with their status, from the running swarm or the database.

    The status is one word for what a mysis does now. `zoea broadcast --state` selects by the state: idle, running,
    stopped or errored. `zoea show NAME` shows both.
    """
    view = _view(where)
    if not view.myses:
        return Output((), "There are no myses yet. `zoea run --world reef --myses 5` creates and starts five.")
    lines = [table(view.myses)]
    if view.held:
        goes_on = view.hold_reason in (StoreFull.reason, StoreMoved.reason)
        how = "It goes on by itself once that is mended." if goes_on else "`zoea hold --lift` resumes it."
        lines.append(f"The swarm is on hold: {view.hold_reason}. {how}")
    return Output(view.myses, lines)


def _view(where: Places) -> SwarmView:
    if output.run_in_front.get() is None and read_holder(where.data) is None:
        return _stored(where)
    from zoea.cli.swarm_access import ask  # imports asyncio, which takes a third of this command's time

    return ask(where, lambda swarm: swarm.view(), _stored)


def _stored(where: Places) -> SwarmView:
    try:
        return read_swarm_view(where.database)
    except StoreMissing:
        return SwarmView(0, False, "", ())
