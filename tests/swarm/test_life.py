"""States, nudges and the circuit breaker: a test for each rule of `life.step`.

What a line says of the store or of the commander (create, the error of a second
start, restarts) is in test_commander.py and test_defects.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.case_tables import walk_cases
from zoea.model.enums import DeliveryMode, ErrorClass, MysisState, Outcome
from zoea.model.values import Failure
from zoea.settings.schema import Settings
from zoea.swarm.life import (
    BREAKER_OPEN,
    Arrived,
    Cancel,
    DeliveriesGone,
    Hold,
    Life,
    LifeEffect,
    LifeInput,
    NewRules,
    Now,
    OpenTurn,
    Pending,
    SetState,
    Start,
    Stop,
    TurnEnded,
    WakeAt,
    is_waiting,
    step,
    stored_life,
)
from zoea.swarm.rules import HOUR, MINUTE, SECOND, LifeRules

T = 100 * HOUR
FAILURE = Failure("ProviderError", "The key was refused", "401", "set the key")
MESSAGE = Pending(1, DeliveryMode.QUEUE, 0, True)


def idle(*, run_once: bool = False, **nudge: object) -> Life:
    rules = LifeRules.of(Settings.model_validate({"nudge": nudge}), run_once=run_once)
    return Life(rules, has_goal=True, quiet_since=T)


def fed(life: Life, *inputs: LifeInput) -> tuple[Life, tuple[LifeEffect, ...]]:
    """The life after these inputs, and the effects of the last one."""
    effects: tuple[LifeEffect, ...] = ()
    for given in inputs:
        life, effects = step(life, given)
    return life, effects


def in_turn(life: Life) -> Life:
    """Running, in the turn that a message opened."""
    life, effects = fed(life, Arrived(T, MESSAGE))
    assert effects[-1] == OpenTurn(prompts=(MESSAGE,))
    return life


def running(life: Life) -> Life:
    """Running, its turn just ended with an answer."""
    return fed(in_turn(life), TurnEnded(T, Outcome.ANSWERED))[0]


def states(effects: tuple[LifeEffect, ...]) -> list[MysisState]:
    return [effect.state for effect in effects if isinstance(effect, SetState)]


def failed(error_class: ErrorClass, at: int = T, jitter: float = 0.5) -> TurnEnded:
    return TurnEnded(at, Outcome.FAILED, responded=False, failure=FAILURE, error_class=error_class, jitter=jitter)


class TestStates:
    @walk_cases("state", [MysisState.IDLE, MysisState.STOPPED, MysisState.ERRORED])
    def test_a_start_makes_it_running_clears_the_error_and_the_encouragement(self, state: MysisState) -> None:
        life = replace(idle(), state=state, encouragement=2, retry_at=T + 1, retry_count=2)
        life, effects = fed(life, Start(T))
        assert effects == (SetState(MysisState.RUNNING), WakeAt(T + 30 * SECOND))
        assert (life.encouragement, life.retry_at, life.retry_count) == (0, None, 0)

    def test_a_message_for_an_idle_mysis_starts_it_and_opens_a_turn(self) -> None:
        _, effects = fed(idle(), Arrived(T, MESSAGE))
        assert effects == (SetState(MysisState.RUNNING), WakeAt(None), OpenTurn(prompts=(MESSAGE,)))

    def test_a_start_while_running_changes_nothing(self) -> None:
        life = running(idle())
        assert fed(life, Start(T)) == (life, ())

    def test_a_stop_while_running_stops_at_once_and_cancels_the_turn(self) -> None:
        life, effects = fed(in_turn(idle()), Stop(T))
        assert effects == (Cancel(Outcome.CANCELLED), SetState(MysisState.STOPPED, "you stopped it"), WakeAt(None))
        assert life.state is MysisState.STOPPED

    def test_a_stop_while_stopped_changes_nothing(self) -> None:
        life, _ = fed(idle(), Stop(T))
        assert fed(life, Stop(T + 1)) == (life, ())

    def test_run_once_is_idle_after_its_turn_and_is_never_nudged(self) -> None:
        life, effects = fed(in_turn(idle(run_once=True)), TurnEnded(T, Outcome.ANSWERED))
        assert effects == (SetState(MysisState.IDLE, "answered"), WakeAt(None))
        assert fed(life, Now(T + HOUR))[1] == (WakeAt(None),)

    def test_run_once_answers_pending_messages_first(self) -> None:
        second = replace(MESSAGE, delivery_id=2)
        life, _ = fed(in_turn(idle(run_once=True)), Arrived(T, second))
        _, effects = fed(life, TurnEnded(T, Outcome.ANSWERED))
        assert effects == (WakeAt(None), OpenTurn(prompts=(second,)))

    def test_three_nudges_without_a_response_make_it_idle_with_the_error(self) -> None:
        life = running(idle())
        at = T
        effects: tuple[LifeEffect, ...] = ()
        for level in (1, 2, 3):
            at += 30 * SECOND
            life, effects = fed(life, Now(at))
            assert effects[-1] == OpenTurn(nudge_level=level)
            life, effects = fed(life, TurnEnded(at, Outcome.ANSWERED, responded=False, nudged=True))
        [state] = [effect for effect in effects if isinstance(effect, SetState)]
        assert (state.state, state.reason) == (MysisState.IDLE, "Failed to respond after 3 encouragements")
        assert state.failure is not None
        assert state.failure.title == BREAKER_OPEN
        assert at == T + 90 * SECOND
        assert effects[-1] == WakeAt(None)

    def test_a_provider_failure_makes_it_errored_with_title_and_hint(self) -> None:
        _, effects = fed(in_turn(idle()), failed(ErrorClass.AUTH))
        assert effects == (SetState(MysisState.ERRORED, "The key was refused", FAILURE, None, 0), WakeAt(None))

    def test_a_transient_failure_is_tried_again_after_30_s_2_min_10_min_with_full_jitter_then_it_stays(self) -> None:
        life, at = in_turn(idle()), T
        for delay in (30 * SECOND, 2 * MINUTE, 10 * MINUTE):
            life, effects = fed(life, failed(ErrorClass.TRANSIENT, at))
            at += delay // 2
            assert effects[-1] == WakeAt(at)
            assert isinstance(effects[0], SetState)
            assert effects[0].retry_at == at
            assert fed(life, Now(at - 1))[1] == (WakeAt(at),)
            life, effects = fed(life, Now(at))
            assert states(effects) == [MysisState.RUNNING]
            assert effects[-1] == OpenTurn(resume=True)
        life, effects = fed(life, failed(ErrorClass.TRANSIENT, at))
        assert effects[-1] == WakeAt(None)
        assert fed(life, Now(at + HOUR))[1] == (WakeAt(None),)

    def test_an_answer_resets_the_backoff(self) -> None:
        life, _ = fed(in_turn(idle()), failed(ErrorClass.TRANSIENT), Now(T + HOUR))
        life, _ = fed(life, TurnEnded(T + HOUR, Outcome.ANSWERED))
        assert life.retry_count == 0

    @walk_cases("kind", [ErrorClass.AUTH, ErrorClass.MODEL_MISSING, ErrorClass.BAD_REQUEST])
    def test_a_lasting_failure_stays_until_a_person_relaunches(self, kind: ErrorClass) -> None:
        life, effects = fed(in_turn(idle()), failed(kind))
        assert effects[-1] == WakeAt(None)
        assert states(fed(life, Now(T + 24 * HOUR))[1]) == []
        assert fed(life, Start(T))[1][-1] == OpenTurn(resume=True)

    def test_a_timeout_without_a_nudge_is_a_passing_failure(self) -> None:
        _, effects = fed(in_turn(idle()), TurnEnded(T, Outcome.TIMEOUT, responded=False, jitter=0.5))
        assert effects[-1] == WakeAt(T + 15 * SECOND)

    def test_its_own_spent_budget_stops_it_with_the_reason_budget(self) -> None:
        _, effects = fed(in_turn(idle()), TurnEnded(T, Outcome.BUDGET, stops=True, failure=FAILURE))
        assert effects == (SetState(MysisState.STOPPED, "budget", FAILURE), WakeAt(None))

    def test_the_budget_of_one_turn_stops_nothing(self) -> None:
        life, effects = fed(in_turn(idle()), TurnEnded(T, Outcome.BUDGET))
        assert life.state is MysisState.RUNNING
        assert effects == (WakeAt(T + 30 * SECOND),)

    def test_a_late_failure_of_an_older_turn_never_overwrites_stopped(self) -> None:
        life, _ = fed(in_turn(idle()), Stop(T))
        life, effects = fed(life, failed(ErrorClass.AUTH))
        assert effects == ()
        assert life.state is MysisState.STOPPED

    def test_prompts_queued_when_it_stops_stay_and_open_its_next_turn(self) -> None:
        second = replace(MESSAGE, delivery_id=2)
        life, _ = fed(in_turn(idle()), Arrived(T, second), Stop(T), TurnEnded(T, Outcome.CANCELLED))
        assert life.pending == (second,)
        assert fed(life, Start(T))[1][-1] == OpenTurn(prompts=(second,))

    def test_prompts_of_a_turn_that_never_came_to_be_open_the_next_one_in_front(self) -> None:
        second = replace(MESSAGE, delivery_id=2)
        ended = TurnEnded(T, Outcome.CANCELLED, responded=False, returned=(MESSAGE,))
        life, _ = fed(in_turn(idle()), Arrived(T, second), Stop(T), ended)
        assert fed(life, Start(T))[1][-1] == OpenTurn(prompts=(MESSAGE, second))


class TestHold:
    def test_nothing_opens_while_it_holds_and_messages_queue(self) -> None:
        life, effects = fed(idle(), Hold(T, True), Arrived(T, MESSAGE))
        assert effects == (SetState(MysisState.RUNNING),)
        assert fed(life, Now(T + HOUR)) == (life, ())
        assert fed(life, Hold(T + HOUR, False))[1][-1] == OpenTurn(prompts=(MESSAGE,))

    def test_held_twice_and_lifted_twice_is_held_once(self) -> None:
        life, _ = fed(running(idle()), Hold(T, True))
        assert fed(life, Hold(T + 1, True)) == (life, ())
        life, _ = fed(life, Hold(T, False))
        assert fed(life, Hold(T + 1, False)) == (life, ())

    def test_the_nudge_clock_stands_still(self) -> None:
        life, effects = fed(running(idle()), Hold(T + 10 * SECOND, True))
        assert effects == (WakeAt(None),)
        assert fed(life, Hold(T + HOUR, False))[1] == (WakeAt(T + HOUR + 20 * SECOND),)

    def test_the_backoff_clock_stands_still(self) -> None:
        life, _ = fed(in_turn(idle()), failed(ErrorClass.TRANSIENT), Hold(T + 5 * SECOND, True))
        assert fed(life, Hold(T + HOUR, False))[1] == (WakeAt(T + HOUR + 10 * SECOND),)

    def test_a_turn_that_ends_while_held_counts_its_silence_from_the_lifting(self) -> None:
        life, effects = fed(in_turn(idle()), Hold(T, True), TurnEnded(T + HOUR, Outcome.ANSWERED))
        assert effects == ()
        assert fed(life, Hold(T + 2 * HOUR, False))[1] == (WakeAt(T + 2 * HOUR + 30 * SECOND),)

    def test_a_failure_while_held_counts_its_backoff_from_the_lifting(self) -> None:
        life, effects = fed(in_turn(idle()), Hold(T, True), failed(ErrorClass.TRANSIENT, T + HOUR))
        assert not any(isinstance(effect, WakeAt) and effect.at is not None for effect in effects)
        assert fed(life, Hold(T + 2 * HOUR, False))[1] == (WakeAt(T + 2 * HOUR + 15 * SECOND),)

    def test_a_clock_set_back_during_a_hold_moves_nothing(self) -> None:
        life, _ = fed(running(idle()), Hold(T + 10 * SECOND, True))
        assert fed(life, Hold(T - HOUR, False))[1] == (WakeAt(T + 30 * SECOND),)

    def test_an_interrupt_cancels_calls_in_flight_and_its_turn_opens_after_the_hold(self) -> None:
        urgent = replace(MESSAGE, delivery_id=2, mode=DeliveryMode.INTERRUPT)
        life, effects = fed(in_turn(idle()), Hold(T, True), Arrived(T, urgent))
        assert effects == (Cancel(Outcome.INTERRUPTED),)
        life, effects = fed(life, TurnEnded(T, Outcome.INTERRUPTED))
        assert effects == ()
        assert fed(life, Hold(T + 1, False))[1][-1] == OpenTurn(prompts=(urgent,))


class TestResuming:
    def test_a_turn_that_broke_off_goes_on_at_the_next_start(self) -> None:
        life = replace(idle(), broken_off=True, pending=(MESSAGE,))
        life, effects = fed(life, Start(T))
        assert effects[-1] == OpenTurn(resume=True)
        assert fed(life, TurnEnded(T, Outcome.ANSWERED))[1][-1] == OpenTurn(prompts=(MESSAGE,))

    def test_one_that_was_to_be_interrupted_is_so_after_a_restart_too(self) -> None:
        urgent = replace(MESSAGE, mode=DeliveryMode.INTERRUPT)
        life, effects = fed(replace(idle(), broken_off=True, pending=(urgent,)), Start(T))
        assert effects[-2:] == (OpenTurn(resume=True), Cancel(Outcome.INTERRUPTED))
        assert fed(life, TurnEnded(T, Outcome.INTERRUPTED))[1][-1] == OpenTurn(prompts=(urgent,))


class TestMessages:
    def test_a_message_while_running_waits_for_the_next_turn(self) -> None:
        second = replace(MESSAGE, delivery_id=2)
        life, effects = fed(in_turn(idle()), Arrived(T, second))
        assert effects == ()
        assert fed(life, TurnEnded(T, Outcome.ANSWERED))[1][-1] == OpenTurn(prompts=(second,))

    def test_an_interrupt_cancels_the_turn_and_opens_a_new_one(self) -> None:
        second = replace(MESSAGE, delivery_id=2, mode=DeliveryMode.INTERRUPT)
        life, effects = fed(in_turn(idle()), Arrived(T, second))
        assert effects == (Cancel(Outcome.INTERRUPTED),)
        assert fed(life, TurnEnded(T, Outcome.INTERRUPTED))[1][-1] == OpenTurn(prompts=(second,))

    def test_a_message_over_the_hop_limit_opens_no_turn_and_joins_the_next(self) -> None:
        distant = replace(MESSAGE, hop=3, from_person=False)
        life, effects = fed(idle(), Arrived(T, distant))
        assert effects == ()
        assert life.state is MysisState.IDLE
        life, _ = fed(life, Start(T))
        _, effects = fed(life, Now(T + 30 * SECOND))
        assert effects[-1] == OpenTurn(prompts=(distant,))

    def test_a_withdrawn_message_opens_no_turn(self) -> None:
        second = replace(MESSAGE, delivery_id=2)
        life, _ = fed(in_turn(idle()), Arrived(T, second), DeliveriesGone(frozenset({2})))
        assert fed(life, TurnEnded(T, Outcome.ANSWERED))[1] == (WakeAt(T + 30 * SECOND),)


class TestNudges:
    def test_one_interval_after_the_turn_ended_and_not_before(self) -> None:
        life = running(idle())
        assert fed(life, Now(T + 30 * SECOND - 1))[1] == (WakeAt(T + 30 * SECOND),)
        assert fed(life, Now(T + 30 * SECOND))[1] == (WakeAt(None), OpenTurn(nudge_level=1))

    @walk_cases(
        "reset",
        [
            lambda life: fed(life, TurnEnded(T, Outcome.ANSWERED, nudged=True))[0],
            lambda life: fed(life, TurnEnded(T, Outcome.ANSWERED, False, True), Stop(T), Start(T))[0],
            lambda life: fed(life, Arrived(T, replace(MESSAGE, hop=9)))[0],
        ],
        ids=["a response", "a start", "a stored prompt"],
    )
    def test_the_count_goes_back_to_0_on(self, reset: Callable[[Life], Life]) -> None:
        life, _ = fed(running(idle()), Now(T + 30 * SECOND))
        assert life.encouragement == 1
        assert reset(life).encouragement == 0

    def test_a_nudge_that_timed_out_has_failed(self) -> None:
        life, _ = fed(replace(running(idle()), encouragement=2), Now(T + 30 * SECOND))
        _, effects = fed(life, TurnEnded(T, Outcome.TIMEOUT, responded=True, nudged=True))
        assert states(effects) == [MysisState.IDLE]

    def test_a_prompt_that_waits_keeps_the_breaker_shut(self) -> None:
        life, _ = fed(replace(running(idle()), encouragement=2), Now(T + 30 * SECOND))
        life, _ = fed(life, Arrived(T, MESSAGE))
        _, effects = fed(life, TurnEnded(T, Outcome.ANSWERED, responded=False, nudged=True))
        assert effects == (WakeAt(None), OpenTurn(prompts=(MESSAGE,)))

    def test_a_mysis_without_a_goal_rests_after_its_answer(self) -> None:
        life = running(replace(idle(), has_goal=False))
        assert life.state is MysisState.RUNNING
        assert fed(life, Now(T + 24 * HOUR)) == (life, (WakeAt(None),))

    def test_a_mysis_without_a_goal_is_nudged_where_the_settings_say_so(self) -> None:
        life = running(replace(idle(without_goal=True), has_goal=False))
        assert fed(life, Now(T + 30 * SECOND))[1][-1] == OpenTurn(nudge_level=1)

    def test_a_mysis_without_a_goal_goes_on_after_its_own_wait_and_not_before(self) -> None:
        waiting = TurnEnded(T, Outcome.ANSWERED, wait_until=T + HOUR, wait_reason="travel")
        life, effects = fed(in_turn(replace(idle(), has_goal=False)), waiting)
        assert effects == (WakeAt(T + HOUR),)
        life, effects = fed(life, Now(T + HOUR))
        assert effects[-1] == OpenTurn(nudge_level=1)
        assert fed(life, TurnEnded(T + HOUR, Outcome.ANSWERED, nudged=True))[1] == (WakeAt(None),)

    def test_new_rules_act_at_once(self) -> None:
        life = running(idle())
        life, effects = fed(life, NewRules(T + SECOND, idle(enabled=False).rules))
        assert effects == (WakeAt(None),)
        assert fed(life, NewRules(T + SECOND, LifeRules.of(Settings())))[1] == (WakeAt(T + 30 * SECOND),)

    def test_switched_off_makes_it_purely_reactive(self) -> None:
        life = running(idle(enabled=False))
        assert fed(life, Now(T + 24 * HOUR))[1] == (WakeAt(None),)

    def test_the_bound_of_an_hour_makes_it_idle_with_the_reason_and_the_time_it_goes_on(self) -> None:
        life, at = running(idle(max_per_hour=2)), T
        for _ in range(2):
            at += 30 * SECOND
            life, _ = fed(life, Now(at), TurnEnded(at, Outcome.ANSWERED, nudged=True))
        life, effects = fed(life, Now(at + 30 * SECOND))
        goes_on = T + 30 * SECOND + HOUR
        reason = "nudged 2 times within an hour (nudge.max_per_hour)"
        assert effects == (SetState(MysisState.IDLE, reason, retry_at=goes_on), WakeAt(goes_on))
        assert fed(life, Now(goes_on - 1))[1] == (WakeAt(goes_on),)
        _, effects = fed(life, Now(goes_on))
        assert states(effects) == [MysisState.RUNNING]
        assert effects[-1] == OpenTurn(nudge_level=1)

    def test_a_template_may_set_no_bound(self) -> None:
        life, at = running(idle(max_per_hour=0)), T
        for _ in range(200):
            at += 30 * SECOND
            life, effects = fed(life, Now(at))
            assert isinstance(effects[-1], OpenTurn)
            life, _ = fed(life, TurnEnded(at, Outcome.ANSWERED, nudged=True))
        assert life.nudged_at == ()

    def test_the_end_of_a_wait_nudges_at_once(self) -> None:
        waiting = TurnEnded(T, Outcome.ANSWERED, wait_until=T + 70 * SECOND, wait_reason="travel")
        life, effects = fed(in_turn(idle()), waiting)
        assert (life.wait_reason, effects) == ("travel", (WakeAt(T + 70 * SECOND),))
        life, effects = fed(life, Now(T + 70 * SECOND))
        assert effects[-1] == OpenTurn(nudge_level=1)
        assert life.wait_until is None

    def test_no_silence_is_longer_than_the_wait_interval(self) -> None:
        _, effects = fed(in_turn(idle()), TurnEnded(T, Outcome.ANSWERED, wait_until=T + HOUR))
        assert effects == (WakeAt(T + 2 * MINUTE),)

    def test_a_long_wait_outlasts_its_nudges_and_its_end_nudges_at_once(self) -> None:
        ahead = T + 7 * MINUTE
        ended = TurnEnded(T, Outcome.ANSWERED, wait_until=ahead, wait_reason="travel")
        life, effects = fed(in_turn(idle()), ended)
        nudged: list[int] = []
        while len(nudged) < 5:
            [wake] = [effect.at for effect in effects if isinstance(effect, WakeAt)]
            assert wake is not None
            life, effects = fed(life, Now(wake))
            assert effects[-1] == OpenTurn(nudge_level=1)
            assert not is_waiting(life)
            nudged.append(wake - T)
            life, effects = fed(life, TurnEnded(wake, Outcome.ANSWERED, nudged=True))
            assert is_waiting(life) == (wake < ahead)
        assert nudged == [2 * MINUTE, 4 * MINUTE, 6 * MINUTE, 7 * MINUTE, 7 * MINUTE + 30 * SECOND]
        assert life.wait_reason == ""

    def test_a_nudged_turn_may_wait_for_something_else(self) -> None:
        life, _ = fed(in_turn(idle()), TurnEnded(T, Outcome.ANSWERED, wait_until=T + HOUR, wait_reason="travel"))
        at = T + 2 * MINUTE
        ended = TurnEnded(at, Outcome.ANSWERED, nudged=True, wait_until=at + MINUTE, wait_reason="the kiln")
        life, effects = fed(life, Now(at), ended)
        assert (life.wait_reason, effects) == ("the kiln", (WakeAt(at + MINUTE),))

    def test_a_failure_that_mends_itself_ends_no_wait_and_neither_does_the_bound_of_an_hour(self) -> None:
        waiting = TurnEnded(T, Outcome.ANSWERED, wait_until=T + HOUR, wait_reason="travel")
        life, at = fed(in_turn(idle(max_per_hour=2)), waiting)[0], T + 2 * MINUTE
        life, _ = fed(life, Now(at), replace(failed(ErrorClass.TRANSIENT, at), nudged=True), Now(at + MINUTE))
        life, effects = fed(life, TurnEnded(at + MINUTE, Outcome.ANSWERED))
        assert effects == (WakeAt(at + 3 * MINUTE),)
        life, _ = fed(life, Now(at + 3 * MINUTE), TurnEnded(at + 3 * MINUTE, Outcome.ANSWERED, nudged=True))
        life, effects = fed(life, Now(at + 5 * MINUTE))
        assert (states(effects), effects[-1]) == ([MysisState.IDLE], WakeAt(at + HOUR))
        life, effects = fed(life, Now(at + HOUR))
        assert effects[-1] == OpenTurn(nudge_level=1)

    def test_a_steer_that_joins_the_nudged_turn_ends_the_wait_and_one_that_is_withdrawn_does_not(self) -> None:
        life, _ = fed(in_turn(idle()), TurnEnded(T, Outcome.ANSWERED, wait_until=T + HOUR))
        at = T + 2 * MINUTE
        steer = replace(MESSAGE, delivery_id=2, mode=DeliveryMode.STEER)
        life, _ = fed(life, Now(at), Arrived(at, steer))
        ended = TurnEnded(at, Outcome.ANSWERED, nudged=True)
        assert fed(life, DeliveriesGone(frozenset({2}), joined=True), ended)[1] == (WakeAt(at + 30 * SECOND),)
        assert fed(life, DeliveriesGone(frozenset({2})), ended)[1] == (WakeAt(at + 2 * MINUTE),)

    @pytest.mark.parametrize("last", [[Stop(T + MINUTE)], [Stop(T + MINUTE), Start(T + MINUTE)]], ids=["stop", "start"])
    def test_a_stop_and_a_start_by_a_person_end_the_wait(self, last: list[LifeInput]) -> None:
        life, _ = fed(in_turn(idle()), TurnEnded(T, Outcome.ANSWERED, wait_until=T + HOUR))
        assert fed(life, *last)[0].wait_until is None

    def test_a_prompt_ends_the_wait(self) -> None:
        life, _ = fed(in_turn(idle()), TurnEnded(T, Outcome.ANSWERED, wait_until=T + MINUTE))
        life, effects = fed(life, Arrived(T, MESSAGE))
        assert effects[-1] == OpenTurn(prompts=(MESSAGE,))
        assert life.wait_until is None


TASK = replace(MESSAGE, delivery_id=2, is_task=True)


class TestGoal:
    def test_a_mysis_that_reports_the_end_is_idle_and_is_nudged_no_more(self) -> None:
        life, effects = fed(in_turn(idle()), TurnEnded(T, Outcome.ANSWERED, done=True))
        assert effects == (SetState(MysisState.IDLE, "done"), WakeAt(None))
        assert stored_life(life).done
        assert fed(life, Now(T + HOUR))[1] == (WakeAt(None),)

    def test_a_message_to_a_done_mysis_is_answered_and_then_it_rests_again(self) -> None:
        life, _ = fed(in_turn(idle()), TurnEnded(T, Outcome.ANSWERED, done=True))
        life, effects = fed(life, Arrived(T, MESSAGE))
        assert effects[-1] == OpenTurn(prompts=(MESSAGE,))
        assert fed(life, TurnEnded(T, Outcome.ANSWERED))[1] == (SetState(MysisState.IDLE, "done"), WakeAt(None))

    @pytest.mark.parametrize("again", [Arrived(T, TASK), Start(T)], ids=["a new task", "a relaunch"])
    def test_the_goal_is_active_again_after(self, again: LifeInput) -> None:
        life, _ = fed(in_turn(idle()), TurnEnded(T, Outcome.ANSWERED, done=True))
        life, _ = fed(life, again)
        life = life if not life.open_turn else fed(life, TurnEnded(T, Outcome.ANSWERED))[0]
        assert fed(life, Now(T + 30 * SECOND))[1][-1] == OpenTurn(nudge_level=1)

    def test_a_task_gives_a_goal(self) -> None:
        life, _ = fed(replace(idle(), has_goal=False), Arrived(T, TASK), TurnEnded(T, Outcome.ANSWERED))
        assert fed(life, Now(T + 30 * SECOND))[1][-1] == OpenTurn(nudge_level=1)

    def test_a_task_that_arrives_during_the_turn_is_not_the_one_reported_as_done(self) -> None:
        life, effects = fed(in_turn(idle()), Arrived(T, TASK), TurnEnded(T, Outcome.ANSWERED, done=True))
        assert effects[-1] == OpenTurn(prompts=(TASK,))
        assert not life.done

    def test_three_nudged_turns_with_nothing_new_make_it_idle(self) -> None:
        life, at = running(idle()), T
        effects: tuple[LifeEffect, ...] = ()
        for _ in range(3):
            at += 30 * SECOND
            assert states(effects) == []
            life, effects = fed(life, Now(at), TurnEnded(at, Outcome.ANSWERED, nudged=True, fruitless=True))
        assert effects == (SetState(MysisState.IDLE, "nothing new"), WakeAt(None))
        assert not life.done

    def test_a_nudge_while_it_waits_does_not_count(self) -> None:
        life, _ = fed(in_turn(idle()), TurnEnded(T, Outcome.ANSWERED, wait_until=T + HOUR, wait_reason="travel"))
        for minute in (2, 4, 6, 8):
            at = T + minute * MINUTE
            life, _ = fed(life, Now(at), TurnEnded(at, Outcome.ANSWERED, nudged=True, fruitless=True))
        assert (life.state, life.nothing_new, life.wait_reason) == (MysisState.RUNNING, 0, "travel")

    @pytest.mark.parametrize(
        "between",
        [TurnEnded(T, Outcome.ANSWERED, nudged=True), TurnEnded(T, Outcome.ITERATION_LIMIT, nudged=True)],
        ids=["something new", "tools until the limit"],
    )
    def test_only_nudges_in_a_row_count(self, between: TurnEnded) -> None:
        life = replace(running(idle()), nothing_new=2)
        life, _ = fed(life, Now(T + 30 * SECOND), between)
        assert life.nothing_new == 0

    @pytest.mark.parametrize(
        "reset", [lambda life: fed(life, Arrived(T, MESSAGE))[0], lambda life: fed(life, Stop(T), Start(T))[0]]
    )
    def test_a_prompt_and_a_start_reset_the_count(self, reset: Callable[[Life], Life]) -> None:
        assert reset(replace(running(idle()), nothing_new=2)).nothing_new == 0
