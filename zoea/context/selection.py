"""The guard on characters: planner.md, "Selection", rule 6.

It acts only where the chosen packs are longer than `max_chars` together, and
stops as soon as they fit. Whatever it touches has the reason `max_chars`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from zoea.context.candidates import Candidate, PackMeter, build_plan, measure_packs, sort_by_priority
from zoea.context.condensed_text import FEW_IDENTIFIER_CHARS, LEAST, cut_end, cut_text, fold_slice, join_folds
from zoea.context.measure import TextCounter
from zoea.context.plan_values import Pack, PackStatus, Plan, Priority, Reason, Truncation, Variant
from zoea.model.enums import Role
from zoea.model.errors import SettingsError
from zoea.model.request import RequestMessage

# The guard on characters (rule 6) is in `guard.py`. Nothing here knows what a pack is about.

DEFAULT_MAX_TOKENS = 100_000
DEFAULT_MAX_CHARS = 500_000


def choose_packs(choices: Sequence[Candidate], max_tokens: int, taken: int = 0) -> None:
    """Rules 1 to 4: decide each pack under the budget, of which `taken` is spent already."""
    for choice in sort_by_priority(choices):
        _decide(choice, max_tokens - taken)
        if choice.reason is Reason.BUDGET:
            choice.setting = f"max_tokens = {taken + choice.full.tokens}"
        taken += choice.size.tokens


def _decide(choice: Candidate, remaining: int) -> None:
    full, compact = choice.full.tokens, choice.compact.tokens
    if not choice.pack.full and not choice.has_compact and choice.pack.counted is None:
        choice.skip(Reason.EMPTY)
    elif choice.is_required:
        if full > remaining and choice.has_compact and (compact <= remaining or compact < full):
            choice.take(Variant.COMPACT, Reason.BUDGET)
        else:
            choice.take(Variant.FULL, Reason.REQUIRED)
    elif full <= remaining:
        choice.take(Variant.FULL, Reason.FITS)
    elif choice.has_compact and compact <= remaining:
        choice.take(Variant.COMPACT, Reason.BUDGET)
    else:
        choice.skip(Reason.BUDGET)


def plan(
    packs: Sequence[Pack],
    *,
    max_tokens: int | str | None = None,
    max_chars: int | str | None = None,
    count: TextCounter | None = None,
) -> Plan:
    """Select packs under a budget (planner.md, "Selection").

    Args:
        packs: In the order in which they shall stand.
        max_tokens: The budget; None or 0 is 100,000; a numeric string is read as a number.
        max_chars: The guard on the total; None or 0 is 500,000.
        count: Tokens of a text; `ceil(chars / 4)` by default. A `Counter` also sees what messages carry beside text.

    Raises:
        SettingsError: a limit or a priority that is none.
    """
    budget = parse_limit(max_tokens, "max_tokens", DEFAULT_MAX_TOKENS)
    most_chars = parse_limit(max_chars, "max_chars", DEFAULT_MAX_CHARS)
    scale = PackMeter(count)
    choices = measure_packs(packs, scale)
    choose_packs(choices, budget)
    truncation = enforce_max_chars(choices, most_chars, scale)
    return build_plan(choices, budget, truncation)


def parse_limit(value: object, name: str, default: int) -> int:
    """A limit as a setting, request or environment gives it.

    Raises:
        SettingsError: anything that is no whole number of 0 or more; nothing ever means "unlimited".
    """
    match value:
        case None:
            return default
        case bool():
            number = -1
        case int():
            number = value
        case str() if re.fullmatch(r"\s*[0-9]{1,18}\s*", value):
            number = int(value)
        case _:
            number = -1
    if number < 0:
        raise SettingsError(
            f"{name} is {value!r}, which is no number of {'tokens' if name == 'max_tokens' else 'characters'}.",
            hint=f"Set {name} to a whole number; 0 or nothing means {default:,}.",
        )
    return number or default


def shrink_messages(
    messages: tuple[RequestMessage, ...], max_chars: int, scale: PackMeter
) -> tuple[RequestMessage, ...]:
    """The messages in at most `max_chars` characters where that can be, else as short as they get.

    User and system messages, texts and calls of unfolded slices stay as they are.
    """
    out = list(messages)
    excess = scale.body(messages).chars - max_chars
    for index, message in enumerate(out):
        if excess <= 0:
            return tuple(out)
        if message.role is Role.TOOL and len(message.content) > LEAST:
            short = cut_text(message.content, len(message.content) - excess, message.memory_id)
            excess -= len(message.content) - len(short)
            out[index] = replace(message, content=short)
    return _fold(tuple(out), max_chars, scale)


def _fold(messages: tuple[RequestMessage, ...], max_chars: int, scale: PackMeter) -> tuple[RequestMessage, ...]:
    """Fold complete slices, oldest first, never the last, until the rest fits."""
    while scale.body(messages).chars > max_chars:
        spans = _slices(messages)
        for start, end in spans[:-1]:
            text = join_folds([fold_slice(messages[start], messages[start + 1 : end], FEW_IDENTIFIER_CHARS)])
            stand_in = RequestMessage(Role.ASSISTANT, text)
            shorter = (*messages[:start], stand_in, *messages[end:])
            if scale.body(shorter).chars < scale.body(messages).chars:
                messages = shorter
                break
        else:
            return messages
    return messages


def _slices(messages: Sequence[RequestMessage]) -> list[tuple[int, int]]:
    """Where the complete slices start and end (exclusive)."""
    spans = []
    for start, message in enumerate(messages):
        end = start + 1 + len(message.calls)
        if message.calls and [one.call_id for one in messages[start + 1 : end]] == [call.id for call in message.calls]:
            spans.append((start, end))
    return spans


_LOWEST_FIRST = {priority: -rank for rank, priority in enumerate(Priority)}


def enforce_max_chars(choices: Sequence[Candidate], max_chars: int, scale: PackMeter) -> Truncation:
    """Make the chosen packs fit, where their total exceeds `max_chars`."""
    before = _total(choices)
    if before <= max_chars:
        return Truncation(False, before, before)
    optional = sorted(
        (one for one in choices if not one.is_required and one.status is PackStatus.INCLUDED),
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
        (one for one in choices if one.is_required and one.status is PackStatus.INCLUDED and one.pack.counted is None),
        key=lambda one: (one.pack.preserve, -one.size.chars, -one.index),
    )
    for choice in required:
        excess = _total(choices) - max_chars
        if excess <= 0:
            break
        if cut_candidate(choice, choice.size.chars - excess, Reason.MAX_CHARS, scale):
            choice.setting = f"max_chars = {before}"
    return Truncation(True, before, _total(choices))


def cut_candidate(choice: Candidate, keep: int, reason: Reason, scale: PackMeter) -> bool:
    """Cut what a choice holds to `keep` characters: texts at their end, messages as messages. False if it stays."""
    body = choice.body
    short = cut_end(body, max(keep, 0)) if isinstance(body, str) else shrink_messages(body, max(keep, 0), scale)
    if short == body:
        return False
    choice.cut_to(short, scale.body(short), reason)
    return True


def _total(choices: Sequence[Candidate]) -> int:
    return sum(choice.size.chars for choice in choices if choice.pack.counted is None)
