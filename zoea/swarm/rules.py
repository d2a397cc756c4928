"""Settings of the two machines as values. Durations are in µs."""

from __future__ import annotations

from msgspec import Struct, field

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
MAX_TOPIC_HOPS = 30
"""From this hop on, a message on a topic wakes no subscriber, so that no pipeline goes on for ever.

It is far above the hops of messages between myses, because each step of a pipeline is one.
"""


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
    encouragements: int = 3
    fruitless_nudges: int = 3


class LoopRules(Struct, frozen=True):
    """What the loop guard does not compare: fields of results, and tools."""

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
    timeout: int = 5 * MINUTE
    retries: int = 4
    loop: LoopRules = field(default_factory=LoopRules)
