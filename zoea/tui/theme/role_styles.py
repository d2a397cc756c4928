"""Roles as Rich styles, for widgets that draw lines themselves."""

from __future__ import annotations

from typing import Protocol, cast

from rich.style import Style
from textual.widget import Widget

from zoea.tui.theme.themes import Look

_BOLD = frozenset({"title", "asking", "key", "strong"})


class Styles:
    """The styles of one theme, each made once.

    Roles are the theme's own, and `strong`, `quiet`, `key`; the empty role is plain.
    """

    def __init__(self, look: Look) -> None:
        self._look = look
        self._made: dict[tuple[str, bool], Style] = {}

    def of(self, role: str, *, background: bool = False) -> Style:
        """The style of a role, as text or as what stands behind it."""
        key = (role, background)
        if key not in self._made:
            self._made[key] = self._make(role, background)
        return self._made[key]

    def _make(self, role: str, background: bool) -> Style:
        if role in ("", "strong"):
            return Style(bold=True) if role else Style()
        colours = self._look.colours
        named = {"quiet": colours["muted"], "key": colours["secondary"]}
        colour = rich_colour(named.get(role) or self._look.roles.get(role) or colours["text"])
        bold = True if role in _BOLD else None
        return Style(bgcolor=colour) if background else Style(color=colour, bold=bold)


def rich_colour(colour: str) -> str:
    """A theme's colour in Rich's spelling: `ansi_bright_red` -> `bright_red`."""
    return colour.removeprefix("ansi_")


class _Styled(Protocol):
    """An app that has styles: the cockpit."""

    styles_of_look: Styles


def styles_of(widget: Widget) -> Styles:
    """The styles of the theme that the widget's app shows."""
    return cast(_Styled, widget.app).styles_of_look
