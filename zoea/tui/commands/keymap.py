"""The keys in force: the registry's defaults with a person's own keys over them. Pure.

An invalid key (no such action, no such key, two actions on one key, one key that opens a dialog and decides in it) is
an error that names both sides; its action keeps the default.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from itertools import combinations

from msgspec import Struct
from msgspec.structs import replace
from textual.binding import Binding
from textual.keys import Keys

from zoea.model.errors import SettingsError
from zoea.settings.key_paths import DEFAULT, Layer, Origin, Problem, find_nearest, format_key
from zoea.settings.paths import Places
from zoea.tui.commands.action import Action, ActionPlace
from zoea.tui.commands.actions import ACTIONS, BY_ID
from zoea.tui.theme.themes import load_themes
from zoea.tui.widgets.status_bars import key_name

_MODIFIERS = ("ctrl", "alt", "shift", "super", "hyper", "meta")
_NAMED = frozenset(str(key.value) for key in Keys) | {f"f{number}" for number in range(1, 25)}
_WRITTEN = {"esc": "escape", "return": "enter", "pgup": "pageup", "pgdn": "pagedown", "del": "delete"}


CURSOR_KEYS = (
    ("j,down", "move(1)"),
    ("k,up", "move(-1)"),
    ("g,home", "edge(0)"),
    ("G,end", "edge(1)"),
    ("pagedown", "leaf(1)"),
    ("pageup", "leaf(-1)"),
)
"""The keys of every cursor, each with the Textual action of the widget or screen that has it."""


class FixedKey(Struct, frozen=True):
    """A key that cannot be remapped: cursor movement and text editing.

    `action` is the id of one that may have the key, because it does the same.
    """

    place: ActionPlace
    keys: tuple[str, ...]
    description: str
    title: str = ""
    action: str = ""


FIXED_KEYS: tuple[FixedKey, ...] = (
    FixedKey(
        ActionPlace.EVERYWHERE,
        ("ctrl+c",),
        "Copy the selection, else clear the input; where there is neither, press it twice and it asks how to quit",
    ),
    FixedKey(ActionPlace.EVERYWHERE, ("ctrl+q",), "Ask how to quit, also while you write", "quit", "app.quit"),
    FixedKey(ActionPlace.EVERYWHERE, ("tab", "shift+tab"), "Go to the next or previous part of a screen"),
    FixedKey(ActionPlace.EVERYWHERE, ("j", "down"), "Go to the next line of a list or a conversation", "next"),
    FixedKey(ActionPlace.EVERYWHERE, ("k", "up"), "Go to the previous line", "previous"),
    FixedKey(ActionPlace.EVERYWHERE, ("g", "home"), "Go to the first line", "first"),
    FixedKey(ActionPlace.EVERYWHERE, ("G", "end"), "Go to the last line", "last"),
    FixedKey(ActionPlace.EVERYWHERE, ("pagedown",), "Go a page down", "page down"),
    FixedKey(ActionPlace.EVERYWHERE, ("pageup",), "Go a page up", "page up"),
    FixedKey(ActionPlace.DASHBOARD, ("left", "right"), "Go to the cell beside it, in the hive", "sideways"),
    FixedKey(ActionPlace.FOCUS, ("enter",), "Unfold or fold the block under the cursor", "fold"),
    FixedKey(ActionPlace.FOCUS, ("space",), "Go a page down", "page down"),
    FixedKey(ActionPlace.APPROVAL, ("j", "down", "right"), "Show the next question", "next"),
    FixedKey(ActionPlace.APPROVAL, ("k", "up", "left"), "Show the previous question", "previous"),
    FixedKey(ActionPlace.APPROVAL, ("pagedown", "pageup", "home", "end"), "Read the whole call"),
    FixedKey(ActionPlace.INPUT, ("enter",), "Send it", "send"),
    FixedKey(ActionPlace.INPUT, ("ctrl+j", "alt+enter"), "Begin a new line"),
    FixedKey(ActionPlace.INPUT, ("ctrl+o",), "Write in your own editor", "editor"),
    FixedKey(ActionPlace.INPUT, ("ctrl+l",), "Set limits of the turn that the message opens", "turn limits"),
    FixedKey(ActionPlace.INPUT, ("tab",), "Choose the next delivery mode: queue, steer, interrupt", "delivery mode"),
    FixedKey(ActionPlace.INPUT, ("up", "down"), "Show earlier messages, at the first and the last line", "earlier"),
    FixedKey(ActionPlace.INPUT, ("f2",), "Show all of a note that is cut, or one line of it again", "whole note"),
    FixedKey(ActionPlace.INPUT, ("escape",), "Leave; the draft is kept", "back"),
    FixedKey(ActionPlace.SETTINGS, ("left", "right"), "Go to the groups, or to the settings of one", "sideways"),
    FixedKey(ActionPlace.WELCOME, ("enter",), "Take the way under the cursor", "choose"),
    FixedKey(ActionPlace.UPSTREAMS, ("enter",), "Unfold or fold a tool or a model", "fold"),
)


class Decision(Struct, frozen=True):
    """Keys that allow, spend or destroy in a dialog. None of them may open it, because a key that is held repeats.

    Attributes:
        dialog: The dialog, in words.
        opens: Whether an action opens it.
        keys: Keys that decide and cannot be remapped.
        actions: Ids of actions that decide.
    """

    dialog: str
    opens: Callable[[Action], bool]
    keys: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()


DECISIONS: tuple[Decision, ...] = (
    Decision(
        "a call that waits for your approval",
        lambda action: action.id == "approval.oldest",
        actions=("approval.once", "approval.session", "approval.template", "approval.deny"),
    ),
    Decision("a question before something is done", lambda action: action.commands_swarm, ("y",)),
    Decision("the question whether to merge one or all", lambda action: action.id == "review.merge", ("a",)),
    Decision("a form", lambda action: action.commands_swarm, ("enter", "ctrl+r", "ctrl+t", "ctrl+o")),
    Decision("the question of how to quit", lambda action: action.id == "app.quit", ("s", "l")),
    Decision("the list of what you allowed", lambda action: action.id == "screen.grants", ("r",)),
)


YIELDING = ("app.reload", "app.zoom")
"""Actions that came after a release: a key that a person had given to another action stays with that."""


def normal(key: str) -> str:
    """Return a key in Textual's spelling: `?` as `question_mark`, `^f` as `ctrl+f`. Empty where it is invalid."""
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
        base = _name_character(base)
        if len(base) > 1 and not _is_character(base):
            return ""
    elif base not in _NAMED and not _is_character(base):
        return ""
    return "+".join([*modifiers, base])


def problems(chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the errors of a person's keys, by action id."""
    found: dict[str, str] = {}
    for action_id, key in chosen.items():
        if action_id not in BY_ID:
            near = get_close_matches(action_id, BY_ID, n=1)
            found[action_id] = f"there is no action {action_id!r}" + (f"; did you mean {near[0]}?" if near else "")
        elif not normal(key):
            found[action_id] = f"{key!r} is not a key: write one character, f5, ctrl+k, enter, space, …"
    usable = {action_id: key for action_id, key in chosen.items() if action_id not in found}
    for opener, answer, message in _find_self_answered(_with(usable)):
        for action_id in (opener, answer):
            if action_id in usable:
                found.setdefault(action_id, message)
    for one, other in clashes(_with(usable)):
        for action in (one, other):
            if action.id in usable:
                message = (
                    f"{key_name(one.key)} is the key of both {one.id} ({one.title}) and {other.id} ({other.title})"
                )
                found.setdefault(action.id, message)
    for action_id, key in usable.items():
        place = BY_ID[action_id].place
        for fixed in FIXED_KEYS:
            if normal(key) in fixed.keys and action_id != fixed.action and _share_keys(place, fixed.place):
                words = f"{fixed.description[:1].lower()}{fixed.description[1:]}"
                found.setdefault(action_id, f"{key_name(normal(key))} is taken: {words}")
    return found


def clashes(actions: Collection[Action] = ACTIONS) -> list[tuple[Action, Action]]:
    """Return pairs of actions with one key in one place. Places are everywhere, except inputs and dialogs."""
    by_key = dict[str, list[Action]]()
    for action in actions:
        by_key.setdefault(action.key, []).append(action)
    return [
        (one, other)
        for group in by_key.values()
        for one, other in combinations(group, 2)
        if _share_keys(one.place, other.place)
    ]


def _find_self_answered(actions: Collection[Action]) -> Iterator[tuple[str, str, str]]:
    """Yield two actions and the error where the key that opens a dialog answers it."""
    for decision in DECISIONS:
        answers = [(key, "", "") for key in decision.keys]
        answers += [(action.key, action.id, f" ({action.id})") for action in actions if action.id in decision.actions]
        openers = [(action.key, action.id, f" ({action.id})") for action in actions if decision.opens(action)]
        openers += [("enter", "", " from the command line (:)")] if decision.actions else []
        for key, opener, opener_words in openers:
            for other, answer, answer_words in answers:
                if key == other:
                    words = (
                        f"{key_name(key)} would open {decision.dialog}{opener_words} and also answer it{answer_words}"
                    )
                    yield opener, answer, f"{words}; choose another key for one of them"


def resolve_keys(chosen: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the key of every action, and the problems of those that keep their default."""
    usable = dict(chosen)
    wrong: dict[str, str] = {}
    # A restored default may clash with another chosen key, so this repeats until none does.
    while new := problems(usable):
        wrong |= new
        usable = {action_id: key for action_id, key in usable.items() if action_id not in new}
    return {action.id: action.key for action in _with(usable)}, wrong


def _with(chosen: Mapping[str, str]) -> list[Action]:
    """Return all actions with their keys; one of `YIELDING` may get its key with alt."""
    taken = {normal(key) for key in chosen.values()}
    return [
        replace(action, key=normal(chosen[action.id]))
        if action.id in chosen
        else replace(action, key=f"alt+{action.key}")
        if action.id in YIELDING and action.key in taken
        else action
        for action in ACTIONS
    ]


def _share_keys(one: ActionPlace, other: ActionPlace) -> bool:
    """Return whether one key press can reach both places. Approvals and inputs get only their own keys."""
    alone = (ActionPlace.APPROVAL, ActionPlace.INPUT)
    if one in alone or other in alone:
        return one is other
    return one is other or ActionPlace.EVERYWHERE in (one, other)


def _is_character(name: str) -> bool:
    """Return whether this is Textual's name of a character, such as `question_mark`."""
    try:
        unicodedata.lookup(name.replace("_", " ").upper())
    except KeyError:
        return name in _names_of_characters()
    return True


@cache
def _names_of_characters() -> frozenset[str]:
    """Return the key names of the characters on keyboards. `unicodedata.lookup` fails on those that lost a hyphen."""
    return frozenset(_name_character(chr(code)) for code in range(0x21, 0x250) if chr(code).isprintable())


def _name_character(character: str) -> str:
    """Return Textual's key name of a character that is not white space."""
    if character == ",":  # separates keys in a binding
        return "comma"
    (binding,) = Binding.make_bindings([(character, "")])
    return binding.key


def fixed_keys(*places: ActionPlace) -> Iterator[FixedKey]:
    """Return the fixed keys of these places."""
    return (fixed for fixed in FIXED_KEYS if fixed.place in places)


def check_cockpit(where: Places) -> list[Problem]:
    """Return the problems of theme files, of the theme's name and of remapped keys."""
    from zoea.settings.layers import load  # loads pydantic, and the first paint needs the keys

    themes, errors = load_themes(where.config)
    found = [Problem("", error.what, Origin(Layer.USER)) for error in errors]
    try:
        loaded = load(where)
    except SettingsError:
        return found  # reported by the check of the settings
    chosen = loaded.settings.tui.theme
    if chosen not in themes:
        origin = loaded.origins.get("tui.theme", DEFAULT)
        found.append(Problem("tui.theme", f"there is no theme {chosen!r}", origin, find_nearest(chosen, themes)))
    for action, message in problems(loaded.settings.tui.keys).items():
        key = format_key(("tui", "keys", action))
        near = "" if action in BY_ID else find_nearest(action, BY_ID)
        found.append(Problem(key, message, loaded.origins.get(key, DEFAULT), near))
    return found
