"""The guard on characters: planner.md, "Selection", rule 6.

It acts only where the chosen packs are longer than `max_chars` together, and
stops as soon as they fit. Whatever it touches has the reason `max_chars`.
"""

from __future__ import annotations

from collections.abc import Sequence

from zoea.context.choice import Choice, Scale
from zoea.context.cut import cut_end
from zoea.context.shrink import shrink
from zoea.context.values import Priority, Reason, Status, Truncation, Variant

_LOWEST_FIRST = {priority: -rank for rank, priority in enumerate(Priority)}


def guard(choices: Sequence[Choice], max_chars: int, scale: Scale) -> Truncation:
    """Make the chosen packs fit, where their total exceeds `max_chars`."""
    before = _total(choices)
    if before <= max_chars:
        return Truncation(False, before, before)
    optional = sorted(
        (one for one in choices if not one.is_required and one.status is Status.INCLUDED),
        key=lambda one: (_LOWEST_FIRST[one.priority], -one.index),
    )
    for choice in optional:
        if _total(choices) <= max_chars:
            break
        if choice.variant is Variant.FULL and choice.has_compact and choice.compact.chars < choice.size.chars:
            choice.take(Variant.COMPACT, Reason.MAX_CHARS)
            choice.setting = f"max_chars = {before}"
    for choice in optional:
        if _total(choices) <= max_chars:
            break
        choice.skip(Reason.MAX_CHARS)
        choice.setting = f"max_chars = {before}"
    required = sorted(
        (one for one in choices if one.is_required and one.status is Status.INCLUDED and one.pack.counted is None),
        key=lambda one: (one.pack.preserve, -one.size.chars, -one.index),
    )
    for choice in required:
        excess = _total(choices) - max_chars
        if excess <= 0:
            break
        if cut(choice, choice.size.chars - excess, Reason.MAX_CHARS, scale):
            choice.setting = f"max_chars = {before}"
    return Truncation(True, before, _total(choices))


def cut(choice: Choice, keep: int, reason: Reason, scale: Scale) -> bool:
    """Cut what a choice holds to `keep` characters: texts at their end, messages as messages. False if it stays."""
    body = choice.body
    short = cut_end(body, max(keep, 0)) if isinstance(body, str) else shrink(body, max(keep, 0), scale)
    if short == body:
        return False
    choice.cut_to(short, scale.body(short), reason)
    return True


def _total(choices: Sequence[Choice]) -> int:
    return sum(choice.size.chars for choice in choices if choice.pack.counted is None)
