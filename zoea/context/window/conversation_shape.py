"""Decide which messages of a conversation stay verbatim and which a summary covers.

The first messages (primers) and the newest ones (recents) stay; everything between them is the middle. A cut never
splits a loop slice: it moves to the slice's outer edge. The sizes are estimates of `window_estimate`.

Each request is shaped from the messages alone, by its own limits: a summary is a cache of a range of messages, and
never decides which of them are shown. Where the recents begin stays for several turns all the same, because of all
places that would do the roundest turn is taken.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from math import ceil
from operator import attrgetter, neg

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
SMALLEST_SUMMARY = 128
TEXT_SHARE = 0.8
"""The share of its target that a summary takes where the budget has room for the recents too.

They may grow by the rest before some of them leave again.
"""
KEPT_SHARE = 0.7
"""The share of the recents that stays at least, where some of them have to leave."""
MARKED_SHARE = 5
"""Marked messages take at most one part in so many of the budget."""
FULL_SHARE = 0.9
"""The share of the budget that a shape may take, so that the turn has room to begin."""
RANGE_MESSAGES = 100
"""About so many messages are summarised by themselves. A further summary is written when so many wait for it."""
SKIPPED_MESSAGES = 20
"""From so many waiting messages on a summary counts as put off."""


class SummaryRange(Struct, frozen=True):
    """A range of messages that a stored summary covers.

    Attributes:
        first, last: Turn id and place of the first and last covered message.
        messages: How many it covers.
        tokens: The estimate of all that it covers, without margin.
        text: As it is stored; see `range_digest`.
        model: The model that wrote its prose; empty where none did.
    """

    summary_id: int = 0
    first: tuple[int, int] = (0, 0)
    last: tuple[int, int] = (0, 0)
    messages: int = 0
    tokens: int = 0
    text: str = ""
    model: str = ""

    @property
    def is_open(self) -> bool:
        """Return whether it covers so few messages that the next are added to it."""
        return self.messages < RANGE_MESSAGES // 2

    def holds(self, memory: Memory) -> bool:
        """Return whether it covers a message."""
        return self.first <= (memory.turn_id, memory.seq) <= self.last


class Conversation(Struct, frozen=True):
    """A conversation before a turn, as far as it was read.

    Attributes:
        opening: Its first messages, as many as the primers, and the rest of the last slice among them.
        newer: The newest messages, without a gap up to the turn.
        ranges: The summaries of what stands before the newest messages or among them, in order.
        marked: Covered or not, the messages that a person or the mysis wants to keep.
        unread: How many messages are too many to read; no summary covers them.
        between: Messages after the first that no summary covers and that are no part of `newer`, as former primers are.
        is_whole: True where `newer` begins right after the first ones.
    """

    opening: tuple[Memory, ...] = ()
    newer: tuple[Memory, ...] = ()
    ranges: tuple[SummaryRange, ...] = ()
    marked: tuple[Memory, ...] = ()
    unread: int = 0
    between: tuple[Memory, ...] = ()
    is_whole: bool = True


class ConversationShape(Struct, frozen=True):
    """Which messages of a conversation a request shows.

    Attributes:
        primers, recents: Verbatim, in conversation order; ids of results in `elided` are shortened.
        ranges: The stored summaries of what is not verbatim.
        middle: The messages that are neither verbatim nor in one of these.
        summary_tokens: The most a summary may take; 0 where nothing is in the middle.
        is_due: True where a summary of `middle` has to be stored.
        whole: The estimate of the request with all messages verbatim; 0 where they are more than the window shows.
        cause: `window` or `budget`, whichever has messages summarised; empty where none are.
        is_for_budget: True where something was given up because of the budget.
        is_skipped: True where the trigger was met, but the rate or an empty middle says that none is written.
        steps: What was given up to fit, in plain words.
    """

    primers: tuple[Memory, ...] = ()
    marked: tuple[Memory, ...] = ()
    recents: tuple[Memory, ...] = ()
    ranges: tuple[SummaryRange, ...] = ()
    middle: tuple[Memory, ...] = ()
    summary_tokens: int = 0
    is_due: bool = False
    whole: int = 0
    cause: str = ""
    is_for_budget: bool = False
    is_skipped: bool = False
    elided: frozenset[int] = frozenset()
    steps: tuple[str, ...] = ()
    omitted: tuple[OmittedMemory, ...] = ()
    tokens: int = 0


class _Tail:
    """The newest units with the cost of each place, to decide where the recents begin."""

    def __init__(self, rules: WindowRules, units: list[Unit], costs: dict[int, float], before: float) -> None:
        self.units = units
        self.elided: set[int] = set()
        self._rules = rules
        self._costs = costs
        self._before = before
        self._measure()

    def _measure(self) -> None:
        """Sum up from the end what the units from each place on have and cost."""
        costs = self._costs
        parts = [unit.memories for unit in reversed(self.units)]
        each = [costs[one[0].id] if len(one) == 1 else sum([costs[memory.id] for memory in one]) for one in parts]
        self.tokens = [*accumulate(each, initial=0.0)][::-1]
        self.messages = [*accumulate(map(len, parts), initial=0)][::-1]

    def middle(self, place: int) -> float:
        """Return what all costs that is neither a primer nor from this place on."""
        return self._before + self.tokens[0] - self.tokens[place]

    def last(self, messages: int) -> int:
        """Return the latest place from which on there are so many messages. 0 where there are fewer."""
        return max(0, bisect_right(self.messages, -messages, key=neg) - 1)

    def elide(self, place: int, excess: float) -> int:
        """Shorten long results from a place on, oldest first, until the excess is gone. Return how many."""
        count = 0
        for memory in [memory for unit in self.units[place:] for memory in unit.memories]:
            if excess > 0 and memory.role is Role.TOOL and len(memory.content) > LONG_RESULT:
                saved = max(0.0, self._costs[memory.id] - LONG_RESULT / 3)
                self._costs[memory.id] -= saved
                excess -= saved
                self.elided.add(memory.id)
                count += 1
        if count:
            self._measure()
        return count

    def choose(self, earliest: int, *, keeps_recents: bool) -> int:
        """Return where the recents begin: the roundest of the places that keep enough of those that fit."""
        fitting = self.messages[earliest]
        fewest = max(FEWEST_RECENTS, ceil(KEPT_SHARE * fitting))
        if keeps_recents:
            fewest = max(fewest, min(self._rules.recents, self._rules.size))
        places = [place for place in range(earliest, len(self.units)) if self.messages[place] >= min(fewest, fitting)]
        return max(places, key=lambda place: (self._roundness(place), -place), default=earliest)

    def _roundness(self, place: int) -> tuple[bool, int]:
        """Return whether a turn begins here, and how round its number or the `seq` is."""
        first = self.units[place].memories[0]
        before = self.units[place - 1].memories[0].turn_number if place else 0
        number = first.turn_number if (begins := first.turn_number != before) else first.seq
        return begins, number & -number


def shape_conversation(
    rules: WindowRules, conversation: Conversation, *, budget: int, overhead: int, summary_tokens: int | None = None
) -> ConversationShape:
    """Return the shape under a budget of estimated tokens.

    Args:
        budget: The tokens that a request may take.
        overhead: The tokens of system prompt, tools and the turn's prompts.
        summary_tokens: What the text of the summary takes, where that is known to be less than it may take.
    """
    opening, omitted = read_units(conversation.opening)
    units, more = read_units(conversation.newer)
    marked = _fit_marked(conversation.marked, budget // MARKED_SHARE)
    costs = {memory.id: estimate_memory(memory) for memory in (*conversation.opening, *conversation.newer)}
    first_cost = _cost(opening, costs)
    fixed = overhead + sum(map(estimate_memory, marked))
    tail = _Tail(rules, units, costs, _tokens_before(conversation, costs))
    whole = MARGIN * (first_cost + tail.middle(len(units)) + fixed)
    room = FULL_SHARE * budget / MARGIN - fixed
    has_many = _count(opening) + tail.messages[0] > LEAST_MESSAGES or not conversation.is_whole
    is_over = whole >= rules.trigger * budget and has_many
    fits_window = conversation.is_whole and tail.messages[0] <= rules.size
    steps: list[str] = []
    cause, start, primers, bound = "", 0, opening, 0
    is_recent = conversation.is_whole and tail.messages[0] <= min(rules.recents, rules.size)
    if (is_over and not is_recent) or not fits_window or first_cost + tail.tokens[0] > room:
        cause = "budget" if is_over or fits_window else "window"
        limit = room if is_over or fits_window else min(room, max(rules.trigger * budget / MARGIN - fixed, 0.0))
        parts = _PartsToFit(rules, tail, opening, costs, budget, summary_tokens)
        primers, start, bound = parts.fit(limit, is_over=is_over)
        steps = parts.steps
    recents, shown = _memories(units[start:]), _memories(primers)
    dropped = _memories(opening[len(primers) :])
    begins = min([(one.turn_id, one.seq) for one in recents], default=(1 << 62, 0))
    ranges = tuple([one for one in conversation.ranges if one.first < begins])
    is_summarised = bool(start or dropped or not conversation.is_whole)
    middle: tuple[Memory, ...] = ()
    if is_summarised:
        rest = (*dropped, *conversation.between, *_memories(units[:start]))
        middle = tuple([memory for memory in rest if not any(one.holds(memory) for one in ranges)]) if ranges else rest
    omitted += more
    last = max(map(_order, middle), default=(0, 0)) if omitted else (0, 0)
    lost = [one for one in omitted if _order(one.memory) <= last and not any(held.holds(one.memory) for held in ranges)]
    if lost:
        middle = tuple(sorted((*middle, *(one.memory for one in lost)), key=_order))
    is_due = bool(middle) and (not conversation.ranges or len(middle) >= RANGE_MESSAGES)
    verbatim = {memory.id for memory in (*shown, *recents)}
    if left := {memory.id for memory in conversation.marked} - verbatim - {memory.id for memory in marked}:
        what = "kept message is" if len(left) == 1 else "kept messages are"
        steps.append(f"{len(left)} {what} left to the summary: kept ones have a fifth of the budget")
    return ConversationShape(
        primers=shown,
        marked=tuple([memory for memory in marked if memory.id not in verbatim]),
        recents=recents,
        ranges=ranges if is_summarised else (),
        middle=middle,
        summary_tokens=bound if is_summarised else 0,
        is_due=is_due,
        whole=ceil(whole) if fits_window else 0,
        cause=cause if is_summarised else "",
        is_for_budget=bool(steps) or (cause == "budget" and is_summarised),
        is_skipped=is_over and not is_due and (not middle or len(middle) >= SKIPPED_MESSAGES),
        elided=frozenset(tail.elided),
        steps=tuple(steps),
        omitted=tuple([one for one in omitted if one not in lost]),
        tokens=ceil(MARGIN * (_cost(primers, costs) + tail.tokens[start] + (bound if is_summarised else 0) + fixed)),
    )


class _PartsToFit:
    """Fits primers, summary and recents into a number of tokens."""

    def __init__(
        self,
        rules: WindowRules,
        tail: _Tail,
        primers: list[Unit],
        costs: Mapping[int, float],
        budget: int,
        summary_tokens: int | None,
    ) -> None:
        self.steps: list[str] = []
        self._rules = rules
        self._tail = tail
        self._primers = primers
        self._costs = costs
        self._first_cost = _cost(primers, costs)
        self._target = rules.target * budget
        self._text = summary_tokens
        self._share = 1.0

    def fit(self, room: float, *, is_over: bool) -> tuple[list[Unit], int, int]:
        """Return the primers that stay, the first recent unit's place, and the summary's limit."""
        tail, rules = self._tail, self._rules
        wanted = tail.last(min(rules.recents, rules.size) if is_over else rules.size)
        if elided := tail.elide(wanted, self._excess(wanted, room)):
            self.steps.append(f"{elided} long results are shortened")
        aim = tail.tokens[tail.last(rules.recents)] + self._first_cost
        if is_over and aim + self._target < room:
            self._share = TEXT_SHARE

        def is_grown(place: int) -> bool:
            return is_over and tail.messages[place] > rules.recents

        earliest = next(
            (
                place
                for place in range(bisect_left(tail.messages, -rules.size, key=neg), len(tail.units))
                if self._excess(place, min(room, aim + self._level(place)) if is_grown(place) else room) <= 0
            ),
            len(tail.units),
        )
        fewest = tail.last(FEWEST_RECENTS)
        keeps_recents = earliest <= wanted
        start = tail.choose(earliest, keeps_recents=keeps_recents) if earliest < fewest else fewest
        if start > wanted and not keeps_recents and (moved := tail.messages[wanted] - tail.messages[start]):
            self.steps.append(f"{moved} recent messages moved into the summary")
        return self._give_up_more(start, room)

    def _give_up_more(self, start: int, room: float) -> tuple[list[Unit], int, int]:
        """Give up primers, from the last, then half of the summary, until the rest fits."""
        primers, count, halvings = list(self._primers), 0, 0
        while primers and self._excess(start, room) > 0:
            dropped = primers.pop()
            self._first_cost -= _cost((dropped,), self._costs)
            count += len(dropped.memories)
        if count:
            self.steps.append(f"{count} of the first messages moved into the summary")
        bound = self._bound(start, _cost(self._primers[len(primers) :], self._costs))
        while bound > SMALLEST_SUMMARY and self._first_cost + self._tail.tokens[start] + bound > room:
            bound, halvings = max(SMALLEST_SUMMARY, bound // 2), halvings + 1
        if halvings:
            times = f" {halvings} times" if halvings > 1 else ""
            self.steps.append(f"the summary is halved{times}")
        return primers, start, bound

    def _level(self, place: int) -> float:
        """Return the most for the summary, and for messages until the next leave it."""
        return min(self._target, self._tail.middle(place) / MIDDLE_SHARE)

    def _bound(self, place: int, more: float = 0.0) -> int:
        """Return the largest size of the summary of all messages before a place."""
        middle = self._tail.middle(place) + more
        if not middle:
            return 0
        most = max(SMALLEST_SUMMARY, int(self._share * min(self._target, middle / MIDDLE_SHARE)))
        return most if self._text is None else min(most, max(SMALLEST_SUMMARY, self._text))

    def _excess(self, place: int, room: float) -> float:
        return self._first_cost + self._tail.tokens[place] + self._bound(place) - room


def _tokens_before(conversation: Conversation, costs: Mapping[int, float]) -> float:
    """Return the cost of the messages between the first and the newest. Not all of them were read."""
    covered = sum(one.tokens for one in conversation.ranges)
    overlap = sum(costs[one.id] for one in conversation.newer if any(held.holds(one) for held in conversation.ranges))
    return max(0.0, covered - overlap) + sum(map(estimate_memory, conversation.between))


def _cost(units: Iterable[Unit], costs: Mapping[int, float]) -> float:
    return sum([costs[memory.id] for unit in units for memory in unit.memories])


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


def _fit_marked(marked: Sequence[Memory], tokens: int) -> tuple[Memory, ...]:
    """Return the newest marked messages that fit, in conversation order. Slices stay whole."""
    taken: list[Unit] = []
    for unit in reversed(read_units(sorted(marked, key=_order))[0]):
        cost = sum(map(estimate_memory, unit.memories))
        if cost <= tokens:
            tokens -= ceil(cost)
            taken.append(unit)
    return _memories(taken[::-1])
