"""`zoea list`, without the option parser and, where no swarm runs, without asyncio.

It is the command that is called most often, so its start time matters.
"""

from __future__ import annotations

import json
import sys

from zoea.cli.terminal_rows import table
from zoea.ipc.codec import encode
from zoea.model.errors import StoreMissing
from zoea.model.values import SwarmView
from zoea.process.lock import read_holder
from zoea.queries.stored_swarm import read_swarm_view
from zoea.settings.paths import Places, places


def plain_arguments(arguments: list[str]) -> tuple[bool, str] | None:
    """Return `(as_json, workspace)` of a plain `list` line; None if it needs the option parser."""
    as_json, workspace, rest = False, "", list(arguments)
    while rest:
        match rest:
            case ["--json", *rest]:
                as_json = True
            case ["--workspace" | "-w", str(workspace), *rest] if not workspace.startswith("-"):
                continue
            case _:
                return None
    return as_json, workspace


def write_list(as_json: bool, workspace: str) -> None:
    """Write all myses and their states to stdout, from the running swarm or the database.

    Raises:
        StoreError: The database cannot be read.
        OwnerError: The running swarm does not answer.
    """
    view = _view(places(workspace))
    if as_json:
        text = json.dumps(encode(view.myses), ensure_ascii=False)
    elif not view.myses:
        text = "There are no myses yet. `zoea run --world reef --myses 5` creates and starts five."
    else:
        text = table(view.myses)
        if view.held:
            text += f"\nThe swarm is on hold: {view.hold_reason}. `zoea hold --lift` lifts it."
    sys.stdout.write(text + "\n")


def _view(where: Places) -> SwarmView:
    if read_holder(where.data) is None:
        return _stored(where)
    from zoea.cli.swarm_access import ask_at  # imports asyncio, which takes a third of this command's time

    return ask_at(where, lambda swarm: swarm.view(), _stored)


def _stored(where: Places) -> SwarmView:
    try:
        return read_swarm_view(where.database)
    except StoreMissing:
        return SwarmView(0, False, "", ())
