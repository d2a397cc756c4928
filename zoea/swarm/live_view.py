"""The live state of the swarm for fronts: one versioned row per mysis.

Subscribers hear of changes at most 20 times a second; one that misses a change sees the next
state. Of streamed text only the tail is kept, so that a thousand streams stay small.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from zoea.model.enums import Activity, MysisState
from zoea.model.ports import Clock
from zoea.model.status import StatusWord
from zoea.model.values import Failure, Mysis, MysisView, SwarmView

INTERVAL_S = 0.05
STREAM_TAIL = 4000
PREPARING_S = 1.0
"""A model that is ready within this time is not said to be prepared."""
TEXT_CHARS = 300
GOAL_CHARS = 1_000
VIEW_CHARS = 4_000_000
"""Characters of goals and streamed texts in one view, because it is sent to fronts in one frame."""


class LiveMysis(Struct):
    """The row of one mysis. After a change call `LiveView.touch`. The ends of waits are uptimes."""

    mysis: Mysis
    activity: Activity = Activity.IDLE
    turns: int = 0
    tool_calls: int = 0
    errors: int = 0
    requests: int = 0
    tokens: int = 0
    cost_micros: int | None = None
    pending: int = 0
    approvals: int = 0
    questions: int = 0
    turn_number: int = 0
    iteration: int = 0
    context_used: int = 0
    context_limit: int = 0
    context_messages: int = 0
    is_summarising: bool = False
    window_assumed: int = 0
    turn_tokens: int = 0
    turn_limit: int = 0
    waiting_until: int | None = None
    waiting_for: str = ""
    progress_at: int = 0
    asks_waiting: int = 0  # requests of its agent that wait at the gateway
    asked_at: int = 0  # the uptime of the newest progress of such a request
    text: str = ""
    text_at: int = 0
    failure_text: str = ""
    text_before_failure: tuple[str, int] = ("", 0)
    streaming: str = ""
    streamed_before: int = 0
    thinking: str = ""
    in_turn: bool = False
    queue_place: int = 0
    queue_name: str = ""
    queue_why: str = ""
    queue_until: int | None = None
    attempt: int = 0
    attempts: int = 0
    attempt_at: int | None = None
    attempt_why: str = ""
    is_at_rest: bool = False
    reading: int | None = None
    prepares_model: bool = False
    awaits_tools: bool = False
    answered_by: str = ""
    version: int = 0
    swarm_held: bool = False

    def say(self, text: str, at: int) -> None:
        """Set the newest text: question, error, answer, tool call or prompt, with its time."""
        self.text = text[:TEXT_CHARS]
        self.text_at = at

    def stream(self, text: str) -> None:
        whole = self.streaming + text
        self.streaming = whole[-STREAM_TAIL:]
        self.streamed_before += len(whole) - len(self.streaming)

    def add_reasoning(self, reasoning: str) -> None:
        self.thinking = (self.thinking + reasoning)[-STREAM_TAIL:]

    def clear_stream(self) -> None:
        """Drop the streamed text; nothing is being written."""
        self.streamed_before += len(self.streaming) + 1  # the next answer continues none
        self.streaming = self.thinking = ""

    def show_activity(self, activity: Activity) -> None:
        """Show what the mysis does; only a model call streams."""
        self.activity, self.is_summarising = activity, False
        if activity is not Activity.LLM:
            self.clear_stream()

    def show_context(self, used: int, limit: int, messages: int = 0) -> None:
        """Show the tokens of the newest request, their limit, and its messages.

        The messages are 0 if another run made it.
        """
        self.context_used, self.context_limit, self.context_messages = used, limit, messages

    def show_queue(self, place: int, name: str = "", why: str = "", until: int | None = None) -> None:
        """Show the place of the next request in a queue, 1 for the next. 0 if it does not queue."""
        self.queue_place, self.queue_name = place, name if place else ""
        self.queue_why, self.queue_until = (why, until) if place else ("", None)

    def show_attempt(self, attempt: int = 0, attempts: int = 0, at: int | None = None, why: str = "") -> None:
        """Show the next attempt at the same request; without arguments, that none is due."""
        self.attempt, self.attempts, self.attempt_at, self.attempt_why = attempt, attempts, at, why

    def count(self, tally: sqlite3.Row) -> None:
        """Copy the counters from a row of the table `tally`."""
        self.turns, self.tool_calls, self.errors = tally["turns"], tally["tool_calls"], tally["errors"]
        self.requests, self.tokens, self.cost_micros = tally["requests"], tally["tokens"], tally["cost_micros"]

    def set_failure(self, failure: Failure | None, at: int) -> None:
        """Show a failure as the newest text. Where it is cleared, show the text before it again."""
        is_shown = self.text == self.failure_text != ""
        before = self.text_before_failure if is_shown else (self.text, self.text_at)
        if failure is not None:
            self.say(failure.title, at)
            self.failure_text, self.text_before_failure = self.text, before
        elif is_shown:
            self.say(*before)
            self.failure_text = ""

    def _activity(self) -> Activity:
        if self.mysis.state is not MysisState.RUNNING:
            return Activity.IDLE
        if self.approvals:
            return Activity.ASKING
        return Activity.WAITING if self.waiting_until is not None else self.activity

    def freeze(self, ahead: int = 0, *, swarm_held: bool = False, most: int | None = None) -> MysisView:
        """Return the row as fronts show it.

        Args:
            ahead: `Clock.ahead`, because fronts show wall times.
            most: Characters of its streamed texts together; also cuts a long goal. All if None.
        """
        mysis = self.mysis
        tail = STREAM_TAIL if most is None else max(1, most // 2)
        streaming = self.streaming[-tail:]
        return replace(
            MysisView(*_read_fields(self)),
            activity=self._activity(),
            waiting_until=None if self.waiting_until is None else self.waiting_until + ahead,
            attempt_at=None if self.attempt_at is None else self.attempt_at + ahead,
            streaming=streaming,
            streamed_before=self.streamed_before + len(self.streaming) - len(streaming),
            thinking=self.thinking[-tail:],
            swarm_held=swarm_held,
            goal=mysis.goal if most is None else mysis.goal[:GOAL_CHARS],
        )


_read_fields = attrgetter(
    *(f"mysis.{name}" if name in Mysis.__struct_fields__ else name for name in MysisView.__struct_fields__)
)
"""Reads the fields of a view by their names: those of the mysis, and those of its row."""


class LiveView:
    """All rows and their subscribers."""

    def __init__(self, summary: Callable[[tuple[MysisView, ...], int], SwarmView], clock: Clock) -> None:
        self._summary = summary
        self._clock = clock
        self._rows: dict[int, LiveMysis] = {}
        self._subscribers: set[_ViewSubscriber] = set()
        self._is_held = False
        self.version = 1

    def rows(self) -> list[LiveMysis]:
        return list(self._rows.values())

    @property
    def is_single(self) -> bool:
        """Whether the swarm has one mysis."""
        return len(self._rows) == 1

    def row(self, mysis_id: int) -> LiveMysis:
        return self._rows[mysis_id]

    def add(self, row: LiveMysis) -> None:
        self._rows[row.mysis.id] = row
        self.touch(row.mysis.id)

    def remove(self, mysis_id: int) -> None:
        self._rows.pop(mysis_id, None)
        self.touch(mysis_id)

    def touch(self, mysis_id: int = 0) -> None:
        """Mark a row as changed; 0 is the swarm itself."""
        self.version += 1
        row = self._rows.get(mysis_id)
        if row is not None:
            row.version = self.version
        for subscriber in self._subscribers:
            subscriber.dirty.add(mysis_id)
            subscriber.woken.set()

    @contextmanager
    def show_preparing(
        self, mysis_id: int, what: Literal["prepares_model", "awaits_tools"] = "prepares_model"
    ) -> Iterator[None]:
        """Show that a turn waits long for its model or, with `awaits_tools`, its tools."""
        row = self._rows[mysis_id]

        def show() -> None:
            setattr(row, what, True)
            self.touch(mysis_id)

        timer = asyncio.get_running_loop().call_later(PREPARING_S, show)
        try:
            yield
        finally:
            timer.cancel()
            setattr(row, what, False)

    def count(self, tally: sqlite3.Row) -> None:
        """Show the counters of a mysis after a request beside its turns, from `tally`."""
        row = self._rows.get(tally["mysis_id"])
        if row is not None:
            row.count(tally)
            self.touch(row.mysis.id)

    def set_hold(self, *, on: bool) -> None:
        """Show the hold of the swarm, in the status of every row."""
        for mysis_id in tuple(self._rows) if on is not self._is_held else ():
            self.touch(mysis_id)
        self._is_held = on
        self.touch()

    def freeze(self, mysis_id: int) -> MysisView:
        """Return one row as fronts show it, with its whole goal."""
        return self._rows[mysis_id].freeze(self._clock.ahead, swarm_held=self._is_held)

    def count_statuses(self) -> Counter[StatusWord]:
        """Count the myses by status."""
        return Counter(self.freeze(mysis_id).status for mysis_id in self._rows)

    def whole(self) -> SwarmView:
        return self._summary(self._freeze_all(tuple(self._rows)), self.version)

    def _freeze_all(self, ids: tuple[int, ...]) -> tuple[MysisView, ...]:
        most, ahead = VIEW_CHARS // max(1, len(ids)), self._clock.ahead
        return tuple(self._rows[mysis_id].freeze(ahead, swarm_held=self._is_held, most=most) for mysis_id in ids)

    async def changes(self) -> AsyncGenerator[SwarmView, None]:
        """Yield the whole view, then the changes, at most every 50 ms."""
        subscriber = _ViewSubscriber()
        self._subscribers.add(subscriber)
        try:
            yield self.whole()
            while True:
                await subscriber.woken.wait()
                await asyncio.sleep(INTERVAL_S)
                subscriber.woken.clear()
                dirty, subscriber.dirty = subscriber.dirty, set()
                changed = self._freeze_all(tuple(i for i in sorted(dirty) if i in self._rows))
                removed = tuple(i for i in sorted(dirty) if i and i not in self._rows)
                yield replace(self._summary(changed, self.version), removed=removed)
        finally:
            self._subscribers.discard(subscriber)


class _ViewSubscriber:
    def __init__(self) -> None:
        self.dirty: set[int] = set()
        self.woken = asyncio.Event()
