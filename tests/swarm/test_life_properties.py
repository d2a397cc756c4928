"""`life.step` takes anything, in any order and at any time of any clock.

The machine is driven as its runner drives it: effects are carried out in order,
`WakeAt` is one timer, a turn ends only if one was opened.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from zoea.model.enums import DeliveryMode, ErrorClass, MysisState, Outcome
from zoea.model.values import Failure
from zoea.settings.schema import Settings
from zoea.swarm import life as lf
from zoea.swarm.rules import HOUR, MINUTE, SECOND, LifeRules

RULES = st.builds(
    lambda once, delays, **nudge: LifeRules.of(
        Settings.model_validate({"nudge": nudge, "recovery": {"delays": delays}}), run_once=once
    ),
    once=st.booleans(),
    delays=st.sampled_from(((30, 120, 600), ())),
    enabled=st.sampled_from((True, True, True, False)),
    without_goal=st.booleans(),
    max_per_hour=st.sampled_from((0, 1, 2, 5, 60)),
)
FAILURE = Failure("ProviderError", "The model's provider failed", "503", "wait")
JUMPS = st.sampled_from((0, 1, SECOND, 29 * SECOND, 30 * SECOND, 3 * MINUTE, HOUR, -SECOND, -MINUTE, -2 * HOUR))


class Lives(RuleBasedStateMachine):
    """One mysis, its timer, its inbox and its turn, as the runner keeps them."""

    @initialize(rules=RULES, goal=st.booleans())
    def begin(self, rules: LifeRules, goal: bool) -> None:
        self.now = 10 * HOUR
        self.life = lf.Life(rules, has_goal=goal, quiet_since=self.now)
        self.has_goal, self.done, self.fruitless = goal, False, 0
        self.stored = MysisState.IDLE
        self.wake_at: int | None = None
        self.turn: lf.OpenTurn | None = None
        self.held = False
        self.inbox: dict[int, lf.Pending] = {}
        self.nudges: list[int] = []
        self.unanswered = 0
        self.deliveries = 0
        self.stands_broken_off = False
        self.waits_until: int | None = None

    # What may happen.

    @rule(jump=JUMPS)
    def time_jumps(self, jump: int) -> None:
        self.now += jump

    @rule()
    def time_is_told(self) -> None:
        self.feed(lf.Now(self.now))

    @precondition(lambda self: self.wake_at is not None)
    @rule(late=st.sampled_from((0, 0, SECOND, HOUR)))
    def the_timer_goes_off(self, late: int) -> None:
        assert self.wake_at is not None
        self.now = max(self.now, self.wake_at) + late
        self.wake_at = None
        self.feed(lf.Now(self.now))

    @rule()
    def a_person_starts_it(self) -> None:
        if self.stored is not MysisState.RUNNING:
            self.unanswered = self.fruitless = 0
            self.waits_until = None
            self.done = False
        self.feed(lf.Start(self.now))

    @rule()
    def a_person_stops_it(self) -> None:
        if self.stored is not MysisState.STOPPED:
            self.nudges = []
            self.waits_until = None
        self.feed(lf.Stop(self.now))
        assert self.stored is MysisState.STOPPED
        assert self.wake_at is None

    @rule(on=st.booleans())
    def a_person_holds_it_or_lets_go(self, on: bool) -> None:
        self.held = on
        self.feed(lf.Hold(self.now, on))

    @rule(
        mode=st.sampled_from(DeliveryMode),
        hop=st.sampled_from((0, 0, 1, 2, 3, 9)),
        person=st.booleans(),
        task=st.booleans(),
    )
    def a_message_arrives(self, mode: DeliveryMode, hop: int, person: bool, task: bool) -> None:
        self.deliveries += 1
        pending = lf.Pending(self.deliveries, mode, hop, person, is_task=task and person)
        self.inbox[pending.delivery_id] = pending
        self.unanswered = self.fruitless = 0
        self.has_goal = self.has_goal or pending.is_task
        self.done = self.done and not pending.is_task
        if self.stored is MysisState.IDLE and hop < self.life.rules.swarm.max_hops:
            self.waits_until = None  # it starts an idle one, held or not
        self.feed(lf.Arrived(self.now, pending))

    @precondition(lambda self: self.turn is not None and len(self.turn.prompts) > 1)
    @rule(data=st.data())
    def the_turn_has_no_room_for_all_prompts(self, data: st.DataObject) -> None:
        assert self.turn is not None
        taken = data.draw(st.integers(1, len(self.turn.prompts) - 1))
        left = self.turn.prompts[taken:]
        self.turn = replace(self.turn, prompts=self.turn.prompts[:taken])
        self.inbox = {**{pending.delivery_id: pending for pending in left}, **self.inbox}
        self.feed(lf.PromptsLeft(left))
        assert self.life.pending == tuple(self.inbox.values())

    @rule()
    def zoea_is_closed_and_goes_on(self) -> None:
        """Keep only the stored state; an open turn is broken off."""
        was, ran = self.life, self.stored is MysisState.RUNNING
        lasting = lf.stored_life(was)
        self.stands_broken_off = self.stands_broken_off or self.turn is not None
        self.turn = self.wake_at = None
        self.stored = MysisState.IDLE if ran else self.stored
        self.life = lf.Life(
            was.rules,
            state=self.stored,
            has_goal=self.has_goal,
            done=lasting.done,
            nothing_new=lasting.nothing_new,
            broken_off=self.stands_broken_off,
            pending=tuple(self.inbox.values()),
            encouragement=lasting.encouragement,
            quiet_since=self.now,
            wait_until=lasting.wait_until,
            wait_reason=lasting.wait_reason,
            held_since=self.now if self.held else None,
            retry_at=was.retry_at if self.stored is MysisState.ERRORED else None,
            retry_count=0 if ran else was.retry_count,
            nudged_at=was.nudged_at,
        )
        if self.stored is MysisState.ERRORED:
            self.feed(lf.Now(self.now))
        if self.stored is MysisState.IDLE:
            self.feed(lf.Start(self.now, resume=True))

    @precondition(lambda self: self.inbox)
    @rule(data=st.data())
    def messages_are_withdrawn_or_taken_by_a_steer(self, data: st.DataObject) -> None:
        gone = data.draw(st.sets(st.sampled_from(sorted(self.inbox)), min_size=1))
        for delivery in gone:
            del self.inbox[delivery]
        joined = self.turn is not None and data.draw(st.booleans())
        self.waits_until = None if joined else self.waits_until
        self.feed(lf.DeliveriesGone(frozenset(gone) | {10**6}, joined=joined))

    @precondition(lambda self: self.turn is not None)
    @rule(
        outcome=st.sampled_from(Outcome),
        responded=st.booleans(),
        error_class=st.sampled_from(ErrorClass),
        final=st.booleans(),
        stops=st.booleans(),
        wait=st.none() | JUMPS,
        jitter=st.floats(0, 1, exclude_max=True),
        never_opened=st.booleans(),
        done=st.booleans(),
        fruitless=st.booleans(),
    )
    def the_turn_ends(
        self,
        outcome: Outcome,
        responded: bool,
        error_class: ErrorClass,
        final: bool,
        stops: bool,
        wait: int | None,
        jitter: float,
        never_opened: bool,
        done: bool,
        fruitless: bool,
    ) -> None:
        turn, self.turn = self.turn, None
        assert turn is not None
        fails = outcome.leaves_open
        returned = turn.prompts if never_opened and outcome in (Outcome.FAILED, Outcome.CANCELLED) else ()
        self.inbox.update({pending.delivery_id: pending for pending in returned})
        ended = lf.TurnEnded(
            self.now,
            outcome,
            responded=responded and not fails,
            nudged=turn.nudge_level > 0,
            failure=FAILURE if fails else None,
            error_class=error_class if fails else None,
            final=final and fails,
            stops=stops and outcome is Outcome.BUDGET,
            wait_until=None if wait is None or outcome is not Outcome.ANSWERED else self.now + wait,
            wait_reason="" if wait is None or outcome is not Outcome.ANSWERED else "the kiln",
            jitter=jitter,
            returned=returned,
            done=done and outcome is Outcome.ANSWERED,
            fruitless=fruitless and turn.nudge_level > 0,
        )
        before = self.stored
        self.stands_broken_off = fails and not ended.final
        failed_nudge = ended.nudged and (not ended.responded or outcome is Outcome.TIMEOUT)
        if before is MysisState.RUNNING and ended.responded and outcome not in (Outcome.LOOP, Outcome.TIMEOUT):
            self.unanswered = 0 if not ended.stops else self.unanswered
        breaks = failed_nudge and self.unanswered >= 3 and not self.waking() and before is MysisState.RUNNING
        if before is MysisState.RUNNING:
            self.a_wait_goes_on_or_a_new_one_begins(ended, breaks)
        step = lf.step_end_of_turn(self.life, ended)
        effects = self.feed(ended)
        assert step.life == self.life
        assert step.state == next((one for one in effects if isinstance(one, lf.SetState)), None)
        assert step.effects == tuple(one for one in effects if not isinstance(one, lf.SetState))
        if not any(isinstance(one, lf.OpenTurn) for one in effects):
            assert step.stored_life == lf.stored_life(self.life)
        if before is not MysisState.RUNNING:
            assert effects == ()
        elif breaks and not ended.stops and outcome not in (Outcome.LOOP, Outcome.FAILED, Outcome.CRASHED):
            assert self.stored is MysisState.IDLE
            assert lf.SetState(MysisState.IDLE, lf.BREAKER_OPEN) in [
                replace(one, failure=None) for one in effects if isinstance(one, lf.SetState)
            ]

    def a_wait_goes_on_or_a_new_one_begins(self, ended: lf.TurnEnded, breaks: bool) -> None:
        fails = ended.outcome in (Outcome.FAILED, Outcome.CRASHED) or (
            ended.outcome is Outcome.TIMEOUT and not ended.nudged
        )
        self.the_wait_ends_with_its_time()
        if ended.stops or ended.outcome is Outcome.LOOP:
            self.waits_until = None
            return
        if fails:
            return
        if breaks:
            self.waits_until, self.fruitless = None, 0
            return
        if ended.done and not any(pending.is_task for pending in self.inbox.values()):
            self.done, self.waits_until = True, None
        elif ended.wait_until is not None:
            self.waits_until = ended.wait_until
        if not ended.fruitless:
            self.fruitless = 0
        elif self.waits_until is None:
            self.fruitless += 1
        if self.fruitless >= 3 and not self.waking():
            self.fruitless, self.waits_until = 0, None

    def the_wait_ends_with_its_time(self) -> None:
        if self.waits_until is not None and self.waits_until <= self.now:
            self.waits_until = None

    # What is carried out.

    def feed(self, given_: lf.LifeInput) -> tuple[lf.LifeEffect, ...]:
        self.life, effects = lf.step(self.life, given_)
        for effect in effects:
            match effect:
                case lf.SetState():
                    self.stored = effect.state
                case lf.WakeAt():
                    assert effect.at is None or not self.held
                    self.wake_at = effect.at
                case lf.Cancel():
                    assert self.turn is not None
                case lf.OpenTurn():
                    self.open(effect)
        return effects

    def open(self, turn: lf.OpenTurn) -> None:
        assert self.turn is None
        assert self.stored is MysisState.RUNNING
        assert not self.held
        assert self.wake_at is None
        self.turn = turn
        assert turn.resume == self.stands_broken_off
        self.stands_broken_off = False
        if turn.resume:
            assert not turn.prompts
            assert not turn.nudge_level
        elif turn.prompts:
            # All that waits opens one turn together, in arrival order, each once.
            assert {pending.delivery_id for pending in turn.prompts} == set(self.inbox)
            self.inbox = {}
            self.unanswered = 0
            self.waits_until = None
        else:
            self.nudge(turn.nudge_level)

    def nudge(self, level: int) -> None:
        rules = self.life.rules
        assert rules.nudge.enabled
        assert not rules.run_once
        assert not self.done
        if not (self.has_goal or rules.nudge.without_goal):
            assert self.waits_until is not None
            assert self.now >= self.waits_until
        assert not self.inbox
        assert level == min(self.unanswered + 1, 3)
        self.unanswered = level
        self.the_wait_ends_with_its_time()
        if self.waits_until is not None:
            assert self.now >= self.life.quiet_since + rules.nudge.wait_interval * SECOND
        # What was more than an hour ago stays so, even where the clock is put back.
        self.nudges = [*(at for at in self.nudges if at > self.now - HOUR), self.now]
        if rules.nudge.max_per_hour:
            assert len(self.nudges) <= rules.nudge.max_per_hour

    def waking(self) -> bool:
        return any(pending.hop < self.life.rules.swarm.max_hops for pending in self.inbox.values())

    # What holds at any time.

    @invariant()
    def what_is_stored_is_what_it_is(self) -> None:
        assert self.life.state is self.stored
        assert self.life.open_turn == (self.turn is not None)
        assert {pending.delivery_id for pending in self.life.pending} == set(self.inbox)
        assert 0 <= self.life.encouragement <= 3
        assert self.life.wait_until == self.waits_until
        assert (self.life.has_goal, self.life.done) == (self.has_goal, self.done)
        assert self.life.nothing_new == self.fruitless < 3
        assert (self.life.wait_reason != "") == (self.waits_until is not None)

    @invariant()
    def nobody_waits_for_a_turn_that_could_be_opened(self) -> None:
        if self.stored is MysisState.RUNNING and not self.held and self.turn is None:
            assert not self.waking()
            assert not self.stands_broken_off

    @invariant()
    def a_reactive_mysis_rests_and_all_others_have_a_timer(self) -> None:
        if self.held or self.turn is not None:
            return
        match self.stored:
            case MysisState.RUNNING:
                assert not self.life.rules.run_once
                assert not self.done
                is_nudged = self.has_goal or self.life.rules.nudge.without_goal or self.waits_until is not None
                assert (self.life.rules.nudge.enabled and is_nudged) == self.progresses()
            case MysisState.ERRORED | MysisState.IDLE:
                assert self.life.retry_at is None or self.progresses()
            case MysisState.STOPPED:
                assert self.wake_at is None

    def progresses(self) -> bool:
        """Feeding `Now` when the timer says so leads to a turn within a few rounds."""
        life, wake = self.life, self.wake_at
        for _ in range(4):
            # A timer that went off and was not set anew is one that a plain `Now` answers.
            life, effects = lf.step(life, lf.Now(self.now if wake is None else max(self.now, wake)))
            if any(isinstance(effect, lf.OpenTurn) for effect in effects):
                return True
            if life.state is MysisState.IDLE and (life.rules.run_once or life.done):
                return True
            can_wake = [effect.at for effect in effects if isinstance(effect, lf.WakeAt)]
            if not can_wake or can_wake[-1] is None:
                return False
            wake = can_wake[-1]
        return False


TestLives = Lives.TestCase


@given(st.lists(st.sampled_from((lf.Start(0), lf.Stop(0), lf.Hold(0, True), lf.Hold(0, False), lf.Now(0)))))
def test_the_same_inputs_give_the_same_effects(inputs: list[lf.LifeInput]) -> None:
    one = two = lf.Life(LifeRules.of(Settings()))
    for given_ in inputs:
        one, effects = lf.step(one, given_)
        two, again = lf.step(two, given_)
        assert (one, effects) == (two, again)
