"""How many myses a task is for, and what each of them gets."""

from __future__ import annotations

import re

from msgspec import Struct

_COUNT = re.compile(r"(?:^|\s)x([1-9]\d?)\s*$")
MOST = 99
"""The largest count; a longer number is text, because a task may end with a size."""
_LARGER = re.compile(r"(?:^|\s)x[1-9]\d{2,}$")
_NUMBERED = re.compile(r"^[ \t]*(\d{1,2})[.)][ \t]+", re.MULTILINE)


class TaskParts(Struct, frozen=True):
    """A task as it was typed: `xN` at its end makes it one for N myses.

    Attributes:
        text: Without the `xN`.
        parts: Of its numbered lines, from 1 on, each behind the text before them; empty where it has none.
    """

    text: str
    count: int = 1
    parts: tuple[str, ...] = ()

    @classmethod
    def read(cls, typed: str) -> TaskParts:
        """Read a typed task."""
        found = _COUNT.search(typed)
        text = (typed[: found.start()] if found else typed).strip()
        return cls(text, int(found[1]) if found else 1, _split(text))

    @property
    def is_divided(self) -> bool:
        """Whether each mysis gets a part of its own."""
        return 1 < self.count == len(self.parts)

    @property
    def is_above_most(self) -> bool:
        """Whether the text ends like a count above `MOST`, and is for one mysis."""
        return self.count == 1 and _LARGER.search(self.text) is not None

    @property
    def tasks(self) -> tuple[str, ...]:
        """The task of each mysis."""
        return self.parts if self.is_divided else (self.text,) * self.count

    def after(self, made: int) -> str:
        """Return what to type for those that are still to be made."""
        left = self.count - made
        rest = self.text
        if self.is_divided:
            numbered = [f"{number}. {part}" for number, part in enumerate(self.parts[made:], 1)]
            rest = self.parts[made] if left == 1 else "\n".join(numbered)
        return rest if left == 1 else f"{rest}\nx{left}".lstrip()


def _split(text: str) -> tuple[str, ...]:
    places: list[re.Match[str]] = []
    for match in _NUMBERED.finditer(text):
        if int(match[1]) == len(places) + 1:
            places.append(match)
    if len(places) < 2:
        return ()
    before = text[: places[0].start()].strip()
    ends = [one.start() for one in places[1:]] + [len(text)]
    parts = [text[one.end() : end].strip() for one, end in zip(places, ends, strict=True)]
    return tuple(f"{before}\n{part}" if before else part for part in parts)
