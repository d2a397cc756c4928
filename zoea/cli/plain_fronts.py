"""Fronts without a screen: events as readable lines, or as JSON lines.

Both read a `SwarmApi`, of this process or over the socket. Lines are written in a
thread, so that a blocked terminal or pipe does not block the event loop.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, suppress
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn, Protocol

from zoea.cli.terminal_rows import one_line
from zoea.ipc.codec import encode
from zoea.model.errors import MysisMissing, StoreClosed, StoreError
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import Event, Lagged
from zoea.process.forced_end import detach_terminal
from zoea.queries.events import read_event_text
from zoea.queries.phrases import UNREMARKABLE, event_sentence, event_subject, event_text_source, is_of_request
from zoea.text.control_characters import reveal
from zoea.text.large_json import dump_shown
from zoea.text.sentences import count_of

log = logging.getLogger(__name__)

LINE_WIDTH = 200
READ_AGAIN_S = 1.0
TERMINAL_END_S = 0.5
PIPE_END_S = 5.0
"""How long output that is not read keeps a run from its end; the reader of a pipe may be slow."""

_writing = Lock()
"""Held while a line is written, so that an end of the run can wait for the last one."""

EventCallback = Callable[[Event], None]


def ignore(_event: Event) -> None:
    """Do nothing: the default callback."""


class Front(Protocol):
    """Shows the events of a swarm until its task is cancelled. `show` calls `seen` with each event after writing it."""

    async def show(self, swarm: SwarmApi, after: int, seen: EventCallback = ignore) -> None: ...

    async def say(self, text: str) -> None:
        """Write a line that is not an event, if the front can show one."""
        ...

    async def summary(self, myses: list[dict[str, Any]]) -> None: ...


class JsonFront:
    """`--json`: one event per line, and a summary as the last line."""

    async def show(self, swarm: SwarmApi, after: int, seen: EventCallback = ignore) -> None:
        async for event in events_without_gaps(swarm, after):
            line = {"event": event.kind, "id": event.id, "at": event.created_at, "mysis_id": event.mysis_id}
            await write_line(dump_shown({**line, "data": encode(event.data)}))
            seen(event)

    async def say(self, text: str) -> None:
        """Write nothing, because the output holds events only."""

    async def summary(self, myses: list[dict[str, Any]]) -> None:
        await write_line(dump_shown({"event": "summary", "myses": myses}))


class PlainFront:
    """Readable lines for a terminal, a screen reader or a pipe: time, sender, event.

    Args:
        database: The file with the texts that events refer to by id.
        is_verbose: Whether each request has its lines: what it holds, and what it used of its budgets.
    """

    def __init__(self, database: Path, *, is_verbose: bool = False) -> None:
        self._database = database
        self._is_verbose = is_verbose
        self._names: dict[int, str] = {}

    async def show(self, swarm: SwarmApi, after: int, seen: EventCallback = ignore) -> None:
        async for event in events_without_gaps(swarm, after):
            if event.kind not in UNREMARKABLE and (self._is_verbose or not is_of_request(event)):
                who = await self._name(swarm, event)
                await write_line(f"{_clock(event.created_at)}  {who:<12}  {reveal(await self._sentence(event))}")
            seen(event)

    async def say(self, text: str) -> None:
        await write_line(reveal(text))

    async def summary(self, myses: list[dict[str, Any]]) -> None:
        for row in myses:
            earned = row["credits_earned"]
            await write_line(
                f"{reveal(row['name']):<12}  {count_of(row['turns'], 'turn')}, "
                f"{count_of(row['tool_calls'], 'tool call')}, {count_of(row['errors'], 'error')}, "
                f"{count_of(row['tokens'], 'token')}" + ("" if earned is None else f", {earned:,} credits earned")
            )

    async def _name(self, swarm: SwarmApi, event: Event) -> str:
        mysis_id = event.mysis_id
        if mysis_id is not None and mysis_id not in self._names:
            with suppress(MysisMissing):
                self._names[mysis_id] = reveal((await swarm.mysis(f"#{mysis_id}")).name)
        return event_subject(event, self._names)

    async def _sentence(self, event: Event) -> str:
        return (
            event_sentence(event, await self._text(event))
            if event_text_source(event) is not None
            else event_sentence(event)
        )

    async def _text(self, event: Event) -> str:
        """Read the text that an event refers to, on one line. A read error becomes a note."""
        try:
            return one_line(await asyncio.to_thread(read_event_text, self._database, event), LINE_WIDTH)
        except StoreError:
            return "(the text cannot be read now)"


async def events_without_gaps(swarm: SwarmApi, after: int) -> AsyncGenerator[Event, None]:
    """Yield every event after `after`. After a lag or a failed read, subscribe again from the last event seen."""
    last = after
    while True:
        stream = swarm.events(last)
        has_lagged = False
        async with aclosing(stream):
            try:
                async for item in stream:
                    if isinstance(item, Lagged):
                        has_lagged = True
                        break
                    last = item.id or last
                    yield item
            except StoreClosed:
                raise
            except StoreError as error:
                # The swarm goes on without its front, and the front goes on when the file can be read again.
                log.warning("events cannot be read: %s; trying again every %g s", error.what, READ_AGAIN_S)
                has_lagged = True
                await asyncio.sleep(READ_AGAIN_S)
        if not has_lagged:
            return


async def write_in_time(last: Coroutine[Any, Any, object]) -> bool:
    """Write the last lines of a run. Return False if stdout takes none of them in time."""
    task = asyncio.create_task(last)
    done, _ = await asyncio.wait({task}, timeout=TERMINAL_END_S if sys.stdout.isatty() else PIPE_END_S)
    if done:
        task.result()
    else:
        # In a thread, because the log may be written to the same terminal.
        warning = asyncio.to_thread(log.warning, "the output of this run is not read, so its last lines are left out")
        await asyncio.wait({asyncio.create_task(warning)}, timeout=TERMINAL_END_S)
    task.cancel()
    return bool(done)


def leave_unread_output() -> NoReturn:
    """End the process without its last lines: a thread that writes them cannot be ended otherwise."""
    os._exit(0)


async def write_line(line: str) -> None:
    """Write one line to stdout in a thread."""
    await asyncio.to_thread(write_text, line + "\n")


def write_text(text: str) -> None:
    """Write to stdout; after the terminal was closed, redirect it to /dev/null instead of raising."""
    try:
        with _writing:
            sys.stdout.write(text)
            sys.stdout.flush()
    except OSError as problem:
        # EIO means that the terminal was closed; SIGHUP may arrive later than this error.
        if problem.errno != errno.EIO:
            raise
        detach_terminal()


def finish_writing() -> None:
    """Wait until the line that is being written is out."""
    with _writing:
        sys.stdout.flush()


def _clock(at: int) -> str:
    return datetime.fromtimestamp(at / 1_000_000).strftime("%H:%M:%S")
