"""A theme as Rich styles for whole conversations: its roles, and how Markdown looks in it. Pure."""

from __future__ import annotations

from rich.style import Style
from rich.theme import Theme

from zoea.tui.theme.role_styles import Styles, rich_colour
from zoea.tui.theme.themes import Look


class Palette:
    """Styles by role; besides the theme's own, `ok` (it went well) and `called` (the name of a tool)."""

    def __init__(self, look: Look) -> None:
        self.look = look
        self._styles = Styles(look)
        self._own = {
            "ok": Style(color=rich_colour(look.colours["success"])),
            "called": self._styles.of("tool") + Style(bold=True),
        }

    def style(self, role: str) -> Style:
        """The style that text of this role is drawn in, over whatever stands behind it."""
        return self._own.get(role) or self._styles.of(role)

    @property
    def code(self) -> Style:
        """What code stands on; nothing of its own where the terminal's palette is used."""
        return Style() if self.look.is_ansi else Style(bgcolor=self.look.colours["panel"])

    def markdown(self) -> Theme:
        """How Rich's Markdown looks in this theme."""
        title, quiet, tool, strong = self.style("title"), self.style("quiet"), self.style("tool"), Style(bold=True)
        styles = {f"markdown.h{level}": title for level in range(1, 8)}
        styles |= dict.fromkeys(("hr", "block_quote", "h1.border", "table.border"), quiet)
        styles |= dict.fromkeys(("code", "code_block", "item.bullet", "item.number"), tool)
        styles |= dict.fromkeys(("link", "link_url"), self.style("llm"))
        styles |= {"strong": strong, "table.header": strong, "s": Style(strike=True)}
        styles |= dict.fromkeys(("em", "emph"), Style(italic=True))
        named = {key if key.startswith("markdown.") else f"markdown.{key}": style for key, style in styles.items()}
        return Theme({**named, "zoea.code": self.code})
