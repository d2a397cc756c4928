"""A child widget as an attribute, queried once."""

from __future__ import annotations

from typing import Generic, TypeVar

from textual.dom import DOMNode
from textual.widget import Widget

W = TypeVar("W", bound=Widget)


class WidgetPart(Generic[W]):
    """A descriptor that returns the one widget of a kind. Finds it again once it was removed.

    Raises NoMatches like `query_one`.

    Args:
        kind: Class of the widget.
        selector: Which one of its kind; the kind alone decides where it is empty.
    """

    def __init__(self, kind: type[W], selector: str = "") -> None:
        self._kind = kind
        self._selector = selector

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_found_{name}"

    def __get__(self, holder: DOMNode, owner: type | None = None) -> W:
        kept: W | None = holder.__dict__.get(self._name)
        if kept is not None and kept.is_attached:
            return kept
        found = holder.query_one(self._selector, self._kind) if self._selector else holder.query_one(self._kind)
        holder.__dict__[self._name] = found
        return found
