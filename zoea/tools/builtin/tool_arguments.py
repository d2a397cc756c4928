"""Reading the arguments of Zoea's own tools, with errors that name the field and its range. Pure.

Lenient where the meaning is plain (`"20"` for 20, null for left out), since small
models write so; strict where it is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from zoea.model.errors import UsageError
from zoea.model.values import MysisView
from zoea.tools.builtin.schemas import PARTS


@dataclass(frozen=True, slots=True)
class Reading:
    """Which part of which memory, from which character on; `position` is that of a call where the part is one."""

    memory: int
    part: str
    offset: int
    position: int


def reading(fields: Fields) -> Reading:
    """What `zoea_read_memory` is to read. Raises UsageError naming the field."""
    memory, offset = fields.whole("id", 1, None), fields.whole("offset", 0, None)
    part = fields.choice("part", PARTS, PARTS[0])
    position = fields.whole("position", 0, None)
    fields.no_more()
    if memory is None:
        raise UsageError("id is missing: give the id of a memory, as a search shows it")
    if position is not None and part != "call":
        raise UsageError("position goes with part call only")
    return Reading(memory, part, offset or 0, position or 0)


@dataclass(frozen=True, slots=True)
class Listing:
    """Which myses `zoea_list_myses` is to list."""

    name: str = ""
    after_id: int = 0

    def of(self, myses: Iterable[MysisView]) -> list[MysisView]:
        """Those that are asked for, the oldest first, so that a page follows the one before."""
        name = self.name.casefold()
        chosen = (view for view in myses if view.id > self.after_id and name in view.name.casefold())
        return sorted(chosen, key=lambda view: view.id)


def listing(fields: Fields) -> Listing:
    """Which myses are to be listed. Raises UsageError naming the field."""
    name, after_id = fields.raw_text("name"), fields.whole("after_id", 1, None)
    fields.no_more()
    return Listing(name, after_id or 0)


class Fields:
    """The arguments of one call; every reader raises UsageError naming its field."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._left = {key: value for key, value in arguments.items() if value is not None}

    def text(self, name: str, *, default: str = "", at_most: int = 0) -> str:
        """A text that is not blank, at the longest `at_most` characters."""
        value = self._left.pop(name, default)
        if not isinstance(value, str):
            raise UsageError(f"{name} must be text")
        if not value.strip():
            raise UsageError(f"{name} is missing" if not value else f"{name} cannot be empty")
        if at_most and len(value) > at_most:
            raise UsageError(f"{name} must have at most {at_most} characters, not {len(value)}")
        return value

    def raw_text(self, name: str) -> str:
        """A text as it is, empty where left out."""
        value = self._left.pop(name, "")
        if not isinstance(value, str):
            raise UsageError(f"{name} must be text")
        return value

    def number(self, name: str, least: int, most: int | None) -> float | None:
        """A number in the range; None where left out."""
        value = self._left.pop(name, None)
        if value is None:
            return None
        number = _as_number(value)
        if number is None or number < least or (most is not None and number > most):
            raise UsageError(f"{name} must be {_range(least, most)}, not {value!r:.40}")
        return number

    def whole(self, name: str, least: int, most: int | None) -> int | None:
        """A whole number in the range; None where left out."""
        given = self._left.get(name)
        number = self.number(name, least, most)
        if number is None:
            return None
        if number != int(number):
            raise UsageError(f"{name} must be a whole number, not {given!r:.40}")
        return int(number)

    def choice(self, name: str, values: Collection[str], default: str = "") -> str:
        """One of the values; `default` where left out."""
        value = self._left.pop(name, default)
        if value == default or (isinstance(value, str) and value in values):
            return str(value)
        raise UsageError(f"{name} must be one of {', '.join(values)}, not {value!r:.40}")

    def moment(self, name: str) -> int | None:
        """An ISO 8601 time as µs UTC (UTC where it names no zone); None where left out."""
        value = self._left.pop(name, None)
        if value is None:
            return None
        try:
            found = datetime.fromisoformat(value)
            return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1_000_000)
        except (TypeError, ValueError, OverflowError):
            raise UsageError(
                f"{name} must be an ISO 8601 time such as 2026-01-31T10:30:00Z, not {value!r:.40}"
            ) from None

    def no_more(self) -> None:
        """Nothing else was given."""
        if self._left:
            raise UsageError(f"{', '.join(sorted(map(str, self._left)))[:100]} is not an argument of this tool")


def _as_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if number == number and abs(number) < 2**53 else None


def _range(least: int, most: int | None) -> str:
    return f"from {least} to {most}" if most is not None else f"{least} or more"
