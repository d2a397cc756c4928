"""Decide which messages of a conversation stay verbatim and which a summary covers.

The first messages (primers) and the newest ones (recents) stay; everything between them is the middle. A cut
never splits a loop slice: it moves to the slice's outer edge. The sizes are estimates of `window_estimate`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from operator import attrgetter

from msgspec import Struct

from zoea.context.units import OmittedMemory, Unit, read_units
from zoea.context.window.window_estimate import MARGIN, estimate_memory
from zoea.context.window.window_rules import WindowRules
from zoea.model.enums import Role
from zoea.model.values import Memory

_order = attrgetter("turn_number", "seq")
LEAST_MESSAGES = 20
"""Conversations of at most this many messages are not summarised for their size alone."""
FEWEST_RECENTS = 4
LONG_RESULT = 1_000
"""Characters kept of a result once the verbatim part does not fit."""
MIDDLE_SHARE = 3
"""A summary takes at most one part in so many of the middle."""
SMALLEST_SUMMARY = 64
MARKED_SHARE = 5
"""Marked messages take at most one part in so many of the budget."""
FULL_SHARE = 0.9
"""The share of the budget that a shape may take, so that the turn has room to begin."""
RATE_MESSAGES = 20
RATE_US = 30 * 60 * 1_000_000
"""A summary is extended at most once in so many messages and µs, unless something would be in no form."""


class CoveredMessages(Struct, frozen=True):
    """The earlier messages that a stored summary covers.

    Attributes:
        first, last: Turn id and place of the first and last covered message.
        messages: How many it covers; 0 where no summary exists.
        tokens: The estimate of all that it covers, without margin.
        kept: The newest messages that stayed verbatim when it was written.
        text: The summary.
        at: When it was written, in µs.
    """

    summary_id: int = 0
    first: tuple[int, int] = (0, 0)
    last: tuple[int, int] = (0, 0)
    messages: int = 0
    tokens: int = 0
    kept: int = 0
    text: str = ""
    at: int = 0

    def holds(self, memory: Memory) -> bool:
        """Return whether it covers a message."""
        return bool(self.messages) and self.first <= (memory.turn_id, memory.seq) <= self.last

    def new_messages(self, units: Iterable[Unit]) -> int:
        """Return how many messages came since it was written."""
        return _count(units) - self.kept


class Conversation(Struct, frozen=True):
    """A conversation before a turn, as it was read.

    Attributes:
        opening: Its first messages, as many as the primers, and the rest of the last slice among them.
        newer: The messages after them that no summary covers.
        marked: Covered or not, the messages that a person or the mysis wants to keep.
        unread: How many messages between are too many to read; no summary covers them.
    """

    opening: tuple[Memory, ...] = ()
    newer: tuple[Memory, ...] = ()
    covered: CoveredMessages = CoveredMessages()
    marked: tuple[Memory, ...] = ()
    unread: int = 0


class ConversationShape(Struct, frozen=True):
    """Which messages of a conversation a request shows.

    Attributes:
        primers, recents: Verbatim, in conversation order; ids of results in `elided` are shortened.
        middle: What the summary has to cover beside what it covers already.
        summary_tokens: The most a summary may take; 0 where nothing is in the middle.
        is_due: True where a summary has to be written or extended for `middle`.
        whole: The estimate of the request with all messages verbatim that no earlier summary covers.
        is_for_budget: True where the middle is summarised, or something else given up, because of the budget.
        is_skipped: True where the trigger was met, but the rate or an empty middle kept all verbatim.
        steps: What was given up to fit, in plain words.
    """

    primers: tuple[Memory, ...] = ()
    marked: tuple[Memory, ...] = ()
    recents: tuple[Memory, ...] = ()
    middle: tuple[Memory, ...] = ()
    summary_tokens: int = 0
    is_due: bool = False
    whole: int = 0
    is_for_budget: bool = False
    is_skipped: bool = False
    elided: frozenset[int] = frozenset()
    steps: tuple[str, ...] = ()
    omitted: tuple[OmittedMemory, ...] = ()
    tokens: int = 0


class _Parts:
    """The units while the shape is decided, with what each costs."""

    def __init__(self, primers: list[Unit], recents: list[Unit], costs: Mapping[int, float]) -> None:
        self.primers = primers
        self.recents = recents
        self.middle: list[Unit] = []
        self.elided: set[int] = set()
        self.middle_cost = 0.0
        self._costs = dict(costs)
        self._first_cost = self.cost(primers)
        self.verbatim = self._first_cost + self.cost(recents)

    def cost(self, units: Iterable[Unit]) -> float:
        costs = self._costs
        return sum([costs[memory.id] for unit in units for memory in unit.memories])

    def keep_recents(self, messages: int) -> None:
        """Move all but the last units into the middle."""
        self.middle, self.recents = _split_back(self.recents, messages)
        self._take(self.verbatim - self._first_cost - self.cost(self.recents))

    def move(self, unit: Unit, place: int) -> int:
        """Put a unit that was taken from either end into the middle; return its messages."""
        self._take(self.cost((unit,)))
        self.middle.insert(place, unit)
        return len(unit.memories)

    def _take(self, cost: float) -> None:
        self.verbatim -= cost
        self.middle_cost += cost

    def elide(self, memory: Memory) -> float:
        """Shorten a result; return what that saves."""
        saved = max(0.0, self._costs[memory.id] - LONG_RESULT / 3)
        self._costs[memory.id] -= saved
        self.verbatim -= saved
        self.elided.add(memory.id)
        return saved


def shape_conversation(
    rules: WindowRules, conversation: Conversation, *, budget: int, overhead: int, now: int = 0
) -> ConversationShape:
    """Return the shape under a budget of estimated tokens.

    Args:
        budget: The tokens that a request may take.
        overhead: The tokens of system prompt, tools and the turn's prompts.
        now: When the turn opened, in µs, for the rate.
    """
    covered = conversation.covered
    opening, omitted = read_units(conversation.opening)
    newer, more = read_units(conversation.newer)
    marked, left = _fit_marked(conversation.marked, budget // MARKED_SHARE)
    fixed = overhead + sum(map(estimate_memory, marked))
    costs = {memory.id: estimate_memory(memory) for memory in (*conversation.opening, *conversation.newer)}
    parts = _Parts(opening, newer, costs)
    whole = MARGIN * (parts.verbatim + _bound(rules, covered.tokens, budget) + fixed)
    messages = _count(parts.primers) + _count(parts.recents)
    is_over = whole >= rules.trigger * budget and messages > LEAST_MESSAGES
    is_long = messages - (_count(parts.primers) if covered.messages else 0) > rules.size
    is_skipped = False
    if is_over or is_long or conversation.unread:
        if whole < budget and _is_too_early(covered, parts, now):
            is_skipped = is_over
        else:
            parts.keep_recents(rules.recents if is_over else rules.size)
            is_skipped = is_over and not parts.middle
    steps, halvings = _degrade(parts, rules, FULL_SHARE * budget / MARGIN - fixed, covered.tokens, budget)
    if left:
        steps = (
            *steps,
            f"{left} kept messages are left to the summary: kept ones have a fifth of the budget",
        )
    middle: Sequence[Memory] = _memories(parts.middle)
    if covered.messages:
        middle = [memory for memory in middle if not covered.holds(memory)]
    omitted += more
    last = max(map(_order, middle), default=(0, 0)) if omitted else (0, 0)
    lost = [one for one in omitted if _order(one.memory) <= last]
    bound = _bound(rules, covered.tokens + parts.middle_cost, budget, halvings)
    shown = {memory.id for memory in (*_memories(parts.primers), *_memories(parts.recents))}
    return ConversationShape(
        primers=_memories(parts.primers),
        marked=tuple([memory for memory in marked if memory.id not in shown]),
        recents=_memories(parts.recents),
        middle=tuple(sorted((*middle, *(one.memory for one in lost)), key=_order)) if lost else tuple(middle),
        summary_tokens=bound,
        is_due=bool(middle),
        whole=ceil(whole),
        is_for_budget=bool(steps) or (is_over and bool(middle)),
        is_skipped=is_skipped,
        elided=frozenset(parts.elided),
        steps=steps,
        omitted=tuple([one for one in omitted if one not in lost]),
        tokens=ceil(MARGIN * (parts.verbatim + bound + fixed)),
    )


def _memories(units: Iterable[Unit]) -> tuple[Memory, ...]:
    return tuple([memory for unit in units for memory in unit.memories])


def _count(units: Iterable[Unit]) -> int:
    return sum([len(unit.memories) for unit in units])


def split_front(units: Sequence[Unit], messages: int) -> tuple[list[Unit], list[Unit]]:
    """Return the first units with at least so many messages, and the rest."""
    taken = 0
    for place, unit in enumerate(units):
        if taken >= messages:
            return list(units[:place]), list(units[place:])
        taken += len(unit.memories)
    return list(units), []


def _split_back(units: Sequence[Unit], messages: int) -> tuple[list[Unit], list[Unit]]:
    """Return the rest, and the last units with at least so many messages."""
    back, rest = split_front(units[::-1], messages)
    return rest[::-1], back[::-1]


def _is_too_early(covered: CoveredMessages, parts: _Parts, now: int) -> bool:
    """Return whether the rate forbids another summary now."""
    if not covered.messages:
        return False
    return covered.new_messages(parts.recents) < RATE_MESSAGES or 0 <= now - covered.at < RATE_US


def _fit_marked(marked: Sequence[Memory], tokens: int) -> tuple[tuple[Memory, ...], int]:
    """Return the newest marked messages that fit, in conversation order, and how many do not. Slices stay whole."""
    taken: list[Unit] = []
    units, omitted = read_units(sorted(marked, key=_order))
    left = len(omitted)
    for unit in reversed(units):
        cost = sum(map(estimate_memory, unit.memories))
        if cost <= tokens:
            tokens -= ceil(cost)
            taken.append(unit)
        else:
            left += len(unit.memories)
    return _memories(taken[::-1]), left


def _bound(rules: WindowRules, tokens: float, budget: int, halvings: int = 0) -> int:
    """Return the most that a summary of so many tokens may take. 0 where there is nothing to cover."""
    if not tokens:
        return 0
    bound = int(min(rules.target * budget, tokens / MIDDLE_SHARE))
    return max(SMALLEST_SUMMARY, bound >> halvings)


def _degrade(
    parts: _Parts, rules: WindowRules, room: float, covered_tokens: int, budget: int
) -> tuple[tuple[str, ...], int]:
    """Give up parts until the rest fits `room`: long results, recents, primers, half of the summary.

    Returns what was given up, in words, and how often the summary is halved.
    """
    steps: list[str] = []
    halvings = 0

    def excess() -> float:
        covered = covered_tokens + parts.middle_cost
        return parts.verbatim + _bound(rules, covered, budget, halvings) - room

    over, count = excess(), 0
    for memory in _memories((*parts.primers, *parts.recents)):
        if over > 0 and memory.role is Role.TOOL and len(memory.content) > LONG_RESULT:
            over -= parts.elide(memory)
            count += 1
    if count:
        steps.append(f"{count} long results are shortened")
    count = 0
    while len(parts.recents) > 1 and _count(parts.recents[1:]) >= FEWEST_RECENTS and excess() > 0:
        count += parts.move(parts.recents.pop(0), len(parts.middle))
    if count:
        steps.append(f"{count} recent messages moved into the summary")
    count = 0
    while parts.primers and excess() > 0:
        count += parts.move(parts.primers.pop(), 0)
    if count:
        steps.append(f"{count} of the first messages moved into the summary")
    while excess() > 0 and _bound(rules, covered_tokens + 1, budget, halvings) > SMALLEST_SUMMARY:
        halvings += 1
    if halvings:
        steps.append(f"the summary is halved {halvings} times" if halvings > 1 else "the summary is halved")
    return tuple(steps), halvings
