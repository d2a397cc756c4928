"""Ends a run of N turns once the swarm rests, and reports the reasons."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from msgspec import Struct

from zoea.model.enums import MysisState
from zoea.model.errors import StateRefused
from zoea.model.status import StatusWord
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import Event, MysisView
from zoea.text.control_characters import one_line
from zoea.text.sentences import count_of

_NAMES_MOST = 5
_DONE = "reported the task as done"
_NO_TASK = "had no task"
_FINE = (_DONE, _NO_TASK)
_GIVE_TASK = "Give a task with `zoea run --task TEXT`, `zoea new NAME --task TEXT` or `zoea send NAME --task TEXT`."
_SEE_WHY = "`zoea show NAME` says more; `zoea start NAME` relaunches it."


class TurnCount:
    """Counts ended turns.

    Attributes:
        wanted: The number of turns after which the run ends; None is no bound.
        ended: The turns that ended in this run.
        are_enough: Set once `wanted` turns have ended.
    """

    def __init__(self, wanted: int | None, after: int) -> None:
        self.wanted = wanted
        self.ended = 0
        self.are_enough = asyncio.Event()
        self._last = after
        self._grown = asyncio.Event()

    def seen(self, event: Event) -> None:
        """Count an event that the front has shown."""
        self._last = event.id
        self._grown.set()
        if event.kind == "turn.ended":
            self.ended += 1
            if self.wanted is not None and self.ended >= self.wanted:
                self.are_enough.set()

    async def reach(self, event_id: int) -> None:
        """Wait until the front has shown this event."""
        while self._last < event_id:
            self._grown.clear()
            await self._grown.wait()


class RestReport(Struct, frozen=True):
    """A swarm that rests before its turns have ended."""

    myses: tuple[MysisView, ...]
    turns: int
    wanted: int

    def sentence(self) -> str:
        """Say after how many turns the swarm rests, and why each mysis does."""
        why = "; ".join(self._causes()) or "there are no myses"
        return f"the swarm rests after {self.turns} of {count_of(self.wanted, 'turn')}: {why}"

    def check(self) -> None:
        """Accept a swarm that worked and rests without a failure.

        Raises:
            StateRefused: No turn ended, or a mysis failed, was stopped or came to rest before its task was done.
        """
        if not self.turns or any(_cause(view) not in _FINE for view in self.myses):
            is_idle = all(_cause(view) in _FINE for view in self.myses)
            raise StateRefused(self.sentence(), hint=_GIVE_TASK if is_idle else _SEE_WHY, title="The swarm rests")

    def _causes(self) -> list[str]:
        names: dict[str, list[str]] = {}
        for view in self.myses:
            names.setdefault(_cause(view), []).append(one_line(view.name))
        return [f"{_join(myses)} {cause}" for cause, myses in names.items()]


async def wait_for_rest(swarm: SwarmApi, turns: TurnCount) -> RestReport:
    """Wait until no mysis goes on by itself and the front has shown all."""
    myses: dict[int, MysisView] = {}
    stream = swarm.changes()
    async with aclosing(stream):
        async for view in stream:
            myses |= {one.id: one for one in view.myses}
            for removed in view.removed:
                myses.pop(removed, None)
            if not view.held and all(one.is_at_rest for one in myses.values()):
                break
    await turns.reach((await swarm.view()).event_id)
    return RestReport(tuple(myses.values()), turns.ended, turns.wanted or 0)


def _cause(view: MysisView) -> str:
    match view.status:
        case StatusWord.DONE:
            return _DONE
        case StatusWord.ERRORED:
            return f"failed ({one_line(view.failure.title if view.failure else view.state_reason)})"
        case StatusWord.STOPPED:
            return f"stopped ({one_line(view.state_reason)})"
    if view.state is MysisState.IDLE and view.state_reason:
        return f"came to rest ({one_line(view.state_reason)})"
    return "came to rest" if view.goal else _NO_TASK


def _join(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMES_MOST])
    return shown if len(names) <= _NAMES_MOST else f"{shown} and {len(names) - _NAMES_MOST} more"
