"""A child widget as an attribute, queried once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from textual.dom import DOMNode
from textual.widget import Widget

W = TypeVar("W", bound=Widget)


class WidgetPart(Generic[W]):
    """A descriptor that returns the one widget of a kind. Finds it again once it was removed.

    Raises NoMatches like `query_one`.

    Args:
        kind: Class of the widget.
        selector: Which one of its kind; the kind alone decides where it is empty.
        within: Returns the node below which the widget is; without it the object that has the attribute.
    """

    def __init__(self, kind: type[W], selector: str = "", *, within: Callable[[Any], DOMNode] | None = None) -> None:
        self._kind = kind
        self._selector = selector
        self._within = within

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_found_{name}"

    def __get__(self, holder: Any, owner: type | None = None) -> W:
        kept: W | None = holder.__dict__.get(self._name)
        if kept is not None and kept.is_attached:
            return kept
        node: DOMNode = holder if self._within is None else self._within(holder)
        found = node.query_one(self._selector, self._kind) if self._selector else node.query_one(self._kind)
        holder.__dict__[self._name] = found
        return found
