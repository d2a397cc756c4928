"""Inject faults into a world by rate and seed, for tests."""

from __future__ import annotations

import random

from msgspec import Struct

from zoea.model.errors import UsageError

RATES = ("latency", "error", "lose_session", "restart", "malformed")


class CallFaults(Struct, frozen=True):
    """Hold the faults of one call; `delay` is in seconds."""

    delay: float = 0.0
    error: bool = False
    lose_session: bool = False
    restart: bool = False
    malformed: bool = False


class FaultInjector:
    """Draw faults for the calls of one process.

    Args:
        text: `latency=RATE:SECONDS`, `error=RATE`, `lose_session=RATE`, `restart=RATE`, `malformed=RATE`, separated
            by commas; rates are 0 to 1.
        seed: The same seed and order of calls give the same faults.

    Raises UsageError if the text is not valid.
    """

    def __init__(self, text: str = "", seed: int = 0) -> None:
        self._random = random.Random(f"faults {seed}")
        self.seconds = 0.0
        self.rates: dict[str, float] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, _, value = part.partition("=")
            rate, colon, seconds = value.partition(":")
            if name not in RATES or (colon and name != "latency"):
                raise UsageError(f"There is no fault {part!r}.", hint=f"Faults are {', '.join(RATES)}.")
            self.rates[name] = _number(part, rate, 1.0)
            if name == "latency":
                self.seconds = _number(part, seconds or "0.5", 3_600.0)

    def draw(self) -> CallFaults | None:
        """Draw the faults of the next call; None if all rates are 0."""
        if not self.rates:
            return None
        hit = {name: self._random.random() < self.rates.get(name, 0.0) for name in RATES}
        delay = self.seconds if hit.pop("latency") else 0.0
        return CallFaults(delay=delay, **hit)


def _number(part: str, text: str, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= most:
        raise UsageError(f"{part!r} needs a number from 0 to {most:g}.", hint="Such as error=0.05 or latency=0.1:0.5.")
    return value
