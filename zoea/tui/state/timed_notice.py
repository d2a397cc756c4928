"""How long a notice is shown."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from textual.notifications import Notification

LEAST_S = 0.05
"""How long a toast is shown at least."""


@dataclass
class TimedNotice(Notification):
    """A notice that lasts by the process's own clock.

    Textual's ends by the wall clock, and a toast that is made in the moment in which its notice ends gets a timer with
    a negative interval. Such a timer loops for ever: the cockpit stands still, and with it the swarm that it owns.
    """

    begun: float = field(default_factory=time.monotonic)

    @property
    def time_left(self) -> float:
        """Seconds that a toast made now is shown; never 0."""
        return max(self.begun + self.timeout - time.monotonic(), LEAST_S)

    @property
    def has_expired(self) -> bool:
        return time.monotonic() >= self.begun + self.timeout
