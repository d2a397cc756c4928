"""Settings of the two machines as values. Durations are in µs."""

from __future__ import annotations

from msgspec import Struct, field

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


class LifeRules(Struct, frozen=True):
    """Rules of the life machine."""

    run_once: bool = False
    nudge_enabled: bool = True
    without_goal: bool = False
    idle_interval: int = 30 * SECOND
    wait_interval: int = 2 * MINUTE
    nudges_per_hour: int = 60  # 0 = no bound
    recovery_delays: tuple[int, ...] = (30 * SECOND, 2 * MINUTE, 10 * MINUTE)
    max_hops: int = 3
    max_topic_hops: int = 30
    encouragements: int = 3
    fruitless_nudges: int = 3


class LoopRules(Struct, frozen=True):
    """Thresholds of the loop guard."""

    window: int = 10
    same_result: int = 3
    same_call: int = 5
    same_text: int = 3
    volatile: tuple[str, ...] = ("current_tick", "*timestamp*", "*_at")
    exempt: tuple[str, ...] = ("zoea_wait", "mine", "get_notifications")


class TickFields(Struct, frozen=True):
    """Names of fields that tell of ticks: the present one, one ahead, a number of them."""

    tick_fields: tuple[str, ...] = ("current_tick", "tick")
    until_fields: tuple[str, ...] = ("arrival_tick", "travel_arrival_tick")
    for_fields: tuple[str, ...] = ("cooldown_ticks",)

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.tick_fields, *self.until_fields, *self.for_fields)


class WaitRules(Struct, frozen=True):
    """Fields of a tool result that make a mysis wait, and other names of single upstreams."""

    fields: TickFields = TickFields()
    upstreams: tuple[tuple[str, TickFields], ...] = ()
    default_tick: int = 10 * SECOND

    def of(self, upstream: str) -> TickFields:
        """Return the names of the fields in results of this upstream."""
        return next((fields for name, fields in self.upstreams if name == upstream), self.fields)


class TurnRules(Struct, frozen=True):
    """Rules of the turn machine."""

    max_iterations: int = 20
    max_calls: int = 64
    timeout: int = 5 * MINUTE
    retries: int = 4
    backoff_first: int = SECOND // 2
    backoff_max: int = 20 * SECOND
    loop: LoopRules = field(default_factory=LoopRules)
