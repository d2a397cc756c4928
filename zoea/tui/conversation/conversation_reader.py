"""The part of a conversation that is loaded: turns that follow each other, grown and trimmed at either end.

Each function gives a new window and is called in a thread; what a reader scrolls
away from is let go of, so that a day of reading costs no more than an hour.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from zoea.model.errors import StoreError
from zoea.queries import conversation
from zoea.queries.conversation import ConversationPage, ConversationTurn
from zoea.queries.find_in_conversation import FindHit, FindResult
from zoea.tui.conversation.blocks import ConversationBlock, Symbols, build_page_blocks, build_turn_blocks

MOST_MEMORIES = 600


@dataclass(frozen=True, slots=True)
class ConversationSource:
    """Where a conversation is read, and what its blocks are made with."""

    database: Path
    mysis_id: int
    now: int
    symbols: Symbols


@dataclass(frozen=True, slots=True)
class TurnWindow:
    """Turns, their blocks by the turn's number, and what lies beyond them."""

    turns: tuple[ConversationTurn, ...] = ()
    made: Mapping[int, tuple[ConversationBlock, ...]] = field(default_factory=dict)
    waiting: tuple[ConversationBlock, ...] = ()
    has_older: bool = False
    has_newer: bool = False
    last_number: int = 0

    @property
    def blocks(self) -> tuple[ConversationBlock, ...]:
        """All of them in order, with what waits in the inbox at the end."""
        return (*(block for turn in self.turns for block in self.made[turn.number]), *self.waiting)

    @property
    def is_running_a_call(self) -> bool:
        """Whether a call is on its way, whose time is shown as it passes."""
        calls = (call for turn in self.turns[-1:] for entry in turn.entries for call in entry.memory.calls)
        return any(call.started_at is not None and call.ended_at is None for call in calls)


def read_newest(source: ConversationSource) -> TurnWindow:
    """The end of the conversation. Raises StoreError."""
    return _of(source, conversation.read_newest(source.database, source.mysis_id))


def read_around(source: ConversationSource, number: int) -> TurnWindow:
    """A turn and its neighbours. Raises StoreError."""
    return _of(source, conversation.read_around(source.database, source.mysis_id, number))


def read_older(source: ConversationSource, window: TurnWindow) -> TurnWindow:
    """The window and what came before it; its newest turns are let go of where it is full."""
    if not window.turns:
        return window
    page = conversation.read_older(source.database, source.mysis_id, window.turns[0].number)
    grown = replace(
        window,
        turns=(*page.turns, *window.turns),
        made={**window.made, **_blocks(source, page)},
        has_older=page.has_older,
    )
    kept, held = [grown.turns[0]], len(grown.turns[0].entries)
    for turn in grown.turns[1:]:
        held += len(turn.entries)
        if held > MOST_MEMORIES:
            break
        kept.append(turn)
    if len(kept) < len(grown.turns):
        return replace(grown, turns=tuple(kept), has_newer=True, waiting=())
    return grown


def read_newer(source: ConversationSource, window: TurnWindow) -> TurnWindow:
    """The window as it now stands, and what came after it; its oldest turns are let go of where it is full."""
    if not window.turns:
        return read_newest(source)
    since = _first_open(window)
    page = conversation.read_newer(source.database, source.mysis_id, since)
    before = tuple(turn for turn in window.turns if turn.number < since)
    turns = (*before, *page.turns)
    dropped, held = 0, sum(len(turn.entries) for turn in turns)
    while held > MOST_MEMORIES and dropped < len(turns) - 1:
        held -= len(turns[dropped].entries)
        dropped += 1
    made = {**window.made, **_blocks(source, page)}
    return TurnWindow(
        turns=turns[dropped:],
        made={turn.number: made[turn.number] for turn in turns[dropped:]},
        waiting=_waiting(source, page),
        has_older=window.has_older or dropped > 0,
        has_newer=page.has_newer,
        last_number=page.last_number,
    )


def _first_open(window: TurnWindow) -> int:
    """The number of the first loaded turn that may still change, at the latest the last one."""
    return next((turn.number for turn in window.turns if turn.outcome is None), window.turns[-1].number)


def _of(source: ConversationSource, page: ConversationPage) -> TurnWindow:
    return TurnWindow(
        turns=page.turns,
        made=_blocks(source, page),
        waiting=_waiting(source, page),
        has_older=page.has_older,
        has_newer=page.has_newer,
        last_number=page.last_number,
    )


def _blocks(source: ConversationSource, page: ConversationPage) -> dict[int, tuple[ConversationBlock, ...]]:
    return {turn.number: build_turn_blocks(turn, source.now, source.symbols) for turn in page.turns}


def _waiting(source: ConversationSource, page: ConversationPage) -> tuple[ConversationBlock, ...]:
    return build_page_blocks(replace(page, turns=()), source.now, source.symbols)


# Every read runs in a thread, in the order it was asked for; what was asked for
# twice meanwhile is read once.

ReadWindow = Callable[[ConversationSource, TurnWindow], TurnWindow]


class ConversationReader:
    """Call `want` with what to read; `shown` is told each new window, on the loop.

    Args:
        source: Gives where and how to read, as it is now; None while nothing is open.
        shown: Told the window and why it was read.
        failed: Told what the store said.
    """

    def __init__(
        self,
        source: Callable[[], ConversationSource | None],
        shown: Callable[[TurnWindow, str], None],
        failed: Callable[[StoreError], None],
    ) -> None:
        self._source = source
        self._shown = shown
        self._failed = failed
        self._wanted: dict[str, ReadWindow] = {}
        self._task: asyncio.Task[None] | None = None
        self.window = TurnWindow()
        self.is_loaded = False

    def newest(self) -> None:
        """Read the end."""
        self._want("newest", lambda source, _: read_newest(source))

    def around(self, number: int, why: str = "around") -> None:
        """Read a turn and its neighbours."""
        self._want(why, lambda source, _: read_around(source, number))

    def older(self) -> None:
        """Read what came before."""
        if self.window.has_older:
            self._want("older", read_older)

    def newer(self) -> None:
        """Read what came after."""
        self._want("newer", read_newer)

    def changed(self) -> None:
        """Something happened: read the end again, where it is the end that is loaded."""
        self._want("changed", lambda source, window: window if window.has_newer else read_newer(source, window))

    def forget(self) -> None:
        """Another mysis: nothing that was asked for is wanted any more."""
        self._wanted.clear()
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self.window, self.is_loaded = TurnWindow(), False

    def _want(self, why: str, reader: ReadWindow) -> None:
        self._wanted[why] = reader
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        with suppress(asyncio.CancelledError):
            while self._wanted:
                why, reader = next(iter(self._wanted.items()))
                del self._wanted[why]
                source = self._source()
                if source is None:
                    return
                try:
                    self.window = await asyncio.to_thread(reader, source, self.window)
                except StoreError as error:
                    self._failed(error)
                    return
                self.is_loaded = True
                self._shown(self.window, why)


def hit_block_key(hit: FindHit) -> str:
    """The block that holds what was found."""
    if hit.call_id is not None:
        return f"call {hit.call_id}"
    return f"memory {hit.memory_id}" if hit.at >= 0 else f"thought {hit.memory_id}"


def select_first_hit(found: FindResult, turn: int | None) -> int:
    """Where to begin: the newest place, or the first one from this turn on."""
    if turn is None:
        return len(found.hits) - 1
    return next((at for at, hit in enumerate(found.hits) if hit.turn_number >= turn), len(found.hits) - 1)


def format_hit_count(found: FindResult | None, at: int) -> str:
    """`3 of 12`, `none`, and `+` where there are more than were read."""
    if found is None or not found.words.strip():
        return ""
    if not found.hits:
        return "none"
    return f"{at + 1} of {len(found.hits)}{'+' if found.is_cut else ''}"


def conversation_version(view: Any) -> tuple[Any, ...]:
    """What of a mysis's view says that its conversation may have changed."""
    return (
        view.turns,
        view.tool_calls,
        view.errors,
        view.requests,
        view.turn_number,
        view.iteration,
        view.pending,
        view.approvals,
        view.state,
        view.text_at,
        not (view.streaming or view.thinking),
    )
