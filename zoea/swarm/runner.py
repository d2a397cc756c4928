"""The task of one mysis: feeds its life machine and carries out the effects.

An unexpected exception makes this mysis errored and does not reach others (I10).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from zoea.context import FrozenTurn
from zoea.model.enums import DeliveryMode, ErrorClass, MessageKind, MysisState, Outcome
from zoea.model.errors import StateRefused, ZoeaError
from zoea.model.ports import Timer, ToolSession
from zoea.model.request import Catalogue
from zoea.model.values import Delivery, Failure, Mysis
from zoea.store import WriterConnection
from zoea.swarm import life as lf
from zoea.swarm.commit_capture import CommitCapture
from zoea.swarm.live_view import LiveMysis
from zoea.swarm.persistence import model_facts, mysis_ops, spend_ops, turn_ops, turn_records
from zoea.swarm.persistence.restore import restore
from zoea.swarm.resolved_template import (
    MISSING_WINDOW,
    MysisProfile,
    ResolvedTemplate,
    build_profile,
    freezer,
)
from zoea.swarm.rules import LifeRules
from zoea.swarm.services import Services
from zoea.swarm.situation import situation_text
from zoea.swarm.turn import turn_types as t
from zoea.swarm.turn.driven_turn import DrivenTurn
from zoea.swarm.turn.driver import TurnDriver, first_rank
from zoea.swarm.turn.machine import step as turn_step
from zoea.swarm.turn.tool_budget import fit_tools, offer_tools, withhold_tools
from zoea.swarm.turn.turn_failures import broke_off, end_from, end_of_nothing, failure_from
from zoea.text.new_words import count_new_words

_log = logging.getLogger(__name__)
STOP_WITHIN_S = 5.0
NEW_WORDS = 8
"""Words that the last answers lack, from which on an answer says something new."""


class _LifeLoan:
    """Queued by a turn that ends: other inputs wait from here until the turn's task is done."""


class _QueuedInput(Struct, frozen=True):
    given: lf.LifeInput | _LifeLoan
    done: asyncio.Future[None] | None


class _StoredEnd(Struct, frozen=True):
    step: lf.EndOfTurn
    mysis: Mysis | None
    """The row, where its state changed."""


class MysisRunner:
    """Feeds inputs to `life.step` one at a time, and carries out its effects in order."""

    def __init__(self, services: Services, mysis: Mysis, body: str, known: ResolvedTemplate, life: lf.Life) -> None:
        self.mysis = mysis
        self.life = life
        self._services = services
        self._live: LiveMysis = services.view.row(mysis.id)
        self._body = body
        self._known = known
        self.capture = CommitCapture(mysis, known.settings.chain, services.store, services.clock)
        self._inputs: asyncio.Queue[_QueuedInput] = asyncio.Queue()
        self._unheard: dict[int, lf.Pending] = {}  # stored and in `_inputs`, not yet processed by the life machine
        self._timer: Timer | None = None
        self._session: ToolSession | None = None
        self._session_id: int | None = None
        self.driver: TurnDriver | None = None
        self._turn: asyncio.Task[None] | None = None
        self._tick_length = 0
        self._busy = False
        self._closed = False
        self._window_reported = False
        self._current: _QueuedInput | None = None
        # While the op that opens a turn runs, it is unknown whether the turn exists, so a cancel waits for the op.
        self._is_opening = False
        self._is_resuming = False
        self._late_cancel: Outcome | None = None
        self._opened_by = lf.OpenTurn()
        self._loan: asyncio.Future[None] | None = None
        self._planned_end: lf.EndOfTurn | None = None
        self._stored_end: _StoredEnd | None = None
        self._written_life: lf.StoredLife | None = None  # by the end of a turn, where nothing was stored since
        self._live.is_at_rest = self._is_at_rest
        self._task = asyncio.create_task(self._main(), name=f"mysis {mysis.name}")

    # Called by the commander.

    def tell(self, given: lf.LifeInput) -> asyncio.Future[None]:
        """Queue an input; the future is done once its effects are carried out (a turn: begun)."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._closed:
            done.set_exception(StateRefused(f"mysis {self.mysis.name} is being closed"))
            done.exception()  # marks the exception as retrieved
        else:
            self._queue(given, done)
        return done

    def _queue(self, given: lf.LifeInput | _LifeLoan, done: asyncio.Future[None] | None = None) -> None:
        self._live.is_at_rest = False
        self._inputs.put_nowait(_QueuedInput(given, done))

    def clock_was_set(self, delta: int) -> None:
        """Move the stored time that is still ahead."""
        if self.mysis.retry_at is not None:
            self.refresh(replace(self.mysis, retry_at=self.mysis.retry_at + delta))

    def arrived(self, delivery: Delivery) -> None:
        """Take a delivery that was stored for this mysis."""
        self._live.say(delivery.content, delivery.created_at)
        self._unheard[delivery.id] = pending = pending_of(delivery)
        self._live.pending += 1
        self._queue(lf.Arrived(self._uptime(), pending))

    def adopt(self, known: ResolvedTemplate) -> None:
        """Take changed settings: rules of nudges at once, all others from the next turn on."""
        self._known = known
        self.capture.adopt(known.settings.chain)
        self.tell(lf.NewRules(self._uptime(), LifeRules.of(known.settings, run_once=known.runs_once(self.mysis))))

    async def stopped(self) -> None:
        """Wait until no turn is running."""
        if self._turn is not None:
            await asyncio.wait({self._turn}, timeout=STOP_WITHIN_S)

    @property
    def has_turn(self) -> bool:
        return self._turn is not None and not self._turn.done()

    @property
    def is_settled(self) -> bool:
        """True without an open turn and without pending messages that would open one."""
        waiting = any(lf.can_wake(self.life, pending) for pending in self.life.pending)
        return not (self._busy or self.has_turn or waiting) and self._inputs.empty()

    @property
    def _is_at_rest(self) -> bool:
        """True where only a message or a command makes it go on."""
        life = self.life
        is_due = life.open_turn or self._timer is not None or any(lf.can_wake(life, one) for one in life.pending)
        return not is_due and life.held_since is None and self._inputs.empty()

    async def close(self) -> None:
        """End within a few seconds; an open turn stays open in the store, to be resumed."""
        self._closed = True
        self._clear_timer()
        # The task ends first, because it could open another turn.
        self._task.cancel()
        await asyncio.wait({self._task}, timeout=1)
        if self._loan is not None and not self._loan.done():
            self._loan.set_result(None)
        if self.driver is not None:
            self.driver.cancel(Outcome.CRASHED)
        elif self._is_opening:
            self._late_cancel = Outcome.CRASHED
        elif self._turn is not None:
            self._turn.cancel()
        if self._turn is not None:
            _, late = await asyncio.wait({self._turn}, timeout=STOP_WITHIN_S)
            for task in late:
                task.cancel()
                await asyncio.wait({task}, timeout=1)
        self._refuse_queued()
        await self._close_session()

    def _refuse_queued(self) -> None:
        """Refuse the inputs that will not be carried out."""
        waiting = [] if self._current is None else [self._current]
        while not self._inputs.empty():
            waiting.append(self._inputs.get_nowait())
        for told in waiting:
            if told.done is not None and not told.done.done():
                told.done.set_exception(StateRefused(f"mysis {self.mysis.name} is being closed"))
                told.done.exception()

    # The loop.

    async def _main(self) -> None:
        while True:
            self._busy = False
            self._current = None
            told = self._current = await self._inputs.get()
            self._busy = True
            try:
                await self._process(told)
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001  the catch-all of I10: it becomes the mysis's own error
                await self._give_up(error)
            if told.done is not None and not told.done.done():
                told.done.set_result(None)
            self._live.is_at_rest = self._is_at_rest
            self._live.pending = len(self.life.pending) + len(self._unheard)
            self._services.view.touch(self.mysis.id)

    async def _process(self, told: _QueuedInput) -> None:
        given = told.given
        if isinstance(given, _LifeLoan):
            effects = await self._lend_life()
        else:
            self.life, effects = lf.step(self.life, given)
        if isinstance(given, lf.Arrived):
            self._unheard.pop(given.pending.delivery_id, None)
        if isinstance(given, lf.TurnEnded | _LifeLoan) and self.life.state in (MysisState.STOPPED, MysisState.ERRORED):
            await self._close_session()
        for effect in effects:
            await self._carry_out(effect)
        if isinstance(given, lf.Arrived):
            await self._store_reset_count()

    async def _store_reset_count(self) -> None:
        """Store the nudge count again after the first message that follows the end of a turn.

        The op of the message set the count back, but the op of the turn's end may have been written after it.
        """
        written, self._written_life = self._written_life, None
        life = lf.stored_life(self.life)
        if written is not None and life != written:
            stored = life.in_wall_time(self._services.clock.ahead)
            await self._services.write(lambda conn: mysis_ops.store_life(conn, self.mysis.id, stored))

    async def _give_up(self, error: Exception) -> None:
        _log.exception("mysis #%d failed", self.mysis.id, exc_info=error)
        failure = failure_from(error)
        self.life = replace(self.life, state=MysisState.ERRORED, open_turn=self.has_turn)
        self._live.mysis = replace(self.mysis, state=MysisState.ERRORED, failure=failure, state_reason=failure.title)
        try:
            await self._set_state(lf.SetState(MysisState.ERRORED, failure.title, failure))
        except ZoeaError as second:
            _log.error("its state could not be stored: %s", second.what)

    async def _carry_out(self, effect: lf.LifeEffect) -> None:
        match effect:
            case lf.SetState():
                await self._set_state(effect)
            case lf.OpenTurn():
                self._late_cancel = None
                self._is_resuming = effect.resume
                self._opened_by = effect
                self._loan = self._planned_end = self._stored_end = self._written_life = None
                self._turn = asyncio.create_task(self._run(effect), name=f"turn of {self.mysis.name}")
                self._show_turn(is_open=True)
                # A task that is cancelled before its first step never runs, and would not report its end.
                await asyncio.sleep(0)
            case lf.WakeAt():
                self._clear_timer()
                waits = lf.is_waiting(self.life)
                self._live.waiting_until = self.life.wait_until if waits else None
                self._live.waiting_for = self.life.wait_reason if waits else ""
                if effect.at is not None:
                    self._timer = self._services.clock.call_after(effect.at - self._uptime(), self._wake)
            case lf.Cancel():
                if self.driver is not None:
                    self.driver.cancel(effect.outcome)
                elif self._is_opening or (self._is_resuming and effect.outcome is Outcome.INTERRUPTED):
                    self._late_cancel = effect.outcome
                elif self._turn is not None:
                    self._turn.cancel()
            case _:
                assert_never(effect)

    def _show_turn(self, *, is_open: bool) -> None:
        self._live.in_turn = is_open
        self._services.view.touch(self.mysis.id)

    def _wake(self) -> None:
        self._timer = None
        self._queue(lf.Now(self._uptime()))

    def _clear_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _set_state(self, effect: lf.SetState) -> None:
        def op(conn: WriterConnection) -> tuple[int, Mysis]:
            last.write(conn)
            session = mysis_ops.set_state(conn, self.mysis.id, stored, stored_life)
            return session, mysis_ops.find(conn, self.mysis.id)

        before = self.mysis.state
        last = await self.capture.prepare_end(ends=before is MysisState.RUNNING is not effect.state)
        self._written_life = None
        urgent = self._current is not None and lf.is_by_person(self._current.given)
        ahead = self._services.clock.ahead
        stored, stored_life = effect.in_wall_time(ahead), lf.stored_life(self.life).in_wall_time(ahead)
        session_id, mysis = await self._services.write(op, urgent=urgent)
        last.settle()
        self.capture.session_id = self._session_id = session_id or self._session_id
        self.refresh(mysis)
        if before is MysisState.STOPPED:
            self._services.approvals.session_ended(self.mysis.id)
        await self._have_state(effect)

    async def _have_state(self, effect: lf.SetState) -> None:
        """Apply a state that was stored: show the failure, close the tool session."""
        self._live.set_failure(effect.failure, self._services.clock.now())
        if effect.state is MysisState.STOPPED:
            self._services.approvals.session_ended(self.mysis.id)
        if effect.state in (MysisState.STOPPED, MysisState.ERRORED) and self.driver is None:
            await self._close_session()

    def refresh(self, mysis: Mysis) -> None:
        """Replace the row by its stored values."""
        self.mysis = mysis
        self._live.mysis = mysis
        self._services.view.touch(mysis.id)

    # The end of a turn: the state that follows is stored in the same op, so that no crash comes between. The life
    # machine is stepped once, after the inputs queued before; later inputs wait until the turn's task is done.

    async def end_turn(self, end: t.TurnEnd) -> Callable[[WriterConnection], Mysis | None] | None:
        is_fruitless = await self._is_fruitless(end)
        if self._loan is None and not self._closed:
            self._loan = asyncio.get_running_loop().create_future()
            self._queue(_LifeLoan())
        if self._loan is not None:
            await self._loan
        if self._closed:
            return None  # the next start finds the turn broken off and resumes it
        ended = self._turn_ended(end, self._opened_by, is_fruitless=is_fruitless)
        planned = self._planned_end = lf.step_end_of_turn(self.life, ended)
        self.capture.ends_session = planned.life.state is not MysisState.RUNNING  # stopped before, or by this end
        ahead = self._services.clock.ahead
        state = None if planned.state is None else planned.state.in_wall_time(ahead)
        stored_life = planned.stored_life.in_wall_time(ahead)
        return lambda conn: mysis_ops.store_turn_end(conn, self.mysis.id, state, stored_life)

    def take_stored_end(self, mysis: Mysis | None) -> None:
        assert self._planned_end is not None
        self._stored_end = _StoredEnd(self._planned_end, mysis)

    async def _lend_life(self) -> tuple[lf.LifeEffect, ...]:
        """Leave the life machine to the turn that ends; apply its stored end and return the effects."""
        if self._loan is None or self._turn is None or self._loan.cancelled():
            return ()
        self._loan.set_result(None)
        await asyncio.wait({self._turn})
        if self._stored_end is None:
            return ()  # the op failed: `TurnEnded` is in the inbox
        step, mysis = self._stored_end.step, self._stored_end.mysis
        self.life, self._written_life = step.life, step.stored_life
        if step.state is not None and mysis is not None:
            self.refresh(mysis)
            await self._have_state(step.state)
        return step.effects

    # Turns.

    async def _run(self, effect: lf.OpenTurn) -> None:
        end: t.TurnEnd
        returned: tuple[lf.Pending, ...] = ()
        try:
            end = await self._run_turn(effect)
        except asyncio.CancelledError:
            # Stopped before the turn was stored: prompts stay pending, a broken-off turn stays open.
            outcome = Outcome.CRASHED if effect.resume else Outcome.CANCELLED
            end = broke_off(Failure("Cancelled", "stopped"), ErrorClass.CANCELLED, outcome)
            returned = self._untaken(effect)
        except Exception as error:  # noqa: BLE001  the catch-all of I10: it becomes the mysis's own error
            if not isinstance(error, ZoeaError):
                _log.exception("a turn of mysis #%d could not be opened", self.mysis.id)
            end, returned = end_from(error), self._untaken(effect)
        self.driver = self._late_cancel = None
        self._is_opening = False
        self._show_turn(is_open=False)
        self._tick_length = end.tick_length or self._tick_length
        self._services.ticks.update(end.ticks)
        if self._stored_end is None:
            self._queue(self._turn_ended(end, effect, returned))

    def _untaken(self, effect: lf.OpenTurn) -> tuple[lf.Pending, ...]:
        """Return the prompts of a turn that was not created."""
        return () if self.driver is not None else effect.prompts

    def _turn_ended(
        self, end: t.TurnEnd, effect: lf.OpenTurn, returned: tuple[lf.Pending, ...] = (), *, is_fruitless: bool = False
    ) -> lf.TurnEnded:
        return lf.TurnEnded(
            at=self._uptime(),
            outcome=end.outcome,
            responded=end.responded,
            nudged=end.nudged or effect.nudge_level > 0,
            failure=end.failure,
            error_class=end.error_class,
            final=end.final,
            stops=end.stops,
            wait_until=end.wait_until,
            wait_reason=end.wait_reason,
            jitter=self._services.ids.jitter(),
            returned=returned,
            done=end.done,
            fruitless=is_fruitless,
        )

    async def _is_fruitless(self, end: t.TurnEnd) -> bool:
        """Return whether a nudged turn called no tool and said nothing new."""
        if not end.nudged or end.called:
            return False
        earlier = await self._services.store.read(turn_records.LAST_ANSWERS, (self.mysis.id,))
        return count_new_words(end.said, (row["content"] for row in earlier)) < NEW_WORDS

    async def _run_turn(self, effect: lf.OpenTurn) -> t.TurnEnd:
        services = self._services
        if self._known.damage is not None:
            raise self._known.damage
        with services.view.show_preparing(self.mysis.id):
            profile = await build_profile(self.mysis, self._known, services.providers)
        self._live.answered_by = "" if self.mysis.model else profile.model
        self._live.window_assumed = 0 if profile.window_known else profile.window
        if not profile.window_known and not self._window_reported:
            self._window_reported = True
            _log.info(MISSING_WINDOW.format(model=profile.model, window=profile.window))
        if self._session is None:
            self._session = services.tools.session(self.mysis.id, self.mysis.name, self._body, uid=self.mysis.uid)
        catalogue = await self._session.catalogue()
        await self.capture.load()
        if effect.resume:
            return await self._resume(profile, self._session, catalogue)
        has_goal = bool(self.mysis.goal) or profile.settings.nudge.without_goal
        catalogue = fit_tools(catalogue, has_goal=has_goal, is_alone=services.view.is_single)
        return await self._open(profile, self._session, catalogue, effect)

    async def _open(
        self, profile: MysisProfile, session: ToolSession, catalogue: Catalogue, effect: lf.OpenTurn
    ) -> t.TurnEnd:
        services = self._services
        opening = tuple(prompt.delivery_id for prompt in effect.prompts)
        situation = await situation_text(services, profile, opening)
        freeze = freezer(
            profile,
            catalogue,
            nudge_level=effect.nudge_level,
            nudged=not effect.prompts,
            situation=situation,
            task=self._goal_to_reach(),
            now=services.clock.now(),
            inherited=self.capture.inherited,
        )
        stored_life = replace(lf.stored_life(self.life), encouragement=effect.nudge_level)
        stored_life = stored_life.in_wall_time(services.clock.ahead)

        def op(conn: WriterConnection) -> tuple[turn_ops.OpenedTurn | None, int]:
            opened = turn_ops.open_turn(
                conn,
                mysis_id=self.mysis.id,
                session_id=self._session_id,
                delivery_ids=opening,
                nudge_level=effect.nudge_level,
                stored_life=stored_life,
                freeze=lambda turn_id, number, before: replace(
                    freeze(turn_id, number, before, spend_ops.calibration(conn, profile.provider.name, profile.model)),
                    tool_mode=model_facts.tool_mode(conn, profile.provider.name, profile.model) or "",
                ),
                catalogue=catalogue,
            )
            return opened, services.clock.ahead

        self._is_opening = True
        by_person = any(prompt.from_person for prompt in effect.prompts)
        async with services.gate.place(first_rank(by_person, is_new=True)):
            opened, ahead = await services.write(op, urgent=by_person)
        profile = await model_facts.with_traits(self._services.store, profile)
        if opened is None:
            return end_of_nothing(Failure("Withdrawn", "withdrawn"))
        if opened.left:
            left = tuple(prompt for prompt in effect.prompts if prompt.delivery_id in opened.left)
            self._queue(lf.PromptsLeft(left))
        self.capture.begin_turn(
            opened.number, opened.memories, opened.notes, opened.frozen.nudge_text, opened.opened_at
        )
        about = DrivenTurn(opened.turn_id, opened.number, opened.hop, opened.frozen, 0, by_person, opened.before)
        offered = offer_tools(catalogue, opened.frozen)
        turn = self._new_turn(profile, offered, opened, effect, ahead)
        return await self._drive(profile, session, offered, about, turn, (t.Fetch(),))

    def _goal_to_reach(self) -> str:
        """Return the goal that is not reached yet; under the planning rules 1 only a task that a person gave."""
        known = self._known
        is_told = self.mysis.goal != known.template.goal or known.settings.context.labels == "named"
        return self.mysis.goal if is_told and not self.life.done else ""

    def _new_turn(
        self, profile: MysisProfile, catalogue: Catalogue, opened: turn_ops.OpenedTurn, effect: lf.OpenTurn, ahead: int
    ) -> t.TurnState:
        return t.TurnState(
            turn_id=opened.turn_id,
            rules=profile.turn_rules,
            rules_wait=profile.wait_rules,
            nudged=not effect.prompts,
            at=opened.opened_at - ahead,
            memories=t.with_uptimes(opened.memories, ahead),
            notes=opened.notes,
            read_only=turn_records.read_only_names(catalogue),
            tick_length=self._tick_length,
            known_ticks=dict(self._services.ticks),
        )

    async def _resume(self, profile: MysisProfile, session: ToolSession, catalogue: Catalogue) -> t.TurnEnd:
        stored = await turn_records.open_turn(self._services.store, self.mysis.id)
        if stored is None:
            return end_of_nothing(Failure("Resume", "nothing to resume"))
        turn, effects = restore(
            turn_id=stored.turn_id,
            memories=t.with_uptimes(stored.memories, self._services.clock.ahead),
            notes=stored.notes,
            rules=profile.turn_rules,
            rules_wait=profile.wait_rules,
            read_only=turn_records.read_only_names(catalogue),
            nudged=stored.nudged,
            at=self._uptime(),
            tick_length=self._tick_length,
            limits=stored.limits,
            requests=stored.requests,
        )
        turn = replace(turn, known_ticks=dict(self._services.ticks))
        frozen = FrozenTurn.from_json(stored.frozen, system=profile.template.prompt)
        self.capture.go_on(stored.number, stored.memories, frozen.nudge_text, self._services.clock.now())
        catalogue = offer_tools(withhold_tools(catalogue, frozen.withheld_tools), frozen)
        profile = replace(profile, max_output_tokens=frozen.max_output_tokens)  # as its first request had it
        profile = await model_facts.with_traits(self._services.store, profile)
        about = DrivenTurn(
            stored.turn_id, stored.number, stored.hop, frozen, stored.used_tokens, by_person=not stored.nudged
        )
        return await self._drive(profile, session, catalogue, about, turn, effects)

    async def _drive(
        self,
        profile: MysisProfile,
        session: ToolSession,
        catalogue: Catalogue,
        about: DrivenTurn,
        turn: t.TurnState,
        effects: tuple[t.TurnEffect, ...],
    ) -> t.TurnEnd:
        self._live.turn_number = about.number
        if steers := self._waiting_steers():
            # Passed before the first effect, so that they join the next request.
            turn, _ = turn_step(turn, t.Steered(self._uptime(), steers))
        self.driver = TurnDriver(self._services, profile, session, catalogue, about, self)
        if self._late_cancel is not None:
            self.driver.cancel(self._late_cancel)
            self._late_cancel = None
        return await self.driver.run(turn, effects)

    def _waiting_steers(self) -> tuple[int, ...]:
        """Return deliveries that are to join the turn before its next request."""
        waiting = (*self.life.pending, *self._unheard.values())
        return tuple(p.delivery_id for p in waiting if p.mode is DeliveryMode.STEER and lf.can_wake(self.life, p))

    def steer(self, delivery: Delivery) -> None:
        """Let a message join the open turn before its next request, if there is one."""
        if self.driver is not None:
            self.driver.post(t.Steered(self._uptime(), (delivery.id,)))

    def taken(self, delivery_ids: tuple[int, ...]) -> None:
        self._queue(lf.DeliveriesGone(frozenset(delivery_ids), joined=True))

    async def _close_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _uptime(self) -> int:
        return self._services.clock.uptime()


def pending_of(delivery: Delivery) -> lf.Pending:
    """Convert a delivery to the value of the life machine."""
    is_topic = delivery.kind is MessageKind.TOPIC
    return lf.Pending(
        delivery.id, delivery.mode, delivery.hop, delivery.sender.is_person, delivery.is_task, is_topic=is_topic
    )
