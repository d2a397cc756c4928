"""Handlers of messages that are looked up once for a class of widgets and a class of messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from textual.message import Message
from textual.message_pump import MessagePump

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
    for owner, method in found:
        if message._no_default_action:
            return
        yield owner, method.__get__(pump, owner)


@lru_cache(maxsize=8192)
def _find(name: str, pump: Any, _message: Any) -> Sequence[tuple[type, Any]] | None:
    found: list[tuple[type, Any]] = []
    for owner in pump.__mro__:
        if owner.__dict__.get("_decorated_handlers"):
            return None
        method = owner.__dict__.get(f"_{name}") or owner.__dict__.get(name)
        if method is not None and not getattr(method, "_textual_on", None):
            found.append((owner, method))
    return tuple(found)
