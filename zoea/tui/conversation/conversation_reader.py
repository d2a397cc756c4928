"""What a Focus screen has read of one mysis: its window of turns, kept current, one reading at a time.

Every read runs in a thread, in the order it was asked for; what was asked for
twice meanwhile is read once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from zoea.model.errors import StoreError
from zoea.queries.find_in_conversation import Found, Hit
from zoea.tui.conversation import turn_window as windows
from zoea.tui.conversation.turn_window import Source, Window

Reader = Callable[[Source, Window], Window]


class Reading:
    """Call `want` with what to read; `shown` is told each new window, on the loop.

    Args:
        source: Gives where and how to read, as it is now; None while nothing is open.
        shown: Told the window and why it was read.
        failed: Told what the store said.
    """

    def __init__(
        self,
        source: Callable[[], Source | None],
        shown: Callable[[Window, str], None],
        failed: Callable[[StoreError], None],
    ) -> None:
        self._source = source
        self._shown = shown
        self._failed = failed
        self._wanted: dict[str, Reader] = {}
        self._task: asyncio.Task[None] | None = None
        self.window = Window()
        self.is_loaded = False

    def newest(self) -> None:
        """Read the end."""
        self._want("newest", lambda source, _: windows.newest(source))

    def around(self, number: int, why: str = "around") -> None:
        """Read a turn and its neighbours."""
        self._want(why, lambda source, _: windows.around(source, number))

    def older(self) -> None:
        """Read what came before."""
        if self.window.has_older:
            self._want("older", windows.older)

    def newer(self) -> None:
        """Read what came after."""
        self._want("newer", windows.newer)

    def changed(self) -> None:
        """Something happened: read the end again, where it is the end that is loaded."""
        self._want("changed", lambda source, window: window if window.has_newer else windows.newer(source, window))

    def forget(self) -> None:
        """Another mysis: nothing that was asked for is wanted any more."""
        self._wanted.clear()
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self.window, self.is_loaded = Window(), False

    def _want(self, why: str, reader: Reader) -> None:
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


def key_of(hit: Hit) -> str:
    """The block that holds what was found."""
    if hit.call_id is not None:
        return f"call {hit.call_id}"
    return f"memory {hit.memory_id}" if hit.at >= 0 else f"thought {hit.memory_id}"


def first_hit(found: Found, turn: int | None) -> int:
    """Where to begin: the newest place, or the first one from this turn on."""
    if turn is None:
        return len(found.hits) - 1
    return next((at for at, hit in enumerate(found.hits) if hit.turn_number >= turn), len(found.hits) - 1)


def told(found: Found | None, at: int) -> str:
    """`3 of 12`, `none`, and `+` where there are more than were read."""
    if found is None or not found.words.strip():
        return ""
    if not found.hits:
        return "none"
    return f"{at + 1} of {len(found.hits)}{'+' if found.is_cut else ''}"


def worth(view: Any) -> tuple[Any, ...]:
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
