"""Carries out the effects of the turn machine on asyncio; it contains no rules.

One driver is one open turn: every happening becomes an input of the machine.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from functools import partial
from typing import Any, assert_never

from msgspec.structs import replace

from zoea.context import Plan as RequestPlan
from zoea.context.explain import measure_context
from zoea.model.enums import MASK, Activity, CallState, Outcome, ToolForm, ToolMode
from zoea.model.errors import PlanError, ProviderError
from zoea.model.ports import Timer, ToolSession
from zoea.model.request import Answer, AnswerCall, CallMeta, Catalogue, GivenAnswer, ToolResult
from zoea.model.values import ToolCall
from zoea.store.writer_connection import WriterConnection
from zoea.swarm import budgets
from zoea.swarm.commit_capture import CaptureStep
from zoea.swarm.live_view import LiveMysis
from zoea.swarm.persistence import model_facts, mysis_ops, turn_ops
from zoea.swarm.persistence.memory_ops import TurnInfo
from zoea.swarm.resolved_template import MysisProfile
from zoea.swarm.rules import SECOND, to_micros
from zoea.swarm.services import Services
from zoea.swarm.turn import loop_guard, message_budget
from zoea.swarm.turn import turn_types as t
from zoea.swarm.turn.budget_stage import BudgetStage, leave_budget_queue, spent_by
from zoea.swarm.turn.call_bounds import bound_calls, is_covered, prepare_call, room_for_answer
from zoea.swarm.turn.call_slice import find_call, slice_calls
from zoea.swarm.turn.machine import step
from zoea.swarm.turn.model_call import HeldBeforeSending, ModelCall
from zoea.swarm.turn.need_rounds import answer_needs
from zoea.swarm.turn.output_stage import OutputStage
from zoea.swarm.turn.request_preparation import RequestEvents, limits_of, lowest_limit, prepare_requests
from zoea.swarm.turn.summary_stage import SummaryStage
from zoea.swarm.turn.tool_calls import ToolCalls
from zoea.swarm.turn.turn_failures import cause_of, end_from, failure_from
from zoea.swarm.turn.turn_gate import Rank, first_rank
from zoea.swarm.turn.turn_runner import DrivenTurn, StoredOp, TurnClosing, TurnOwner, TurnWrite
from zoea.text.call_text import format_call
from zoea.tools.tool_search import unwrap_calls

_log = logging.getLogger(__name__)

CANCEL_WITHIN_S = 2.0


class TurnDriver:
    """Runs one turn until it ends or breaks off."""

    def __init__(
        self,
        services: Services,
        profile: MysisProfile,
        session: ToolSession,
        catalogue: Catalogue,
        opened: DrivenTurn,
        owner: TurnOwner,
    ) -> None:
        self._services = services
        self._profile = profile
        self._session = session
        self._catalogue = catalogue
        self._specs = {tool.name: tool for tool in catalogue.callable}
        self._opened = opened
        self._owner = owner
        self._live: LiveMysis = services.view.row(profile.mysis_id)
        self._inputs: asyncio.Queue[t.TurnInput] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._cancel: Outcome | None = None
        self._cancelled = False
        self._broken: BaseException | None = None
        self._rank = Rank.PERSON if opened.by_person else Rank.OTHER
        self._plan: RequestPlan | None = None
        self._estimated = 0
        self._reserved_at = services.clock.uptime()
        self._used = self._live.turn_tokens = opened.used_tokens
        self._live.turn_limit = lowest_limit(profile.settings.budget.token_budget_per_task, opened.frozen.task_tokens)
        self._model: ModelCall | None = None
        self._progress_at = self._uptime()
        self._awaits_lift = False
        self._failed_by = ""
        self._closing: TurnClosing | None = None
        self._turn: t.TurnState
        self._watchdog: Timer
        self._requests = prepare_requests(services, profile, catalogue, opened.number, opened.frozen, opened.before)
        self._events = RequestEvents(services, profile.mysis_id, opened.turn_id)
        self._outputs = OutputStage(services, profile, opened.frozen.topics, opened.hop)
        self._summaries = SummaryStage(services, profile, session, opened.frozen)
        self._calls = ToolCalls(session, services.late_calls, profile.settings.tool.timeout, self._call_finished)

    @property
    def phase(self) -> t.TurnPhase:
        return self._turn.phase

    @property
    def progress_at(self) -> int:
        """The uptime of the newest progress, µs; a wait that is allowed counts as progress."""
        return self._progress_at

    # Called by the runner.

    async def run(self, turn: t.TurnState, effects: tuple[t.TurnEffect, ...]) -> TurnClosing:
        """Carry the turn to its end, and return the op that stores it. Cancelling this leaves the turn open."""
        self._turn = turn
        self._watchdog = self._watch_later()
        try:
            is_new = self._opened.before is not None
            async with self._services.gate.place(first_rank(self._opened.by_person, is_new=is_new)):
                await self._carry_out_all(deque(effects))
            while self._closing is None:
                given = await self._next()
                async with self._services.gate.place(self._rank):
                    if isinstance(given, t.TimePassed):
                        given = replace(given, progress_at=self._progress_at)  # it may be newer than at the post
                    await self._carry_out_all(deque(self._step(given)))
            return self._closing
        except Exception as error:  # noqa: BLE001  the catch-all of I10: it becomes the mysis's own error
            _log.exception("the turn of mysis #%d failed", self._profile.mysis_id)
            return await self._leave_open(error)
        finally:
            self._watchdog.cancel()
            await self._stop_tasks()
            leave_budget_queue(self._services, self._live)
            self._live.show_attempt()
            self._services.approvals.forget(self._opened.turn_id, self._turn.asked)
            # Breaks reference cycles, so that the turn is freed without the garbage collector.
            self._model = self._closing = None
            del self._watchdog, self._calls

    async def _leave_open(self, error: Exception) -> TurnClosing:
        """Return the closing after a bug: the turn stays open and nothing is reserved."""
        end = end_from(error)
        await self._stop_tasks()
        try:
            answer = await self._partial(self._model) if self._turn.phase is t.TurnPhase.CALLING else None
            _, effects = step(self._turn, t.TurnCancelled(self._uptime(), Outcome.CRASHED, answer))
            for effect in effects:
                if isinstance(effect, t.StoreOp) and isinstance(effect.op, t.BreakOffTurn):
                    return self._close(replace(effect.op, end=end), end)
        except Exception:  # noqa: BLE001  the first error is reported; the next start breaks the turn off
            _log.exception("the turn of mysis #%d could not be left in order", self._profile.mysis_id)
        return TurnClosing(end)

    def post(self, given: t.TurnInput) -> None:
        if isinstance(given, t.Steered):
            self._rank = min(self._rank, Rank.STEERED)
        self._inputs.put_nowait(given)

    def steer(self, delivery_id: int) -> None:
        """Let a message join the turn before its next request."""
        self.post(t.Steered(self._uptime(), (delivery_id,)))

    def cancel(self, outcome: Outcome) -> None:
        """Cancel the calls in flight, keep their partial results, and end the turn."""
        if self._cancel is None:
            self._cancel = outcome
            self.post(t.TimePassed(self._uptime()))

    # The loop.

    async def _next(self) -> t.TurnInput:
        given = await self._inputs.get()
        if self._broken is not None:
            raise self._broken
        if self._cancel is not None and not self._cancelled:
            self._cancelled = True
            return await self._aborted(self._cancel, given)
        return given

    async def _aborted(self, outcome: Outcome, given: t.TurnInput) -> t.TurnCancelled:
        """Cancel the calls in flight. Results that have arrived count; sent calls may go on."""
        sent, going_on = self._calls.sent(), frozenset[asyncio.Task[None]]()
        if outcome in (Outcome.CANCELLED, Outcome.INTERRUPTED):
            going_on = self._calls.detach()
        await self._stop_tasks(going_on)
        waiting = [given]
        while not self._inputs.empty():
            waiting.append(self._inputs.get_nowait())
        finished = tuple(item for item in waiting if isinstance(item, t.CallFinished))
        answer = next((item.answer for item in waiting if isinstance(item, t.Answered)), None)
        if answer is None and self._turn.phase is t.TurnPhase.CALLING:
            answer = await self._partial(self._model)
        # Without a model call the request was reserved and never left.
        unsent = self._model is None or self._model.is_unsent
        return t.TurnCancelled(self._uptime(), outcome, answer, finished, unsent=unsent, on_wire=sent)

    def _step(self, given: t.TurnInput) -> tuple[t.TurnEffect, ...]:
        """Feed an input to the machine, after a changed hold."""
        on_hold = self._services.hold.holds(self._profile.mysis_id)
        if on_hold is not self._turn.held:
            self._turn, _ = step(self._turn, t.HoldChanged(self._uptime(), on_hold))
        self._turn, effects = step(self._turn, given)
        return effects

    async def _carry_out_all(self, effects: deque[t.TurnEffect]) -> None:
        """Carry out effects in order, and feed back their immediate answers.

        Once the turn is to be cancelled, only stores are carried out.
        """
        while effects:
            effect = effects.popleft()
            if self._cancel is not None and not self._cancelled and not isinstance(effect, t.StoreOp | t.TurnEnd):
                return
            given = await self._carry_out(effect)
            if given is not None:
                effects.extend(self._step(given))

    async def _carry_out(self, effect: t.TurnEffect) -> t.TurnInput | None:
        match effect:
            case t.Fetch():
                return await self._fetch(effect)
            case t.Summarise():
                self._progress_at = self._uptime()
                self._show(Activity.LLM)
                self._live.is_summarising = True
                self._spawn(self._summarise())
            case t.PlanRequest():
                return await self._make_plan(effect.limit)
            case t.Reserve():
                return await self._reserve(effect)
            case t.Call():
                self._call_model()
            case t.Run():
                self._run_tools(effect.call_ids)
            case t.Ask():
                await self._ask(effect.call_id)
            case t.StoreOp():
                end = effect.op.end if isinstance(effect.op, t.StoreAnswer | t.LeaveTurn) else None
                if end is None:
                    return await self._store(effect.op)
                self._closing = self._close(effect.op, end)
            case t.Sleep():
                self._show(Activity.WAITING)
                turn = self._turn
                if turn.next is t.NextStep.RESERVE:
                    self._live.show_attempt(turn.attempt, turn.rules.llm.retries + 1, turn.rest_until, self._failed_by)
                left = turn.rest_until - self._uptime()
                self._services.clock.call_after(left, lambda: self._continue_after_wait(self._turn.rest_until))
            case t.AwaitLift():
                self._await_lift()
            case t.Abort():
                self.cancel(effect.outcome)
            case t.TurnEnd():
                pass  # follows the op that is returned, and is in it
            case _:
                assert_never(effect)
        return None

    # Planning and budgets.

    async def _fetch(self, effect: t.Fetch) -> t.TurnInput:
        if effect.gives_up:
            self._summaries.give_up()
        frozen, known = self._opened.frozen, self._opened.before
        answers = await answer_needs(
            self._services, frozen, self._turn.memories, known, self._summaries, self._owner.capture
        )
        if answers is None:
            return t.SummaryWanted(self._uptime())
        before = answers.before
        self._requests.answers, self._requests.store_answers = before.answers, answers.store
        return t.TurnOpened(self._uptime(), before.calls, before.texts)

    async def _summarise(self) -> None:
        self.post(await self._summaries.write())

    async def _make_plan(self, limit: int | None) -> t.TurnInput:
        try:
            plan = self._plan = await self._requests.plan(self._turn, limit)
        except PlanError as error:
            return t.Unplannable(self._uptime(), failure_from(error))
        self._live.show_context(plan.budget.final_tokens, plan.budget.max_tokens, len(plan.messages))
        last_request = message_budget.last_request_text(
            self._used,
            self._opened.frozen.task_tokens,
            self._requests.estimated_tokens(plan),
            self._profile.settings.budget.enforcement,
        )
        return t.Planned(self._uptime(), last_request)

    async def _reserve(self, effect: t.Reserve) -> t.TurnInput:
        assert self._plan is not None
        turn_id = self._turn.turn_id
        own = self._owner.known.settings.budget
        limits = limits_of(self._services, self._profile.mysis_id, own, self._used, self._opened.frozen)
        self._live.turn_limit = limits.turn.limit or 0
        op = self._requests.reservation(limits, turn_id, self._plan, effect)
        reserved = await self._services.write(op, urgent=self._opened.by_person)
        self._live.iteration = effect.iteration
        self._model = None
        self._reserved_at = self._services.clock.uptime()
        self._estimated = self._requests.estimated_tokens(self._plan)
        self._services.known_catalogues.add(self._catalogue.hash)
        is_reserved = bool(reserved.request_id) and not reserved.scope
        if is_reserved:
            self._events.tell_prepared(reserved.request_id, self._plan)
        if is_reserved and self._services.report_context is not None:
            about = {"request": reserved.request_id, "mysis": self._profile.mysis_id, "turn": turn_id}
            await self._services.report_context(about | measure_context(self._plan))
        stage = BudgetStage(
            self._services,
            self._live,
            self._profile.model,
            self._opened.turn_id,
            self._continue_after_wait,
            self._show,
            self._spawn,
            lambda: own == self._owner.known.settings.budget,
        )
        return await stage.verdict(reserved)

    # Waiting for a person, a provider or a lifted hold: without a place of the gate and without a deadline.

    def _continue_after_wait(self, until: int = 0) -> None:
        """Continue after a wait. A timer that fired counts as due, however the two clocks are rounded."""
        self._progress_at = self._uptime()
        self.post(t.TimePassed(max(self._uptime(), until), self._progress_at))

    def _await_lift(self) -> None:
        asks = any(call.state is CallState.APPROVAL for call in slice_calls(self._turn))
        if not self._turn.running and not asks:
            self._show(Activity.WAITING)
        if not self._awaits_lift:
            self._awaits_lift = True
            self._spawn(self._say_when_lifted())

    async def _say_when_lifted(self) -> None:
        await self._services.hold.lifted(self._profile.mysis_id)
        self._awaits_lift = False
        self._progress_at = self._uptime()
        self.post(t.HoldLifted(self._uptime()))

    # The model and the tools.

    def _call_model(self) -> None:
        assert self._plan is not None
        self._model = ModelCall(
            self._services,
            self._profile,
            self._session,
            self._plan.messages,
            self._catalogue,
            self._progress,
            by_person=self._opened.by_person,
            as_schema=self._opened.frozen.tool_mode == ToolMode.JSON_SCHEMA,
            as_signatures=self._opened.frozen.tool_form == ToolForm.SIGNATURES,
            is_warned=loop_guard.is_warned(self._turn.notes, self._turn.memories)
            or message_budget.is_last_request(self._turn),
            estimated_tokens=self._plan.budget.final_tokens,
            cache_ends=self._plan.cache_ends,
            max_output_tokens=self._requests.output_limit(self._turn),
        )
        self._live.show_attempt()
        self._progress_at = self._uptime()
        self._show(Activity.LLM)
        self._spawn(self._answer(self._model))

    async def _answer(self, call: ModelCall) -> None:
        try:
            answer = await self._session.conceal_answer(unwrap_calls(await call.run(), self._catalogue))
        except HeldBeforeSending:
            self.post(t.CallWithheld(self._uptime()))
            return
        except ProviderError as error:
            self._failed_by, about, attempt = cause_of(error), self._profile, self._turn.attempt
            _log.warning("the request of mysis #%d failed (attempt %d): %s", about.mysis_id, attempt, error.what)
            if (window := error.window) is not None:
                await self._services.write(
                    lambda conn: model_facts.learn_window(conn, about.provider.name, about.model, window)
                )
            self.post(
                t.CallFailed(
                    self._uptime(),
                    failure_from(error),
                    error.kind,
                    error.retry_after,
                    self._services.ids.jitter(),
                    partial=await self._partial(call),
                    cause=self._failed_by,
                    limit=None if self._plan is None else self._requests.limit_after(self._plan, error.window),
                )
            )
            return
        assert self._plan is not None
        whole = room_for_answer(self._plan, self._turn.memories, self._opened.frozen.calibration)
        bounded = bound_calls(answer, self._plan.budget.remaining_tokens // 2, whole)
        calls = tuple(self._prepared(call, why) for call, why in zip(bounded.calls, bounded.skipped, strict=True))
        output = None if calls else self._outputs.check(bounded.answer.text)
        self.post(t.Answered(self._uptime(), bounded.answer, calls, output))

    async def _partial(self, call: ModelCall | None) -> Answer | None:
        """Return the part of an answer that came, without the values of secrets."""
        answer = None if call is None else call.partial()
        return None if answer is None else await self._session.conceal_partial(answer)

    def _prepared(self, call: AnswerCall, skipped: str) -> t.PreparedCall:
        spec = self._specs.get(call.name)
        template, approvals = self._profile.template, self._services.approvals
        arguments = call.arguments if spec is None or call.broken else self._session.stored_arguments(call)
        is_granted = spec is not None and (
            is_covered(spec, arguments, template.tools)
            or approvals.is_granted(self._profile.mysis_id, template.grantee, spec, arguments)
        )
        return prepare_call(call, spec, arguments=arguments, granted=is_granted, skipped=skipped)

    def _run_tools(self, call_ids: tuple[int, ...]) -> None:
        self._show(Activity.TOOL)
        for call_id in call_ids:
            _, call = find_call(self._turn, call_id)
            given = self._turn.allowed.get(call_id)
            call = replace(call, arguments=(given and given.arguments) or call.arguments)
            self._live.say(f"⚙ {format_call(call.name, call.arguments, hidden=MASK)}", self._services.clock.now())
            meta = CallMeta(
                mysis_id=self._profile.mysis_id,
                mysis=self._profile.name,
                turn_id=self._opened.turn_id,
                call_id=call_id,
                hop=self._opened.hop,
                deadline_s=self._profile.settings.tool.timeout,
                offered=self._specs.get(call.name),
                withheld=self._opened.frozen.withheld_tools,
            )
            self._own(self._calls.start(call, meta, read_only=call.name in self._turn.read_only))

    def _call_finished(self, call_id: int, result: ToolResult) -> None:
        self._progress_at = self._uptime()
        self.post(t.CallFinished(self._uptime(), call_id, result))

    async def _ask(self, call_id: int) -> None:
        _, call = find_call(self._turn, call_id)
        self._live.say(f"asks: {format_call(call.name, call.arguments, hidden=MASK)}", self._services.clock.now())
        self._show(Activity.ASKING)
        answered, conceal = partial(self._approved, call), self._session.conceal_answer
        spec, approvals = self._specs.get(call.name), self._services.approvals
        await approvals.ask_for_call(call_id, self._profile.mysis_id, answered, spec, conceal)

    def _approved(self, call: ToolCall, given: GivenAnswer) -> None:
        now = self._progress_at = self._uptime()
        if given.arguments:
            given = replace(given, arguments=self._session.stored_arguments(AnswerCall(call.name, given.arguments)))
        self.post(t.Approved(now, call.id, given))

    # Storing and showing.

    async def _store(self, op: t.TurnOp) -> t.TurnInput:
        write = await self._prepare_write(op, self._describe_request())
        stored: t.OpStored = write.settle(await self._services.write(write.write))
        return stored

    def _close(self, op: t.TurnOp, end: t.TurnEnd) -> TurnClosing:
        return TurnClosing(end, partial(self._prepare_write, op, self._describe_request(), end), self._leave_open)

    def _describe_request(self) -> TurnInfo:
        """Return the rows' values of the turn, with the times of the newest request."""
        return replace(
            self._requests.info,
            first_token_us=None if self._model is None else self._model.first_token_us,
            duration_us=self._services.clock.uptime() - self._reserved_at,
        )

    async def _prepare_write(self, op: t.TurnOp, info: TurnInfo, end: t.TurnEnd | None = None) -> TurnWrite:
        if end is not None:
            self._owner.capture.tree = (await self._outputs.commit_files(op, end)).tree
        capture = await self._owner.capture.prepare(op)
        return TurnWrite(
            partial(self._write, op=op, info=info, capture=capture), partial(self._settle, op=op, capture=capture)
        )

    def _write(self, conn: WriterConnection, op: t.TurnOp, info: TurnInfo, capture: CaptureStep) -> StoredOp:
        """Store an op with its commit, its output and its warning."""
        ahead, limit = self._services.clock.ahead, self._live.turn_limit
        stored = turn_ops.carry_out(conn, info, op)
        capture.write(conn, stored.memories)
        self._outputs.conclude(conn, op)
        used = self._used + spent_by(op, self._estimated)
        if budgets.has_crossed_warning(self._used, used, limit):
            conn.emit("budget.warning", self._profile.mysis_id, scope="turn", used=used, limit=limit)
        return StoredOp(stored, mysis_ops.tally(conn, self._profile.mysis_id), used, ahead)

    def _settle(self, done: StoredOp, op: t.TurnOp, capture: CaptureStep) -> t.OpStored:
        """Apply a stored op in memory, and return it with uptimes."""
        stored, live, before = done.stored, self._live, self._used
        capture.settle(stored.memories, stored.notes, stored.at)
        self._outputs.hand_over()
        if isinstance(op, t.StoreAnswer | t.SettleRequest | t.FailRequest | t.LeaveTurn):
            self._services.budget_queue.wake_some()
        self._used = live.turn_tokens = done.used
        if isinstance(op, t.StoreAnswer | t.SettleRequest) and self._plan is not None:
            limit = self._plan.budget.max_tokens
            self._events.tell_used(op.request_id, done.used - before, limit, done.used, live.turn_limit)
        live.count(done.tally)
        self._note_progress()
        match op:
            case t.StoreAnswer():
                live.clear_stream()
                if op.answer.text:
                    live.say(op.answer.text, stored.at)
            case t.TakeSteers():
                self._owner.taken(stored.taken)
            case t.CloseTurn() if op.end is not None and op.end.summary:
                summary = op.end.summary
                if self._outputs.is_idle_report:  # a heading would be none behind these words
                    summary = f"done, nothing changed: {summary.lstrip('# ')}"
                live.say(summary, stored.at)
            case t.CloseTurn() | t.BreakOffTurn() if op.failure is not None:
                live.say(op.failure.title, stored.at)
            case _:
                live.clear_stream()
        self._services.view.touch(self._profile.mysis_id)
        return replace(stored, at=stored.at - done.ahead, memories=t.with_uptimes(stored.memories, done.ahead))

    def _note_progress(self) -> None:
        self._progress_at = self._uptime()
        self._live.progress_at = self._services.clock.now()

    def _progress(self) -> None:
        self._note_progress()
        self._services.view.touch(self._profile.mysis_id)

    def _show(self, activity: Activity) -> None:
        self._live.show_activity(activity)
        self._services.view.touch(self._profile.mysis_id)

    def _uptime(self) -> int:
        return self._services.clock.uptime()

    # Tasks.

    def _watch_later(self) -> Timer:
        every = max(SECOND, to_micros(self._turn.rules.turn.timeout) // 10)
        return self._services.clock.call_after(every, self._watch)

    def _watch(self) -> None:
        """Feed the time to the machine, so that a turn without progress ends. Waiting counts as progress."""
        excused = (
            self._services.hold.holds(self._profile.mysis_id)
            or self._turn.phase in (t.TurnPhase.RESTING, t.TurnPhase.HELD)
            or self._services.approvals.waits_for_budget(self._opened.turn_id)
            or bool(self._model and self._model.is_held)
        )
        if excused:
            self._progress_at = self._uptime()
        elif self._uptime() - self._progress_at >= to_micros(self._turn.rules.turn.timeout):
            self.post(t.TimePassed(self._uptime(), self._progress_at))
        self._watchdog = self._watch_later()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._own(asyncio.create_task(work))

    def _own(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # An unexpected error ends the turn through the catch-all of `run`.
            self._broken = error
            self.post(t.TimePassed(self._uptime()))

    async def _stop_tasks(self, going_on: frozenset[asyncio.Task[None]] = frozenset()) -> None:
        """Cancel the tasks in flight but `going_on`. The turn ends without those that do not end in time."""
        tasks, self._tasks = self._tasks - going_on, set()
        for task in tasks:
            task.cancel()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=CANCEL_WITHIN_S)
            if late:
                _log.warning(
                    "%d calls of mysis #%d do not let themselves be cancelled", len(late), self._profile.mysis_id
                )
