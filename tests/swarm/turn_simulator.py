"""A swarm's driver and store in memory: carries out what `turn.step` asks for, without a loop, clock or database.

`Rows` keeps what the store would keep, under the same ids and the same rules.
`Run` feeds one turn; what happens outside (answers, results, approvals, time)
is decided by whoever holds it. Every request that is planned is kept with all
that it was planned from, so that properties can be asked of it.
"""

from __future__ import annotations

import copy
import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, assert_never

from msgspec import Struct
from msgspec.structs import replace

from zoea.context import (
    MAX_ROUNDS,
    EarlierTurn,
    EarlierTurns,
    FrozenTurn,
    InheritedContext,
    LastAnswer,
    LatestSlice,
    MemoriesById,
    Need,
    Note,
    OutsideNeed,
    Plan,
    Recall,
    StandingOrder,
    StoredAnswer,
    TurnRecord,
    TurnSoFar,
    missing_needs,
    plan_turn,
)
from zoea.context import NeedAnswer as NeedAnswer
from zoea.model.enums import CallState, ErrorClass, OpenedBy, Outcome, Role, Source
from zoea.model.errors import PlanError
from zoea.model.request import Answer, AnswerCall, ToolResult
from zoea.model.values import Failure, Memory, ToolCall
from zoea.settings.schema import Settings
from zoea.swarm.persistence.restore import restore
from zoea.swarm.rules import SECOND, TurnRules, WaitRules
from zoea.swarm.turn import fingerprint, loop_guard
from zoea.swarm.turn import turn_types as t
from zoea.swarm.turn.machine import step
from zoea.swarm.turn.shown_notes import limit_in

NUDGE = "Continue your mission. Check notifications and coordinate with the swarm."
READ_ONLY = frozenset({"get_status", "get_map", "look"})
ASKING = frozenset({"burn"})
TOOLS = ("get_status", "get_map", "look", "mine", "login", "burn", "act", "zoea_wait")
VOLATILE = ("current_tick", "*timestamp*", "*_at")


@dataclass
class Message:
    """A row of the inbox."""

    id: int
    text: str
    label: str = ""
    steers: bool = False
    turn_id: int | None = None


class TurnRow(Struct):
    """An opened turn."""

    id: int
    number: int
    frozen: FrozenTurn
    notes: list[Note] = []
    limits: list[int] = []
    outcome: Outcome | None = None
    broke_off: Outcome | None = None
    stored: dict[str, StoredAnswer] = {}
    asked: int = 0

    def stored_answer(self, need: OutsideNeed, memories: Iterable[int]) -> StoredAnswer:
        """Return the answer to a need. Asking outside again would give another one, so it is asked once."""
        if need.key not in self.stored:
            self.asked += 1
            assert isinstance(need, Recall)
            older = [one for one in memories if one <= need.before and one not in need.shown]
            hits = random.Random(self.asked).sample(older, min(need.items, len(older)))
            self.stored[need.key] = StoredAnswer.of({"hits": [[one, one % 3] for one in hits], "late": not hits})
        return self.stored[need.key]


@dataclass
class RequestRow:
    id: int
    turn_id: int
    attempt: int
    state: str = "reserved"
    error_class: ErrorClass | None = None
    was_empty: bool = False
    gave_answer: bool = False


@dataclass
class Rows:
    """The stored rows of one mysis. Memories and calls by id."""

    memories: dict[int, Memory] = field(default_factory=dict)
    calls: dict[int, ToolCall] = field(default_factory=dict)
    call_of: dict[int, int] = field(default_factory=dict)
    inbox: dict[int, Message] = field(default_factory=dict)
    turns: dict[int, TurnRow] = field(default_factory=dict)
    requests: list[RequestRow] = field(default_factory=list)
    now: int = 1_000_000 * SECOND
    parts_left: int = 0
    """Parts of a summary that the open turn waits for."""

    def copy(self) -> Rows:
        """Return the same rows for another run. Memories and calls never change in place."""
        return Rows(
            dict(self.memories),
            dict(self.calls),
            dict(self.call_of),
            {number: copy.copy(one) for number, one in self.inbox.items()},
            {
                number: replace(one, notes=list(one.notes), limits=list(one.limits), stored=dict(one.stored))
                for number, one in self.turns.items()
            },
            [copy.copy(one) for one in self.requests],
            self.now,
            self.parts_left,
        )

    def arrive(self, text: str, label: str = "", *, steers: bool = False) -> int:
        message = Message(len(self.inbox) + 1, text, label, steers)
        self.inbox[message.id] = message
        return message.id

    def memory(self, memory_id: int) -> Memory:
        """A memory as it is read back: with its calls as they stand now."""
        own = tuple(self.calls[call] for call, memory in sorted(self.call_of.items()) if memory == memory_id)
        found = self.memories[memory_id]
        answered = self.calls.get(found.call_id or 0)
        return replace(found, calls=own, is_error=answered is not None and answered.state is not CallState.DONE)

    def of_turn(self, turn_id: int) -> tuple[Memory, ...]:
        own = [self.memory(one.id) for one in self.memories.values() if one.turn_id == turn_id]
        return tuple(sorted(own, key=lambda one: one.seq))

    def open_turn(self, deliveries: tuple[int, ...], nudge_level: int, frozen: FrozenTurn) -> TurnRow:
        assert all(row.outcome is not None for row in self.turns.values()), "one open turn, by construction"
        number = len(self.turns) + 1
        nudged = not deliveries
        frozen = replace(
            frozen,
            turn_id=number * 10,
            turn_number=number,
            before=max(self.memories, default=0),
            opened_by=OpenedBy.NUDGE if nudged else OpenedBy.PROMPT,
            nudge_level=nudge_level,
            nudge_text=NUDGE if nudged else "",
            earlier=() if nudged else self._earlier(frozen.keep_turns),
            recall_items=0 if nudged else frozen.recall_items,
        )
        row = self.turns[frozen.turn_id] = TurnRow(frozen.turn_id, number, frozen)
        self._take(row, deliveries, 1)
        return row

    def _earlier(self, most: int) -> tuple[EarlierTurn, ...]:
        """The newest turns that a message opened, every other one bare."""
        opened = [row.id for row in self.turns.values() if not row.frozen.is_nudged]
        return tuple(EarlierTurn(turn_id, turn_id % 20 == 0) for turn_id in (opened[-most:] if most else ()))

    def _take(self, row: TurnRow, deliveries: tuple[int, ...], seq: int) -> tuple[Memory, ...]:
        taken: list[Memory] = []
        for delivery in sorted(set(deliveries)):
            message = self.inbox[delivery]
            if message.turn_id is not None:
                continue
            message.turn_id = row.id
            source = Source.BROADCAST if "broadcast" in message.label else Source.DIRECT
            taken.append(
                self._insert(
                    row, seq + len(taken), Role.USER, source, message.text, label=message.label, message_id=message.id
                )
            )
        return tuple(taken)

    def _insert(self, row: TurnRow, seq: int, role: Role, source: Source, content: str, **rest: Any) -> Memory:
        assert seq not in {one.seq for one in self.memories.values() if one.turn_id == row.id}, "UNIQUE (turn_id, seq)"
        memory = Memory(
            id=len(self.memories) + 1,
            mysis_id=1,
            turn_id=row.id,
            turn_number=row.number,
            seq=seq,
            role=role,
            source=source,
            content=content,
            created_at=self.now,
            **rest,
        )
        self.memories[memory.id] = memory
        return memory

    def reserve(self, turn_id: int, attempt: int) -> int:
        self.requests.append(RequestRow(len(self.requests) + 1, turn_id, attempt))
        return self.requests[-1].id

    def unanswered(self, turn_id: int) -> tuple[t.PastRequest, ...]:
        """The requests of a turn since its last answer."""
        own = [one for one in self.requests if one.turn_id == turn_id]
        since = max((place for place, one in enumerate(own, 1) if one.gave_answer), default=0)
        return tuple(t.PastRequest(one.attempt, one.error_class, one.was_empty) for one in own[since:])

    def _settle(self, request_id: int, state: str, error_class: ErrorClass | None = None) -> None:
        if request_id:
            row = self.requests[request_id - 1]
            assert row.state == "reserved", "a request is settled once"
            row.state, row.error_class = state, error_class

    def carry_out(self, turn_id: int, op: t.TurnOp) -> t.OpStored:
        """One op, all of it; see `turn_ops.carry_out`."""
        row = self.turns[turn_id]
        match op:
            case t.StoreAnswer():
                return self._answer(row, op)
            case t.StoreResult():
                return t.OpStored(self.now, *self._results(row, (op,)))
            case t.MarkSent():
                for call_id in op.call_ids:
                    self.calls[call_id] = replace(self.calls[call_id], state=CallState.SENT)
                return t.OpStored(self.now, calls=tuple(self.calls[one] for one in op.call_ids))
            case t.TakeSteers():
                return t.OpStored(self.now, self._take(row, op.delivery_ids, op.seq))
            case t.StoreNote():
                note = Note(op.after_seq, op.kind, op.content)
                assert (note.after_seq, note.kind) not in {(one.after_seq, one.kind) for one in row.notes}, "its key"
                row.notes.append(note)
                return t.OpStored(self.now, notes=(note,))
            case t.SettleRequest():
                self._settle(op.request_id, "settled")
                self.requests[op.request_id - 1].was_empty = True
                return t.OpStored(self.now)
            case t.FailRequest():
                self._settle(op.request_id, "released", op.error_class)
                if op.note is not None and (limit := limit_in(op.note.kind)) is not None:
                    row.limits.append(limit)
                return t.OpStored(self.now)
            case t.CloseTurn() | t.BreakOffTurn():
                return self._leave(row, op)
            case t.ResumeTurn():
                row.broke_off = None
                return t.OpStored(self.now, *self._results(row, op.results))
            case _:
                assert_never(op)

    def _answer(self, row: TurnRow, op: t.StoreAnswer) -> t.OpStored:
        answer = self._insert(row, op.seq, Role.ASSISTANT, Source.LLM, op.answer.text, reasoning=op.answer.reasoning)
        stored = []
        for position, prepared in enumerate(op.calls):
            call = ToolCall(
                len(self.calls) + 1,
                position,
                prepared.name,
                prepared.arguments,
                fingerprint=prepared.fingerprint,
                state=CallState.SENT
                if position in op.start
                else CallState.APPROVAL
                if prepared.asks and prepared.known and not prepared.broken
                else CallState.PENDING,
            )
            self.calls[call.id] = call
            self.call_of[call.id] = answer.id
            if not prepared.known or prepared.broken or prepared.skipped:
                wrong = ToolResult(prepared.skipped or "that call is broken", is_error=True)
                state = CallState.CANCELLED if prepared.skipped else CallState.ERROR
                result = t.StoreResult(row.id, call.id, op.seq + 1 + position, wrong, state)
                stored += list(self._results(row, (result,))[0])
        self._settle(op.request_id, "settled")
        self.requests[op.request_id - 1].gave_answer = True
        if op.outcome is not None:
            row.outcome = op.outcome
        return t.OpStored(self.now, (self.memory(answer.id), *stored))

    def _results(self, row: TurnRow, ops: tuple[t.StoreResult, ...]) -> tuple[tuple[Memory, ...], tuple[ToolCall, ...]]:
        memories, calls = [], []
        same = ((op, one) for op in ops for one in op.repeats)
        for op in (*ops, *(replace(op, call_id=call_id, seq=seq) for op, (call_id, seq) in same)):
            call = self.calls[op.call_id]
            assert call.state.is_open, "a call has one result"
            memory = self._insert(
                row, op.seq, Role.TOOL, Source.TOOL, op.result.content, call_id=call.id, tool_name=call.name
            )
            digest = fingerprint.of_result(op.result.content, VOLATILE)
            self.calls[call.id] = replace(call, state=op.state, result_memory_id=memory.id, result_fingerprint=digest)
            memories.append(self.memory(memory.id))
            calls.append(self.calls[call.id])
        return tuple(memories), tuple(calls)

    def _leave(self, row: TurnRow, op: t.CloseTurn | t.BreakOffTurn) -> t.OpStored:
        is_released = op.unsent or op.error_class is not None
        error_class = ErrorClass.CANCELLED if op.unsent else op.error_class
        self._settle(op.request_id, "released" if is_released else "estimated", error_class)
        partial: tuple[Memory, ...] = ()
        if op.partial is not None and (op.partial.text.strip() or op.partial.reasoning.strip()):
            kept = self._insert(row, op.seq, Role.ASSISTANT, Source.LLM, op.partial.text, partial=True)
            partial = (kept,)
        memories, calls = self._results(row, op.results)
        if isinstance(op, t.CloseTurn):
            row.outcome = op.outcome
        else:
            row.broke_off = op.outcome
        return t.OpStored(self.now, (*memories, *partial), calls)

    def answers(self, frozen: FrozenTurn) -> dict[Need, NeedAnswer]:
        """Return what the store answers to a turn's needs, in rounds.

        What is outside answers once a turn.
        """
        answers: dict[Need, NeedAnswer] = {TurnSoFar(frozen.turn_id): self._answer_of(TurnSoFar(frozen.turn_id))}
        for _ in range(MAX_ROUNDS):
            for need in missing_needs(frozen, answers):
                if isinstance(need, OutsideNeed):
                    answers[need] = self.turns[frozen.turn_id].stored_answer(need, self.memories)
                else:
                    answers[need] = self._answer_of(need)
        assert missing_needs(frozen, answers) == ()
        return answers

    def _answer_of(self, need: Need) -> tuple[Memory, ...] | TurnRecord:
        match need:
            case TurnSoFar(turn_id):
                return TurnRecord(self.of_turn(turn_id), tuple(self.turns[turn_id].notes))
            case LatestSlice(before, window):
                newest = [one for one in self.memories if one <= before][-window:] if window else []
                return tuple(self.memory(one) for one in newest)
            case LastAnswer(before):
                if not before:
                    return ()
                previous = self.of_turn(self.memories[before].turn_id)
                answers = [one for one in previous if one.role is Role.ASSISTANT][-1:]
                return tuple(one for one in answers if not one.calls and not one.partial)
            case StandingOrder(before):
                return tuple([one for one in self.memories.values() if one.id <= before and one.role is Role.USER][-1:])
            case EarlierTurns(turn_ids):
                return tuple(memory for turn_id in turn_ids for memory in self.of_turn(turn_id))
            case MemoriesById(memory_ids):
                return tuple(self.memory(one) for one in memory_ids)
            case OutsideNeed() | InheritedContext():
                raise AssertionError("it is answered once a turn")
            case _:
                assert_never(need)


@dataclass(frozen=True)
class Planned:
    """A request as it was planned, and from what."""

    frozen: FrozenTurn
    answers: dict[Need, NeedAnswer]
    plan: Plan

    @property
    def record(self) -> TurnRecord:
        found = self.answers[TurnSoFar(self.frozen.turn_id)]
        assert isinstance(found, TurnRecord)
        return found


@dataclass
class Run:
    """One turn from its opening or restoring to its end.

    `at_each_store` is called after each acknowledgement. While the run is `on_hold` nothing may begin. Whoever takes
    that back gives `Lifted` if it is `lifting`.
    """

    rows: Rows
    row: TurnRow
    rules: TurnRules
    turn: t.TurnState
    verdict: Callable[[Run], t.BudgetVerdict]
    at_each_store: Callable[[Run], None] = lambda _: None
    planned: list[Planned] = field(default_factory=list)
    calling: bool = False
    summarising: bool = False
    running: list[int] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    sleeping: int | None = None
    aborting: Outcome | None = None
    questioned: bool = False
    on_hold: bool = False
    lifting: bool = False
    lifts: int = 0
    end: t.TurnEnd | None = None
    ran: list[int] = field(default_factory=list)

    @classmethod
    def opened(
        cls, rows: Rows, row: TurnRow, rules: TurnRules, verdict: Callable[[Run], t.BudgetVerdict], **more: Any
    ) -> Run:
        turn = t.TurnState(
            turn_id=row.id,
            rules=rules,
            rules_wait=WaitRules.of(Settings()),
            nudged=row.frozen.is_nudged,
            at=rows.now,
            memories=rows.of_turn(row.id),
            read_only=READ_ONLY,
        )
        return cls(rows, row, rules, turn, verdict, **more)

    def begin(self) -> None:
        self.give(self._fetch())

    @classmethod
    def restored(
        cls, rows: Rows, row: TurnRow, rules: TurnRules, verdict: Callable[[Run], t.BudgetVerdict], **more: Any
    ) -> Run:
        """Go on from the rows alone, as after a crash."""
        rows = rows.copy()
        row = rows.turns[row.id]
        turn, effects = restore(
            turn_id=row.id,
            memories=rows.of_turn(row.id),
            notes=tuple(row.notes),
            rules=rules,
            rules_wait=WaitRules.of(Settings()),
            read_only=READ_ONLY,
            nudged=row.frozen.is_nudged,
            at=rows.now,
            limits=tuple(row.limits),
            requests=rows.unanswered(row.id),
        )
        # As the runner does: a steer that waits joins the very next request.
        turn = replace(turn, steers=tuple(one.id for one in rows.inbox.values() if one.turn_id is None and one.steers))
        for request in rows.requests:
            if request.state == "reserved":
                request.state = "estimated"
        run = cls(rows, row, rules, turn, verdict, **more)
        run.carry(effects)
        return run

    @property
    def waits(self) -> bool:
        """It waits for something outside."""
        found = self.calling or self.summarising or self.running or self.asked or self.questioned or self.lifting
        return bool(found) or self.sleeping is not None

    def give(self, given: t.TurnInput) -> tuple[t.TurnEffect, ...]:
        """Feed an input and carry out all that follows from it at once."""
        match given:
            case t.Answered() | t.CallFailed() | t.CallWithheld():
                self.calling = False
            case t.CallFinished() if given.call_id in self.running:
                self.running.remove(given.call_id)
            case t.Approved() if given.call_id in self.asked:
                self.asked.remove(given.call_id)
            case t.Summarised() | t.SummaryFailed():
                self.summarising = False
            case t.TurnCancelled():
                self.summarising = False
                self.calling, self.running, self.asked, self.sleeping = False, [], [], None
                self.questioned = self.lifting = False
            case t.HoldLifted():
                self.lifting = False
                self.lifts += 1
            case t.TimePassed():
                self.questioned = False
                if self.sleeping is not None and given.at >= self.sleeping:
                    self.sleeping = None
            case _:
                pass
        if self.turn.held != self.on_hold:
            self.turn, effects = step(self.turn, t.HoldChanged(self.rows.now, self.on_hold))
            assert effects == ()
        self.turn, effects = step(self.turn, given)
        self.carry(effects)
        return effects

    def carry(self, effects: tuple[t.TurnEffect, ...]) -> None:
        waiting = deque(effects)
        while waiting:
            effect = waiting.popleft()
            assert self.end is None, "nothing is emitted after End"
            assert not (isinstance(effect, t.StoreOp) and waiting), "a Store is the last effect of a step"
            answer = self._carry_out(effect)
            if answer is not None:
                self.turn, more = step(self.turn, answer)
                waiting.extend(more)
        assert self.lifting or self.turn.phase is not t.TurnPhase.HELD, "what is kept back by a hold goes on after it"
        assert self.end is not None or self.waits or self.aborting, "it ends, or waits for something outside"

    def _carry_out(self, effect: t.TurnEffect) -> t.TurnInput | None:
        assert not (self.on_hold and isinstance(effect, t.Reserve | t.Call | t.Run | t.Summarise)), (
            "on hold nothing begins"
        )
        match effect:
            case t.Fetch():
                return self._fetch(effect)
            case t.Summarise():
                assert not self.summarising
                self.summarising = True
            case t.PlanRequest():
                return self._plan(effect.limit)
            case t.Reserve():
                given = self.verdict(self)
                self.questioned = given.asked
                if given.refused or given.held or given.asked:
                    return given
                return replace(given, request_id=self.rows.reserve(self.row.id, effect.attempt))
            case t.Call():
                assert not self.calling
                self.calling = True
            case t.Run():
                for call_id in effect.call_ids:
                    assert call_id not in self.ran, "a call runs once"
                    assert self.rows.calls[call_id].state is CallState.SENT
                self._check_overlap(effect.call_ids)
                self.running += effect.call_ids
                self.ran += effect.call_ids
            case t.Ask():
                assert self.rows.calls[effect.call_id].state is CallState.APPROVAL
                assert effect.call_id not in self.asked
                self.asked.append(effect.call_id)
            case t.StoreOp():
                stored = self.rows.carry_out(self.row.id, effect.op)
                assert not (self.on_hold and isinstance(effect.op, t.MarkSent)), "on hold nothing is sent"
                self.at_each_store(self)
                return stored
            case t.Sleep():
                self.sleeping = effect.until
            case t.AwaitLift():
                self.lifting = True
            case t.Abort():
                self.aborting = effect.outcome
            case t.TurnEnd():
                self.end = effect
            case _:
                assert_never(effect)
        return None

    def _check_overlap(self, call_ids: tuple[int, ...]) -> None:
        together = [self.rows.calls[one].name for one in (*self.running, *call_ids)]
        assert len(together) == 1 or all(name in READ_ONLY for name in together), "only read-only calls overlap"

    def summarise(self) -> None:
        """Store a part of the summary, and go on."""
        self.rows.parts_left -= 1
        self.at_each_store(self)
        self.give(t.Summarised(self.rows.now))

    def _fetch(self, effect: t.Fetch = t.Fetch()) -> t.TurnInput:
        if self.rows.parts_left and not effect.gives_up:
            return t.SummaryWanted(self.rows.now)
        before = self.row.frozen.before
        previous = self.rows.of_turn(self.rows.memories[before].turn_id) if before else ()
        return t.TurnOpened(self.rows.now, loop_guard.calls_of(previous)[-10:], loop_guard.texts_of(previous)[-10:])

    def _plan(self, limit: int | None) -> t.TurnInput:
        frozen = self.row.frozen if limit is None else self.row.frozen.tightened(limit)
        answers = self.rows.answers(frozen)
        record = answers[TurnSoFar(frozen.turn_id)]
        assert isinstance(record, TurnRecord)
        assert record.memories == self.turn.memories, "the machine knows its rows"
        assert set(record.notes) == set(self.turn.notes)
        try:
            plan = plan_turn(frozen, answers)
        except PlanError as error:
            return t.Unplannable(self.rows.now, Failure("PlanError", error.title, error.what, error.hint))
        self.planned.append(Planned(frozen, answers, plan))
        return t.Planned(self.rows.now)


def prepared(name: str, arguments: str, *, known: bool = True, broken: str = "") -> t.PreparedCall:
    """A call as the driver prepares it."""
    return t.PreparedCall(
        name,
        arguments,
        fingerprint=fingerprint.of_call(name, arguments),
        known=known,
        broken=broken,
        read_only=name in READ_ONLY,
        asks=name in ASKING,
    )


def answered(at: int, text: str, *calls: t.PreparedCall, reasoning: str = "") -> t.Answered:
    asked = tuple(AnswerCall(one.name, one.arguments, broken=one.broken) for one in calls)
    return t.Answered(at, Answer(text=text, reasoning=reasoning, calls=asked), calls)
