"""A theme's roles as Rich styles, for what is drawn as strips. Pure: made from the theme's variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rich.style import Style
from rich.theme import Theme

BOLD = frozenset({"title", "asking", "strong"})
_VARIABLES = {"quiet": "text-quiet", "idle": "text-quiet", "stopped": "text-quiet", "text": "foreground"}


@dataclass(frozen=True, eq=False)
class Palette:
    """Styles by role. An unknown or empty role is plain text."""

    variables: Mapping[str, str]
    _styles: dict[str, Style] = field(default_factory=dict)

    def style(self, role: str) -> Style:
        """The style that text of this role is drawn in, over whatever stands behind it."""
        if role not in self._styles:
            self._styles[role] = self._make(role)
        return self._styles[role]

    def behind(self, name: str) -> Style:
        """The variable `name` as a background; reversed where the terminal's own palette is used."""
        colour = self.variables.get(name, "")
        if not colour or colour.startswith("ansi"):
            return Style(reverse=True)
        return Style(bgcolor=colour)

    def _make(self, role: str) -> Style:
        if not role:
            return Style()
        if role == "strong":
            return Style(bold=True)
        name = _VARIABLES.get(role, f"role-{role}")
        colour = self.variables.get(name, "").removeprefix("ansi_")
        return Style(color=colour or None, bold=role in BOLD or None)

    def markdown(self) -> Theme:
        """How Rich's Markdown looks in this theme."""
        title, quiet, strong = self.style("title"), self.style("quiet"), Style(bold=True)
        styles = {f"markdown.h{level}": title for level in range(1, 8)}
        styles |= {
            "markdown.h1.border": quiet,
            "markdown.strong": strong,
            "markdown.em": Style(italic=True),
            "markdown.emph": Style(italic=True),
            "markdown.s": Style(strike=True),
            "markdown.code": self.style("tool"),
            "markdown.code_block": self.style("tool"),
            "markdown.block_quote": quiet,
            "markdown.hr": quiet,
            "markdown.item.bullet": self.style("tool"),
            "markdown.item.number": self.style("tool"),
            "markdown.link": self.style("llm"),
            "markdown.link_url": self.style("llm"),
            "markdown.table.header": strong,
            "markdown.table.border": quiet,
        }
        return Theme(styles)


def same(one: Palette | None, other: Palette) -> bool:
    """Whether both draw alike."""
    return one is not None and one.variables == other.variables
