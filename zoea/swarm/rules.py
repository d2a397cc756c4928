"""The numbers that the two machines go by, as values: what settings and a template come to.

Durations are microseconds here, because the machines compare them with times.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


@dataclass(frozen=True, slots=True)
class LifeRules:
    """What `life.py` goes by (turns.md, States, Nudges and the circuit breaker)."""

    run_once: bool = False
    nudge_enabled: bool = True
    idle_interval: int = 30 * SECOND
    wait_interval: int = 2 * MINUTE
    nudges_per_hour: int = 60  # 0 = no bound
    recovery_delays: tuple[int, ...] = (30 * SECOND, 2 * MINUTE, 10 * MINUTE)
    max_hops: int = 3
    encouragements: int = 3


@dataclass(frozen=True, slots=True)
class LoopRules:
    """When repeating oneself becomes a loop (turns.md, A turn, 6)."""

    window: int = 10
    same_result: int = 3
    same_call: int = 5
    same_text: int = 3
    volatile: tuple[str, ...] = ("current_tick", "*timestamp*", "*_at")
    exempt: tuple[str, ...] = ("zoea_wait", "mine", "get_notifications")


@dataclass(frozen=True, slots=True)
class WaitRules:
    """Which fields of a tool result say that time must pass first."""

    until_fields: tuple[str, ...] = ("arrival_tick", "travel_arrival_tick")
    for_fields: tuple[str, ...] = ("cooldown_ticks",)
    tick_field: str = "current_tick"
    default_tick: int = 10 * SECOND


@dataclass(frozen=True, slots=True)
class TurnRules:
    """What `turn.py` goes by (turns.md, A turn)."""

    max_iterations: int = 20
    timeout: int = 5 * MINUTE
    retries: int = 4
    backoff_first: int = SECOND // 2
    backoff_max: int = 20 * SECOND
    loop: LoopRules = field(default_factory=LoopRules)
