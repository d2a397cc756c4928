"""The runners of the myses of a workspace, and the services that they share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from zoea.chain.commit import Checkpoint, CommitNote
from zoea.llm.prices import PriceList
from zoea.model.enums import DeliveryMode, MysisState
from zoea.model.errors import MysisMissing, StoreClosed, StoreError, StoreFull, ZoeaError
from zoea.model.ports import Clock, Ids, ToolFactory
from zoea.model.status import CLOSED, KILLED
from zoea.model.values import Delivery, Mysis, MysisView, Sender, SwarmView
from zoea.settings.schema import Settings
from zoea.settings.template import Template
from zoea.settings.template_library import Templates
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection
from zoea.swarm import life as lf
from zoea.swarm.approvals import ApprovalQueue
from zoea.swarm.budgets import as_micros, renew_reason
from zoea.swarm.commit_capture import RECOVERED, CommitCapture
from zoea.swarm.live_view import LiveView
from zoea.swarm.persistence import capture_ops, load_mysis, mysis_ops, spend_ops, swarm_reads, time_ops
from zoea.swarm.resolved_template import Providers, ResolvedTemplate, resolve_stored_template
from zoea.swarm.rules import SECOND
from zoea.swarm.runner import MysisRunner
from zoea.swarm.services import CANNOT_STORE, Services
from zoea.swarm.turn.turn_failures import failure_from
from zoea.swarm.turn.turn_gate import count_places

_log = logging.getLogger(__name__)

T = TypeVar("T")
CLOSE_WITHIN_S = 8.0
_NAMES_SHOWN = 20
_MOST_DIGITS = 20
"""Characters of a number that may be one of a mysis. Of thousands of digits Python makes none."""
_CLOCK_CHECK_US = SECOND


class Swarm:
    """Owns the runners of a workspace. `load` starts them, `close` ends them.

    Attributes:
        runners: By mysis id.
        leaving: Ids of myses that take no commands: they are deleted, or between two runners.
        left_running: Ids of those that ran when the swarm ended last, until they are started.
        bodies: The texts of templates by hash.
    """

    def __init__(
        self,
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
    ) -> None:
        self.templates = templates
        self.on_shutdown = on_shutdown
        self.runners: dict[int, MysisRunner] = {}
        self.leaving: set[int] = set()
        self.left_running: frozenset[int] = frozenset()
        self.bodies: dict[bytes, str] = {}
        self._resolved_templates: dict[bytes, ResolvedTemplate] = {}
        self._started_at = clock.now()
        self.today = spend_ops.Today()
        self.live_view = LiveView(self._summary, clock)
        self.services = Services(
            store=store,
            clock=clock,
            ids=ids,
            settings=settings,
            providers=providers,
            tools=tools,
            view=self.live_view,
            approvals=ApprovalQueue(store, clock, self._show_approvals),
            hold_swarm=self._hold_swarm,
            announce_hold=self._announce_hold,
            prices=prices,
        )
        self.hold_switch = self.services.hold

    @property
    def settings(self) -> Settings:
        return self.services.settings

    def uptime(self) -> int:
        """Return the time of inputs, µs."""
        return self.services.clock.uptime()

    async def load(self) -> None:
        """Load the stored myses. Those that ran are idle, and their open turns can be resumed."""
        store, services = self.services.store, self.services
        store.on_events = services.events.publish
        metered = services.providers.metered()

        def recover(conn: WriterConnection) -> frozenset[int]:
            time_ops.move_after_return(conn)
            mysis_ops.restore_tallies(conn)
            spend_ops.recover(conn, metered)
            if killed := mysis_ops.recover_states(conn, KILLED, self.settings.swarm.max_hops):
                mysis_ops.store_left_running(conn, killed)
            return mysis_ops.left_running(conn)

        self.left_running = await store.write(recover)
        await services.approvals.load()
        services.events.last_id = await swarm_reads.newest_event_id(store)
        is_held, reason = await swarm_reads.swarm_hold(store)
        self.hold_switch.set_swarm(is_held and reason not in CANNOT_STORE, reason)
        self.live_view.set_hold(on=self.hold_switch.swarm)
        self.bodies.update(await swarm_reads.template_bodies(store))
        left_tails = frozenset(row["id"] for row in await store.read(capture_ops.LEFT))
        for one in await load_mysis.load_all(store, services.clock.now()):
            resolved = self.resolved_template(one.mysis.template_hash)
            if one.mysis.id in left_tails:
                await self._commit_left_tail(one.mysis, resolved)
            if (damage := resolved.damage) is not None and one.mysis.state is MysisState.IDLE:
                fail = partial(mysis_ops.fail, mysis_id=one.mysis.id, failure=failure_from(damage))
                one = replace(one, mysis=await store.write(fail))
            self.start_runner(one)
        for mysis_id, size in load_mysis.read_request_sizes(await store.read(load_mysis.NEWEST_PLANS)).items():
            self.live_view.row(mysis_id).show_context(*size)
        services.clock_watch = asyncio.create_task(_watch_clock(services, self.runners), name="clock watch")

    async def _commit_left_tail(self, mysis: Mysis, known: ResolvedTemplate) -> None:
        """Commit the memories that a killed process left. A failure is logged, and the next commit holds the same."""
        capture = CommitCapture(mysis, known.settings.chain, self.services.store, self.services.clock)
        if not capture.policy.at_session_end:
            return
        try:
            await capture.commit_stored(Checkpoint.SESSION_END, CommitNote(tags=(RECOVERED,)))
        except ZoeaError as error:
            _log.warning("what mysis #%d knew was not committed: %s", mysis.id, error.what)

    async def close(self) -> None:
        """Close every runner within a few seconds; open turns stay open, to be resumed."""
        await self.services.close()
        runners = tuple(self.runners.values())
        closing = [asyncio.create_task(runner.close()) for runner in runners]
        if closing:
            _, late = await asyncio.wait(closing, timeout=CLOSE_WITHIN_S)
            for task in late:
                task.cancel()
        for error in await asyncio.gather(*(one.capture.flush() for one in runners), return_exceptions=True):
            if isinstance(error, ZoeaError):
                _log.warning("a context was not committed: %s", error.what)
            elif error is not None:
                raise error
        try:
            await self.services.store.write(
                lambda conn: mysis_ops.store_left_running(
                    conn, mysis_ops.recover_states(conn, CLOSED, self.settings.swarm.max_hops)
                )
            )
        except StoreFull as error:
            # The next start does the same.
            _log.error("%s: %s", error.title, error.what)

    # Runners and templates.

    def runner(self, ref: str) -> MysisRunner:
        """Return the runner that `alpha` in any case, `@alpha` or `#3` names.

        Raises MysisMissing, which lists the names.
        """
        ref = ref.strip()
        here = [runner for runner in self.runners.values() if runner.mysis.id not in self.leaving]
        if ref.startswith("#") and ref[1:].isdecimal() and len(ref) <= _MOST_DIGITS:
            runner = next((one for one in here if one.mysis.id == int(ref[1:])), None)
        else:
            wanted = ref.removeprefix("@").casefold()
            runner = next((one for one in here if one.mysis.name.casefold() == wanted), None)
        if runner is None:
            names = ", ".join(one.mysis.name for one in here[:_NAMES_SHOWN])
            raise MysisMissing(
                f"there is no mysis {ref!r}", hint=f"there are: {names}" if names else "create one with 'zoea new'"
            )
        return runner

    def start_runner(self, found: load_mysis.StoredMysis) -> MysisRunner:
        """Start the runner of a mysis that was loaded."""
        mysis = found.mysis
        if mysis.held:
            self.hold_switch.set_mysis(mysis.id, True)
        resolved = self.resolved_template(mysis.template_hash)
        life = load_mysis.build_life(found, resolved, self.services.clock, held=self.hold_switch.holds(mysis.id))
        self.live_view.add(load_mysis.build_live_row(found))
        runner = MysisRunner(self.services, mysis, self.bodies.get(mysis.template_hash, ""), resolved, life)
        self.runners[mysis.id] = runner
        if mysis.retry_at is not None:
            runner.tell(lf.Now(self.uptime()))
        return runner

    async def reload(self, mysis: Mysis) -> MysisRunner:
        """Start the runner of a mysis from its stored state."""
        await self._read_body(mysis)
        return self.start_runner(await load_mysis.load_one(self.services.store, mysis, self.services.clock.now()))

    async def _read_body(self, mysis: Mysis) -> None:
        if mysis.template_hash not in self.bodies:
            self.bodies.update(await swarm_reads.template_bodies(self.services.store))

    async def configure(self, runner: MysisRunner, op: Callable[[WriterConnection], Mysis]) -> None:
        """Store a change of a running mysis. It counts from the next turn, budgets from the next request."""
        mysis = await self.write(op)
        await self._read_body(mysis)
        runner.configure(mysis, self.bodies[mysis.template_hash], self.resolved_template(mysis.template_hash))

    async def replace(self, runner: MysisRunner, op: Callable[[WriterConnection], Mysis]) -> None:
        """Close a runner, store a change of its mysis, and start a new runner."""
        mysis = runner.mysis
        self.leaving.add(mysis.id)
        try:
            await runner.close()
            try:
                mysis = await self.write(op)
            finally:
                await self.reload(mysis)
        finally:
            self.leaving.discard(mysis.id)
            self.live_view.touch(mysis.id)

    def resolved_template(self, template_hash: bytes) -> ResolvedTemplate:
        """Return the settings of a template that is in use."""
        if template_hash not in self._resolved_templates:
            body = self.bodies.get(template_hash, "")
            self._resolved_templates[template_hash] = resolve_stored_template(body, self.settings)
        return self._resolved_templates[template_hash]

    def add_template(self, template: Template, resolved: ResolvedTemplate) -> None:
        """Keep a template that a mysis begins to use."""
        self.bodies[template.hash] = template.text
        self._resolved_templates[template.hash] = resolved

    def template_of(self, sender: Sender) -> Template:
        """Return the template of the mysis that sends."""
        assert sender.id is not None
        return self.resolved_template(self.runners[sender.id].mysis.template_hash).template

    def adopt(self, settings: Settings) -> None:
        """Apply changed settings: nudges, waits and budgets at once, others from each next turn on."""
        self.services.settings = settings
        self.services.gate.resize(**count_places(settings))
        self._resolved_templates.clear()
        for runner in self.runners.values():
            runner.adopt(self.resolved_template(runner.mysis.template_hash))

    # Commands.

    async def write(self, op: Callable[[WriterConnection], T], *, by_person: bool = True) -> T:
        """Write for a command, a person's first: a full disk raises at once, and holds the swarm."""
        try:
            written = await self.services.store.write(op, urgent=by_person)
        except StoreFull as error:
            self.services.hold_for_disk(error)
            raise
        with suppress(StoreFull):
            await self.services.try_disk()
        return written

    async def tell(self, runners: Sequence[MysisRunner], given: Callable[[int], lf.LifeInput]) -> None:
        """Feed an input to several myses; those that are being deleted refuse and are ignored."""
        futures = [runner.tell(given(runner.mysis.id)) for runner in runners]
        await self.carried_out(asyncio.gather(*futures, return_exceptions=True))

    async def carried_out(
        self, told: asyncio.Future[Any], later: str = "It is done as soon as it can be stored, while this swarm runs."
    ) -> None:
        """Wait until an input is carried out. Raises StoreFull, which says what happens `later`, on a full disk."""
        full = asyncio.create_task(self.services.full.wait())
        try:
            await asyncio.wait({told, full}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            full.cancel()
        if not told.done():
            failure = self.services.failure
            raise failure(failure.reason, hint=later)
        await told

    def hand_over(self, deliveries: Iterable[Delivery]) -> None:
        """Hand stored deliveries to their runners."""
        for delivery in deliveries:
            runner = self.runners.get(delivery.mysis_id)
            if runner is None:
                continue
            if delivery.is_task:
                runner.refresh(replace(runner.mysis, goal=delivery.content, goal_reached_at=None))
            runner.arrived(delivery)
            if delivery.mode is DeliveryMode.STEER and delivery.hop < self.settings.swarm.max_hops:
                runner.steer(delivery)

    # Holds.

    async def feed_hold(self, runners: Sequence[MysisRunner]) -> None:
        """Tell these myses whether they are on hold."""
        now = self.uptime()
        self.live_view.set_hold(on=self.hold_switch.swarm)  # first, because a full disk ends the wait below
        await self.tell(runners, lambda mysis_id: lf.Hold(now, self.hold_switch.holds(mysis_id)))

    async def _hold_swarm(self, reason: str) -> None:
        """Put the swarm on hold, with the reason, until a person lifts it."""
        if self.hold_switch.swarm:
            return
        await self.services.write(lambda conn: mysis_ops.hold(conn, None, True, reason, by_person=False))
        self.hold_switch.set_swarm(True, reason)
        self._announce_hold()

    def _announce_hold(self) -> None:
        now = self.uptime()
        for runner in self.runners.values():
            runner.tell(lf.Hold(now, self.hold_switch.holds(runner.mysis.id)))
        self.live_view.set_hold(on=self.hold_switch.swarm)

    # What fronts see.

    def row(self, runner: MysisRunner) -> MysisView:
        """Return the live row of a mysis. Raises MysisMissing where it was deleted."""
        if runner.mysis.id not in self.runners:
            raise MysisMissing(f"{runner.mysis.name} was deleted")
        return self.live_view.freeze(runner.mysis.id)

    async def read_spend(self) -> bool:
        """Read today's usage, at most once a second. Return whether it was read."""
        uptime = self.services.clock.uptime()
        if uptime - self.today.at < SECOND:
            return False
        rows = await self.services.store.read(spend_ops.TODAY, (spend_ops.day_of(self.services.clock.now()),))
        self.today = spend_ops.today(uptime, rows[0] if rows else None)
        return True

    def _show_approvals(self, mysis_id: int, waiting: int, questions: int) -> None:
        if mysis_id in self.runners:
            row = self.live_view.row(mysis_id)
            row.approvals, row.questions = waiting, questions
            self.live_view.touch(mysis_id)

    def _summary(self, myses: tuple[MysisView, ...], version: int) -> SwarmView:
        budget = self.settings.budget
        return SwarmView(
            version=version,
            held=self.hold_switch.swarm,
            hold_reason=renew_reason(self.hold_switch.reason, budget.swarm_per_day, budget.swarm_money_per_day),
            myses=myses,
            tokens_today=self.today.tokens,
            cost_today_micros=self.today.cost_micros,
            budget_today=budget.swarm_per_day,
            money_today=as_micros(budget.swarm_money_per_day),
            event_id=self.services.events.last_id,
            started_at=self._started_at,
        )


class SwarmCommands:
    """Commands over a swarm; the base of the bodies of `SwarmApi`."""

    def __init__(self, swarm: Swarm) -> None:
        self.swarm = swarm


async def _watch_clock(services: Services, runners: Mapping[int, MysisRunner]) -> None:
    """Compare wall time with boot time once a second, without end.

    It also wakes the event loop after a suspension, so that what is due by then begins.
    """
    while True:
        await services.clock.sleep(_CLOCK_CHECK_US)
        if delta := services.clock.follow():
            await _move_times(services, runners, delta)


async def _move_times(services: Services, runners: Mapping[int, MysisRunner], delta: int) -> None:
    _log.warning("the system's clock was set by %+.1f s; waits and retries keep their lengths", delta / SECOND)

    def op(conn: WriterConnection) -> None:
        time_ops.move_times_ahead(conn, delta)

    # Without a pause between: ops submitted before have the old time, and those after it the new one.
    written = services.store.submit(op)
    for runner in runners.values():
        runner.clock_was_set(delta)
    services.view.touch()
    try:
        try:
            await written
        except StoreFull:
            await services.write(op)
    except StoreClosed:
        raise
    except StoreError as error:
        _log.warning(
            "stored times keep the old clock: %s. After a restart waits, retries and questions may come %+.1f s late",
            error.what,
            -delta / SECOND,
        )
