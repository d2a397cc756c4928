"""The report of an import, as text and as JSON: imported myses, repairs, omissions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field, to_builtins

from zoea.text.sentences import count_of

Progress = Callable[[str, int, int], None]
"""Called with the name of the source, the amount done and the total (0 if unknown)."""


class ImportedMysis(Struct):
    """An imported mysis. `wanted` is its former name; `mended` counts repairs by a sentence."""

    name: str
    wanted: str
    turns: int = 0
    memories: int = 0
    tool_calls: int = 0
    mended: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return the text for people."""
        numbers = ", ".join(
            (count_of(self.turns, "turn"), count_of(self.memories, "memory"), count_of(self.tool_calls, "tool call"))
        )
        head = f"imported {self.name}: {numbers}"
        if self.name != self.wanted:
            head += f" (there it is called {self.wanted}, a name that is taken here or cannot be one)"
        mended = (f"  mended: {what} ({count:,})" for what, count in self.mended.items())
        return [head, *mended, *(f"  {note}" for note in self.notes)]


class ImportReport(Struct, rename={"arrivals": "imported"}):
    """The report of one import. `source` describes the file; `left_out` lists omissions with reasons."""

    source: str
    arrivals: list[ImportedMysis] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for `--json`."""
        values: dict[str, Any] = to_builtins(self)
        return values

    def lines(self) -> list[str]:
        """Return the text for people."""
        rows = [f"Read {self.source}"]
        for arrival in self.arrivals:
            rows += arrival.lines()
        rows += [f"skipped {name}: {why}" for name, why in self.skipped.items()]
        rows += [f"left out: {what}" for what in self.left_out]
        if self.arrivals:
            name = self.arrivals[0].name
            quoted = f"'{name}'" if " " in name else name
            rows.append(f"Look at one: zoea log {quoted}. Wake the swarm: zoea run")
        elif not self.skipped:
            rows.append("There was no mysis in it")
        return rows
