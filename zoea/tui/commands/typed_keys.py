"""What keys still do while somebody types: letters are text then, and the footer names what is not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, TextArea

from zoea.tui.commands.actions import Action

_FIRST = ("enter", "ctrl+j", "tab", "escape")
"""In this order; other keys come after them."""

_ALWAYS = ("app.back", "app.palette")
"""Actions that every footer of an input names."""


@dataclass(frozen=True, slots=True)
class TypedKey:
    """A key, what it does, and the action a click on it is, as Textual names actions."""

    key: str
    title: str
    click: str


def is_typing(focused: Widget | None) -> bool:
    """Whether letters are text now."""
    return isinstance(focused, Input | TextArea)


def typed_keys(focused: Widget, possible: Iterable[Action], keys: Mapping[str, str]) -> list[TypedKey]:
    """The keys that an input lets through: those of the widgets around it, then of the screen and the app.

    A widget or screen that takes what an input submits says in `ON_ENTER` what enter does there.
    """
    found: dict[str, TypedKey] = {}
    for node in _around(focused):
        for binding in _own_bindings(node):
            for key in binding.key.split(","):
                if binding.description:
                    found.setdefault(key, TypedKey(key, binding.description, f"app.press({key!r})"))
        enter = getattr(node, "ON_ENTER", "")
        if enter and isinstance(focused, Input):
            found.setdefault("enter", TypedKey("enter", enter, "app.press('enter')"))
    for action in possible:
        if (action.footer is None or action.spare) and action.id not in _ALWAYS:
            continue
        key = keys.get(action.id, action.key)
        if (key == "escape" or key.startswith("ctrl+")) and key not in focused._bindings.key_to_bindings:
            found.setdefault(key, TypedKey(key, action.title, f"app.do({action.id!r})"))
    found.pop("alt+enter", None)  # another name of ctrl+j
    found.pop("down", None)
    ranks = {key: at for at, key in enumerate(_FIRST)}
    return sorted(found.values(), key=lambda one: ranks.get(one.key, len(ranks)))


def _around(focused: Widget) -> Iterator[DOMNode]:
    """The widget and what it is in, up to its screen."""
    for node in focused.ancestors_with_self:
        yield node
        if node is focused.screen:
            return


def _own_bindings(node: DOMNode) -> Iterator[Binding]:
    """What the cockpit's own widgets bind, without what every input does; a screen's are the registry's."""
    if not isinstance(node, Screen) and type(node).__module__.partition(".")[0] != "textual":
        yield from (one for one in vars(type(node)).get("BINDINGS", ()) if isinstance(one, Binding))
