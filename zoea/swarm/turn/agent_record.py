"""Stores what one turn of an external agent tells, and keeps its memories. Reserves and settles its prompts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from msgspec.structs import replace

from zoea.agents.updates import UsageTold
from zoea.model.enums import Activity, Finish
from zoea.model.ports import ToolSession
from zoea.model.request import Answer
from zoea.model.values import Failure, Memory, ToolCall, Usage
from zoea.settings.schema import BudgetSettings
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.budgets import has_crossed_warning
from zoea.swarm.commit_capture import CaptureStep
from zoea.swarm.persistence import agent_ops, memory_ops, mysis_ops, spend_ops, turn_ops
from zoea.swarm.resolved_template import MysisProfile
from zoea.swarm.services import Services
from zoea.swarm.turn import shown_notes
from zoea.swarm.turn import turn_types as t
from zoea.swarm.turn.budget_stage import BudgetStage, spent_by
from zoea.swarm.turn.output_stage import OutputStage
from zoea.swarm.turn.request_preparation import limits_of, lowest_limit
from zoea.swarm.turn.turn_close import next_seq
from zoea.swarm.turn.turn_failures import end_from
from zoea.swarm.turn.turn_runner import DrivenTurn, StoredOp, TurnClosing, TurnOwner, TurnWrite


class AgentRecord:
    """The stored side of one open turn.

    Attributes:
        masks: The session of tools, which conceals the values of secrets.
        turn: With its memories, in conversation order.
        usage: What the agent told last of its tokens.
        progress_at: The uptime of the newest progress, µs.
    """

    def __init__(
        self,
        services: Services,
        profile: MysisProfile,
        info: memory_ops.TurnInfo,
        opened: DrivenTurn,
        owner: TurnOwner,
        masks: ToolSession,
        turn: t.TurnState,
    ) -> None:
        self.services = services
        self.profile = profile
        self.info = info
        self.opened = opened
        self.masks = masks
        self.turn = turn
        self.live = services.view.row(profile.mysis_id)
        self.outputs = OutputStage(services, profile, opened.frozen.topics, opened.hop)
        self.usage: UsageTold | None = None
        self.progress_at = services.clock.uptime()
        self._owner = owner
        self._request_id = self._iteration = self._estimated = 0
        self._cost_before: int | None = None
        self._used = self.live.turn_tokens = opened.used_tokens
        self.live.turn_limit = lowest_limit(profile.settings.budget.token_budget_per_task, opened.frozen.task_tokens)

    @property
    def next_seq(self) -> int:
        return next_seq(self.turn.memories)

    async def conceal(self, answer: Answer) -> Answer:
        """Return an answer without calls and without the values of secrets."""
        return await self.masks.conceal_partial(answer)

    # Storing.

    async def store(self, op: t.TurnOp, first: Callable[[WriterConnection], None] | None = None) -> t.OpStored:
        """Store an op within the turn, after `first` in the same transaction."""
        # No commit before the end of the turn: calls overlap, and a commit holds each result behind its call.
        capture = await self._owner.capture.prepare(t.MarkSent(()))
        written = await self.services.write(partial(self._write, op=op, capture=capture, first=first))
        return self._settle(written, op, capture)

    def close(self, op: t.StoreAnswer | t.CloseTurn | t.BreakOffTurn, end: t.TurnEnd) -> TurnClosing:
        """Return the end of the turn, to be stored with what follows from it."""

        async def prepare() -> TurnWrite:
            self._owner.capture.tree = (await self.outputs.commit_files(op, end)).tree
            capture = await self._owner.capture.prepare(op)
            write = partial(self._write, op=op, capture=capture)
            return TurnWrite(write, partial(self._settle, op=op, capture=capture))

        async def leave_open(error: Exception) -> TurnClosing:
            return TurnClosing(end_from(error))

        return TurnClosing(end, prepare, leave_open)

    def _write(
        self,
        conn: WriterConnection,
        op: t.TurnOp,
        capture: CaptureStep,
        first: Callable[[WriterConnection], None] | None = None,
    ) -> StoredOp:
        if first is not None:
            first(conn)
        ahead, limit = self.services.clock.ahead, self.live.turn_limit
        stored = turn_ops.carry_out(conn, self.info, op)
        capture.write(conn, stored.memories)
        self.outputs.conclude(conn, op)
        used = self._used + spent_by(op, self._estimated) if isinstance(op, t.SettleRequest) else self._used
        if has_crossed_warning(self._used, used, limit):
            conn.emit("budget.warning", self.profile.mysis_id, scope="turn", used=used, limit=limit)
        return StoredOp(stored, mysis_ops.tally(conn, self.profile.mysis_id), used, ahead)

    def _settle(self, done: StoredOp, op: t.TurnOp, capture: CaptureStep) -> t.OpStored:
        """Apply a stored op in memory, and return it with uptimes."""
        stored = done.stored
        capture.settle(stored.memories, stored.notes, stored.at)
        self.outputs.hand_over()
        self._used = self.live.turn_tokens = done.used
        if isinstance(op, t.SettleRequest | t.LeaveTurn):
            self.services.budget_queue.wake_some()
        self.live.count(done.tally)
        self.note_progress()
        match op:
            case t.StoreAnswer():
                self.live.clear_stream()
                if op.answer.text:
                    self.live.say(op.answer.text, stored.at)
            case t.TakeSteers():
                self._owner.taken(stored.taken)
            case t.LeaveTurn() if op.failure is not None:
                self.live.say(op.failure.title, stored.at)
        self.services.view.touch(self.profile.mysis_id)
        stored = replace(stored, at=stored.at - done.ahead, memories=t.with_uptimes(stored.memories, done.ahead))
        self.merge(stored.memories, stored.calls)
        return stored

    def merge(self, memories: tuple[Memory, ...], calls: tuple[ToolCall, ...]) -> None:
        """Add stored memories and replace changed calls."""
        self.turn = replace(self.turn, memories=merge_memories(self.turn.memories, memories, calls))

    async def note(self, kind: str, text: str) -> None:
        """Store a note for people at this place of the conversation."""
        op = t.StoreNote(self.opened.turn_id, self.next_seq - 1, f"{shown_notes.AGENT}{kind}", text)
        await self.store(op)

    def note_progress(self) -> None:
        self.progress_at = self.services.clock.uptime()
        self.live.progress_at = self.services.clock.now()

    def show(self, activity: Activity) -> None:
        """Show what the agent does."""
        if activity is not self.live.activity:
            self.live.show_activity(activity)
            self.services.view.touch(self.profile.mysis_id)

    # Budgets, where the gateway does not see the requests.

    async def admit(self, tokens: int, spawn: Callable[[Coroutine[Any, Any, None]], None]) -> Failure | None:
        """Reserve what a prompt may use, as one request; wait where a budget says so. Return why it refused."""
        services = self.services
        self._iteration += 1
        self._estimated = max(1, tokens)
        ask = spend_ops.Reservation(
            turn_id=self.opened.turn_id,
            iteration=self._iteration,
            attempt=1,
            plan=None,
            catalogue_hash="",
            estimated_tokens=self._estimated,
            tokens=self._estimated + self.profile.max_output_tokens,
        )
        while True:
            await services.hold.lifted(self.profile.mysis_id)
            own = self._owner.known.settings.budget
            limits = limits_of(services, self.profile.mysis_id, own, self._used, self.opened.frozen)
            self.live.turn_limit = limits.turn.limit or 0
            reserved = await services.write(partial(spend_ops.reserve, owner=self.info, limits=limits, ask=ask))
            proceed = asyncio.Event()
            turn_id, is_current = self.opened.turn_id, partial(self._has_budgets, own)
            stage = BudgetStage(
                services, self.live, self.info.model, turn_id, proceed.set, self.show, spawn, is_current
            )
            verdict = await stage.verdict(reserved)
            if verdict.refused:
                return Failure("Budget", verdict.refused, hint=verdict.hint)
            if verdict.asked:
                await proceed.wait()
            elif not verdict.held:
                if verdict.rest_until is not None:
                    await services.clock.sleep(max(0, verdict.rest_until - services.clock.uptime()))
                self._request_id = verdict.request_id
                return None

    def _has_budgets(self, own: BudgetSettings) -> bool:
        return own == self._owner.known.settings.budget

    def take_usage(self, told: UsageTold) -> None:
        """Take what the agent tells of its context and of what the session has cost."""
        if self._cost_before is None:
            self._cost_before = told.cost_micros or 0
        self.usage = told
        self.live.show_context(told.used, told.size)

    async def settle_prompt(self, usage: Usage) -> None:
        """Settle the reservation of a prompt with what the agent tells, or with an estimate."""
        if not self._request_id:
            return
        request_id, self._request_id = self._request_id, 0
        reported = self.usage
        if usage.total is None and reported is not None:
            self._estimated = max(self._estimated, reported.used)
        if reported is not None and reported.cost_micros is not None and self._cost_before is not None:
            usage = replace(usage, cost_micros=max(0, reported.cost_micros - self._cost_before))
            self._cost_before = reported.cost_micros
        estimated = self._estimated
        op = t.SettleRequest(request_id, usage, Finish.STOP)
        await self.store(op, first=lambda conn: agent_ops.set_estimate(conn, request_id, estimated))


def merge_memories(
    memories: tuple[Memory, ...], stored: tuple[Memory, ...], calls: tuple[ToolCall, ...]
) -> tuple[Memory, ...]:
    """Return memories with stored ones and changed calls, in conversation order."""
    changed = {call.id: call for call in calls}
    known = [
        replace(one, calls=tuple([changed.get(call.id, call) for call in one.calls])) if one.calls and changed else one
        for one in memories
    ]
    return tuple(sorted((*known, *stored), key=lambda one: one.seq))
