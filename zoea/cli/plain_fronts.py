"""Fronts without a screen: events as readable lines, or as JSON lines.

Both read the same `SwarmApi`, here or over the socket. Writing happens in a
thread, so a terminal or pipe that nobody reads never holds up the swarm.
"""

from __future__ import annotations

import asyncio
import errno
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from zoea.cli.terminal_rows import one_line
from zoea.ipc.codec import encode
from zoea.model.errors import MysisMissing, StoreError
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import Event, Lagged
from zoea.process.hangup import detach_terminal
from zoea.queries.events import read_event_text
from zoea.queries.phrases import UNREMARKABLE, event_sentence, event_subject, event_text_source
from zoea.text.control_characters import strip

LINE_WIDTH = 200

Seen = Callable[[Event], None]


def ignore(_event: Event) -> None:
    """Nobody counts."""


class Front(Protocol):
    """Shows a swarm's events until its task is cancelled; `seen` is told of each once it is written."""

    async def show(self, swarm: SwarmApi, after: int, seen: Seen = ignore) -> None: ...

    async def say(self, text: str) -> None:
        """A line of Zoea's own, where the front has room for it."""
        ...

    async def summary(self, myses: list[dict[str, Any]]) -> None: ...


class JsonFront:
    """`--json`: one event a line, and a summary as the last one."""

    async def show(self, swarm: SwarmApi, after: int, seen: Seen = ignore) -> None:
        async for event in gapless(swarm, after):
            line = {"event": event.kind, "id": event.id, "at": event.created_at, "mysis_id": event.mysis_id}
            await write_line(json.dumps({**line, "data": encode(event.data)}, ensure_ascii=False))
            seen(event)

    async def say(self, text: str) -> None:
        """Machines are told nothing that is not an event."""

    async def summary(self, myses: list[dict[str, Any]]) -> None:
        await write_line(json.dumps({"event": "summary", "myses": myses}, ensure_ascii=False))


class PlainFront:
    """Readable lines for a terminal, a screen reader, a pipe: time, who, what.

    Args:
        database: Where the texts are that events only name by id.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        self._names: dict[int, str] = {}

    async def show(self, swarm: SwarmApi, after: int, seen: Seen = ignore) -> None:
        async for event in gapless(swarm, after):
            if event.kind not in UNREMARKABLE:
                who = await self._name(swarm, event)
                await write_line(f"{_clock(event.created_at)}  {who:<12}  {strip(await self._sentence(event))}")
            seen(event)

    async def say(self, text: str) -> None:
        await write_line(strip(text))

    async def summary(self, myses: list[dict[str, Any]]) -> None:
        for row in myses:
            earned = row["credits_earned"]
            await write_line(
                f"{strip(row['name']):<12}  {row['turns']} turns, {row['tool_calls']} tool calls, "
                f"{row['errors']} errors, {row['tokens']:,} tokens"
                + ("" if earned is None else f", {earned:,} credits earned")
            )

    async def _name(self, swarm: SwarmApi, event: Event) -> str:
        mysis_id = event.mysis_id
        if mysis_id is not None and mysis_id not in self._names:
            with suppress(MysisMissing):
                self._names[mysis_id] = strip((await swarm.mysis(f"#{mysis_id}")).name)
        return event_subject(event, self._names)

    async def _sentence(self, event: Event) -> str:
        return (
            event_sentence(event, await self._text(event))
            if event_text_source(event) is not None
            else event_sentence(event)
        )

    async def _text(self, event: Event) -> str:
        """The text that an event names, on one line; what cannot be read now is said, as a front goes on without it."""
        try:
            return one_line(await asyncio.to_thread(read_event_text, self._database, event), LINE_WIDTH)
        except StoreError:
            return "(its text cannot be read now)"


async def gapless(swarm: SwarmApi, after: int) -> AsyncIterator[Event]:
    """Every event after `after`: where this reader was too slow, it goes on from the table."""
    last = after
    while True:
        stream = swarm.events(last)
        has_lagged = False
        async with aclosing(stream):  # type: ignore[type-var]  # every body of SwarmApi gives a generator
            async for item in stream:
                if isinstance(item, Lagged):
                    has_lagged = True
                    break
                last = item.id
                yield item
        if not has_lagged:
            return


async def write_line(line: str) -> None:
    """One line on stdout, whole, written in a thread."""
    await asyncio.to_thread(_write, line + "\n")


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as problem:
        # A terminal that was closed: the hang-up signal may come later than this.
        if problem.errno != errno.EIO:
            raise
        detach_terminal()


def _clock(at: int) -> str:
    return datetime.fromtimestamp(at / 1_000_000).strftime("%H:%M:%S")
