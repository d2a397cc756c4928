"""Carries out the tool calls of one turn; those that were sent can outlast it.

A stop or an interrupt cannot take back a call that has left. Its end is unknown to the turn, and
unless it only reads it goes on to its deadline: `LateCalls` owns it then, and stores its result.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from zoea.model.errors import ZoeaError
from zoea.model.ports import ToolSession
from zoea.model.request import AnswerCall, CallMeta, SendState, ToolResult
from zoea.model.values import ToolCall
from zoea.store.store import Store
from zoea.swarm.persistence import memory_ops

_log = logging.getLogger(__name__)
END_WITHIN_S = 2.0


class LateCalls:
    """Owns the calls that outlast their turns."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tasks: set[asyncio.Task[None]] = set()

    def adopt(self, task: asyncio.Task[None]) -> None:
        """Own the task of a call; it ends by the deadline of the call."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def store_result(self, mysis_id: int, call_id: int, result: ToolResult) -> None:
        try:
            await self._store.write(lambda conn: memory_ops.store_late_result(conn, mysis_id, call_id, result))
        except ZoeaError as error:
            _log.warning("the late result of call %d is lost: %s", call_id, error.what)

    async def close(self) -> None:
        """Cancel what still runs; its end stays unknown."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=END_WITHIN_S)


class ToolCalls:
    """The calls of one turn that are in flight. `finished` gets each result."""

    def __init__(
        self, session: ToolSession, late: LateCalls, timeout_s: float, finished: Callable[[int, ToolResult], None]
    ) -> None:
        self._session = session
        self._late = late
        self._timeout_s = timeout_s
        self._finished = finished
        self._running: dict[int, tuple[asyncio.Task[None], SendState, bool]] = {}
        self._detached: set[int] = set()

    def start(self, call: ToolCall, meta: CallMeta, *, read_only: bool) -> asyncio.Task[None]:
        task = asyncio.create_task(self._run(call, meta))
        self._running[call.id] = task, meta.sending, read_only
        return task

    def sent(self) -> frozenset[int]:
        """Return the calls that were sent and have no result yet."""
        return frozenset(call_id for call_id, (_, sending, _) in self._running.items() if sending.begun)

    def detach(self) -> frozenset[asyncio.Task[None]]:
        """Let the sent calls that do more than read go on without the turn. Return their tasks."""
        going_on: set[asyncio.Task[None]] = set()
        for call_id, (task, sending, read_only) in self._running.items():
            if sending.begun and not read_only:
                self._detached.add(call_id)
                self._late.adopt(task)
                going_on.add(task)
        return frozenset(going_on)

    async def _run(self, call: ToolCall, meta: CallMeta) -> None:
        try:
            result = await self._call(call, meta)
        finally:
            del self._running[call.id]
        if call.id in self._detached:
            await self._late.store_result(meta.mysis_id, call.id, result)
        else:
            self._finished(call.id, result)

    async def _call(self, call: ToolCall, meta: CallMeta) -> ToolResult:
        seconds = self._timeout_s
        try:
            # A second deadline, for a toolbox that does not keep its own.
            async with asyncio.timeout(seconds + 5):
                asked = AnswerCall(call.name, call.arguments, call.provider_call_id)
                return await self._session.call(asked, meta=meta)
        except TimeoutError:
            return ToolResult(f"{call.name} gave no answer within {seconds:g} s", is_error=True, is_unknown=True)
        except ZoeaError as error:
            return ToolResult(f"{error.title}: {error.what}", is_error=True)
