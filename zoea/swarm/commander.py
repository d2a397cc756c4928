"""The swarm in this process: `CoreSwarmApi` over running myses, called directly or through the socket.

Each command checks its arguments, runs one op of the store, and then feeds the life machine of the mysis.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Self, TypeVar

from msgspec.structs import replace

from zoea.context.window.prompt_context import read_stored
from zoea.llm.prices import PriceList
from zoea.model.enums import ApprovalAnswer, DeliveryMode, MysisState
from zoea.model.errors import MysisMissing, StateRefused, StoreFull, UsageError, ZoeaError
from zoea.model.ports import Clock, Ids, ToolFactory
from zoea.model.status import CLOSED, KILLED
from zoea.model.topics import EVERYONE, PublishReceipt
from zoea.model.values import (
    COMMANDER,
    ApprovalView,
    Event,
    GrantView,
    Lagged,
    Mysis,
    MysisView,
    Receipt,
    Recipients,
    Sender,
    SwarmView,
)
from zoea.settings import Settings, Templates
from zoea.store import Store, WriterConnection
from zoea.swarm import configuration, creation
from zoea.swarm import life as lf
from zoea.swarm.approvals import ApprovalQueue
from zoea.swarm.budget_queue import BudgetQueue
from zoea.swarm.builtin_backend import SwarmBackend
from zoea.swarm.clock_watch import watch_clock
from zoea.swarm.live_view import LiveView
from zoea.swarm.outbox import Outbox
from zoea.swarm.persistence import load_mysis, message_ops, mysis_ops, spend_ops, swarm_reads, time_ops
from zoea.swarm.persistence.load_mysis import NEWEST_PLANS, read_request_sizes
from zoea.swarm.persistence.preserved_memories import preserve_memory
from zoea.swarm.references import resolve_reference
from zoea.swarm.resolved_template import Providers, ResolvedTemplate, resolve_stored_template, resolve_template
from zoea.swarm.rules import SECOND
from zoea.swarm.runner import MysisRunner
from zoea.swarm.services import CANNOT_STORE, HoldSwitch, Services
from zoea.swarm.tail_recovery import find_left_tails, flush_all, recover_tail
from zoea.swarm.turn.tool_calls import LateCalls
from zoea.swarm.turn.turn_failures import failure_from
from zoea.swarm.turn.turn_gate import TurnGate, count_places

_log = logging.getLogger(__name__)

T = TypeVar("T")
CLOSE_WITHIN_S = 8.0


class Commander:
    """Owns the myses of a workspace. Create it with `open`, end it with `close`.

    `builtin_backend` serves Zoea's own tools.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: Ids,
        settings: Settings,
        templates: Templates,
        providers: Providers,
        tools: ToolFactory,
        on_shutdown: Callable[[], None],
        prices: PriceList,
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._settings = settings
        self._templates = templates
        self._providers = providers
        self._on_shutdown = on_shutdown
        self.runners: dict[int, MysisRunner] = {}
        self._leaving: set[int] = set()  # being deleted: they take no commands
        self._bodies: dict[bytes, str] = {}
        self._resolved_templates: dict[bytes, ResolvedTemplate] = {}
        self.hold_switch = HoldSwitch()
        self.live_view = LiveView(self._summary)
        self._approvals = ApprovalQueue(store, clock, self._show_approvals)
        self._left_running: frozenset[int] = frozenset()
        self._started_at = clock.now()
        self._today = spend_ops.Today()
        self.services = Services(
            store=store,
            clock=clock,
            ids=ids,
            settings=settings,
            providers=providers,
            tools=tools,
            gate=TurnGate(**count_places(settings)),
            hold=self.hold_switch,
            view=self.live_view,
            approvals=self._approvals,
            late_calls=LateCalls(store),
            budget_queue=BudgetQueue(clock),
            hold_swarm=self._hold_swarm,
            announce_hold=self._announce_hold,
            prices=prices,
        )
        self._hub = self.services.events
        self.outbox = Outbox(self.services, self.runners, self._command, self.runner, self.resolved_template)
        self.services.publisher = self.outbox
        self.builtin_backend = SwarmBackend(store, self.live_view, self.outbox)

    @classmethod
    async def open(
        cls,
        *,
        store: Store,
        clock: Clock,
        ids: Ids,
        settings: Settings,
        templates: Templates,
        providers: Providers,
        tools: ToolFactory,
        on_shutdown: Callable[[], None],
        prices: PriceList = PriceList(),
        serve_tools: Callable[[Commander], None] = lambda commander: None,
    ) -> Self:
        """Load the stored swarm; myses that ran are idle, and their open turns can be resumed.

        Args:
            serve_tools: Called before a recovered turn can go on, so that its requests show Zoea's own tools.
        """
        commander = cls(store, clock, ids, settings, templates, providers, tools, on_shutdown, prices)
        serve_tools(commander)
        await commander._load()
        return commander

    async def _load(self) -> None:
        self._store.on_events = self._hub.publish
        metered = self._providers.metered()

        def recover(conn: WriterConnection) -> frozenset[int]:
            time_ops.move_after_return(conn)
            spend_ops.recover(conn, metered)
            if killed := mysis_ops.recover_states(conn, KILLED):
                mysis_ops.store_left_running(conn, killed)
            return mysis_ops.left_running(conn)

        self._left_running = await self._store.write(recover)
        await self._approvals.load()
        self._hub.last_id = await swarm_reads.newest_event_id(self._store)
        is_held, reason = await swarm_reads.swarm_hold(self._store)
        self.hold_switch.set_swarm(is_held and reason not in CANNOT_STORE, reason)
        self.live_view.set_hold(on=self.hold_switch.swarm)
        self._bodies.update(await swarm_reads.template_bodies(self._store))
        left_tails = await find_left_tails(self._store)
        for one in await load_mysis.load_all(self._store, self._clock.now()):
            known = self.resolved_template(one.mysis.template_hash)
            if one.mysis.id in left_tails:
                await recover_tail(one.mysis, known.settings.chain, self._store, self._clock)
            if (damage := known.damage) is not None and one.mysis.state is MysisState.IDLE:
                fail = partial(mysis_ops.fail, mysis_id=one.mysis.id, failure=failure_from(damage))
                one = replace(one, mysis=await self._store.write(fail))
            self._start_runner(one)
        for mysis_id, size in read_request_sizes(await self._store.read(NEWEST_PLANS)).items():
            self.live_view.row(mysis_id).show_context(*size)
        await self.outbox.catch_up_snapshot()
        self.services.clock_watch = asyncio.create_task(watch_clock(self.services, self.runners), name="clock watch")

    def _start_runner(self, found: load_mysis.StoredMysis) -> MysisRunner:
        mysis, now = found.mysis, self._clock.now()
        if mysis.held:
            self.hold_switch.set_mysis(mysis.id, True)
        known = self.resolved_template(mysis.template_hash)
        life = load_mysis.build_life(found, known, now=now, held=self.hold_switch.holds(mysis.id))
        self.live_view.add(load_mysis.build_live_row(found))
        runner = MysisRunner(self.services, mysis, self._bodies[mysis.template_hash], known, life)
        self.runners[mysis.id] = runner
        if mysis.retry_at is not None:
            runner.tell(lf.Now(now))
        return runner

    def resolved_template(self, template_hash: bytes) -> ResolvedTemplate:
        """Return the settings of a template that is in use."""
        if template_hash not in self._resolved_templates:
            self._resolved_templates[template_hash] = resolve_stored_template(
                self._bodies[template_hash], self._settings
            )
        return self._resolved_templates[template_hash]

    # Myses.

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
        context: str = "",
        allow_fresh: bool = False,
    ) -> MysisView:
        """See `SwarmApi.create`. Raises also TemplateError and ProviderError (no such provider)."""
        origin = await creation.read_origin(self._store, context, allow_fresh=allow_fresh)
        wish = creation.Wish(self._ids.uid(), name, provider, model, tags, task, broadcast)
        return await self.spawn(wish, origin, template, start=start)

    async def spawn(
        self, wish: creation.Wish, origin: creation.ContextOrigin, template: str = "", *, start: bool = True
    ) -> MysisView:
        """Store a new mysis, fresh or from a commit, and start it. Raises as `create`."""
        found = creation.find_template(template, origin, self._templates, self._settings)
        new = creation.build_spec(wish, found, origin, self._settings)
        self._providers.get(new.provider)
        self._resolved_templates[found.hash] = resolve_template(found.text, self._settings)
        mysis = await self._command(lambda conn: creation.store_new(conn, new, found, self._settings, wish, origin))
        self._bodies[found.hash] = found.text
        runner = self._start_runner(await load_mysis.load_one(self._store, mysis, self._clock.now()))
        if start:
            await self._carried_out(runner.tell(lf.Start(self._clock.now())))
        return self._row(runner)

    async def start(self, ref: str) -> MysisView:
        runner = self.runner(ref)
        await self.services.try_disk()
        if runner.life.state is MysisState.RUNNING:
            raise StateRefused(
                "mysis already running", hint=f"send it a message; to start it again, stop {runner.mysis.name} first"
            )
        await self._carried_out(runner.tell(lf.Start(self._clock.now())))
        return self._row(runner)

    async def stop(self, ref: str) -> MysisView:
        runner = self.runner(ref)
        await self.services.try_disk()
        await self._carried_out(runner.tell(lf.Stop(self._clock.now())))
        await runner.stopped()
        return self._row(runner)

    async def start_all(self, *, left_running: bool = False, again: bool = False, new: bool = False) -> int:
        await self.services.try_disk()
        idle = [runner for runner in self.runners.values() if runner.life.state is MysisState.IDLE]
        if again or new:
            reasons = (*((CLOSED, KILLED) if again else ()), *(("",) if new else ()))
            idle = [runner for runner in idle if runner.mysis.state_reason in reasons]
        if left_running:
            idle = [runner for runner in idle if runner.mysis.id in self._left_running]
            self._left_running = frozenset()
        await self._tell(idle, lambda _: lf.Start(self._clock.now(), resume=True))
        return len(idle)

    async def stop_all(self) -> int:
        await self.services.try_disk()
        # The idle and the errored too, because a message or a recovery would start them again.
        all_but_stopped = [runner for runner in self.runners.values() if runner.life.state is not MysisState.STOPPED]
        count = sum(1 for runner in all_but_stopped if runner.life.state is MysisState.RUNNING)
        await self._tell(all_but_stopped, lambda _: lf.Stop(self._clock.now()))
        await asyncio.gather(*(runner.stopped() for runner in all_but_stopped))
        return count

    async def delete(self, ref: str) -> MysisView:
        runner = self.runner(ref)
        mysis_id = runner.mysis.id
        await self.services.try_disk()
        self._leaving.add(mysis_id)
        try:
            await self._carried_out(runner.tell(lf.Stop(self._clock.now(), "deleted")))
            await runner.stopped()
            await runner.close()
            last = self.live_view.freeze(mysis_id)
            try:
                await self._command(lambda conn: mysis_ops.archive(conn, mysis_id))
            except ZoeaError:
                await self._reload(runner.mysis)
                raise
            del self.runners[mysis_id]
            self.live_view.remove(mysis_id)
            self.services.tools.forget(runner.mysis.uid)
        finally:
            self._leaving.discard(mysis_id)
            self.live_view.touch(mysis_id)
        return last

    async def undelete(self, mysis_id: int) -> MysisView:
        await self._reload(
            await self._command(lambda conn: mysis_ops.undelete(conn, mysis_id, self._settings.swarm.max_myses))
        )
        return self.live_view.freeze(mysis_id)

    async def _reload(self, mysis: Mysis) -> None:
        """Start the runner of a mysis from its stored state."""
        if mysis.template_hash not in self._bodies:
            self._bodies.update(await swarm_reads.template_bodies(self._store))
        self._start_runner(await load_mysis.load_one(self._store, mysis, self._clock.now()))

    async def dismiss(self, ref: str) -> MysisView:
        runner = self.runner(ref)
        runner.refresh(await self._command(lambda conn: mysis_ops.dismiss(conn, runner.mysis.id)))
        return self._row(runner)

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
        runner = self.runner(ref)
        mysis, mysis_id, before = runner.mysis, runner.mysis.id, self._row(runner)
        wish = configuration.MysisChange(template, provider, model, tags, settings)
        body = self._bodies[mysis.template_hash]
        change = configuration.checked(mysis, body, wish, self._settings, self._templates, self._providers)
        await self.replace(
            runner,
            lambda conn: mysis_ops.configure(
                conn, mysis_id, change.template, change.provider, change.model, change.tags, change.changed
            ),
        )
        self.live_view.row(mysis_id).say(before.text, before.text_at)
        return self.live_view.freeze(mysis_id)

    async def replace(self, runner: MysisRunner, op: Callable[[WriterConnection], Mysis]) -> None:
        """Close a runner, store a change of its mysis, and start a new runner for it."""
        mysis = runner.mysis
        self._leaving.add(mysis.id)  # it takes no commands between its two runners
        try:
            await runner.close()
            try:
                mysis = await self._command(op)
            finally:
                await self._reload(mysis)
        finally:
            self._leaving.discard(mysis.id)
            self.live_view.touch(mysis.id)

    def adopt(self, settings: Settings) -> None:
        """Apply changed settings: nudges and waits at once, all others from the next turn of each mysis on."""
        self._settings = self.services.settings = settings
        self.services.gate.resize(**count_places(settings))
        self._resolved_templates.clear()
        for runner in self.runners.values():
            runner.adopt(self.resolved_template(runner.mysis.template_hash))

    # Messages.

    async def send(
        self,
        ref: str,
        text: str,
        *,
        mode: DeliveryMode = DeliveryMode.QUEUE,
        is_task: bool = False,
        sender: Sender = COMMANDER,
        idempotency_key: str = "",
        context: str = "",
    ) -> Receipt:
        runner = self.runner(ref)
        room = self.resolved_template(runner.mysis.template_hash).settings.budget.token_budget_per_agent
        checked = message_ops.checked(text, room)
        said = read_stored(context).to_json()
        outgoing = message_ops.OutgoingMessage(checked, sender, mode, 0, idempotency_key, is_task, context=said)
        return await self.outbox.say(outgoing, runner.mysis.id)

    async def broadcast(
        self,
        text: str,
        *,
        to: Recipients = Recipients(),
        mode: DeliveryMode = DeliveryMode.QUEUE,
        sender: Sender = COMMANDER,
        idempotency_key: str = "",
        context: str = "",
    ) -> Receipt:
        checked = message_ops.checked(text, self._settings.budget.token_budget_per_agent)
        said = read_stored(context).to_json()
        outgoing = message_ops.OutgoingMessage(checked, sender, mode, 0, idempotency_key, context=said)
        return await self.outbox.say(outgoing, None, to)

    async def find_short_budgets(self, text: str, *, to: Recipients = Recipients()) -> tuple[str, ...]:
        return await self.outbox.find_short_budgets(text, to)

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
        return await self.outbox.publish(
            topic, text, data, sender=sender, receiver=receiver, is_raw=is_raw, idempotency_key=idempotency_key
        )

    async def withdraw(self, delivery_id: int) -> None:
        mysis = await self._command(lambda conn: mysis_ops.find(conn, message_ops.withdraw(conn, delivery_id)))
        runner = self.runners.get(mysis.id)
        if runner is not None:
            runner.refresh(mysis)
            gone = lf.DeliveriesGone(frozenset({delivery_id}), has_goal=bool(mysis.goal))
            await self._tell([runner], lambda _: gone)

    async def preserve(self, memory_id: int, on: bool = True) -> None:
        await self._command(lambda conn: preserve_memory(conn, memory_id, on))

    async def receipt(self, message_id: int) -> Receipt:
        return await message_ops.read_receipt(self._store, message_id)

    async def hold(self, on: bool, *, ref: str = "", reason: str = "") -> None:
        if ref:
            runner = self.runner(ref)
            mysis = await self._command(lambda conn: mysis_ops.hold_one(conn, runner.mysis.id, on, reason))
            self.hold_switch.set_mysis(runner.mysis.id, on)
            runner.refresh(mysis)
            await self._feed_hold([runner])
            return
        why = reason or "by you"
        await self._command(lambda conn: mysis_ops.hold(conn, None, on, why, by_person=True))
        self.hold_switch.set_swarm(on, why)
        await self._feed_hold(list(self.runners.values()))

    async def _hold_swarm(self, reason: str) -> None:
        """Put the swarm on hold, with the reason, until a person lifts it."""
        if self.hold_switch.swarm:
            return
        await self.services.write(lambda conn: mysis_ops.hold(conn, None, True, reason, by_person=False))
        self.hold_switch.set_swarm(True, reason)
        self._announce_hold()

    def _announce_hold(self) -> None:
        now = self._clock.now()
        for runner in self.runners.values():
            runner.tell(lf.Hold(now, self.hold_switch.holds(runner.mysis.id)))
        self.live_view.set_hold(on=self.hold_switch.swarm)

    async def _feed_hold(self, runners: list[MysisRunner]) -> None:
        now = self._clock.now()
        self.live_view.set_hold(on=self.hold_switch.swarm)  # first, because a full disk ends the wait below
        await self._tell(runners, lambda mysis_id: lf.Hold(now, self.hold_switch.holds(mysis_id)))

    async def approvals(self) -> tuple[ApprovalView, ...]:
        return await self._approvals.open()

    async def answer(self, approval_id: int, answer: ApprovalAnswer, *, sentence: str = "") -> None:
        try:
            await self._approvals.answer(approval_id, answer, sentence, "commander")
        except StoreFull as error:
            self.services.hold_for_disk(error)
            raise

    async def grants(self) -> tuple[GrantView, ...]:
        return await self._approvals.grants()

    async def revoke(self, grant_id: int) -> GrantView:
        try:
            return await self._approvals.revoke(grant_id)
        except StoreFull as error:
            self.services.hold_for_disk(error)
            raise

    def _show_approvals(self, mysis_id: int, waiting: int, questions: int) -> None:
        if mysis_id in self.runners:
            row = self.live_view.row(mysis_id)
            row.approvals, row.questions = waiting, questions
            self.live_view.touch(mysis_id)

    # What fronts read.

    async def view(self) -> SwarmView:
        await self._read_spend()
        return self.live_view.whole()

    async def mysis(self, ref: str) -> MysisView:
        return self._row(self.runner(ref))

    async def wait(self, ref: str, *, timeout_s: float = 60.0) -> MysisView:
        runner = self.runner(ref)
        try:
            async with asyncio.timeout(timeout_s):
                async for _ in self.live_view.changes():
                    if runner.mysis.id in self._leaving:
                        continue  # a mysis that is being deleted has not finished
                    if self.runners.get(runner.mysis.id) is not runner:
                        raise MysisMissing(f"{runner.mysis.name} was deleted")
                    if runner.is_settled or runner.life.state not in (MysisState.RUNNING, MysisState.IDLE):
                        return self.live_view.freeze(runner.mysis.id)
        except TimeoutError:
            raise UsageError(f"{runner.mysis.name} did not finish within {timeout_s:g} s") from None
        raise AssertionError("a view has no end")

    async def changes(self) -> AsyncIterator[SwarmView]:
        async for view in self.live_view.changes():
            if not await self._read_spend() and any(row.tokens for row in view.myses):
                # No later change may come, so that what was just spent is read when it is due.
                asyncio.get_running_loop().call_later(1.0, self.live_view.touch)
            yield replace(view, tokens_today=self._today.tokens, cost_today_micros=self._today.cost_micros)

    async def events(self, after: int = 0) -> AsyncIterator[Event | Lagged]:
        async for item in self._hub.listen(after):
            yield item

    async def shutdown(self) -> None:
        self._on_shutdown()

    async def close(self) -> None:
        """Close every runner within a few seconds; open turns stay open, to be resumed."""
        await self.services.close()
        closing = [asyncio.create_task(runner.close()) for runner in self.runners.values()]
        if closing:
            _, late = await asyncio.wait(closing, timeout=CLOSE_WITHIN_S)
            for task in late:
                task.cancel()
        await flush_all(runner.capture for runner in self.runners.values())
        try:
            await self._store.write(
                lambda conn: mysis_ops.store_left_running(conn, mysis_ops.recover_states(conn, CLOSED))
            )
        except StoreFull as error:
            # The next start does the same.
            _log.error("%s: %s", error.title, error.what)

    def runner(self, ref: str) -> MysisRunner:
        """Return the runner that a reference names. Raises MysisMissing."""
        return resolve_reference(
            ref, [runner for runner in self.runners.values() if runner.mysis.id not in self._leaving]
        )

    async def _tell(self, runners: list[MysisRunner], given: Callable[[int], lf.LifeInput]) -> None:
        """Feed an input to several myses; those that are being deleted refuse and are ignored."""
        told = [runner.tell(given(runner.mysis.id)) for runner in runners]
        await self._carried_out(asyncio.gather(*told, return_exceptions=True))

    async def _carried_out(self, told: asyncio.Future[Any]) -> None:
        """Wait until an input is carried out. Raises StoreFull where the disk is full."""
        full = asyncio.create_task(self.services.full.wait())
        try:
            await asyncio.wait({told, full}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            full.cancel()
        if not told.done():
            raise StoreFull(self.hold_switch.reason, hint="What you asked for is done as soon as it can be stored.")
        await told

    def _row(self, runner: MysisRunner) -> MysisView:
        """Return the live row of a mysis. Raises MysisMissing where it was deleted."""
        if runner.mysis.id not in self.runners:
            raise MysisMissing(f"{runner.mysis.name} was deleted")
        return self.live_view.freeze(runner.mysis.id)

    async def _command(self, op: Callable[[WriterConnection], T], *, by_person: bool = True) -> T:
        """Write for a command, a person's first: a full disk raises at once, and holds the swarm."""
        try:
            written = await self._store.write(op, urgent=by_person)
        except StoreFull as error:
            self.services.hold_for_disk(error)
            raise
        with suppress(StoreFull):
            await self.services.try_disk()
        return written

    async def _read_spend(self) -> bool:
        """Read today's usage, at most once a second. Return whether it was read."""
        uptime = self._clock.uptime()
        if uptime - self._today.at < SECOND:
            return False
        found = await self._store.read(spend_ops.TODAY, (spend_ops.day_of(self._clock.now()),))
        self._today = spend_ops.today(uptime, found[0] if found else None)
        return True

    def _summary(self, myses: tuple[MysisView, ...], version: int) -> SwarmView:
        return SwarmView(
            version=version,
            held=self.hold_switch.swarm,
            hold_reason=self.hold_switch.reason,
            myses=myses,
            tokens_today=self._today.tokens,
            cost_today_micros=self._today.cost_micros,
            budget_today=self._settings.budget.swarm_per_day,
            event_id=self._hub.last_id,
            started_at=self._started_at,
        )
