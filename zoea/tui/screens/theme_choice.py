"""The choice of a theme, with a preview; changed theme files are read again."""

from __future__ import annotations

import asyncio
from typing import Any

from zoea.model.errors import SettingsError
from zoea.model.status import StatusWord
from zoea.settings.key_paths import DEFAULT, Layer
from zoea.text.control_characters import one_line
from zoea.tui.screens.base import BaseScreen
from zoea.tui.state.settings_form import save
from zoea.tui.text_layout import Piece, fit_text
from zoea.tui.theme import themes
from zoea.tui.widgets.line_list import PickItem

TITLE_WIDTH = 24
NARROWEST = 80
"""Width from which a line names the command of its theme."""
_STATUSES = tuple(StatusWord)


class ThemeChooser:
    """Lists the themes for a screen. It knows which one is kept while another is previewed."""

    def __init__(self, screen: BaseScreen[Any]) -> None:
        self._screen = screen
        self.kept = ""
        """The name of the theme that is not only previewed."""
        self._stamps: object = None

    def begin(self) -> None:
        """Remember the current theme, to which `restore` returns. Remember the state of the theme files."""
        self._stamps = themes.read_file_stamps(self._screen.cockpit.config)
        self.kept = self._screen.cockpit.theme_spec.name

    def lines(self) -> list[PickItem]:
        """Return a line for each theme, with a mark at the kept one."""
        cockpit = self._screen.cockpit
        shipped, _ = themes.list_theme_folders(cockpit.config)
        has_room = self._screen.size.width >= NARROWEST
        choices = []
        for name, spec in sorted(cockpit.theme_specs.items()):
            is_own = not (shipped / f"{name}.toml").exists()
            mark = cockpit.glyphs["running"] if name == self.kept else " "
            words = f"{'dark' if spec.dark else 'light'}{', your own' if is_own else ''}"
            choices.append(
                PickItem(
                    (
                        (f"{mark} ", "running"),
                        (fit_text(one_line(spec.title), TITLE_WIDTH - 2), "strong"),
                        (f":theme {name}" if has_room else "", "quiet"),
                    ),
                    name,
                    ((words, "quiet"),),
                )
            )
        return choices

    def sample(self) -> list[list[Piece]]:
        """Return sample texts in the current theme, and the errors of invalid theme files."""
        cockpit = self._screen.cockpit
        glyphs = cockpit.glyphs
        states = [
            [(f"{glyphs[word]} {word:<10}", str(word)) for word in _STATUSES[first : first + 4]]
            for first in range(0, len(_STATUSES), 4)
        ]
        brand = f"{glyphs['brand']} Z O E A {glyphs['brand-full']}"
        lines: list[list[Piece]] = [
            [(brand, "title"), ("  plain text, ", ""), ("quiet text, ", "quiet"), ("reasoning", "reasoning")],
            *states,
            [("you", "commander"), (" → ", "quiet"), ("alpha", "mysis"), ("  Mine iron   ", "")],
            [(f"{glyphs['tool']} mine(belt=2)", "tool"), ("  answer", "llm")],
            [("enter changes to it, esc goes back to the one before", "quiet")],
        ]
        for error in cockpit.theme_errors:
            lines.append([(f"{error.title}: {error.what}", "errored")])
        return lines

    def keep(self, name: str) -> None:
        """Show a theme, and write it to the settings."""
        self.kept = name
        self._screen.cockpit.use_theme(name)
        context = self._screen.action_context()
        if not context.writes_files:
            self._screen.notify(f"Shown until this cockpit ends: {context.read_only_reason}", markup=False)
            return
        self._screen.cockpit.writes.put(lambda: self._write(name))

    async def _write(self, name: str) -> None:
        cockpit = self._screen.cockpit
        try:
            with cockpit.settings_watch.own_change():
                loaded = await asyncio.to_thread(save, cockpit.places, ("tui", "theme"), name)
        except SettingsError as error:
            cockpit.show_error(error)
            return
        origin = loaded.origins.get("tui.theme", DEFAULT)
        over = "" if origin.layer is Layer.USER else f"; at the next start {origin} overrides it"
        cockpit.notify(f"{name} is your theme now{over}", markup=False)

    def restore(self) -> None:
        """Show the kept theme again."""
        cockpit = self._screen.cockpit
        if self.kept in cockpit.theme_specs and cockpit.theme_spec.name != self.kept:
            cockpit.use_theme(self.kept)

    def reload_changed(self) -> bool:
        """Read the theme files again if they changed since the last call. True where they did."""
        stamps = themes.read_file_stamps(self._screen.cockpit.config)
        if stamps == self._stamps:
            return False
        self._stamps = stamps
        self._screen.cockpit.reload_themes()
        self._screen.cockpit.settings_watch.mark_themes_applied()
        return True
