"""Select packs under a token budget and a limit on characters: the steps of `planner.plan`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from zoea.context.candidates import PackCandidate, PackMeter, sort_by_priority
from zoea.context.condensed_text import FEW_IDENTIFIER_CHARS, LEAST, cut_end, cut_text, fold_slice, join_folds
from zoea.context.plan_values import PackStatus, Priority, Reason, Truncation, Variant
from zoea.model.enums import Role
from zoea.model.errors import SettingsError
from zoea.model.request import RequestMessage

DEFAULT_MAX_CHARS = 500_000
_LOWEST_FIRST = {priority: -rank for rank, priority in enumerate(Priority)}


def parse_limit(value: object, name: str, default: int) -> int:
    """Parse a limit from a setting, request or environment variable.

    Raises:
        SettingsError: The value is not a whole number of 0 or more. No value means "unlimited".
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


def choose_packs(candidates: Sequence[PackCandidate], max_tokens: int, taken: int = 0) -> None:
    """Decide each pack under the budget, of which `taken` tokens are already spent.

    Packs are taken by priority, then declaration order: in full if they fit, else compact, else skipped.
    Required packs are always taken.
    """
    whole = taken  # of all packs so far in full: with this budget each of them is
    for candidate in sort_by_priority(candidates):
        _decide(candidate, max_tokens - taken)
        whole += candidate.full.tokens
        if candidate.reason is Reason.BUDGET:
            candidate.setting = f"max_tokens = {whole}"
        taken += candidate.size.tokens


def _decide(candidate: PackCandidate, remaining: int) -> None:
    full, compact = candidate.full.tokens, candidate.compact.tokens
    if not candidate.pack.full and not candidate.has_compact and candidate.pack.counted is None:
        candidate.skip(Reason.EMPTY)
    elif candidate.is_required:
        if full > remaining and candidate.has_compact and (compact <= remaining or compact < full):
            candidate.take(Variant.COMPACT, Reason.BUDGET)
        else:
            candidate.take(Variant.FULL, Reason.REQUIRED)
    elif full <= remaining:
        candidate.take(Variant.FULL, Reason.FITS)
    elif candidate.has_compact and compact <= remaining:
        candidate.take(Variant.COMPACT, Reason.BUDGET)
    else:
        candidate.skip(Reason.BUDGET)


def enforce_max_chars(candidates: Sequence[PackCandidate], max_chars: int, scale: PackMeter) -> Truncation:
    """Shrink the chosen packs until their total is at most `max_chars`.

    First optional packs become compact, then they are skipped, lowest priority first. Then required
    packs are cut, those without `preserve` first. Each change has the reason `max_chars`.
    """
    before = _total(candidates)
    if before <= max_chars:
        return Truncation(False, before, before)
    optional = sorted(
        (one for one in candidates if not one.is_required and one.status is PackStatus.INCLUDED),
        key=lambda one: (_LOWEST_FIRST[one.priority], -one.index),
    )
    for candidate in optional:
        if _total(candidates) <= max_chars:
            break
        if (
            candidate.variant is Variant.FULL
            and candidate.has_compact
            and candidate.compact.chars < candidate.size.chars
        ):
            candidate.take(Variant.COMPACT, Reason.MAX_CHARS)
            candidate.setting = f"max_chars = {before}"
    for candidate in optional:
        if _total(candidates) <= max_chars:
            break
        candidate.skip(Reason.MAX_CHARS)
        candidate.setting = f"max_chars = {before}"
    required = sorted(
        (
            one
            for one in candidates
            if one.is_required and one.status is PackStatus.INCLUDED and one.pack.counted is None
        ),
        key=lambda one: (one.pack.preserve, -one.size.chars, -one.index),
    )
    for candidate in required:
        excess = _total(candidates) - max_chars
        if excess <= 0:
            break
        if cut_candidate(candidate, candidate.size.chars - excess, Reason.MAX_CHARS, scale):
            candidate.setting = f"max_chars = {before}"
    return Truncation(True, before, _total(candidates))


def _total(candidates: Sequence[PackCandidate]) -> int:
    return sum(candidate.size.chars for candidate in candidates if candidate.pack.counted is None)


def cut_candidate(candidate: PackCandidate, keep: int, reason: Reason, scale: PackMeter) -> bool:
    """Cut the body of a candidate to `keep` characters; return False if nothing changed.

    Text is cut at its end; messages are shortened by `shrink_messages`.
    """
    body = candidate.body
    short = cut_end(body, max(keep, 0)) if isinstance(body, str) else shrink_messages(body, max(keep, 0), scale)
    if short == body:
        return False
    candidate.cut_to(short, scale.body(short), reason)
    return True


def shrink_messages(
    messages: tuple[RequestMessage, ...], max_chars: int, scale: PackMeter
) -> tuple[RequestMessage, ...]:
    """Shorten messages to `max_chars` characters, or as far as possible.

    Cuts tool results, then folds complete slices, oldest first, except the last. User and system
    messages, texts, and calls of slices that are not folded stay unchanged.
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
    """Fold complete slices, oldest first, never the last one, until the total fits."""
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
    """Return (start, end) of each complete slice; `end` is exclusive."""
    spans = []
    for start, message in enumerate(messages):
        end = start + 1 + len(message.calls)
        if message.calls and [one.call_id for one in messages[start + 1 : end]] == [call.id for call in message.calls]:
            spans.append((start, end))
    return spans
