"""The commands that can be undone, the newest last."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

KEPT = 20


class UndoStep(Struct, frozen=True):
    """One command to one or several myses.

    Attributes:
        myses: Ids and names of those that took the command.
        command: Undoes it for one mysis, given its id.
        word: What they are afterwards: `restored`, `started again`.
    """

    myses: tuple[tuple[int, str], ...]
    command: Callable[[int], Awaitable[object]]
    word: str


class UndoHistory:
    """At most `KEPT` steps."""

    def __init__(self) -> None:
        self._steps: list[UndoStep] = []

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, step: UndoStep) -> None:
        """Keep a step that concerns at least one mysis."""
        if step.myses:
            self._steps = [*self._steps, step][-KEPT:]

    def take(self) -> UndoStep:
        """Remove and return the newest step. Raises IndexError if there is none."""
        return self._steps.pop()

    @property
    def newest(self) -> Sequence[tuple[int, str]]:
        """The myses of the newest step; empty if there is none."""
        return self._steps[-1].myses if self._steps else ()
