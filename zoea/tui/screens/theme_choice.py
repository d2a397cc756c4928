"""Choosing a look: each theme is shown at once, kept by enter, and read again when its file changes.

A mixin of the screen that lists them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from zoea.model.errors import SettingsError
from zoea.settings.key_paths import DEFAULT, Layer
from zoea.text.control_characters import one_line
from zoea.tui.state.deferred_worker import Beside
from zoea.tui.state.settings_form import save
from zoea.tui.text_layout import Piece, fit_text
from zoea.tui.theme import themes
from zoea.tui.widgets.pick_list import PickItem, PickList

if TYPE_CHECKING:
    from zoea.tui.app import Cockpit
    from zoea.tui.screens.base import CockpitScreen

TITLE_WIDTH = 24
_STATES = (("running", "waiting", "asking"), ("idle", "stopped", "errored"))


class ChoosingLook:
    """Knows which look the person has kept while others are only shown."""

    _kept_look = ""
    _stamps: object = None

    @property
    def _chooser(self) -> CockpitScreen[None]:
        return cast("CockpitScreen[None]", self)

    @property
    def _app(self) -> Cockpit:
        return self._chooser.cockpit

    def begin_choosing(self) -> None:
        """What is shown now is what was kept."""
        self._kept_look = self._app.look.name

    def draw_looks(self, into: PickList) -> None:
        """All of them, the kept one marked."""
        shipped, _ = themes.list_theme_folders(self._app.config)
        choices = []
        for name, look in sorted(self._app.looks.items()):
            is_own = not (shipped / f"{name}.toml").exists()
            mark = self._app.glyphs["running"] if name == self._kept_look else " "
            words = f"{'dark' if look.dark else 'light'}{', your own' if is_own else ''}"
            choices.append(
                PickItem(
                    (
                        (f"{mark} ", "running"),
                        (fit_text(one_line(look.title), TITLE_WIDTH - 2), "strong"),
                        (name, "quiet"),
                    ),
                    name,
                    ((words, "quiet"),),
                )
            )
        into.put(choices, on="" if into.chosen in self._app.looks else self._kept_look)

    def sample(self) -> list[list[Piece]]:
        """What the look under the cursor makes of the cockpit's words, and which theme files are wrong."""
        glyphs = self._app.glyphs
        states = [[(f"{glyphs[state]} {state:<10}", state) for state in row] for row in _STATES]
        brand = f"{glyphs['brand']} Z O E A {glyphs['brand-full']}"
        lines: list[list[Piece]] = [
            [(brand, "title"), ("  plain text, ", ""), ("quiet text, ", "quiet"), ("thinking", "reasoning")],
            *states,
            [("you", "commander"), (" → ", "quiet"), ("alpha", "mysis"), ("  Mine iron   ", "")],
            [(f"{glyphs['tool']} mine(belt=2)", "tool"), ("  answer", "llm")],
            [("enter keeps it, esc goes back to the one before", "quiet")],
        ]
        for error in self._app.look_errors:
            lines.append([(f"{error.title}: {error.what}", "errored")])
        return lines

    def keep_look(self, name: str) -> None:
        """Show it, and write it down."""
        self._kept_look = name
        self._app.use_look(name)
        self._chooser.run_worker(Beside(lambda: self._write_look(name)), exclusive=True, group="write")

    async def _write_look(self, name: str) -> None:
        try:
            loaded = await asyncio.to_thread(save, self._app.where, ("tui", "theme"), name)
        except SettingsError as error:
            self._app.show_error(error)
            return
        origin = loaded.origins.get("tui.theme", DEFAULT)
        over = "" if origin.layer is Layer.USER else f"; at the next start {origin} holds over it"
        self._chooser.notify(f"{name} is your theme now{over}", markup=False)

    def restore_look(self) -> None:
        """What was only shown goes."""
        if self._kept_look in self._app.looks and self._app.look.name != self._kept_look:
            self._app.use_look(self._kept_look)

    def has_news_of_looks(self) -> bool:
        """Whether the files changed since this was asked last; then they are read again."""
        stamps = themes.read_file_stamps(self._app.config)
        before, self._stamps = self._stamps, stamps
        if before is None or stamps == before:
            return before is None
        self._app.reload_looks()
        return True
