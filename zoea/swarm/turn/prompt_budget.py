"""How many queued prompts fit into one turn. Pure.

Prompts stand in every request of their turn, whole (I4), so a backlog that is larger
than a request would end the turn that took it, with none of them answered. What has
no room waits for the next turn instead.
"""

from __future__ import annotations

from collections.abc import Iterable

from zoea.context import MESSAGE_FRAME, FrozenTurn, request_limit
from zoea.model.values import Delivery
from zoea.text import estimate

_SHARE = 0.5  # of what system prompt and tools leave; the rest is for answers, calls and their results


def room_for_prompts(frozen: FrozenTurn) -> int:
    """Base tokens that the prompts of a turn may take together."""
    rest = request_limit(frozen).tokens / frozen.calibration - estimate.tokens(frozen.system) - frozen.tools_tokens
    return max(0, int(rest * _SHARE))


def select_fitting(
    deliveries: tuple[Delivery, ...], room: int, taken: Iterable[str] = (), *, at_least: int = 0
) -> tuple[Delivery, ...]:
    """The first of them, in arrival order, that fit beside what the turn has taken.

    Args:
        taken: The texts of the turn's prompts so far.
        at_least: How many are taken in any case: a turn is opened by one at least, however long.
    """
    used = sum(_tokens(text) for text in taken)
    for count, delivery in enumerate(deliveries):
        used += _tokens(delivery.content) + estimate.tokens(delivery.label)
        if used > room and count >= at_least:
            return deliveries[:count]
    return deliveries


def _tokens(text: str) -> int:
    return estimate.tokens(text) + MESSAGE_FRAME
