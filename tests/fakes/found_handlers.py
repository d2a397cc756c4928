"""Looks up once for each class what Textual looks up for each message and attribute."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import lru_cache
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType, MethodType
from typing import Any

from textual import _callback
from textual.dom import DOMNode
from textual.message import Message
from textual.message_pump import MessagePump
from textual.reactive import Reactive
from textual.screen import Screen

_get_dispatch_methods = MessagePump._get_dispatch_methods


def find_handlers(
    pump: MessagePump, method_name: str, message: Message
) -> Iterable[tuple[type, Callable[[Message], Awaitable[Any]]]]:
    """Return the handlers as Textual does; where a selector decides, it looks them up itself."""
    classes: Any = (type(pump), type(message))
    found = _find(method_name, *classes)
    if found is None:
        yield from _get_dispatch_methods(pump, method_name, message)
        return
    for owner, methods in found:
        if message._no_default_action:
            return
        for method in methods:
            yield owner, method.__get__(pump, owner)


@lru_cache(maxsize=8192)
def _find(name: str, pump: Any, message: Any) -> Sequence[tuple[type, Sequence[Any]]] | None:
    """Return each class with its handlers; None where a selector decides."""
    found: list[tuple[type, Sequence[Any]]] = []
    decorated: list[Any] = []
    for owner in pump.__mro__:
        before = len(decorated)
        handlers = owner.__dict__.get("_decorated_handlers") or {}
        for kind in message.__mro__:
            for method, selectors in handlers.get(kind, ()):
                if selectors:
                    return None
                if method not in decorated:
                    decorated.append(method)
        methods = decorated[before:]
        named = owner.__dict__.get(f"_{name}") or owner.__dict__.get(name)
        if named is not None and not getattr(named, "_textual_on", None):
            methods.append(named)
        if methods:
            found.append((owner, methods))
    return tuple(found)


_signature_count = _callback._count_parameters


def count_parameters(function: Callable[..., Any]) -> int:
    """Count parameters as Textual does, by a function's code. Its signature decides where the two may differ."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or hasattr(function, "__wrapped__") or hasattr(function, "__signature__"):
        return _signature_count(function)
    stars = bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    bound = isinstance(function, MethodType)
    return code.co_argcount + code.co_kwonlyargcount + stars - bound


class SilentLog:
    """Stands for the log of a message pump, which is written to Textual's console alone."""

    def __init__(self) -> None:
        self.event = self.warning = self

    def verbosity(self, verbose: bool) -> SilentLog:
        return self

    def __call__(self, *what: object) -> None:
        """Write nothing."""


_get = Reactive.__get__


def read_value(reactive: Reactive[Any], node: Any, of: Any) -> Any:
    """Return the value of a reactive attribute as Textual does. One that is set and not computed takes one step."""
    kind: Any = type(node)
    if node is not None and not _is_computed(kind, reactive.compute_name):
        try:
            return node.__dict__[reactive.internal_name]
        except KeyError:
            pass
    return _get(reactive, node, of)


@lru_cache(maxsize=8192)
def _is_computed(kind: Any, name: str) -> bool:
    return hasattr(kind, name)


_screen: Any = DOMNode.screen


def find_screen(node: Any) -> Screen[Any]:
    """Return the screen of a node as Textual does, without an import for each. Raises NoScreen."""
    above = node
    while above is not None and not isinstance(above, Screen):
        parent = above._MessagePump__parent
        above = None if parent is None else parent()
    return _screen.fget(node) if above is None else above  # the first raises
