"""An in-memory `SwarmApi` that behaves: states, receipts, events and views without models or a database.

A mysis answers every prompt at once with the outcome `answered`, unless the swarm is on hold.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from tests.fakes.no_commits import NoCommits
from zoea.model.enums import Activity, ApprovalAnswer, DeliveryMode, MysisState
from zoea.model.errors import MysisMissing, NameRefused, NoRecipients, StateRefused, TemplateError, UsageError
from zoea.model.swarm_api import ReloadReport
from zoea.model.topics import EVERYONE, PublishReceipt, TopicMessage, check_published_topic
from zoea.model.values import (
    COMMANDER,
    ApprovalView,
    Event,
    GrantView,
    Lagged,
    McpView,
    MysisView,
    ProviderView,
    Receipt,
    ReceiptLine,
    Recipients,
    Sender,
    SwarmView,
    ToolTrial,
    UpstreamView,
)

QUEUE_LIMIT = 1_000


@dataclass(eq=False)
class Subscriber:
    """One reader of events: at most `QUEUE_LIMIT` wait, then it has lagged."""

    last: int
    waiting: list[Event] = field(default_factory=list)
    has_lagged: bool = False
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    def offer(self, event: Event) -> None:
        if len(self.waiting) >= QUEUE_LIMIT:
            self.waiting.clear()
            self.has_lagged = True
        if not self.has_lagged:
            self.waiting.append(event)
        self.ready.set()


class FakeSwarm(NoCommits):
    """See the module.

    `said` holds `(sender, mysis or "", text)` in the order it came, `waiting` the deliveries that nobody took yet,
    each with its message.
    """

    def __init__(self, on_shutdown: Callable[[], None] = lambda: None) -> None:
        self.on_shutdown = on_shutdown
        self.said: list[tuple[Sender, str, str]] = []
        self.short_budgets: tuple[str, ...] = ()
        self.preserved: frozenset[int] = frozenset()
        self.published: list[TopicMessage] = []
        self.shutdowns = 0
        self.asked: dict[int, ApprovalView] = {}
        self.answers: list[tuple[Any, ...]] = []
        self.given_upstreams: tuple[UpstreamView, ...] = ()
        self.given_providers: tuple[ProviderView, ...] = (ProviderView("scripted", "scripted", "scripted", models=()),)
        self.reconnected: list[str] = []
        self.reloads = 0
        self.tried: list[tuple[str, str, str]] = []
        self.trial = ToolTrial("done", False, 1_000)
        self.serving = McpView()
        self.left_running: set[int] = set()
        self.granted: dict[int, GrantView] = {}
        self.waiting: dict[int, int] = {}
        self._deliveries = 0
        self._myses: dict[int, MysisView] = {}
        self._deleted: dict[int, MysisView] = {}
        self._events: list[Event] = []
        self._subscribers: set[Subscriber] = set()
        self._receipts: dict[int, Receipt] = {}
        self._version = 0
        self._held = ""
        self._changed = asyncio.Event()
        self._keys: dict[str, int] = {}
        self._created: dict[str, int] = {}

    async def create(
        self,
        name: str,
        *,
        template: str = "",
        provider: str = "",
        model: str = "",
        tags: tuple[str, ...] = (),
        start: bool = True,
        broadcast: int = 0,
        task: str = "",
        commit: str = "",
        allow_fresh: bool = False,
        on: str = "",
        worktree: bool = False,
        idempotency_key: str = "",
    ) -> MysisView:
        if idempotency_key in self._created:
            if (made := self._myses.get(self._created[idempotency_key])) is None:
                raise StateRefused("the mysis of this request was deleted meanwhile")
            return made
        number = len(self._myses) + len(self._deleted) + 1
        name = name or f"mysis-{number}"
        if name.startswith("-"):
            raise NameRefused(f"{name!r} starts with a dash")
        if any(view.name.lower() == name.lower() for view in self._myses.values()):
            raise NameRefused(f"{name!r} is taken", hint="choose another name")
        view = MysisView(
            id=number,
            name=name,
            template=template or "default",
            provider=provider or "scripted",
            model=model or "script",
            state=MysisState.RUNNING if start else MysisState.IDLE,
            state_reason="",
            state_at=0,
            activity=Activity.IDLE,
            failure=None,
            retry_at=None,
            held=False,
            tags=tags,
            goal=task,
        )
        self.put(view, "mysis.created", name=name)
        if idempotency_key:
            self._created[idempotency_key] = number
        return self._myses[number]

    async def start(self, ref: str) -> MysisView:
        view = self._find(ref)
        if view.state is MysisState.RUNNING:
            raise StateRefused("mysis already running")
        return self.put(replace(view, state=MysisState.RUNNING), "mysis.state", state="running")

    async def stop(self, ref: str) -> MysisView:
        view = self._find(ref)
        if view.state is MysisState.STOPPED:
            return view
        return self.put(replace(view, state=MysisState.STOPPED), "mysis.state", state="stopped")

    async def delete(self, ref: str) -> MysisView:
        view = self._find(ref)
        self.put(replace(view, state=MysisState.STOPPED), "mysis.deleted")
        self._deleted[view.id] = self._myses.pop(view.id)
        return self._deleted[view.id]

    async def undelete(self, mysis_id: int) -> MysisView:
        if mysis_id not in self._deleted:
            raise MysisMissing(f"no deleted mysis #{mysis_id}")
        return self.put(self._deleted.pop(mysis_id), "mysis.undeleted")

    async def dismiss(self, ref: str) -> MysisView:
        return self.put(replace(self._find(ref), failure=None), "mysis.dismissed")

    async def configure(
        self,
        ref: str,
        *,
        template: str = "",
        provider: str = "",
        model: str = "",
        tags: tuple[str, ...] | None = None,
        settings: dict[str, Any] | None = None,
    ) -> MysisView:
        view = self._find(ref)
        if any(not key.startswith("budget.") for key in settings or {}):
            raise TemplateError("no setting of one mysis")
        changed = replace(
            view,
            template=template or view.template,
            provider=provider or view.provider,
            model=model or view.model,
            tags=view.tags if tags is None else tags,
        )
        return self.put(changed, "mysis.configured")

    async def send(
        self,
        ref: str,
        text: str,
        *,
        mode: DeliveryMode = DeliveryMode.QUEUE,
        is_task: bool = False,
        sender: Sender = COMMANDER,
        idempotency_key: str = "",
        limits: str = "",
    ) -> Receipt:
        if idempotency_key and idempotency_key in self._keys:
            return self._receipts[self._keys[idempotency_key]]
        if not text.strip():
            raise UsageError("a message needs text")
        view = self._find(ref)
        if not view.state.accepts_messages:
            raise StateRefused(f"mysis {view.state} - press 'r' to relaunch")
        self.said.append((sender, view.name, text))
        if is_task:
            view = self.put(replace(view, goal=text, goal_reached_at=None), "mysis.task")
        receipt = self._deliver((view,))
        if idempotency_key:
            self._keys[idempotency_key] = receipt.message_id
        return receipt

    async def broadcast(
        self,
        text: str,
        *,
        to: Recipients = Recipients(),
        mode: DeliveryMode = DeliveryMode.QUEUE,
        sender: Sender = COMMANDER,
        idempotency_key: str = "",
        limits: str = "",
    ) -> Receipt:
        if not text.strip():
            raise UsageError("a broadcast needs text")
        chosen = tuple(view for view in self._myses.values() if not to.names or view.name in to.names)
        if not any(view.state.accepts_messages for view in chosen):
            raise NoRecipients("no myses available to receive broadcast (all stopped or errored)")
        self.said.append((sender, "", text))
        return self._deliver(chosen)

    async def find_short_budgets(self, text: str, *, to: Recipients = Recipients()) -> tuple[str, ...]:
        return self.short_budgets

    async def publish(
        self,
        topic: str,
        text: str = "",
        *,
        data: dict[str, Any] | None = None,
        receiver: str = EVERYONE,
        is_raw: bool = False,
        sender: Sender = COMMANDER,
        idempotency_key: str = "",
    ) -> PublishReceipt:
        known = self._keys.get(f"topic {idempotency_key}") if idempotency_key else None
        if known is not None:
            return PublishReceipt(known, topic)
        check_published_topic(topic)
        if not text.strip() and not data:
            raise UsageError("a message needs a text or data")
        self.published.append(TopicMessage(len(self.published) + 1, 0, topic, sender.name or "commander", text, data))
        self._keys[f"topic {idempotency_key}"] = len(self.published)
        return PublishReceipt(len(self.published), topic)

    async def withdraw(self, delivery_id: int) -> None:
        if delivery_id not in self.waiting:
            raise UsageError(f"delivery {delivery_id} is not pending")
        message_id = self.waiting.pop(delivery_id)
        lines = (
            replace(line, status="withdrawn") if line.delivery_id == delivery_id else line
            for line in self._receipts[message_id].lines
        )
        self._receipts[message_id] = Receipt(message_id, tuple(lines))

    async def preserve(self, memory_id: int, on: bool = True) -> None:
        if memory_id == 99:
            raise UsageError(f"there is no message {memory_id}")
        self.preserved = self.preserved | {memory_id} if on else self.preserved - {memory_id}

    async def receipt(self, message_id: int) -> Receipt:
        if message_id not in self._receipts:
            raise UsageError(f"no message {message_id}")
        return self._receipts[message_id]

    async def hold(self, on: bool, *, ref: str = "", reason: str = "") -> None:
        if ref:
            self.put(replace(self._find(ref), held=on, held_reason=reason if on else ""), "mysis.held", on=on)
            return
        self._held = (reason or "the commander") if on else ""
        self._publish("swarm.held", None, on=on)

    async def start_all(self, *, left_running: bool = False, again: bool = False, new: bool = False) -> int:
        idle = [view for view in self._myses.values() if view.state is MysisState.IDLE]
        if left_running or again or new:
            ran = self.left_running if left_running or again else set()
            idle = [view for view in idle if view.id in ran or (new and view.id not in self.left_running)]
            self.left_running.clear()
        for view in idle:
            self.put(replace(view, state=MysisState.RUNNING), "mysis.state", state="running")
        return len(idle)

    async def stop_all(self) -> int:
        running = [view for view in self._myses.values() if view.state is MysisState.RUNNING]
        for view in running:
            self.put(replace(view, state=MysisState.STOPPED), "mysis.state", state="stopped")
        return len(running)

    async def approvals(self) -> tuple[ApprovalView, ...]:
        return tuple(self.asked.values())

    async def answer(
        self, approval_id: int, answer: ApprovalAnswer, *, sentence: str = "", arguments: str = ""
    ) -> None:
        if self.asked.pop(approval_id, None) is None:
            raise UsageError(f"no approval {approval_id} waits for an answer")
        self.answers.append((approval_id, answer, sentence, *([arguments] if arguments else [])))

    async def grants(self) -> tuple[GrantView, ...]:
        return tuple(self.granted.values())

    async def revoke(self, grant_id: int) -> GrantView:
        if grant_id not in self.granted:
            raise UsageError(f"no grant {grant_id} holds")
        return self.granted.pop(grant_id)

    async def view(self) -> SwarmView:
        return self._view(tuple(self._myses.values()))

    async def mysis(self, ref: str) -> MysisView:
        return self._find(ref)

    async def wait(self, ref: str, *, timeout_s: float = 60.0) -> MysisView:
        return self._find(ref)

    async def changes(self) -> AsyncGenerator[SwarmView, None]:
        seen = -1
        while True:
            if self._version > seen:
                fresh = tuple(view for view in self._myses.values() if view.version > seen)
                seen = self._version
                yield self._view(fresh)
            if self._version == seen:
                self._changed.clear()
                await self._changed.wait()

    async def events(self, after: int = 0) -> AsyncGenerator[Event | Lagged, None]:
        subscriber = Subscriber(after, [event for event in self._events if event.id > after])
        self._subscribers.add(subscriber)
        try:
            while True:
                if subscriber.has_lagged:
                    subscriber.has_lagged = False
                    yield Lagged(subscriber.last)
                while subscriber.waiting:
                    event = subscriber.waiting.pop(0)
                    subscriber.last = event.id
                    yield event
                subscriber.ready.clear()
                if not (subscriber.waiting or subscriber.has_lagged):
                    await subscriber.ready.wait()
        finally:
            self._subscribers.discard(subscriber)

    async def upstreams(self) -> tuple[UpstreamView, ...]:
        return self.given_upstreams

    async def providers(self) -> tuple[ProviderView, ...]:
        return self.given_providers

    async def reconnect(self, name: str) -> None:
        self._upstream(name)
        self.reconnected.append(name)

    async def reload(self) -> ReloadReport:
        self.reloads += 1
        return ReloadReport(("near",), ("llm",))

    async def try_tool(self, upstream: str, tool: str, arguments: str) -> ToolTrial:
        if all(one.name != tool for one in self._upstream(upstream).tools):
            raise UsageError(f"upstream {upstream} has no tool {tool}")
        self.tried.append((upstream, tool, arguments))
        return self.trial

    def _upstream(self, name: str) -> UpstreamView:
        for view in self.given_upstreams:
            if view.name == name:
                return view
        raise UsageError(f"no upstream {name}")

    async def mcp(self) -> McpView:
        return self.serving

    async def forget_facts(self, provider: str, model: str = "") -> int:
        return 0

    async def serve_mcp(self, on: bool) -> McpView:
        self.serving = McpView("http://127.0.0.1:9632/mcp" if on else "")
        return self.serving

    async def shutdown(self) -> None:
        self.shutdowns += 1
        self.on_shutdown()

    @property
    def subscribers(self) -> int:
        """How many event streams are open."""
        return len(self._subscribers)

    def fact(self, kind: str = "budget.warned", **data: Any) -> Event:
        """Publish an event without a cause."""
        return self._publish(kind, None, **data)

    def _find(self, ref: str) -> MysisView:
        for view in self._myses.values():
            if ref.lower() == view.name.lower() or ref == f"#{view.id}":
                return view
        raise MysisMissing(f"no mysis {ref!r}", hint="`zoea list` shows them")

    def put(self, view: MysisView, kind: str, **data: Any) -> MysisView:
        self._publish(kind, view.id, **data)
        fresh = replace(view, version=self._version)
        self._myses[view.id] = fresh
        return fresh

    def _publish(self, kind: str, mysis_id: int | None, **data: Any) -> Event:
        self._version += 1
        event = Event(len(self._events) + 1, kind, mysis_id, data)
        self._events.append(event)
        for subscriber in self._subscribers:
            subscriber.offer(event)
        self._changed.set()
        return event

    def _deliver(self, chosen: tuple[MysisView, ...]) -> Receipt:
        lines = []
        for view in chosen:
            if not view.state.accepts_messages:
                lines.append(ReceiptLine(view.name, "skipped", view.state.value))
                continue
            self._deliveries += 1
            lines.append(ReceiptLine(view.name, "delivered", delivery_id=self._deliveries))
            if self._held or view.held:
                self.waiting[self._deliveries] = len(self._receipts) + 1
                continue
            answered = replace(view, state=MysisState.RUNNING, turns=view.turns + 1, requests=view.requests + 1)
            self.put(answered, "turn.ended", outcome="answered", turn=answered.turns)
        receipt = Receipt(len(self._receipts) + 1, tuple(lines))
        self._receipts[receipt.message_id] = receipt
        return receipt

    def _view(self, myses: tuple[MysisView, ...]) -> SwarmView:
        return SwarmView(self._version, bool(self._held), self._held, myses, event_id=len(self._events))
