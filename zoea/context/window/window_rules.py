"""The limits by which the strategy `window` shapes a conversation, as a turn freezes them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from zoea.settings.schema import SessionSettings

SMALLEST_WINDOW, LARGEST_WINDOW = 5, 200
DEBUGGING = "debugging"
"""The preset with a larger window."""
_SESSION = SessionSettings()


class WindowRules(Struct, frozen=True, forbid_unknown_fields=True):
    """How a conversation is shaped.

    Attributes:
        size: The most messages of the newest that may go verbatim.
        primers: The first messages of the conversation that stay verbatim.
        recents: The newest messages that stay verbatim once the rest is summarised.
        trigger: The share of the budget from which on the middle is summarised.
        target: The share of the budget that a summary may take.
        max_history: The newest messages that are looked at; 0 is no bound.
        debugging: The size under the preset `debugging`.
        since: The time in µs before which messages are not looked at; 0 is no bound.
    """

    size: int = _SESSION.context_window_default
    primers: int = _SESSION.primers_count
    recents: int = _SESSION.recents_count
    trigger: float = _SESSION.compression_trigger_ratio
    target: float = _SESSION.compression_target_ratio
    max_history: int = _SESSION.max_history
    since: int = 0
    debugging: int = _SESSION.context_window_debugging


def choose_size(levels: Iterable[object]) -> int:
    """Return the levels' first usable window size, clamped to 5..200, else the settings' default.

    A level is a number or a text that holds one; None, bools and other values are not usable.
    """
    for level in levels:
        number = whole_number(level)
        if number is not None:
            return min(max(number, SMALLEST_WINDOW), LARGEST_WINDOW)
    return _SESSION.context_window_default


def whole_number(value: object) -> int | None:
    """Return a whole number of 0 or more from a number or a numeric text. None where it is neither."""
    match value:
        case bool() | None:
            return None
        case int():
            return value if value >= 0 else None
        case float():
            return int(value) if value.is_integer() and value >= 0 else None
        case str():
            text = value.strip()
            return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else None
        case _:
            return None


def ratio(value: object, lowest: float, highest: float) -> float | None:
    """Return a share from a number or a numeric text, clamped. None where it is neither."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return min(max(number, lowest), highest) if number == number else None
