"""`turn.step` under anything that may come from outside, and the requests that follow from it.

A model driver (`model.py`) carries out the effects; hypothesis is everything
outside: the model's answers, results in any order, twice or never, approvals,
steers between any two steps, clocks that jump, budgets, cancels, crashes.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.context.sample_histories import HOSTILE, texts
from tests.swarm.invariants import check_requests
from tests.swarm.turn_simulator import TOOLS, Planned, Rows, Run, TurnRow, answered, prepared
from zoea.context import FrozenTurn
from zoea.model.enums import ApprovalAnswer, CallState, ErrorClass, Outcome
from zoea.model.request import Answer, GivenAnswer, ToolResult
from zoea.model.values import Failure, ToolCall
from zoea.settings.schema import Settings
from zoea.swarm.rules import HOUR, SECOND, TurnRules
from zoea.swarm.turn import turn_types as t
from zoea.swarm.turn.machine import step

FROZEN = st.builds(
    FrozenTurn,
    mysis_id=st.just(1),
    turn_id=st.just(0),
    turn_number=st.just(0),
    system=st.just("You are a mysis."),
    max_tokens=st.sampled_from((100, 700, 2500, 8000, 50_000)),
    max_result_chars=st.sampled_from((100_000, 2000)),
    calibration=st.sampled_from((1.0, 0.7, 1.37)),
    context_window=st.sampled_from((None, 8192)),
    situation=st.sampled_from(("", "tick 7\nfuel low " * 9)),
    keep_answer=st.booleans(),
    tools_tokens=st.sampled_from((0, 60)),
)
RULES = st.builds(
    lambda requests, retries: TurnRules.of(
        Settings.model_validate({"turn": {"max_iterations": requests}, "llm": {"retries": retries}})
    ),
    st.sampled_from((1, 2, 5, 20)),
    st.sampled_from((0, 1, 4)),
)
NUMBERS = ("5", "6", "9", "2.5", "1e308", "-1e308", "1e999", "NaN", "true", '"6"', "1" * 400, "null")
TIMED = st.builds(
    lambda now, key, then: f'{{"current_tick": {now}, "{key}": {then}}}',
    st.sampled_from(NUMBERS),
    st.sampled_from(("arrival_tick", "cooldown_ticks", "other")),
    st.sampled_from(NUMBERS),
)
RESULTS = st.one_of(texts(9000), st.sampled_from(("ok", "ok", "[" * 490 + "]" * 490)), TIMED)
ARGUMENTS = st.sampled_from(("{}", "{}", '{"to": "a|b:c"}', '{"seconds": 1e999}', '{"seconds": 5}', "[]", "{broken"))
CALLS = st.lists(
    st.builds(
        prepared,
        st.sampled_from((*TOOLS, "look", "act")),
        ARGUMENTS,
        known=st.sampled_from((True, True, True, False)),
        broken=st.sampled_from(("", "", "", "it ends too soon")),
    ),
    min_size=1,
    max_size=4,
)
ANSWERS = st.one_of(
    st.builds(Answer, text=st.sampled_from(("", "\n", "done", *HOSTILE)), reasoning=st.sampled_from(("", "hm " * 400))),
    st.none(),
    st.none(),
    st.none(),
)
FAILURE = Failure("ProviderError", "The model's provider failed", "from the test")
ODD_TIMES = st.sampled_from((0, 1, SECOND, 25 * SECOND, HOUR, -SECOND, -HOUR))


class Outside:
    """Everything outside the machine, drawn from `data`."""

    def __init__(self, data: st.DataObject, frozen: FrozenTurn, rules: TurnRules) -> None:
        self.data = data
        self.frozen = frozen
        self.rules = rules
        self.rows = Rows()
        self.planned: list[Planned] = []
        self.row: TurnRow | None = None
        self.calls: list[t.PreparedCall] = []
        self.lifts = 0
        self.steered = 0

    def verdict(self, run: Run) -> t.BudgetVerdict:
        at = run.rows.now
        match self.data.draw(
            st.sampled_from(("go",) * 12 + ("rest", "held", "asked", "refused", "stopped")), "verdict"
        ):
            case "rest":
                return t.BudgetVerdict(at, rest_until=at + self.data.draw(st.sampled_from((0, 50_000, 5 * SECOND))))
            case "held":
                return t.BudgetVerdict(at, held=True)
            case "asked":
                return t.BudgetVerdict(at, asked=True)
            case "refused":
                return t.BudgetVerdict(at, refused="Task budget exceeded: 2/1 tokens")
            case "stopped":
                return t.BudgetVerdict(at, refused="Mysis budget exceeded: 2/1 tokens", stops=True)
            case _:
                return t.BudgetVerdict(at)

    def live(self, turns: int) -> None:
        """Some turns, each opened, resumed or nudged as the life machine would."""
        for _ in range(turns):
            run = self._next_turn()
            for _ in range(self.data.draw(st.integers(0, 14), "events")):
                if run.end is not None:
                    break
                self._happen(run)
            if run.end is None:
                self._cancel(run)
            self._after(run)

    def _next_turn(self) -> Run:
        if self.row is not None:
            run = Run.restored(self.rows, self.row, self.rules, self.verdict)
            self.rows = run.rows
        else:
            for _ in range(self.data.draw(st.sampled_from((0, 1, 1, 2)), "messages")):
                self._arrive()
            waiting = tuple(one.id for one in self.rows.inbox.values() if one.turn_id is None)
            row = self.rows.open_turn(waiting, 0 if waiting else 1, self.frozen)
            run = Run.opened(self.rows, row, self.rules, self.verdict)
            run.begin()
        return run

    def _arrive(self) -> int:
        label = self.data.draw(st.sampled_from(("", "[message from mysis alpha]", "[broadcast from mysis b]")))
        return self.rows.arrive(self.data.draw(texts(400), "prompt"), label)

    def _happen(self, run: Run) -> None:
        if run.aborting is not None:
            self._cancel(run, run.aborting)
            return
        options = ["steer", "now", "again", "hold"]
        options += ["answer"] * 8 if run.calling else []
        options += ["fail"] * 2 if run.calling else []
        options += ["keep back"] if run.calling and run.on_hold else []
        options += ["result"] * 8 if run.running else []
        options += ["approve"] * 4 if run.asked else []
        options += ["wake"] * 6 if run.sleeping is not None or run.questioned else []
        options += ["lift"] * 4 if run.lifting else []
        options += ["cancel"] if self.data.draw(st.integers(0, 9), "cancel") == 0 else []
        match self.data.draw(st.sampled_from(options), "event"):
            case "steer":
                known = self._arrive() if self.data.draw(st.booleans()) else 1
                if known in self.rows.inbox:
                    self.steered += 1
                    run.give(t.Steered(self.rows.now, (known, known)))
            case "now":
                self.rows.now += self.data.draw(ODD_TIMES)
                progress = self.rows.now - self.data.draw(st.sampled_from((0, SECOND, SECOND, 6 * 60 * SECOND)))
                run.give(t.TimePassed(self.rows.now, progress))
            case "again":
                self._again(run)
            case "answer":
                run.give(self._answer())
            case "fail":
                run.give(self._failure())
            case "keep back":
                # The hold may be gone again by the time that it is told.
                run.on_hold = self.data.draw(st.booleans(), "still on")
                run.give(t.CallWithheld(self.rows.now))
            case "result":
                run.give(self._result(run, self.data.draw(st.sampled_from(run.running), "which")))
            case "approve":
                answer = self.data.draw(st.sampled_from(ApprovalAnswer))
                which = self.data.draw(st.sampled_from(run.asked), "which")
                given = GivenAnswer(answer, self.data.draw(st.sampled_from(("", "no"))))
                run.give(t.Approved(self.rows.now, which, given))
            case "hold":
                run.on_hold = not run.on_hold
            case "lift":
                # It may be on again by the time that it is told.
                run.on_hold = self.data.draw(st.sampled_from((False, False, True)), "on again")
                run.give(t.HoldLifted(self.rows.now))
            case "wake":
                self.rows.now = max(self.rows.now, run.sleeping or 0)
                run.give(t.TimePassed(self.rows.now, self.rows.now))
            case _:
                self._cancel(run)

    def _again(self, run: Run) -> None:
        """Something that was answered is answered once more: nothing follows from it."""
        done = [call.id for call in self._own_calls(run) if not call.state.is_open]
        if done:
            which = self.data.draw(st.sampled_from(done), "again")
            assert run.give(self._result(run, which)) == ()
            assert run.give(t.Approved(self.rows.now, which, GivenAnswer(ApprovalAnswer.ONCE))) == ()

    def _own_calls(self, run: Run) -> list[ToolCall]:
        return [call for memory in self.rows.of_turn(run.row.id) for call in memory.calls]

    def _answer(self) -> t.Answered:
        self.rows.now += SECOND
        final = self.data.draw(ANSWERS, "answer")
        if final is not None:
            return t.Answered(self.rows.now, final)
        text = self.data.draw(st.sampled_from(("", "I look.", *HOSTILE)), "text")
        if not self.calls or self.data.draw(st.booleans(), "anew"):
            self.calls = self.data.draw(CALLS, "calls")
        return answered(self.rows.now, text, *self.calls)

    def _failure(self) -> t.CallFailed:
        return t.CallFailed(
            self.rows.now,
            FAILURE,
            self.data.draw(st.sampled_from(ErrorClass), "class"),
            retry_after=self.data.draw(st.sampled_from((None, None, 0.0, 7.5))),
            jitter=self.data.draw(st.sampled_from((0.0, 0.5, 0.99))),
            partial=self.data.draw(st.sampled_from((None, Answer(text="half an ans")))),
        )

    def _result(self, run: Run, call_id: int) -> t.CallFinished:
        self.rows.now += SECOND
        result = ToolResult(
            self.data.draw(RESULTS, "result") if self.data.draw(st.booleans(), "telling") else "ok",
            is_error=self.data.draw(st.sampled_from((False, False, False, True))),
            is_unknown=self.data.draw(st.sampled_from((False, False, False, True))),
        )
        return t.CallFinished(self.rows.now, call_id, result)

    def _cancel(self, run: Run, outcome: Outcome | None = None) -> None:
        """What the driver gives when all in flight was cancelled: some results had come, maybe twice."""
        reasons = (Outcome.CANCELLED, Outcome.INTERRUPTED, Outcome.CRASHED, Outcome.TIMEOUT)
        outcome = outcome or self.data.draw(st.sampled_from(reasons), "outcome")
        came = self.data.draw(st.lists(st.sampled_from(run.running), max_size=3), "came") if run.running else []
        closed = [call.id for call in self._own_calls(run) if not call.state.is_open][:1]
        finished = tuple(self._result(run, one) for one in (*came, *closed))
        was_calling = run.calling
        partial = Answer(text="I was about to") if run.calling and self.data.draw(st.booleans()) else None
        unsent = partial is None and self.data.draw(st.booleans(), "unsent")
        on_wire = frozenset(one for one in run.running if self.data.draw(st.booleans(), "on wire"))
        run.give(t.TurnCancelled(self.rows.now, outcome, partial, finished, unsent=unsent, on_wire=on_wire))
        if unsent and was_calling:
            assert (self.rows.requests[-1].state, self.rows.requests[-1].error_class) == ("released", "cancelled")
        assert run.end is not None

    def _after(self, run: Run) -> None:
        end = run.end
        assert end is not None
        for late in (t.TimePassed(self.rows.now), t.Steered(self.rows.now, (1,)), self._answer(), self._failure()):
            turn, effects = step(run.turn, late)
            assert (turn, effects) == (run.turn, ())
        row = run.row
        assert (row.outcome is None) == (end.outcome.leaves_open and not end.final)
        assert row.outcome in (None, end.outcome)
        if row.outcome is not None:
            assert not any(call.state.is_open for call in self._own_calls(run))
        for request in self.rows.requests:
            assert request.state != "reserved", "what was reserved is settled or given back"
        self.planned += run.planned
        self.lifts += run.lifts
        self.row = row if row.outcome is None else None


@pytest.mark.timeout(300)
@given(st.data(), FROZEN, RULES)
def test_any_life_of_turns_keeps_every_invariant(data: st.DataObject, frozen: FrozenTurn, rules: TurnRules) -> None:
    outside = Outside(data, frozen, rules)
    outside.live(data.draw(st.integers(1, 4), "turns"))
    check_requests(outside.planned, outside.rows)


@given(st.data(), FROZEN, RULES)
def test_a_turn_never_asks_its_model_more_often_than_its_limits_allow(
    data: st.DataObject, frozen: FrozenTurn, rules: TurnRules
) -> None:
    outside = Outside(data, frozen, rules)
    outside.live(1)
    answers = [one for one in outside.rows.memories.values() if one.role == "assistant" and not one.partial]
    assert len(answers) <= rules.turn.max_iterations
    # Each answer may be tried again after a passing failure, once after silence, once per turn with less,
    # with what was said during a hold once it is lifted, and with what was said while its tokens were reserved.
    assert len(outside.planned) <= rules.turn.max_iterations + 1 + outside.lifts + outside.steered


def test_every_call_of_a_closed_turn_has_exactly_one_result_in_call_order() -> None:
    rows = Rows()
    row = rows.open_turn((rows.arrive("go"),), 0, FrozenTurn(1, 0, 0))
    run = Run.opened(rows, row, TurnRules.of(Settings()), lambda r: t.BudgetVerdict(r.rows.now))
    run.begin()
    run.give(answered(rows.now, "", prepared("look", "{}"), prepared("get_map", "{}"), prepared("act", "{}")))
    assert run.running == [1, 2]
    run.give(t.CallFinished(rows.now, 2, ToolResult("second")))
    run.give(t.CallFinished(rows.now, 1, ToolResult("first")))
    assert run.running == [3]
    run.give(t.TurnCancelled(rows.now, Outcome.CANCELLED))
    results = [(one.content, one.seq) for one in rows.of_turn(row.id) if one.role == "tool"]
    assert results == [("first", 3), ("second", 4), ("cancelled: stopped before this ran", 5)]
    assert rows.calls[3].state is CallState.CANCELLED


@pytest.mark.parametrize("outcome", [Outcome.CANCELLED, Outcome.INTERRUPTED])
def test_a_call_on_the_wire_when_the_turn_is_stopped_is_unknown_and_one_not_sent_cancelled(outcome: Outcome) -> None:
    rows = Rows()
    row = rows.open_turn((rows.arrive("go"),), 0, FrozenTurn(1, 0, 0))
    run = Run.opened(rows, row, TurnRules.of(Settings()), lambda r: t.BudgetVerdict(r.rows.now))
    run.begin()
    run.give(answered(rows.now, "", prepared("look", "{}"), prepared("get_map", "{}"), prepared("act", "{}")))
    run.give(t.TurnCancelled(rows.now, outcome, on_wire=frozenset({2})))
    assert [rows.calls[one].state for one in (1, 2, 3)] == [CallState.CANCELLED, CallState.UNKNOWN, CallState.CANCELLED]
    results = [one.content for one in rows.of_turn(row.id) if one.role == "tool"]
    assert results[1] == "unknown: stopped while this ran; it may have been carried out, check before repeating it"


def test_a_hold_that_is_on_again_before_it_is_told_keeps_back_what_it_kept_back() -> None:
    rows = Rows()
    row = rows.open_turn((rows.arrive("go"),), 0, FrozenTurn(1, 0, 0))
    run = Run.opened(rows, row, TurnRules.of(Settings()), lambda r: t.BudgetVerdict(r.rows.now))
    run.on_hold = True
    run.begin()
    for _ in range(2):
        run.give(t.HoldLifted(rows.now))
        assert (run.lifting, run.planned, rows.requests) == (True, [], [])
    run.on_hold = False
    run.give(t.HoldLifted(rows.now))
    run.on_hold = True
    run.give(answered(rows.now, "", prepared("act", "{}")))
    run.give(t.HoldLifted(rows.now))
    assert (run.lifting, run.ran, rows.calls[1].state) == (True, [], CallState.PENDING)
    run.on_hold = False
    run.give(t.HoldLifted(rows.now))
    assert (run.lifting, run.ran) == (False, [1])
