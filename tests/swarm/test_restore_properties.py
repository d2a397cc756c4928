"""A run cut after any acknowledged row and restored goes on as if uncut.

What is outside is decided by a script alone (by iteration and by call), so the
cut run and the uncut one meet the same world.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from tests.case_tables import walk_cases
from tests.context.sample_histories import HOSTILE, texts
from tests.swarm.invariants import check_requests
from tests.swarm.turn_simulator import ASKING, Rows, Run, answered, prepared
from zoea.context import FrozenTurn
from zoea.model.enums import ApprovalAnswer, CallState, ErrorClass, Outcome, Role
from zoea.model.request import Answer, GivenAnswer, RequestMessage, ToolResult
from zoea.model.values import Failure
from zoea.settings.schema import Settings
from zoea.swarm.persistence.restore import MAY_HAVE_RUN, NEVER_RAN
from zoea.swarm.rules import SECOND, TurnRules
from zoea.swarm.turn import turn_types as t

NAMES = ("get_status", "get_map", "look", "mine", "act", "login", "burn", "nowhere")
RULES = TurnRules.of(Settings.model_validate({"turn": {"max_iterations": 6}}))


class Iteration(Struct, frozen=True):
    """What the world does in one iteration: failures first, then an answer; steers arrive before it, maybe a hold."""

    tools: tuple[str, ...]
    text: str
    fails: tuple[ErrorClass, ...]
    is_silent_once: bool
    steers: tuple[str, ...]
    is_held: bool


ITERATIONS = st.builds(
    Iteration,
    tools=st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(tuple),
    text=st.sampled_from(("", "I go on.", *HOSTILE)),
    fails=st.sampled_from(
        (
            (),
            (),
            (),
            (ErrorClass.TRANSIENT,),
            (ErrorClass.TRANSIENT, ErrorClass.TRANSIENT),
            (ErrorClass.CONTEXT_LENGTH,),
        )
    ),
    is_silent_once=st.sampled_from((False, False, False, True)),
    steers=st.lists(st.sampled_from(("hurry", *HOSTILE)).filter(str.strip), max_size=1).map(tuple),
    is_held=st.sampled_from((False, False, True)),
)


@dataclass
class World:
    """Everything outside, from the script. A copy of it goes on from where it was."""

    script: Sequence[Iteration]
    results: Sequence[str]
    denies: bool
    failed: int = 0
    silent: int = 0
    summaries: int = 0

    def live(self, run: Run, *, until: int | None = None) -> None:
        """Let the run go on to its end, or through so many events."""
        while run.end is None and (until is None or until > 0):
            self.event(run)
            until = None if until is None else until - 1

    def event(self, run: Run) -> None:
        run.rows.now += SECOND
        if run.calling:
            run.give(self.answer(run))
        elif run.summarising:
            self.summarise(run)
        elif run.lifting:
            run.on_hold = False
            run.give(t.HoldLifted(run.rows.now))
        elif run.asked:
            answer = ApprovalAnswer.DENIED if self.denies else ApprovalAnswer.ONCE
            run.give(t.Approved(run.rows.now, run.asked[0], GivenAnswer(answer)))
        elif run.running:
            # The first that was started ends first.
            call_id = run.running[0]
            run.give(t.CallFinished(run.rows.now, call_id, ToolResult(self.results[call_id % len(self.results)])))
        else:
            assert run.sleeping is not None
            run.rows.now = max(run.rows.now, run.sleeping)
            run.give(t.TimePassed(run.rows.now, run.rows.now))

    def summarise(self, run: Run) -> None:
        """Let the first part fail once and a hold begin at the second. Then each is written."""
        self.summaries += 1
        run.on_hold = self.summaries == 2
        if self.summaries == 1:
            run.give(t.SummaryFailed(run.rows.now, can_retry=True))
        else:
            run.summarise()

    def answer(self, run: Run) -> t.TurnInput:
        at = run.rows.now
        if run.turn.iteration > len(self.script):
            return t.Answered(at, Answer(text="done"))
        now = self.script[run.turn.iteration - 1]
        if self.failed < sum(len(one.fails) for one in self.script[: run.turn.iteration]):
            before = sum(len(one.fails) for one in self.script[: run.turn.iteration - 1])
            kind = now.fails[self.failed - before]
            self.failed += 1
            limit = int(run.planned[-1].plan.budget.final_tokens * 0.75)
            return t.CallFailed(at, Failure("ProviderError", "failed"), kind, jitter=0.5, limit=limit)
        if now.is_silent_once and self.silent < sum(one.is_silent_once for one in self.script[: run.turn.iteration]):
            self.silent += 1
            return t.Answered(at, Answer())
        number = run.turn.iteration * 10
        calls = [
            prepared(name, f'{{"n": {number + place}}}', known=name != "nowhere")
            for place, name in enumerate(now.tools)
        ]
        self.steer(run, now.steers)
        run.on_hold = now.is_held
        return answered(at, now.text, *calls)

    def steer(self, run: Run, texts: tuple[str, ...]) -> None:
        for text in texts:
            run.give(t.Steered(run.rows.now, (run.rows.arrive(text, steers=True),)))


def only_one_that_is_too_long(script: list[Iteration]) -> list[Iteration]:
    """A second request that is too long has a test of its own."""
    seen = False
    out = []
    for one in script:
        if ErrorClass.CONTEXT_LENGTH in one.fails and seen:
            one = replace(one, fails=())
        seen = seen or ErrorClass.CONTEXT_LENGTH in one.fails
        out.append(one)
    return out


SCRIPTS = st.lists(ITERATIONS, max_size=3).map(only_one_that_is_too_long)
FROZEN = st.builds(
    FrozenTurn,
    mysis_id=st.just(1),
    turn_id=st.just(0),
    turn_number=st.just(0),
    system=st.just("You are a mysis."),
    max_tokens=st.sampled_from((1200, 3000, 50_000)),
    max_result_chars=st.sampled_from((100_000, 2000)),
    keep_turns=st.sampled_from((0, 2)),
    recall_items=st.sampled_from((0, 3)),
    label_to=st.sampled_from(("", "alpha")),
)


@dataclass(frozen=True)
class Cut:
    """Rows and world right after an acknowledgement. `sent` counts the requests sent by then."""

    rows: Rows
    world: World
    sent: int


def sent(run: Run) -> list[tuple[RequestMessage, ...]]:
    """The requests, each once however often it was tried."""
    out: list[tuple[RequestMessage, ...]] = []
    for one in run.planned:
        if not out or out[-1] != one.plan.messages:
            out.append(one.plan.messages)
    return out


def passes(run: Run) -> t.BudgetVerdict:
    return t.BudgetVerdict(run.rows.now)


EVERY = 1 if os.environ.get("ZOEA_SOAK") else 3
"""The quick run goes on after every third cut. Each example begins at another one, so that each kind is among them."""


@pytest.mark.timeout(300)
@given(SCRIPTS, st.lists(texts(3000), min_size=1, max_size=5), st.booleans(), FROZEN, st.booleans(), st.integers(0, 3))
def test_the_requests_after_a_cut_are_those_of_the_uncut_run(
    script: list[Iteration], results: list[str], denies: bool, frozen: FrozenTurn, nudged: bool, parts: int
) -> None:
    world = World(script, results, denies)
    cuts: list[Cut] = []

    def remember(run: Run) -> None:
        cuts.append(Cut(run.rows.copy(), copy.copy(world), len(sent(run))))

    def go(run: Run) -> t.BudgetVerdict:
        remember(run)
        return t.BudgetVerdict(run.rows.now)

    rows = Rows()
    for order in ("the first order", "the second"):
        past = Run.opened(rows, rows.open_turn((rows.arrive(order),), 0, frozen), RULES, verdict=passes)
        past.begin()
        World(script[:1], results, denies).live(past)
    deliveries = () if nudged else (rows.arrive("old order"), rows.arrive("go", "[message from mysis alpha]"))
    row = rows.open_turn(deliveries, int(nudged), frozen)
    rows.parts_left = parts
    uncut = Run.opened(rows, row, RULES, go, at_each_store=remember)
    remember(uncut)
    uncut.begin()
    world.live(uncut)
    check_requests(uncut.planned, uncut.rows)
    whole = sent(uncut)
    for cut in cuts[len(cuts) % EVERY :: EVERY]:
        if cut.rows.turns[row.id].outcome is None:
            goes_on_as(whole, cut, row.id)


def goes_on_as(whole: list[tuple[RequestMessage, ...]], cut: Cut, turn_id: int) -> None:
    stood = {call.id: call.state for memory in cut.rows.of_turn(turn_id) for call in memory.calls}
    lost = {one: state for one, state in stood.items() if state in (CallState.PENDING, CallState.SENT)}
    run = Run.restored(cut.rows, cut.rows.turns[turn_id], RULES, lambda r: t.BudgetVerdict(r.rows.now))
    cut.world.live(run)
    check_requests(run.planned, run.rows)
    for call_id, state in lost.items():
        memory_id = run.rows.calls[call_id].result_memory_id
        assert memory_id is not None
        assert run.rows.memories[memory_id].content == (MAY_HAVE_RUN if state is CallState.SENT else NEVER_RAN)
        assert run.rows.calls[call_id].state is (CallState.UNKNOWN if state is CallState.SENT else CallState.CANCELLED)
    after = sent(run)
    if not lost:
        # A request that was on the wire at the cut is sent again.
        again = whole[cut.sent - 1 :] if cut.sent and after[:1] == whole[cut.sent - 1 : cut.sent] else whole[cut.sent :]
        assert [shape(one) for one in after] == [shape(one) for one in again]


def shape(messages: Sequence[RequestMessage]) -> list[tuple[object, ...]]:
    return [(one.role, one.content, one.calls, one.call_id, one.is_error, one.memory_id) for one in messages]


def test_unsent_calls_and_calls_in_flight_get_different_results() -> None:
    rows = Rows()
    row = rows.open_turn((rows.arrive("go"),), 0, FrozenTurn(1, 0, 0, system="s"))
    run = Run.opened(rows, row, RULES, lambda r: t.BudgetVerdict(r.rows.now))
    run.begin()
    run.give(answered(rows.now, "", prepared("act", '{"n": 1}'), prepared("act", '{"n": 2}')))
    again = Run.restored(rows, row, RULES, lambda r: t.BudgetVerdict(r.rows.now))
    results = [(one.content, one.is_error) for one in again.planned[0].plan.messages if one.role is Role.TOOL]
    assert results == [
        ("unknown: Zoea stopped while this ran; check before repeating it", True),
        ("cancelled: Zoea stopped before this ran", True),
    ]


def test_the_time_that_zoea_did_not_run_is_no_part_of_the_length_of_a_tick() -> None:
    def look(run: Run, tick: int) -> None:
        run.give(answered(run.rows.now, "", prepared("look", f'{{"n": {tick}}}')))
        run.give(t.CallFinished(run.rows.now, run.running[-1], ToolResult(f'{{"current_tick": {tick}}}')))

    rows = Rows()
    row = rows.open_turn((rows.arrive("go"),), 0, FrozenTurn(1, 0, 0, system="s"))
    run = Run.opened(rows, row, RULES, lambda r: t.BudgetVerdict(r.rows.now))
    run.begin()
    look(run, 100)
    rows.now += 600 * SECOND
    again = Run.restored(rows, row, RULES, lambda r: t.BudgetVerdict(r.rows.now))
    look(again, 101)
    again.rows.now += 28 * SECOND
    look(again, 105)
    again.give(answered(again.rows.now, "done"))
    assert again.end is not None
    assert again.end.tick_length == 7 * SECOND


def test_what_a_hold_kept_back_was_never_sent() -> None:
    rows = Rows()
    row = rows.open_turn((rows.arrive("go"),), 0, FrozenTurn(1, 0, 0, system="s"))
    run = Run.opened(rows, row, RULES, lambda r: t.BudgetVerdict(r.rows.now))
    run.begin()
    run.on_hold = True
    run.give(answered(rows.now, "", prepared("look", '{"n": 1}'), prepared("act", '{"n": 2}')))
    assert (run.lifting, run.ran, [one.state for one in rows.calls.values()]) == (True, [], [CallState.PENDING] * 2)
    again = Run.restored(rows, row, RULES, lambda r: t.BudgetVerdict(r.rows.now))
    assert [one.content for one in again.planned[0].plan.messages if one.role is Role.TOOL] == [NEVER_RAN, NEVER_RAN]


def test_a_request_that_a_hold_kept_back_is_given_back_and_counts_as_no_attempt() -> None:
    rows = Rows()
    row = rows.open_turn((rows.arrive("go"),), 0, FrozenTurn(1, 0, 0, system="s"))
    run = Run.opened(rows, row, RULES, lambda r: t.BudgetVerdict(r.rows.now, rest_until=r.rows.now + SECOND))
    run.begin()
    run.give(t.TimePassed(rows.now + SECOND))
    run.give(t.CallFailed(rows.now, Failure("ProviderError", "busy"), ErrorClass.TRANSIENT))
    run.give(t.TimePassed(run.turn.rest_until))
    run.on_hold = True
    run.give(t.TimePassed(run.turn.rest_until))
    assert run.lifting
    assert [(one.attempt, one.state, one.error_class) for one in rows.requests] == [
        (1, "released", ErrorClass.TRANSIENT),
        (2, "released", ErrorClass.CANCELLED),
    ]
    again = Run.restored(rows, row, RULES, lambda r: t.BudgetVerdict(r.rows.now))
    assert again.turn.attempt == run.turn.attempt == 2
    run.on_hold = False
    run.give(t.HoldLifted(rows.now))
    assert (run.turn.phase, rows.requests[-1].attempt, rows.requests[-1].state) == ("resting", 2, "reserved")


def test_an_unanswered_approval_is_asked_again() -> None:
    rows = Rows()
    row = rows.open_turn((rows.arrive("go"),), 0, FrozenTurn(1, 0, 0, system="s"))
    run = Run.opened(rows, row, RULES, lambda r: t.BudgetVerdict(r.rows.now))
    run.begin()
    [tool] = ASKING
    run.give(answered(rows.now, "", prepared(tool, "{}")))
    assert run.asked == [1]
    again = Run.restored(rows, row, RULES, lambda r: t.BudgetVerdict(r.rows.now))
    assert again.asked == [1]
    assert again.planned == []


def test_a_request_that_was_too_long_is_planned_with_less_after_a_restart_too() -> None:
    rows = Rows()
    row = rows.open_turn((rows.arrive("go"),), 0, FrozenTurn(1, 0, 0, system="s", max_tokens=1000))
    cuts: list[Rows] = []
    run = Run.opened(
        rows, row, RULES, lambda r: t.BudgetVerdict(r.rows.now), at_each_store=lambda r: cuts.append(r.rows.copy())
    )
    run.begin()
    run.give(t.CallFailed(rows.now, Failure("ProviderError", "busy"), ErrorClass.TRANSIENT))
    run.give(t.TimePassed(rows.now, rows.now))
    run.give(t.CallFailed(rows.now, Failure("ProviderError", "too long"), ErrorClass.CONTEXT_LENGTH, limit=750))
    again = Run.restored(cuts[-1], row, RULES, lambda r: t.BudgetVerdict(r.rows.now))
    assert again.turn.attempt == run.turn.attempt == 1, "the shorter request is tried as often as a first one"
    assert again.planned[0].frozen.max_tokens == run.planned[-1].frozen.max_tokens == 750


@pytest.mark.parametrize("attempts", [1, 3])
def test_retries_go_on_counting_where_they_were(attempts: int) -> None:
    rows = Rows()
    row = rows.open_turn((rows.arrive("go"),), 0, FrozenTurn(1, 0, 0, system="s"))
    run = Run.opened(rows, row, RULES, lambda r: t.BudgetVerdict(r.rows.now))
    run.begin()
    for _ in range(attempts):
        run.give(t.CallFailed(rows.now, Failure("ProviderError", "busy"), ErrorClass.TRANSIENT))
        run.give(t.TimePassed(rows.now, rows.now))
    again = Run.restored(rows, row, RULES, lambda r: t.BudgetVerdict(r.rows.now))
    assert again.turn.attempt == run.turn.attempt == attempts + 1


def test_an_empty_answer_is_retried_once_however_often_zoea_restarts() -> None:
    rows = Rows()
    row = rows.open_turn((rows.arrive("go"),), 0, FrozenTurn(1, 0, 0, system="s"))
    cuts: list[Rows] = []
    run = Run.opened(
        rows, row, RULES, lambda r: t.BudgetVerdict(r.rows.now), at_each_store=lambda r: cuts.append(r.rows.copy())
    )
    run.begin()
    run.give(t.Answered(rows.now, Answer()))
    again = Run.restored(cuts[-1], row, RULES, lambda r: t.BudgetVerdict(r.rows.now))
    assert again.turn.attempt == run.turn.attempt == 2
    again.give(t.Answered(rows.now, Answer()))
    assert again.end is not None
    assert [one.content for one in again.rows.of_turn(row.id)] == ["go", "(no response)"]


def test_a_cut_off_answer_behind_the_loop_warning_does_not_end_the_turn() -> None:
    rows = Rows()
    row = rows.open_turn((rows.arrive("go"),), 0, FrozenTurn(1, 0, 0, system="s"))
    run = Run.opened(rows, row, TurnRules.of(Settings()), lambda r: t.BudgetVerdict(r.rows.now))
    run.begin()
    for number in (1, 2, 3):
        run.give(answered(rows.now, "", prepared("act", "{}")))
        run.give(t.CallFinished(rows.now, number, ToolResult("same")))
    run.give(t.TurnCancelled(rows.now, Outcome.CRASHED, Answer(text="I was just about to")))
    again = Run.restored(rows, row, TurnRules.of(Settings()), lambda r: t.BudgetVerdict(r.rows.now))
    assert again.end is None
    assert "You are repeating yourself" in again.planned[0].plan.messages[-1].content


def in_circles(calls: str) -> list[Run]:
    """A turn that makes these calls, a letter each, all with the same result: as it was, and cut after rows."""

    def count_notes(cut: Rows) -> int:
        return len(cut.turns[row.id].notes)

    rows = Rows()
    row = rows.open_turn((rows.arrive("go"),), 0, FrozenTurn(1, 0, 0, system="s"))
    rules = TurnRules.of(Settings.model_validate({"turn": {"max_iterations": 99}}))
    cuts: list[Rows] = []
    run = Run.opened(
        rows, row, rules, lambda r: t.BudgetVerdict(r.rows.now), at_each_store=lambda r: cuts.append(r.rows.copy())
    )

    def go_on(run: Run) -> Run:
        while run.end is None and (made := len(run.rows.calls)) < len(calls):
            run.give(answered(rows.now, "", prepared("act", json.dumps({"text": calls[made]}))))
            run.give(t.CallFinished(rows.now, run.running[0], ToolResult("same")))
        return run

    run.begin()
    go_on(run)
    standing = [cut for cut in cuts if cut.turns[row.id].outcome is None]
    ran = [cut for cut in standing if not any(call.state.is_open for call in cut.calls.values())]
    # In the quick run every third, and those after a note.
    chosen = [
        cut for number, cut in enumerate(ran) if number % EVERY == 0 or count_notes(cut) > count_notes(ran[number - 1])
    ]
    return [run, *(go_on(Run.restored(cut, row, rules, lambda r: t.BudgetVerdict(r.rows.now))) for cut in chosen)]


@walk_cases(
    ("calls", "notes", "ends"),
    [
        ("aaaa", [4], True),
        ("aaabcdbbb", [4], True),
        ("aaabcdefghijkbbb", [4, 17], False),
        ("aaabcdefghijklmbbbb", [4, 19], True),
        ("aaabcdefghijklmaaa", [4], True),
        ("aaabcdefghijklmabababab", [4], True),
    ],
    ids=[
        "at once",
        "another one soon after",
        "another one long after",
        "and again",
        "the same long after",
        "the same with another",
    ],
)
def test_a_turn_ends_in_a_loop_only_if_a_note_warned_of_it_however_often_zoea_restarts(
    calls: str, notes: list[int], ends: bool
) -> None:
    for run in in_circles(calls):
        assert [note.after_seq // 2 + 1 for note in run.row.notes] == notes
        assert (run.end is not None and run.end.outcome is Outcome.LOOP) == ends
        check_requests(run.planned, run.rows)


def test_a_note_that_was_stored_is_not_written_twice() -> None:
    rows = Rows()
    row = rows.open_turn((rows.arrive("go"),), 0, FrozenTurn(1, 0, 0, system="s"))
    cuts: list[Rows] = []
    run = Run.opened(
        rows,
        row,
        TurnRules.of(Settings()),
        lambda r: t.BudgetVerdict(r.rows.now),
        at_each_store=lambda r: cuts.append(r.rows.copy()),
    )
    run.begin()
    for number in (1, 2, 3):
        run.give(answered(rows.now, "", prepared("act", "{}")))
        run.give(t.CallFinished(rows.now, number, ToolResult("same")))
    assert [note.kind for note in row.notes] == ["loop"]
    again = Run.restored(cuts[-1], row, TurnRules.of(Settings()), lambda r: t.BudgetVerdict(r.rows.now))
    assert len(again.row.notes) == 1
    assert again.planned[0].plan.messages == run.planned[-1].plan.messages
