"""The living part: myses with their loops, the inbox, hold, approvals, events and the live view.

`Commander` is the swarm in this process; `life.py` and `turn.py` are its rules.
Loaded on use, so that the two pure machines can be imported without the rest.
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
