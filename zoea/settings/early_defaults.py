"""Defaults of the settings that the first paint needs; the schema takes them from here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Self


class EarlySettings(NamedTuple):
    """The keys that the first paint reads, with their defaults."""

    theme: str = "nova"
    reduced_motion: bool = False
    bell: bool = True
    show_reasoning: bool = False
    keys: Mapping[str, str] = {}
    ask_above: int = 20

    @classmethod
    def of(cls, settings: object) -> Self:
        """Return the keys with the values of validated `Settings`."""
        return cls(**{name: getattr(getattr(settings, section), name) for name, section in SECTIONS.items()})


EARLY = EarlySettings()
SECTIONS = dict.fromkeys(EarlySettings._fields, "tui") | {"ask_above": "broadcast"}
NEED_TRUST = ("keys", "ask_above")
"""Those that take effect from a project's file only once it is trusted."""
