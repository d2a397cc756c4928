"""Count the keys of a cockpit in a terminal. Each is pressed only once the screen names it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.e2e.terminal_screen import TerminalScreen


@dataclass
class WayStep:
    """One step: the keys and characters that it took, and its seconds."""

    title: str
    keys: int = 0
    characters: int = 0
    seconds: float = 0.0


class CountedTerminal:
    """Presses keys and types texts, and measures each step."""

    def __init__(self, size: tuple[int, int] = (120, 40)) -> None:
        self.steps: list[WayStep] = []
        self._size = size
        self._glass: TerminalScreen | None = None

    @property
    def glass(self) -> TerminalScreen:
        assert self._glass is not None, "the cockpit is opened first"
        return self._glass

    def open(self, *arguments: str) -> None:
        """Open the cockpit with `zoea run`; no model server is looked for."""
        self._glass = TerminalScreen("run", *arguments, size=self._size, environ={"ZOEA_SWARM__DISCOVER": "false"})

    def close(self) -> None:
        """End the cockpit of a way that failed."""
        if self._glass is not None:
            self._glass.close()

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Count what is pressed and typed within as one step."""
        self.steps.append(WayStep(title))
        begun = time.monotonic()
        yield
        self.steps[-1].seconds = time.monotonic() - begun

    def press(self, key: str, *told: str) -> None:
        """Press a key that the screen names in these words."""
        self.glass.until(*told)
        self.glass.press(key)
        self.steps[-1].keys += 1

    def type(self, text: str, *told: str) -> None:
        """Type a text into the field that the screen describes in these words."""
        self.glass.until(*told)
        self.glass.press(text)
        self.steps[-1].characters += len(text)
        self.glass.until(text)

    def type_secret(self, text: str, *told: str) -> None:
        """Type a text that the field does not show."""
        self.glass.until(*told)
        self.glass.press(text)
        self.steps[-1].characters += len(text)

    def see(self, holds: Callable[[str], Any] | str, *more: str) -> None:
        """Wait until the words all stand on the screen, or `holds` is true of it."""
        self.glass.until(holds, *more)
