"""The keys that work while an input has the focus, for the footer. Letters are text then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, TextArea

from zoea.tui.commands.action import Action

_FIRST = ("enter", "ctrl+j", "tab", "escape")
"""Keys that come first in the footer, in this order."""

_ALWAYS = ("app.back", "app.palette")
"""Actions that the footer of every input names."""


class TypedKey(Struct, frozen=True):
    """A key, its title, and the Textual action of a click on it."""

    key: str
    title: str
    click: str


def is_typing(focused: Widget | None) -> bool:
    """Return whether letters are text now."""
    return isinstance(focused, Input | TextArea)


def typed_keys(focused: Widget, possible: Iterable[Action], keys: Mapping[str, str]) -> list[TypedKey]:
    """Return the keys of an input: of the widgets around it, the screen and the app.

    `ON_ENTER` of a widget or screen names the effect of enter in its inputs.
    """
    found: dict[str, TypedKey] = {}
    for node in _path_to_screen(focused):
        for binding in _own_bindings(node):
            for key in binding.key.split(","):
                if binding.description:
                    found.setdefault(key, TypedKey(key, binding.description, f"app.press({key!r})"))
        enter = getattr(node, "ON_ENTER", "")
        if enter and isinstance(focused, Input):
            found.setdefault("enter", TypedKey("enter", enter, "app.press('enter')"))
    for action in possible:
        if (action.footer is None or action.only_if_room) and action.id not in _ALWAYS:
            continue
        key = keys.get(action.id, action.key)
        if (key == "escape" or key.startswith("ctrl+")) and key not in focused._bindings.key_to_bindings:
            found.setdefault(key, TypedKey(key, action.title, f"app.do({action.id!r})"))
    found.pop("alt+enter", None)  # the same as ctrl+j
    found.pop("down", None)
    ranks = {key: at for at, key in enumerate(_FIRST)}
    return sorted(found.values(), key=lambda one: ranks.get(one.key, len(ranks)))


def _path_to_screen(focused: Widget) -> Iterator[DOMNode]:
    """Yield the widget and its ancestors up to the screen."""
    for node in focused.ancestors_with_self:
        yield node
        if node is focused.screen:
            return


def _own_bindings(node: DOMNode) -> Iterator[Binding]:
    """Yield the bindings of Zoea's own widgets; the registry has those of screens."""
    if not isinstance(node, Screen) and type(node).__module__.partition(".")[0] != "textual":
        yield from (one for one in vars(type(node)).get("BINDINGS", ()) if isinstance(one, Binding))
