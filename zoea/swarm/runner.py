"""The task of one mysis: feeds its life machine and carries out the effects.

An unexpected exception makes this mysis errored and does not reach others (I10).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, assert_never

from msgspec import Struct
from msgspec.structs import replace

from zoea.model.enums import Activity, DeliveryMode, ErrorClass, MessageKind, MysisState, Outcome
from zoea.model.errors import StateRefused, ZoeaError
from zoea.model.ports import Timer
from zoea.model.values import Delivery, Failure, Mysis
from zoea.store.writer_connection import WriterConnection
from zoea.swarm import life as lf
from zoea.swarm.commit_capture import CommitCapture
from zoea.swarm.live_view import LiveMysis
from zoea.swarm.persistence import mysis_ops, turn_records
from zoea.swarm.resolved_template import ResolvedTemplate
from zoea.swarm.rules import LifeRules
from zoea.swarm.services import Services
from zoea.swarm.turn import turn_types as t
from zoea.swarm.turn.driver import TurnDriver
from zoea.swarm.turn.model_turns import ModelTurns
from zoea.swarm.turn.turn_failures import broke_off, end_from, failure_from
from zoea.swarm.turn.turn_runner import TurnClosing, TurnOpening, TurnRunner
from zoea.text.new_words import count_new_words

_log = logging.getLogger(__name__)
STOP_WITHIN_S = 5.0
NEW_WORDS = 8
"""Words that the last answers lack, from which on an answer says something new."""


class _ClosedTurn(Struct):
    """The op that stores a turn's end, and prompts of a turn never stored."""

    closing: TurnClosing
    effect: lf.OpenTurn
    returned: tuple[lf.Pending, ...] = ()
    is_taken: bool = False  # the loop is storing it


class _QueuedInput(Struct, frozen=True):
    given: lf.LifeInput | _ClosedTurn
    done: asyncio.Future[None] | None


class MysisRunner:
    """Feeds inputs to `life.step` one at a time, and carries out its effects in order."""

    def __init__(self, services: Services, mysis: Mysis, body: str, known: ResolvedTemplate, life: lf.Life) -> None:
        self.mysis = mysis
        self.life = life
        self._services = services
        self._live: LiveMysis = services.view.row(mysis.id)
        self.known = known
        self.capture = CommitCapture(mysis, known.settings.chain, services.store, services.clock)
        self._inputs: asyncio.Queue[_QueuedInput] = asyncio.Queue()
        self._unheard: dict[int, lf.Pending] = {}  # stored and in `_inputs`, not yet processed by the life machine
        self._timer: Timer | None = None
        self._session_id: int | None = None
        self._body = body
        self._has_tools = True
        self._turns = make_turns(services, self, body)
        self._turn: asyncio.Task[None] | None = None
        self._is_over = asyncio.Event()  # no turn is open: the last one is stored
        self._is_over.set()
        self._ending: asyncio.Task[tuple[lf.LifeEffect, ...]] | None = None
        self._busy = False
        self._closed = False
        self._current: _QueuedInput | None = None
        self._refusal: tuple[Failure, bool] | None = None  # of a budget, to a request of an agent
        self._written_life: lf.StoredLife | None = None  # by the end of a turn, where nothing was stored since
        self._live.is_at_rest = self._is_at_rest
        self._task = asyncio.create_task(self._main(), name=f"mysis {mysis.name}")

    # Called by the commander.

    def tell(self, given: lf.LifeInput) -> asyncio.Future[None]:
        """Queue an input. The future is done once its effects are carried out (a turn: begun)."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._closed:
            done.set_exception(StateRefused(f"mysis {self.mysis.name} is being closed"))
            done.exception()  # marks the exception as retrieved
        else:
            self._queue(given, done)
        return done

    def _queue(self, given: lf.LifeInput | _ClosedTurn, done: asyncio.Future[None] | None = None) -> None:
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
        """Take changed settings: nudges and budgets at once, others from the next turn."""
        has_other_budgets, self.known = known.settings.budget != self.known.settings.budget, known
        if has_other_budgets:
            self._services.approvals.review_budgets(self.mysis.id)
        self.capture.adopt(known.settings.chain)
        self._tell_rules()

    def note_tools(self, has_tools: bool) -> None:
        """See `TurnOwner.note_tools`."""
        self._has_tools = has_tools
        self._tell_rules()

    def _tell_rules(self) -> None:
        run_once = not self._has_tools or self.known.runs_once(self.mysis)
        self.tell(lf.NewRules(self._uptime(), LifeRules.of(self.known.settings, run_once=run_once)))

    def configure(self, mysis: Mysis, body: str, known: ResolvedTemplate) -> None:
        """Take a stored change while it runs; the open turn ends as it began."""
        self.refresh(mysis)
        self._body = body
        self._turns.adopt(body)
        self.adopt(known)

    def end_over_budget(self, failure: Failure, *, stops: bool) -> None:
        """End the open turn, because its agent's request found no room in a budget.

        Args:
            stops: The budget is that of the mysis, which is stopped.
        """
        if self.has_turn and self._refusal is None:
            self._refusal = failure, stops
            self._turns.cancel(Outcome.BUDGET)

    async def stopped(self) -> None:
        """Wait until no turn is running, and the last one is stored."""
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_WITHIN_S):
                await self._is_over.wait()

    @property
    def has_turn(self) -> bool:
        return not self._is_over.is_set()

    @property
    def driver(self) -> TurnDriver | None:
        """Of the turn that runs, where a model plays the mysis."""
        return self._turns.turn if isinstance(self._turns, ModelTurns) else None

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
        """End within a few seconds. An open turn stays open in the store, to be resumed."""
        self._closed = True
        self._clear_timer()
        # The task ends first, because it could open another turn.
        self._task.cancel()
        await asyncio.wait({self._task}, timeout=1)
        if not self._turns.cancel(Outcome.CRASHED) and self._turn is not None:
            self._turn.cancel()
        for task in (self._turn, self._ending):
            if task is not None:
                _, late = await asyncio.wait({task}, timeout=STOP_WITHIN_S)
                if late:
                    task.cancel()
                    await asyncio.wait({task}, timeout=1)
        await self._leave_queued()
        self._is_over.set()
        await self._turns.end()

    async def _leave_queued(self) -> None:
        """Refuse the inputs that will not be carried out, and store a turn that ended.

        Nothing follows from its end: the next start finds it broken off, and resumes it.
        """
        waiting = [] if self._current is None else [self._current]
        while not self._inputs.empty():
            waiting.append(self._inputs.get_nowait())
        for told in waiting:
            if told.done is not None and not told.done.done():
                told.done.set_exception(StateRefused(f"mysis {self.mysis.name} is being closed"))
                told.done.exception()
            if isinstance(told.given, _ClosedTurn) and not told.given.is_taken:
                await self._store_last(told.given.closing)

    async def _store_last(self, closing: TurnClosing) -> None:
        """Store the end of a turn alone, because the runner is closed."""
        if closing.prepare is None:
            return
        try:
            write = await closing.prepare()
            write.settle(await self._services.write(write.write))
        except ZoeaError as error:
            _log.warning("the end of a turn of mysis #%d was not stored: %s", self.mysis.id, error.what)

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
            del told  # it may hold a turn

    async def _process(self, told: _QueuedInput) -> None:
        given = told.given
        if isinstance(given, _ClosedTurn):
            given.is_taken = True
            self._ending = asyncio.create_task(self._end_turn(given))
            effects = await asyncio.shield(self._ending)
        else:
            self.life, effects = lf.step(self.life, given)
        if isinstance(given, lf.Arrived):
            self._unheard.pop(given.pending.delivery_id, None)
        if isinstance(given, _ClosedTurn) and self.life.state in (MysisState.STOPPED, MysisState.ERRORED):
            await self._turns.end()
        for effect in effects:
            await self._carry_out(effect)
        if isinstance(given, lf.Arrived):
            await self._store_reset_count()

    async def _store_reset_count(self) -> None:
        """Store the nudge count again after the first message that follows a turn.

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
                self._written_life = None
                self._is_over.clear()
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
                if not self._turns.cancel(effect.outcome) and self._turn is not None:
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
        if effect.state in (MysisState.STOPPED, MysisState.ERRORED) and not self.has_turn:
            await self._turns.end()

    def refresh(self, mysis: Mysis) -> None:
        """Replace the live row of the mysis by its stored values."""
        self.mysis = mysis
        self._live.mysis = mysis
        self._services.view.touch(mysis.id)

    # Turns.

    async def _run(self, effect: lf.OpenTurn) -> None:
        """Run a turn, and queue its end behind the inputs that came before it."""
        closing: TurnClosing
        returned: tuple[lf.Pending, ...] = ()
        self._refusal = None
        try:
            if isinstance(self._turns, ModelTurns) is (self.known.template.runtime == "acp"):
                await self._turns.end()  # the template was changed
                self._turns = make_turns(self._services, self, self._body)
            closing = await (self._turns.resume() if effect.resume else self._turns.open(self._opening(effect)))
        except asyncio.CancelledError:
            # Stopped before the turn was stored: prompts stay pending, a broken-off turn stays open.
            outcome = Outcome.CRASHED if effect.resume else Outcome.CANCELLED
            closing = TurnClosing(broke_off(Failure("Cancelled", "stopped"), ErrorClass.CANCELLED, outcome))
            returned = () if self._turns.is_open else effect.prompts
        except Exception as error:  # noqa: BLE001  the catch-all of I10: it becomes the mysis's own error
            if not isinstance(error, ZoeaError):
                _log.exception("a turn of mysis #%d could not be opened", self.mysis.id)
            closing, returned = TurnClosing(end_from(error)), () if self._turns.is_open else effect.prompts
        self._queue(_ClosedTurn(self._with_refusal(closing), effect, returned))

    def _with_refusal(self, closing: TurnClosing) -> TurnClosing:
        """Return the closing with the budget that ended the turn, where one did."""
        if self._refusal is None:
            return closing
        failure, stops = self._refusal
        end = replace(closing.end, outcome=Outcome.BUDGET, failure=failure, stops=stops, final=True)
        return replace(closing, end=end)

    def _opening(self, effect: lf.OpenTurn) -> TurnOpening:
        return TurnOpening(
            effect.prompts,
            effect.nudge_level,
            replace(lf.stored_life(self.life), encouragement=effect.nudge_level),
            self._session_id,
            "" if self.life.done else self.mysis.goal,
        )

    async def _end_turn(self, turn: _ClosedTurn) -> tuple[lf.LifeEffect, ...]:
        """Store the end of a turn and the state that follows, in one op. Return the effects that follow."""
        closing, stored = turn.closing, None
        try:
            stored = await self._store_end(turn, closing)
        except Exception as error:  # noqa: BLE001  the catch-all of I10: the turn is left open
            _log.exception("the end of a turn of mysis #%d was not stored", self.mysis.id)
            closing = TurnClosing(end_from(error)) if closing.leave_open is None else await closing.leave_open(error)
            try:
                stored = await self._store_end(turn, closing)
            except Exception:  # noqa: BLE001  the first error is reported; the next start breaks the turn off
                _log.exception("the turn of mysis #%d could not be left in order", self.mysis.id)
        if stored is None:
            self.life, effects = lf.step(self.life, self._turn_ended(closing.end, turn))
        else:
            step, mysis, settle = stored
            self.life, self._written_life, effects = step.life, step.stored_life, step.effects
            settle()
            if step.state is not None and mysis is not None:
                self.refresh(mysis)
                await self._have_state(step.state)
        self._turns.close()
        self._live.show_activity(Activity.IDLE)
        self._show_turn(is_open=False)
        self._is_over.set()
        return effects

    async def _store_end(
        self, turn: _ClosedTurn, closing: TurnClosing
    ) -> tuple[lf.EndOfTurn, Mysis | None, Callable[[], Any]] | None:
        """Commit the end of a turn and the next step of the life. None where there is nothing to commit."""
        if closing.prepare is None:
            return None
        is_fruitless = await self._is_fruitless(closing.end)
        step = lf.step_end_of_turn(self.life, self._turn_ended(closing.end, turn, is_fruitless=is_fruitless))
        self.capture.ends_session = step.life.state is not MysisState.RUNNING  # stopped before, or by this end
        write = await closing.prepare()
        ahead = self._services.clock.ahead
        state = None if step.state is None else step.state.in_wall_time(ahead)
        stored_life = step.stored_life.in_wall_time(ahead)

        def op(conn: WriterConnection) -> tuple[Any, Mysis | None]:
            return write.write(conn), mysis_ops.store_turn_end(conn, self.mysis.id, state, stored_life)

        written, mysis = await self._services.write(op)
        return step, mysis, partial(write.settle, written)

    def _turn_ended(self, end: t.TurnEnd, turn: _ClosedTurn, *, is_fruitless: bool = False) -> lf.TurnEnded:
        return lf.TurnEnded(
            at=self._uptime(),
            outcome=end.outcome,
            responded=end.responded,
            nudged=end.nudged or turn.effect.nudge_level > 0,
            failure=end.failure,
            error_class=end.error_class,
            final=end.final,
            stops=end.stops,
            wait_until=end.wait_until,
            wait_reason=end.wait_reason,
            jitter=self._services.ids.jitter(),
            returned=turn.returned,
            done=end.done,
            fruitless=is_fruitless,
        )

    async def _is_fruitless(self, end: t.TurnEnd) -> bool:
        """Return whether a nudged turn called no tool and said nothing new."""
        if not end.nudged or end.called:
            return False
        earlier = await self._services.store.read(turn_records.LAST_ANSWERS, (self.mysis.id,))
        return count_new_words(end.said, (row["content"] for row in earlier)) < NEW_WORDS

    def waiting_steers(self) -> tuple[int, ...]:
        waiting = (*self.life.pending, *self._unheard.values())
        return tuple(p.delivery_id for p in waiting if p.mode is DeliveryMode.STEER and lf.can_wake(self.life, p))

    def steer(self, delivery: Delivery) -> None:
        """Let a message join the open turn before its next request, if there is one."""
        self._turns.steer(delivery.id)

    def taken(self, delivery_ids: tuple[int, ...]) -> None:
        self._queue(lf.DeliveriesGone(frozenset(delivery_ids), joined=True))

    def left(self, prompts: tuple[lf.Pending, ...]) -> None:
        self._queue(lf.PromptsLeft(prompts))

    def _uptime(self) -> int:
        return self._services.clock.uptime()


def make_turns(services: Services, owner: MysisRunner, body: str) -> TurnRunner:
    """Return what runs the turns of a mysis: Zoea's own loop, or an external agent."""
    if owner.known.template.runtime != "acp":
        return ModelTurns(services, owner, body)
    from zoea.swarm.turn.agent_turns import AgentTurns  # most swarms have none

    return AgentTurns(services, owner, body)


def pending_of(delivery: Delivery) -> lf.Pending:
    """Convert a delivery to the value of the life machine."""
    is_topic = delivery.kind is MessageKind.TOPIC
    return lf.Pending(
        delivery.id, delivery.mode, delivery.hop, delivery.sender.is_person, delivery.is_task, is_topic=is_topic
    )
