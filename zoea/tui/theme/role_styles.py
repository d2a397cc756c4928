"""Rich styles by theme role, for widgets that draw lines, and for Markdown."""

from __future__ import annotations

from typing import Protocol, cast

from rich.style import Style
from rich.theme import Theme
from textual.color import Color
from textual.widget import Widget

from zoea.tui.theme.themes import ThemeSpec

_SHADES = (0.72, 0.82, 0.91, 1.0)
"""Shares of a role's colour over the background, for each brightness."""
TINT = 0.12
"""Share of the colour of an added or removed line in the background of its text."""
_BOLD = frozenset({"title", "asking", "key", "strong"})


class RoleStyles:
    """Cache the styles of one theme.

    Roles are the theme's own, and `strong`, `quiet`, `key`, `ok` (success); the empty role is plain. A role after `+`
    or `-` stands on the tint of an added or removed line; these signs alone are its plain text. There are no tints
    with `no_color`, and where the theme has no colours for syntax.
    """

    def __init__(self, theme: ThemeSpec, *, no_color: bool = False) -> None:
        self._theme = theme
        self.has_syntax = theme.has_syntax and not no_color
        self._made: dict[tuple[str, bool], Style] = {}
        self._shades: dict[tuple[str, int], Style] = {}

    def of(self, role: str, *, background: bool = False) -> Style:
        """Return the style of a role, as text or as background."""
        key = (role, background)
        if key not in self._made:
            self._made[key] = self._make(role, background)
        return self._made[key]

    def shade(self, role: str, level: int) -> Style:
        """Return the style of a role in a brightness from 0 to 3. A terminal's own colours are dim, plain or bold."""
        key = (role, level)
        if key not in self._shades:
            self._shades[key] = self._make_shade(role, level)
        return self._shades[key]

    def _make_shade(self, role: str, level: int) -> Style:
        style = self.of(role) + Style(bold=level == len(_SHADES) - 1)
        ground, colour = self._theme.colours["background"], self._theme.roles.get(role, "")
        if ground.startswith("#") and colour.startswith("#"):
            shaded = Color.parse(ground).blend(Color.parse(colour), _SHADES[level])
            return style + Style(color=shaded.hex)
        return style + Style(dim=level == 0)

    def _make(self, role: str, background: bool) -> Style:
        if role.startswith(("+", "-")):
            sign = "ok" if role[0] == "+" else "errored"
            if not self.has_syntax:
                return self.of(sign)
            tint = self._theme.colours["success" if role[0] == "+" else "error"]
            ground = Color.parse(self._theme.colours["background"]).blend(Color.parse(tint), TINT)
            return self.of(role[1:] or sign) + Style(bgcolor=ground.hex)
        if role in ("", "strong"):
            return Style(bold=True) if role else Style()
        colours = self._theme.colours
        named = {"quiet": colours["muted"], "key": colours["secondary"], "ok": colours["success"]}
        colour = rich_colour(named.get(role) or self._theme.roles.get(role) or colours["text"])
        bold = True if role in _BOLD else None
        return Style(bgcolor=colour) if background else Style(color=colour, bold=bold)


def rich_colour(colour: str) -> str:
    """Return a colour in Rich's spelling: `ansi_bright_red` -> `bright_red`."""
    return colour.removeprefix("ansi_")


class _Styled(Protocol):
    """App with styles by role."""

    role_styles: RoleStyles


def styles_of(widget: Widget) -> RoleStyles:
    """Return the styles of the theme of the widget's app."""
    return cast(_Styled, widget.app).role_styles


class ConversationPalette:
    """Styles of a conversation: the roles of `RoleStyles`, `called` (tool name), Markdown."""

    def __init__(self, theme: ThemeSpec, *, no_color: bool = False) -> None:
        self.theme = theme
        self._styles = RoleStyles(theme, no_color=no_color)
        self._own = {"called": self._styles.of("tool") + Style(bold=True)}

    def style(self, role: str) -> Style:
        """Return the style of text in a role."""
        return self._own.get(role) or self._styles.of(role)

    @property
    def code(self) -> Style:
        """Return the background of code; none with the terminal's palette."""
        return Style() if self.theme.is_ansi else Style(bgcolor=self.theme.colours["panel"])

    def markdown(self) -> Theme:
        """Return the styles of Rich's Markdown."""
        title, quiet, tool, strong = self.style("title"), self.style("quiet"), self.style("tool"), Style(bold=True)
        styles = {f"markdown.h{level}": title for level in range(1, 8)}
        styles |= dict.fromkeys(("hr", "block_quote", "h1.border", "table.border"), quiet)
        styles |= dict.fromkeys(("code", "code_block", "item.bullet", "item.number"), tool)
        styles |= dict.fromkeys(("link", "link_url"), self.style("llm"))
        styles |= {"strong": strong, "table.header": strong, "s": Style(strike=True)}
        styles |= dict.fromkeys(("em", "emph"), Style(italic=True))
        named = {key if key.startswith("markdown.") else f"markdown.{key}": style for key, style in styles.items()}
        of_diffs = {f"zoea.{role}": self.style(role) for role in ("+", "-", "llm", "strong")}
        return Theme({**named, **of_diffs, "zoea.code": self.code})
