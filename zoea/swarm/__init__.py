"""The running swarm: the loops of myses, inbox, hold, approvals, events and live view.

`Commander` is imported on first use, so that the two pure machines load without the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zoea.swarm.commander import Commander

__all__ = ["Commander"]


def __getattr__(name: str) -> Any:
    if name != "Commander":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from zoea.swarm.commander import Commander

    return Commander
