"""The life of one mysis as a pure machine: states, goal, nudges, breaker, waits, recovery.

`step(life, input) -> (life, effects)` over frozen values. Times are uptimes in µs; they come with the inputs,
and `WakeAt` asks for the next one. No other part of Zoea holds a timer that decides about a mysis.
"""

from __future__ import annotations

from typing import assert_never

from msgspec import Struct, field
from msgspec.structs import replace

from zoea.model.enums import DeliveryMode, ErrorClass, MysisState, Outcome
from zoea.model.status import BY_PERSON, DONE, NOTHING_NEW
from zoea.model.values import Failure
from zoea.swarm.rules import HOUR, MAX_TOPIC_HOPS, LifeRules, to_micros
from zoea.text.sentences import count_of

ENCOURAGEMENTS = 3
"""Nudges without an answer after which a mysis rests."""
FRUITLESS_NUDGES = 3
"""Nudges that changed nothing after which it rests."""
BREAKER_OPEN = f"Failed to respond after {ENCOURAGEMENTS} encouragements"
ANSWERED = "answered"
"""State reason of a mysis with `run = once` that has answered."""


class Pending(Struct, frozen=True):
    """A message in the inbox that no turn has taken yet."""

    delivery_id: int
    mode: DeliveryMode
    hop: int
    from_person: bool
    is_task: bool = False
    is_topic: bool = False


# Inputs.


class Start(Struct, frozen=True):
    """A person starts the mysis. With `resume` it keeps its wait, its counts and a reached goal."""

    at: int
    resume: bool = False


class Stop(Struct, frozen=True):
    at: int
    reason: str = BY_PERSON


class Hold(Struct, frozen=True):
    at: int
    on: bool


class Arrived(Struct, frozen=True):
    at: int
    pending: Pending


class DeliveriesGone(Struct, frozen=True):
    """Deliveries that are no longer pending: withdrawn, or `joined` to the open turn by a steer.

    `has_goal` says whether a goal is left after a task was withdrawn; None where it is as before.
    """

    delivery_ids: frozenset[int]
    joined: bool = False
    has_goal: bool | None = None


class PromptsLeft(Struct, frozen=True):
    """Prompts that the opened turn had no room for; they open the next turn."""

    prompts: tuple[Pending, ...]


class TurnEnded(Struct, frozen=True):
    """The open turn ended, or broke off.

    `responded` is True where the model gave text or calls; `failure` and `error_class` come with
    `failed`; `final` marks a failure that would repeat; `stops` a spent budget of the mysis;
    `jitter` is in [0, 1). `returned` are prompts of a turn that could not be opened. `done` is
    True where it called `zoea_done`; `fruitless` where it called no tool and said nothing new.
    """

    at: int
    outcome: Outcome
    responded: bool = True
    nudged: bool = False
    failure: Failure | None = None
    error_class: ErrorClass | None = None
    final: bool = False
    stops: bool = False
    wait_until: int | None = None
    wait_reason: str = ""
    jitter: float = 0.0
    returned: tuple[Pending, ...] = ()
    done: bool = False
    fruitless: bool = False


class NewRules(Struct, frozen=True):
    """The settings of the mysis have changed."""

    at: int
    rules: LifeRules


class Now(Struct, frozen=True):
    at: int


LifeInput = Start | Stop | Hold | Arrived | DeliveriesGone | PromptsLeft | TurnEnded | NewRules | Now


# Effects.


class SetState(Struct, frozen=True):
    """Persist the state. `retry_at` is when the mysis continues by itself, if it does."""

    state: MysisState
    reason: str = ""
    failure: Failure | None = None
    retry_at: int | None = None
    retry_count: int = 0

    def in_wall_time(self, ahead: int) -> SetState:
        """Return a copy with its times as they are stored; `ahead` is `Clock.ahead`."""
        return self if self.retry_at is None else replace(self, retry_at=self.retry_at + ahead)


class OpenTurn(Struct, frozen=True):
    """Open a turn with deliveries or a nudge, or resume one that broke off."""

    prompts: tuple[Pending, ...] = ()
    nudge_level: int = 0
    resume: bool = False


class WakeAt(Struct, frozen=True):
    """Send `Now` at this time; None cancels."""

    at: int | None


class Cancel(Struct, frozen=True):
    outcome: Outcome


LifeEffect = SetState | OpenTurn | WakeAt | Cancel


class Life(Struct, frozen=True):
    """The state of the machine.

    `open_turn` is True while a turn runs; `broken_off` while an open turn in the store waits to
    be resumed. `quiet_since` is when the last turn ended or the mysis started. `wait_until`
    outlasts the nudges that come before it. `done` is True once the goal is reached;
    `nothing_new` counts the last nudged turns that were fruitless.
    """

    rules: LifeRules
    state: MysisState = MysisState.IDLE
    has_goal: bool = False
    done: bool = False
    nothing_new: int = 0
    open_turn: bool = False
    broken_off: bool = False
    pending: tuple[Pending, ...] = ()
    encouragement: int = 0
    quiet_since: int = 0
    wait_until: int | None = None
    wait_reason: str = ""
    held_since: int | None = None
    retry_at: int | None = None
    retry_count: int = 0
    nudged_at: tuple[int, ...] = field(default=())


class StoredLife(Struct, frozen=True):
    """The stored part of a life: counts of nudges, the wait, the reached goal."""

    encouragement: int = 0
    wait_until: int | None = None
    wait_reason: str = ""
    nothing_new: int = 0
    done: bool = False

    def in_wall_time(self, ahead: int) -> StoredLife:
        """Return a copy with its times as they are stored; `ahead` is `Clock.ahead`."""
        return self if self.wait_until is None else replace(self, wait_until=self.wait_until + ahead)


def stored_life(life: Life) -> StoredLife:
    """Return the part of a life that is stored beside its state."""
    return StoredLife(life.encouragement, life.wait_until, life.wait_reason, life.nothing_new, life.done)


def is_by_person(given: object) -> bool:
    """Return whether a person waits for what this input leads to."""
    match given:
        case Start():
            return not given.resume
        case Arrived():
            return given.pending.from_person
    return False


def is_waiting(life: Life) -> bool:
    """True where the mysis waits and no turn is open."""
    return life.state is MysisState.RUNNING and not life.open_turn and life.wait_until is not None


class EndOfTurn(Struct, frozen=True):
    """The step on the end of a turn: its stored part and its later part.

    `state` and `stored_life` are written in the op that ends the turn; `effects` are all others.
    """

    life: Life
    state: SetState | None
    stored_life: StoredLife
    effects: tuple[LifeEffect, ...]


def step_end_of_turn(life: Life, given: TurnEnded) -> EndOfTurn:
    """Process the end of a turn before the op that stores it."""
    life, effects = step(life, given)
    state = next((effect for effect in effects if isinstance(effect, SetState)), None)
    nudge = next((effect.nudge_level for effect in effects if isinstance(effect, OpenTurn)), 0)
    stored = stored_life(life)
    if nudge:
        # A nudge that is due at once counts when it is sent, in the op that opens its turn.
        stored = replace(stored, encouragement=nudge - 1)
    return EndOfTurn(life, state, stored, tuple(effect for effect in effects if effect is not state))


def step(life: Life, given: LifeInput) -> tuple[Life, tuple[LifeEffect, ...]]:
    """Process one input. Effects are carried out in order, each finished before the next."""
    match given:
        case Start():
            return _start(life, given)
        case Stop():
            return _stop(life, given)
        case Hold():
            return _hold(life, given)
        case Arrived():
            return _arrived(life, given)
        case DeliveriesGone():
            kept = tuple(p for p in life.pending if p.delivery_id not in given.delivery_ids)
            life = replace(life, pending=kept, has_goal=life.has_goal if given.has_goal is None else given.has_goal)
            return _without_wait(life) if given.joined else life, ()
        case PromptsLeft():
            return replace(life, pending=(*given.prompts, *life.pending)), ()
        case TurnEnded():
            return _turn_ended(life, given)
        case NewRules():
            return _then(replace(life, rules=given.rules), given.at, ())
        case Now():
            return _now(life, given.at)
        case _:
            assert_never(given)


def _start(life: Life, given: Start) -> tuple[Life, tuple[LifeEffect, ...]]:
    if life.state is MysisState.RUNNING:
        return life, ()
    anew = _running(life, given.at)
    if given.resume:
        anew = replace(
            anew,
            encouragement=life.encouragement,
            nothing_new=life.nothing_new,
            wait_until=life.wait_until,
            wait_reason=life.wait_reason,
        )
    else:
        anew = replace(anew, done=False)
    return _then(anew, given.at, (SetState(MysisState.RUNNING),))


def _running(life: Life, at: int) -> Life:
    return replace(
        _without_wait(life),
        state=MysisState.RUNNING,
        encouragement=0,
        nothing_new=0,
        quiet_since=at,
        retry_at=None,
        retry_count=0,
    )


def _stop(life: Life, given: Stop) -> tuple[Life, tuple[LifeEffect, ...]]:
    if life.state is MysisState.STOPPED:
        return life, ()
    # The turn is cancelled first, because storing the state may have to wait for the disk.
    cancel: tuple[LifeEffect, ...] = (Cancel(Outcome.CANCELLED),) if life.open_turn else ()
    life = replace(
        _without_wait(life), state=MysisState.STOPPED, encouragement=0, retry_at=None, retry_count=0, nudged_at=()
    )
    return life, (*cancel, SetState(MysisState.STOPPED, given.reason), WakeAt(None))


def _without_wait(life: Life) -> Life:
    return replace(life, wait_until=None, wait_reason="")


def _without_ended_wait(life: Life, at: int) -> Life:
    """Remove a wait that is over. A nudge does not end one that is still ahead."""
    return _without_wait(life) if life.wait_until is not None and life.wait_until <= at else life


def _hold(life: Life, given: Hold) -> tuple[Life, tuple[LifeEffect, ...]]:
    if given.on:
        if life.held_since is not None:
            return life, ()
        return replace(life, held_since=given.at), (WakeAt(None),)
    if life.held_since is None:
        return life, ()
    # Nudge and backoff clocks stood still during the hold: shift their starting points.
    stood = max(0, given.at - max(life.held_since, life.quiet_since))
    life = replace(
        life,
        held_since=None,
        quiet_since=life.quiet_since + stood,
        retry_at=None if life.retry_at is None else life.retry_at + stood,
    )
    return _then(life, given.at, ())


def _arrived(life: Life, given: Arrived) -> tuple[Life, tuple[LifeEffect, ...]]:
    pending = sorted((*life.pending, given.pending), key=lambda one: one.delivery_id)
    life = replace(life, pending=tuple(pending), encouragement=0, nothing_new=0)
    if given.pending.is_task:
        life = replace(life, has_goal=True, done=False)
    if not can_wake(life, given.pending):
        return life, ()
    if life.open_turn:
        if given.pending.mode is DeliveryMode.INTERRUPT:
            return life, (Cancel(Outcome.INTERRUPTED),)
        return life, ()
    effects: tuple[LifeEffect, ...] = ()
    if life.state is MysisState.IDLE:
        life = _running(life, given.at)
        effects = (SetState(MysisState.RUNNING),)
    return _then(life, given.at, effects)


def can_wake(life: Life, pending: Pending) -> bool:
    """Return whether a message may open a turn: its hop is below the limit of its kind."""
    return pending.hop < (MAX_TOPIC_HOPS if pending.is_topic else life.rules.swarm.max_hops)


def _now(life: Life, at: int) -> tuple[Life, tuple[LifeEffect, ...]]:
    if life.held_since is not None:
        return life, ()
    if life.state in (MysisState.ERRORED, MysisState.IDLE) and life.retry_at is not None:
        if at < life.retry_at:
            return life, (WakeAt(life.retry_at),)
        resting = life.state is MysisState.IDLE
        count = life.retry_count
        # The longest allowed silence has passed, so a nudge is due.
        longest = to_micros(max(life.rules.nudge.idle_interval, life.rules.nudge.wait_interval))
        life = replace(life, state=MysisState.RUNNING, retry_at=None, quiet_since=at - longest if resting else at)
        return _then(life, at, (SetState(MysisState.RUNNING, retry_count=count),))
    return _then(life, at, ())


def _turn_ended(life: Life, given: TurnEnded) -> tuple[Life, tuple[LifeEffect, ...]]:
    leaves_open = given.outcome.leaves_open and not given.final
    life = replace(
        life, open_turn=False, broken_off=leaves_open, quiet_since=given.at, pending=(*given.returned, *life.pending)
    )
    if life.state is not MysisState.RUNNING:
        # A late end never overwrites a decision of a person.
        return life, ()
    if given.stops or given.outcome is Outcome.LOOP:
        # Both would continue to spend tokens in vain, so a person decides.
        life = replace(_without_wait(life), state=MysisState.STOPPED)
        reason = "budget" if given.stops else "loop"
        return life, (SetState(MysisState.STOPPED, reason, given.failure), WakeAt(None))
    life = _without_ended_wait(life, given.at)
    if given.outcome in (Outcome.FAILED, Outcome.TIMEOUT, Outcome.CRASHED) and not (
        given.nudged and given.outcome is Outcome.TIMEOUT
    ):
        return _failed(life, given)
    if given.responded and given.outcome is not Outcome.TIMEOUT:
        life = replace(life, encouragement=0, retry_count=0)
    elif given.nudged and life.encouragement >= ENCOURAGEMENTS:
        return _breaker(life)
    if given.done and not any(pending.is_task for pending in life.pending):
        # A task that arrived during the turn is not the one that was reported as done.
        life = replace(_without_wait(life), done=True)
    elif given.wait_until is not None:
        life = replace(life, wait_until=given.wait_until, wait_reason=given.wait_reason)
    if not (given.nudged and given.fruitless):
        life = replace(life, nothing_new=0)
    elif life.wait_until is None:  # "still on my way" is no sign that nothing more will come
        life = replace(life, nothing_new=life.nothing_new + 1)
    if life.nothing_new >= FRUITLESS_NUDGES and not any(can_wake(life, p) for p in life.pending):
        life = replace(_without_wait(life), state=MysisState.IDLE, encouragement=0, nothing_new=0)
        return life, (SetState(MysisState.IDLE, NOTHING_NEW), WakeAt(None))
    return _then(life, given.at, ())


def _breaker(life: Life) -> tuple[Life, tuple[LifeEffect, ...]]:
    failure = Failure(
        "Breaker",
        BREAKER_OPEN,
        "its model answered three nudges with neither text nor tool calls",
        "press 'r' to relaunch, or look at its provider and model",
    )
    # Nothing that wakes is pending: its arrival would have reset the count.
    life = replace(_without_wait(life), state=MysisState.IDLE, encouragement=0, nothing_new=0)
    return life, (SetState(MysisState.IDLE, BREAKER_OPEN, failure), WakeAt(None))


def _failed(life: Life, given: TurnEnded) -> tuple[Life, tuple[LifeEffect, ...]]:
    delays = life.rules.recovery.delays
    transient = given.outcome is not Outcome.FAILED or given.error_class is ErrorClass.TRANSIENT
    retry_at = None
    count = life.retry_count
    if transient and not given.final and count < len(delays):
        retry_at = given.at + to_micros(delays[count] * given.jitter)
        count += 1
    reason = given.failure.title if given.failure else str(given.outcome)
    life = replace(life, state=MysisState.ERRORED, retry_at=retry_at, retry_count=count)
    wake = None if life.held_since is not None else retry_at
    return life, (SetState(MysisState.ERRORED, reason, given.failure, retry_at, count), WakeAt(wake))


def _then(life: Life, at: int, effects: tuple[LifeEffect, ...]) -> tuple[Life, tuple[LifeEffect, ...]]:
    """Add the effects that follow without another input: open a turn, nudge or rest."""
    if life.held_since is not None or life.open_turn:
        return life, effects
    if life.state is not MysisState.RUNNING:
        return life, (*effects, WakeAt(life.retry_at))
    if life.broken_off:
        life = replace(life, open_turn=True, broken_off=False)
        cut: tuple[LifeEffect, ...] = ()
        if any(p.mode is DeliveryMode.INTERRUPT and can_wake(life, p) for p in life.pending):
            # The interrupt holds across a restart: open calls get their results, and the turn ends.
            cut = (Cancel(Outcome.INTERRUPTED),)
        return life, (*effects, WakeAt(None), OpenTurn(resume=True), *cut)
    if any(can_wake(life, p) for p in life.pending):
        return _open(life, effects)
    if life.done or life.rules.run_once:
        # Messages over the hop limit wait: they join the turn that the next other message opens.
        life = replace(life, state=MysisState.IDLE)
        return life, (*effects, SetState(MysisState.IDLE, DONE if life.done else ANSWERED), WakeAt(None))
    if not life.rules.nudge.enabled or not (has_aim(life) or life.wait_until is not None):
        return life, (*effects, WakeAt(None))
    return _nudge(life, at, effects)


def has_aim(life: Life) -> bool:
    """Return whether silence is ended by nudges: the mysis has a goal, or needs none."""
    return life.has_goal or life.rules.nudge.without_goal


def _open(life: Life, effects: tuple[LifeEffect, ...]) -> tuple[Life, tuple[LifeEffect, ...]]:
    prompts = _next_prompts(life.pending)
    life = replace(_without_wait(life), open_turn=True, pending=life.pending[len(prompts) :], encouragement=0)
    return life, (*effects, WakeAt(None), OpenTurn(prompts=prompts))


def _next_prompts(pending: tuple[Pending, ...]) -> tuple[Pending, ...]:
    """Return the prompts of the next turn: one topic message, or all others before one."""
    first_topic = next((place for place, one in enumerate(pending) if one.is_topic), len(pending))
    return pending[: first_topic or 1]


def nudge_due(life: Life) -> int:
    """Return when the next nudge is due, if nothing comes before it."""
    if life.wait_until is None:
        return life.quiet_since + to_micros(life.rules.nudge.idle_interval)
    if not has_aim(life):
        # It answers and rests, but what it waits for itself is not lost.
        return max(life.wait_until, life.quiet_since)
    # The end of a wait nudges at once; no silence is longer than the wait interval.
    return min(max(life.wait_until, life.quiet_since), life.quiet_since + to_micros(life.rules.nudge.wait_interval))


def _nudge(life: Life, at: int, effects: tuple[LifeEffect, ...]) -> tuple[Life, tuple[LifeEffect, ...]]:
    due = nudge_due(life)
    if at < due:
        return life, (*effects, WakeAt(due))
    if life.pending:
        # Messages over the hop limit open no turn, but join the one that opens now.
        return _open(life, effects)
    recent = tuple(t for t in life.nudged_at if t > at - HOUR)
    bound = life.rules.nudge.max_per_hour
    if bound and len(recent) >= bound:
        goes_on = recent[-bound] + HOUR
        reason = f"nudged {count_of(bound, 'time')} within an hour (nudge.max_per_hour)"
        life = replace(life, state=MysisState.IDLE, retry_at=goes_on, nudged_at=recent)
        return life, (*effects, SetState(MysisState.IDLE, reason, retry_at=goes_on), WakeAt(goes_on))
    level = min(life.encouragement + 1, ENCOURAGEMENTS)
    life = replace(
        _without_ended_wait(life, at), open_turn=True, encouragement=level, nudged_at=(*recent, at) if bound else ()
    )
    return life, (*effects, WakeAt(None), OpenTurn(nudge_level=level))
