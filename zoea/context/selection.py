"""Which packs a request holds: planner.md, "Selection", rules 1 to 5, and the public `plan`.

The guard on characters (rule 6) is in `guard.py`. Nothing here knows what a pack is about.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from zoea.context.candidates import Choice, Scale, assemble, in_order_of_choice, prepare
from zoea.context.character_guard import guard
from zoea.context.measure import TextCounter
from zoea.context.plan_values import Pack, Plan, Reason, Variant
from zoea.model.errors import SettingsError

DEFAULT_MAX_TOKENS = 100_000
DEFAULT_MAX_CHARS = 500_000


def choose(choices: Sequence[Choice], max_tokens: int, taken: int = 0) -> None:
    """Rules 1 to 4: decide each pack under the budget, of which `taken` is spent already."""
    for choice in in_order_of_choice(choices):
        _decide(choice, max_tokens - taken)
        if choice.reason is Reason.BUDGET:
            choice.setting = f"max_tokens = {taken + choice.full.tokens}"
        taken += choice.size.tokens


def _decide(choice: Choice, remaining: int) -> None:
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
    scale = Scale(count)
    choices = prepare(packs, scale)
    choose(choices, budget)
    truncation = guard(choices, most_chars, scale)
    return assemble(choices, budget, truncation)


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
