"""The ticks that results tell, by the names of fields in the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zoea.model.errors import ZoeaError
from zoea.model.values import Memory

if TYPE_CHECKING:
    from zoea.settings import Settings
    from zoea.settings.paths import Places
    from zoea.swarm.rules import WaitRules


class TickNames:
    """Reads the tick of each result; the settings are read at the first use."""

    def __init__(self) -> None:
        self._rules: WaitRules | None = None

    def use(self, settings: Settings) -> None:
        """Take the names of fields from these settings."""
        from zoea.swarm.rules import WaitRules  # imported after the first paint

        self._rules = WaitRules.of(settings)

    def read_ticks(self, places: Places | None, memories: tuple[Memory, ...]) -> Mapping[int, float]:
        """Return the tick that each result tells, by the id of its memory. Call it in a thread.

        Args:
            places: Where the settings are; without them, or where they are invalid, the usual names count.
        """
        from zoea.swarm.turn.waits import told_ticks  # imported after the first paint

        if self._rules is None:
            self._rules = _read_rules(places)
        return told_ticks(memories, self._rules)


def _read_rules(places: Places | None) -> WaitRules:
    from zoea.settings.layers import load
    from zoea.settings.schema import Settings
    from zoea.swarm.rules import WaitRules

    try:
        return WaitRules.of(load(places).settings if places is not None else Settings())
    except ZoeaError:  # shown where the settings are used
        return WaitRules.of(Settings())
