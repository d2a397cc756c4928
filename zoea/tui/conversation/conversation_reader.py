"""Reads the turns of a conversation into a window around the reader.

Reads run in a thread, one at a time. Turns far from the reader are dropped, so that memory stays bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from zoea.model.enums import OpenedBy
from zoea.model.errors import StoreError
from zoea.model.values import Memory
from zoea.queries import conversation
from zoea.queries.conversation import ConversationPage, ConversationTurn
from zoea.queries.search_reader import FindHit, FindResult
from zoea.text.control_characters import prose_line
from zoea.text.sentences import count_of
from zoea.text.shorten import head_with_length
from zoea.tui.conversation.argument_lines import list_changes
from zoea.tui.conversation.blocks import BlockKind, ConversationBlock, build_page_blocks, build_turn_blocks

MOST_MEMORIES = 600


class ConversationSource(Struct, frozen=True):
    """Say where to read a conversation and what its blocks need.

    Attributes:
        ticks: Reads the ticks that results tell; called in the thread that reads the conversation.
        turn_limit: Tokens that a turn may use; 0 is no bound.
    """

    database: Path
    mysis_id: int
    now: int
    ticks: Callable[[tuple[Memory, ...]], Mapping[int, float]] = lambda memories: {}
    turn_limit: int = 0


class TurnWindow(Struct, frozen=True):
    """The loaded turns, their blocks by turn number, and whether more exist."""

    turns: tuple[ConversationTurn, ...] = ()
    made: Mapping[int, tuple[ConversationBlock, ...]] = field(default_factory=dict)
    waiting: tuple[ConversationBlock, ...] = ()
    has_older: bool = False
    has_newer: bool = False
    last_number: int = 0

    @property
    def blocks(self) -> tuple[ConversationBlock, ...]:
        """Return all blocks in order, waiting messages last."""
        return (*(block for turn in self.turns for block in self.made[turn.number]), *self.waiting)

    @property
    def result(self) -> tuple[ConversationBlock, ...]:
        """Return the newest work: its task, what it reports, the files it changed, its calls."""
        opened = (at for at in range(len(self.turns) - 1, 0, -1) if self.turns[at].opened_by is OpenedBy.PROMPT)
        work = self.turns[next(opened, 0) :]
        if not work:
            return ()
        blocks = [block for turn in work for block in self.made[turn.number]]
        tasks = [head_with_length(prose_line(one.body), TASK_CHARS) for one in blocks if one.kind is BlockKind.PROMPT]
        ends = [block for block in blocks if block.kind in (BlockKind.ANSWER, BlockKind.OUTCOME)]
        calls = [block for block in blocks if block.kind is BlockKind.CALL]
        # The arguments that ran, also where a person changed those of the model.
        changes = list_changes(
            replace(call, arguments=entry.changed.get(call.id, call.arguments))
            for turn in work
            for entry in turn.entries
            for call in entry.memory.calls
        )
        files = "\n".join(f"{change.path}  +{change.added} -{change.removed}" for change in changes)
        number, is_cut = work[-1].number, self.has_older and len(work) == len(self.turns)
        # The call that reports the end is counted in the head of its turn, and shown as the report.
        has_any = any(entry.memory.calls for turn in work for entry in turn.entries)
        words = count_of(len(calls), "call") if calls else "no other calls" if has_any else "no calls"
        return (
            *self.made[number][:1],
            *(_note("task", number, "task", task) for task in tasks[:1]),
            *ends[-1:],
            *([_note("changes", number, count_of(len(changes), "changed file"), files)] if changes else ()),
            _note("calls", number, words, "older ones are in the conversation" if is_cut else ""),
            *(replace(block, has_gap=False) for block in calls),
        )

    @property
    def is_running_a_call(self) -> bool:
        """Return whether the last turn has a call in progress."""
        return any(turn.is_running_a_call for turn in self.turns[-1:])


TASK_CHARS = 300
"""A result begins with so much of the task; the conversation has all of it."""


def _note(key: str, turn: int, words: str, body: str) -> ConversationBlock:
    return ConversationBlock(key, BlockKind.NOTE, turn, head=((words, "title"),), body=body)


def read_newest(source: ConversationSource) -> TurnWindow:
    """Read the end of the conversation. Raises StoreError."""
    return _of(source, conversation.read_newest(source.database, source.mysis_id))


def read_around(source: ConversationSource, number: int) -> TurnWindow:
    """Read a turn and its neighbours. Raises StoreError."""
    return _of(source, conversation.read_around(source.database, source.mysis_id, number))


def read_older(source: ConversationSource, window: TurnWindow) -> TurnWindow:
    """Extend the window with older turns; drop its newest ones if it is full."""
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
    """Refresh the window and extend it with newer turns. Drop its oldest ones if it is full."""
    if not window.turns:
        return read_newest(source)
    since = next((turn.number for turn in window.turns if turn.outcome is None), window.turns[-1].number)
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


def read_again(source: ConversationSource, window: TurnWindow, number: int) -> TurnWindow:
    """Read a turn of the window, and those after it, again."""
    page = conversation.read_newer(source.database, source.mysis_id, number)
    found = {turn.number: turn for turn in page.turns}
    made = {turn: blocks for turn, blocks in _blocks(source, page).items() if turn in window.made}
    turns = tuple(found.get(turn.number, turn) for turn in window.turns)
    return replace(window, turns=turns, made={**window.made, **made})


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
    made: dict[int, tuple[ConversationBlock, ...]] = {}
    for turn in page.turns:
        ticks = source.ticks(tuple(entry.memory for entry in turn.entries))
        made[turn.number] = build_turn_blocks(turn, source.now, ticks)
    return made


def _waiting(source: ConversationSource, page: ConversationPage) -> tuple[ConversationBlock, ...]:
    return build_page_blocks(replace(page, turns=()), source.now)


ReadWindow = Callable[[ConversationSource, TurnWindow], TurnWindow]


class ConversationReader:
    """Read windows in a thread, one at a time; merge equal requests.

    Args:
        source: Returns where to read; None while no swarm is open.
        shown: Called on the event loop with each new window and the reason of the read.
        failed: Called with a store error.
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
        self._jumps: set[str] = set()
        self.jump = 0
        """The number of the turn that was read last with its neighbours."""
        self._task: asyncio.Task[None] | None = None
        self.window = TurnWindow()
        self.is_loaded = False
        self.has_failed = False

    def newest(self) -> None:
        """Read the end."""
        self._want("newest", lambda source, _: read_newest(source))

    def stay(self) -> None:
        """Cancel the jumps that `around` has not read yet, so that the shown part stays."""
        for why in self._jumps:
            self._wanted.pop(why, None)
        self._jumps.clear()

    def around(self, number: int, why: str = "around") -> None:
        """Read a turn and its neighbours, unless `stay` is called before they are read."""
        self._jumps.add(why)
        self.jump = number
        self._want(why, lambda source, _: read_around(source, number))

    def older(self) -> None:
        """Read older turns."""
        if self.window.has_older:
            self._want("older", read_older)

    def newer(self) -> None:
        """Read newer turns."""
        self._want("newer", read_newer)

    def changed(self) -> None:
        """Read the end again if the window contains it."""
        self._want("changed", lambda source, window: window if window.has_newer else read_newer(source, window))

    def again(self, number: int) -> None:
        """Read a turn again, because something of it was changed."""
        self._want("again", lambda source, window: read_again(source, window, number))

    def forget(self) -> None:
        """Drop the window and pending reads, for another mysis."""
        self._wanted.clear()
        self._jumps.clear()
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self.window, self.is_loaded, self.has_failed = TurnWindow(), False, False

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
                is_jump = why in self._jumps
                try:
                    found = await asyncio.to_thread(reader, source, self.window)
                except StoreError as error:
                    self.has_failed = True
                    self._failed(error)
                    return
                if is_jump and why not in self._jumps:
                    continue
                self._jumps.discard(why)
                self.window, self.is_loaded, self.has_failed = found, True, False
                self._shown(self.window, why)


def hit_block_key(hit: FindHit) -> str:
    """Return the key of the block with this match."""
    if hit.call_id is not None:
        return f"call {hit.call_id}"
    return f"memory {hit.memory_id}" if hit.at >= 0 else f"thought {hit.memory_id}"


def select_first_hit(found: FindResult, turn: int | None) -> int:
    """Return the index of the match to show: the newest, or the next from `turn`."""
    if turn is None:
        return len(found.hits) - 1
    return next((at for at, hit in enumerate(found.hits) if hit.turn_number >= turn), len(found.hits) - 1)


def format_hit_count(found: FindResult | None, at: int) -> str:
    """Format the position: `3 of 12`, `none`, `3 of 200+` if more exist."""
    if found is None or not found.words.strip():
        return ""
    if not found.hits:
        return "none"
    return f"{at + 1} of {len(found.hits)}{'+' if found.is_cut else ''}"


def conversation_version(view: Any) -> tuple[Any, ...]:
    """Return the fields of a view that change with its conversation."""
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
