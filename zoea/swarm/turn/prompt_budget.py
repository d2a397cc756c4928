"""How many queued prompts fit into one turn. Pure.

Every request contains all prompts of its turn (I4), so a backlog larger than a request would
end the turn with none answered. The rest waits for the next turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from zoea.context import MESSAGE_FRAME, FrozenTurn, request_limit
from zoea.model.values import Delivery
from zoea.text import estimate

_SHARE = 0.5  # of the room beside system prompt and tools; the rest is for answers and results


def room_for_prompts(frozen: FrozenTurn) -> int:
    """Return the tokens, before calibration, that the prompts of a turn may use."""
    rest = request_limit(frozen).tokens / frozen.calibration - estimate.tokens(frozen.system_text) - frozen.tools_tokens
    return max(0, int(rest * _SHARE))


def select_fitting(
    deliveries: tuple[Delivery, ...], room: int, taken: Iterable[str] = (), *, at_least: int = 0
) -> tuple[Delivery, ...]:
    """Return the first deliveries, in arrival order, that fit.

    Args:
        taken: The texts of the turn's prompts so far.
        at_least: How many are taken in any case, so that a long prompt opens a turn.
    """
    used = sum(_tokens(text) for text in taken)
    for count, delivery in enumerate(deliveries):
        used += prompt_tokens(delivery)
        if used > room and count >= at_least:
            return deliveries[:count]
    return deliveries


def select_together(deliveries: tuple[Delivery, ...], is_own: Callable[[Delivery], bool]) -> tuple[Delivery, ...]:
    """Return the first deliveries that open a turn together: one that has a turn of its own stands alone."""
    place = next((place for place, one in enumerate(deliveries) if is_own(one)), len(deliveries))
    return deliveries[: max(1, place)]


def prompt_tokens(delivery: Delivery) -> int:
    """Return the size of a delivery as a prompt, before calibration."""
    return _tokens(delivery.content) + estimate.tokens(delivery.label)


def _tokens(text: str) -> int:
    return estimate.tokens(text) + MESSAGE_FRAME
