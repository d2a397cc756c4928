"""Keys in force: the registry's defaults, a person's own over them, and what is wrong with those. Pure.

A key that cannot hold (no such action, no such key, two actions on one key) is an
error that names both sides, and the action keeps its default.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

from textual.keys import Keys, _character_to_key

from zoea.tui.commands.actions import ACTIONS, BY_ID, Action, Place, clashes
from zoea.tui.widgets.status_bars import key_name

_MODIFIERS = ("ctrl", "alt", "shift", "super", "hyper", "meta")
_NAMED = frozenset(str(key.value) for key in Keys) | {f"f{number}" for number in range(1, 25)}
_PUNCTUATION = frozenset(_character_to_key(chr(code)) for code in range(0x21, 0x250) if chr(code).isprintable())
"""Names of the characters that keyboards have: some lost a hyphen, so that no lookup finds them."""

_WRITTEN = {"esc": "escape", "return": "enter", "pgup": "pageup", "pgdn": "pagedown", "del": "delete"}


@dataclass(frozen=True, slots=True)
class Fixed:
    """A key of a place that cannot be moved: cursors and text editing, as everywhere else."""

    place: Place
    keys: tuple[str, ...]
    description: str


FIXED: tuple[Fixed, ...] = (
    Fixed(Place.EVERYWHERE, ("ctrl+c",), "Copy what is selected; else empty the input; else, twice, quit"),
    Fixed(Place.EVERYWHERE, ("tab", "shift+tab"), "Go to the next or previous part of a screen"),
    Fixed(Place.DASHBOARD, ("j", "down"), "Next mysis"),
    Fixed(Place.DASHBOARD, ("k", "up"), "Previous mysis"),
    Fixed(Place.DASHBOARD, ("g", "home"), "First mysis"),
    Fixed(Place.DASHBOARD, ("G", "end"), "Last mysis"),
    Fixed(Place.DASHBOARD, ("pagedown",), "A page down"),
    Fixed(Place.DASHBOARD, ("pageup",), "A page up"),
    Fixed(Place.INPUT, ("enter",), "Send"),
    Fixed(Place.INPUT, ("ctrl+j", "alt+enter"), "New line"),
    Fixed(Place.INPUT, ("ctrl+o",), "Write in your own editor"),
    Fixed(Place.INPUT, ("tab",), "Next delivery mode: queue, steer, interrupt"),
    Fixed(Place.INPUT, ("up", "down"), "What you sent before, at the first and the last line"),
    Fixed(Place.INPUT, ("escape",), "Leave; the draft is kept"),
)


def normal(key: str) -> str:
    """A key in Textual's spelling: `?` -> `question_mark`, `^f` -> `ctrl+f`. Empty where it is no key."""
    text = key.strip()
    if len(text) > 1 and text.startswith("^"):
        text = f"ctrl+{text[1:]}"
    *modifiers, base = text.split("+") if len(text) > 1 and not text.endswith("+") else [text]
    if any(modifier not in _MODIFIERS for modifier in modifiers):
        return ""
    base = _WRITTEN.get(base.lower(), base)
    if len(base) == 1:
        if not base.isprintable() or base.isspace():
            return ""
        base = _character_to_key(base)
        if len(base) > 1 and not _is_character(base):
            return ""
    elif base not in _NAMED and not _is_character(base):
        return ""
    return "+".join([*modifiers, base])


def problems(chosen: Mapping[str, str]) -> dict[str, str]:
    """What is wrong with a person's keys, by action id; empty where all can hold."""
    found: dict[str, str] = {}
    for action_id, key in chosen.items():
        if action_id not in BY_ID:
            near = get_close_matches(action_id, BY_ID, n=1)
            found[action_id] = f"there is no action {action_id!r}" + (f"; did you mean {near[0]}?" if near else "")
        elif not normal(key):
            found[action_id] = f"{key!r} is no key: write one character, f5, ctrl+k, enter, space, …"
    usable = {action_id: key for action_id, key in chosen.items() if action_id not in found}
    for one, other in clashes(_with(usable)):
        for action in (one, other):
            if action.id in usable:
                message = (
                    f"{key_name(one.key)} is the key of both {one.id} ({one.title}) and {other.id} ({other.title})"
                )
                found.setdefault(action.id, message)
    for action_id, key in usable.items():
        place = BY_ID[action_id].place
        for fixed in FIXED:
            if normal(key) in fixed.keys and _meet(place, fixed.place):
                words = f"{fixed.description[:1].lower()}{fixed.description[1:]}"
                found.setdefault(action_id, f"{key_name(normal(key))} is taken: {words}")
    return found


def in_force(chosen: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The key of every action, and the problems of those that keep their default."""
    usable = dict(chosen)
    wrong: dict[str, str] = {}
    # A default that comes back may clash with another wish, so this goes on until nothing does.
    while new := problems(usable):
        wrong |= new
        usable = {action_id: key for action_id, key in usable.items() if action_id not in new}
    return {action.id: action.key for action in _with(usable)}, wrong


def _with(chosen: Mapping[str, str]) -> list[Action]:
    return [replace(action, key=normal(chosen[action.id])) if action.id in chosen else action for action in ACTIONS]


def _meet(one: Place, other: Place) -> bool:
    """Whether both places may hear one key. Boxes and inputs hear only their own."""
    alone = (Place.APPROVAL, Place.INPUT)
    if one in alone or other in alone:
        return one is other
    return one is other or Place.EVERYWHERE in (one, other)


def _is_character(name: str) -> bool:
    """`question_mark`, as Textual names characters."""
    if name in _PUNCTUATION:
        return True
    try:
        unicodedata.lookup(name.replace("_", " ").upper())
    except KeyError:
        return False
    return True


def fixed_of(*places: Place) -> Iterator[Fixed]:
    """The fixed keys of these places."""
    return (fixed for fixed in FIXED if fixed.place in places)
