"""The rules of the machines: the sections of the settings that each of them reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:  # the machines need their values alone
    from zoea.settings.schema import (
        LlmSettings,
        LoopSettings,
        NudgeSettings,
        RecoverySettings,
        Settings,
        SwarmSettings,
        TurnSettings,
        WaitSettings,
    )

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
MAX_TOPIC_HOPS = 30
"""From this hop on, a message on a topic wakes no subscriber, so that no pipeline goes on for ever.

It is far above the hops of messages between myses, because each step of a pipeline is one.
"""


def to_micros(seconds: float) -> int:
    """Convert a duration of the settings to µs, in which the machines count."""
    return int(seconds * SECOND)


class LifeRules(Struct, frozen=True):
    """Rules of the life machine."""

    nudge: NudgeSettings
    recovery: RecoverySettings
    swarm: SwarmSettings
    run_once: bool = False

    @classmethod
    def of(cls, settings: Settings, *, run_once: bool = False) -> LifeRules:
        return cls(settings.nudge, settings.recovery, settings.swarm, run_once)


class WaitRules(Struct, frozen=True):
    """Fields of a tool result that make a mysis wait, also of single upstreams."""

    wait: WaitSettings
    upstreams: tuple[tuple[str, WaitSettings], ...] = ()

    @classmethod
    def of(cls, settings: Settings) -> WaitRules:
        own = {
            upstream: settings.wait.model_copy(update={str(key): names for key, names in one.wait.items()})
            for upstream, one in settings.upstream.items()
            if one.wait
        }
        return cls(settings.wait, tuple(own.items()))

    def names_of(self, upstream: str) -> WaitSettings:
        """Return the names of the fields in results of this upstream."""
        return next((names for name, names in self.upstreams if name == upstream), self.wait)


class TurnRules(Struct, frozen=True):
    """Rules of the turn machine."""

    turn: TurnSettings
    llm: LlmSettings
    loop: LoopSettings

    @classmethod
    def of(cls, settings: Settings) -> TurnRules:
        return cls(settings.turn, settings.llm, settings.loop)
