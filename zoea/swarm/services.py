"""Parts that all myses of a swarm share, and the hold switch."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from zoea.agents.agent_launch import AgentLaunch
from zoea.agents.agent_pool import AgentPool
from zoea.llm.prices import PriceList
from zoea.model.errors import StoreClosed, StoreError, StoreFull, StoreMoved
from zoea.model.ports import Clock, Ids, ModelGateway, ToolFactory
from zoea.model.request import FileCommit
from zoea.model.values import Delivery
from zoea.settings.schema import Settings
from zoea.settings.template import Template
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.approvals import ApprovalQueue
from zoea.swarm.budget_queue import BudgetQueue
from zoea.swarm.event_hub import EventHub
from zoea.swarm.live_view import LiveView
from zoea.swarm.persistence.topic_ops import OutgoingTopicMessage, PublishResult
from zoea.swarm.resolved_template import Providers
from zoea.swarm.rules import SECOND
from zoea.swarm.turn.tool_calls import LateCalls
from zoea.swarm.turn.turn_gate import TurnGate, count_places
from zoea.swarm.turn.waits import Tick

_log = logging.getLogger(__name__)

T = TypeVar("T")
AGENT_BYTES = 640 * 1024 * 1024
"""Memory that an external agent may take; measured are 130 to 610 MB."""
RETRY_DISK_S = 10.0
CANNOT_STORE = (StoreFull.reason, StoreMoved.reason)
"""Reasons of a hold that ends by itself once something can be stored."""
_FREE_SPACE = "Free some space, or check the disk; Zoea tries again by itself."


class HoldSwitch:
    """Hold of the swarm or of single myses: no new model or tool call starts."""

    def __init__(self) -> None:
        self.reason = ""
        self._swarm = False
        self._myses: set[int] = set()
        self._changed = asyncio.Event()
        self._told: dict[object, tuple[int, Callable[[], None]]] = {}

    @property
    def swarm(self) -> bool:
        return self._swarm

    def holds(self, mysis_id: int) -> bool:
        return self._swarm or mysis_id in self._myses

    def set_swarm(self, on: bool, reason: str) -> None:
        self._swarm = on
        self.reason = reason if on else ""
        self._wake()

    def set_mysis(self, mysis_id: int, on: bool) -> None:
        if on:
            self._myses.add(mysis_id)
        else:
            self._myses.discard(mysis_id)
        self._wake()

    @contextmanager
    def on_hold(self, mysis_id: int, tell: Callable[[], None]) -> Iterator[None]:
        """Within the block, call `tell` as soon as a hold on this mysis begins."""
        block = object()
        self._told[block] = (mysis_id, tell)
        try:
            yield
        finally:
            del self._told[block]

    def _wake(self) -> None:
        for mysis_id, tell in tuple(self._told.values()):
            if self.holds(mysis_id):
                tell()
        self._changed.set()
        self._changed = asyncio.Event()

    async def lifted(self, mysis_id: int) -> None:
        """Wait until this mysis is not on hold."""
        while self.holds(mysis_id):
            await self._changed.wait()


class TopicPublisher(Protocol):
    """Publishes messages on topics within an op that also stores something else."""

    def publish_in(self, conn: WriterConnection, outgoing: OutgoingTopicMessage) -> PublishResult:
        """Store a message, its deliveries and the state snapshot."""
        ...

    def room_on(self, topic: str) -> int:
        """Return the most tokens of a message on a topic."""
        ...

    def hand_over(self, deliveries: Iterable[Delivery]) -> None:
        """Hand stored deliveries to their runners."""
        ...


class FileWork(Protocol):
    """The folders and git worktrees that myses work in, as their templates name them."""

    @property
    def closed(self) -> tuple[Path, ...]:
        """The folders of Zoea, of which agents read nothing through it."""
        ...

    async def settle(self, template: Template, on: str, worktree: bool, in_use: Iterable[Template]) -> Template:
        """Return the template with the folder of a new mysis.

        Args:
            on: The folder; that of the template if empty.
            worktree: It gets its own worktree; it does also where others work on the same repository.
            in_use: The templates of the other myses.

        Raises:
            FilesError: The folder cannot be worked on.
        """
        ...

    async def begin(self, uid: str, name: str, template: Template) -> None:
        """Make the worktree of a new mysis. Raises FilesError, also where another mysis of that name left one."""
        ...

    async def folder(self, uid: str, name: str, template: Template) -> Path:
        """Return an external agent's folder: its worktree, the template's folder, or its own.

        Links in its path are resolved.

        Raises:
            FilesError: There is none.
        """
        ...

    async def fence(self, name: str, launch: AgentLaunch) -> AgentLaunch:
        """Return the launch of a mysis's agent in its fence, where it has one. Raises AgentError."""
        ...

    async def commit(self, uid: str, name: str, template: Template, message: str) -> FileCommit:
        """Commit what a mysis changed in its worktree. Never raises; a failure is logged."""
        ...

    async def drop(self, uid: str, name: str, template: Template) -> None:
        """Remove the worktree of a deleted mysis, unless it holds work. Never raises; a failure is logged."""
        ...


@dataclass(slots=True)
class Services:
    """Holds what all runners of a swarm share.

    `hold_swarm` stores a hold of the whole swarm with its reason; `announce_hold` feeds a changed
    hold to every life machine. `ticks` are the newest that each upstream told to any mysis.
    """

    store: Store
    clock: Clock
    ids: Ids
    settings: Settings
    providers: Providers
    tools: ToolFactory
    view: LiveView
    approvals: ApprovalQueue
    hold_swarm: Callable[[str], Awaitable[None]]
    announce_hold: Callable[[], None]
    prices: PriceList = field(default_factory=PriceList)
    report_context: Callable[[dict[str, Any]], Awaitable[None]] | None = None
    known_catalogues: set[str] = field(default_factory=set)
    ticks: dict[str, Tick] = field(default_factory=dict)
    full: asyncio.Event = field(default_factory=asyncio.Event)  # set while the disk is full
    clock_watch: asyncio.Task[None] | None = None
    publisher: TopicPublisher | None = None
    files: FileWork | None = None
    gateway: ModelGateway | None = None
    agents: AgentPool = field(init=False)
    hold: HoldSwitch = field(default_factory=HoldSwitch)
    gate: TurnGate = field(init=False)
    late_calls: LateCalls = field(init=False)
    budget_queue: BudgetQueue = field(init=False)
    events: EventHub = field(init=False)
    failure: type[StoreFull] = StoreFull
    """Why nothing can be stored, or could not the last time."""
    _trial: asyncio.Task[None] | None = None
    _held_before: tuple[bool, str] = (False, "")
    _closing: bool = False

    def __post_init__(self) -> None:
        self.gate = TurnGate(**count_places(self.settings))
        self.agents = AgentPool(lambda: most_agents(self.settings.acp.max_processes))
        self.late_calls = LateCalls(self.store)
        self.budget_queue = BudgetQueue(self.clock)
        self.events = EventHub(self.store)
        self.store.on_moved = self.hold_for_disk

    @property
    def topics(self) -> TopicPublisher:
        """The way to the ledger of topics, once the swarm is open."""
        assert self.publisher is not None
        return self.publisher

    async def write(self, op: Callable[[WriterConnection], T], *, urgent: bool = False, is_synced: bool = True) -> T:
        """Write for the swarm itself; on a full disk wait and write again.

        A person's command uses `store.write` instead, and fails at once. `urgent` is what a person waits for;
        `is_synced` as there.
        """
        while True:
            try:
                return await self.store.write(op, urgent=urgent, is_synced=is_synced)
            except StoreFull as error:
                if self._closing:
                    raise
                trial = self.hold_for_disk(error)
                await asyncio.wait({trial})
                if self._closing:
                    raise

    def hold_for_disk(self, error: StoreFull) -> asyncio.Task[None]:
        """Hold the swarm until a trial write succeeds; return the task of the trial."""
        self.failure = type(error)
        if self._trial is None:
            _log.error("%s: %s", error.title, error.what)
            self._held_before = self.hold.swarm, self.hold.reason
            self._trial = asyncio.create_task(self._try_again(), name="disk trial")
            self.full.set()
            self.hold.set_swarm(True, error.reason)
            self.announce_hold()
        return self._trial

    async def _try_again(self) -> None:
        """Write every ten seconds until it succeeds."""
        while True:
            await self.clock.sleep(int(RETRY_DISK_S * SECOND))
            try:
                await self.store.probe()
            except StoreClosed:
                return None
            except StoreError as error:
                _log.warning("still nothing can be stored: %s", error.what)
                if isinstance(error, StoreFull) and self.hold.reason in CANNOT_STORE:
                    self.failure = type(error)  # it may be another one by now
                    self.hold.set_swarm(True, error.reason)
            else:
                return self._end_trial()

    async def try_disk(self) -> None:
        """Try at once whether a full disk has space. A person wants to store something.

        Raises:
            StoreFull: It has none; the swarm stays on hold.
        """
        if self._trial is None:
            return
        try:
            await self.store.probe()
        except StoreFull as error:
            hint = error.hint if isinstance(error, StoreMoved) else _FREE_SPACE
            raise type(error)(error.reason, hint=hint) from error
        if self._trial is not None:
            self._trial.cancel()
            self._end_trial()

    def _end_trial(self) -> None:
        """Restore the hold from before the disk was full."""
        self._trial = None
        self.full.clear()
        if self.hold.reason in CANNOT_STORE:
            self.hold.set_swarm(*self._held_before)
            self.announce_hold()

    async def close(self) -> None:
        """Stop watching the clock and waiting for the disk; waiting writes fail."""
        self._closing = True
        self.store.on_moved = None
        if self.clock_watch is not None:
            self.clock_watch.cancel()
        await self.late_calls.close()
        if self._trial is not None:
            self._trial.cancel()
            await asyncio.wait({self._trial})


def most_agents(wanted: int) -> int:
    """Return how many external agents may run at once: as configured, within half of the memory."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(wanted, memory // 2 // AGENT_BYTES))
