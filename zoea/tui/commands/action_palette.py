"""The command palette: every action of the registry, found by what it is called or does; why not, where not."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider, SearchIcon
from textual.content import Content

from zoea.tui.commands.actions import ACTIONS, Action, Place, Situation
from zoea.tui.screens.base import CockpitScreen
from zoea.tui.widgets.status_bars import key_name

if TYPE_CHECKING:
    from zoea.tui.app import Cockpit


def open_palette(cockpit: Cockpit) -> None:
    """Show the palette over the screen on top."""
    cockpit.push_screen(
        Palette(
            cockpit.glyphs["brand"], providers=[ActionProvider], placeholder="what do you want to do?", id="palette"
        )
    )


class Palette(CommandPalette):
    """Textual's palette with the theme's own sign before the input.

    Args:
        sign: One cell that every terminal of this theme can show.
    """

    def __init__(self, sign: str, **more: Any) -> None:
        super().__init__(**more)
        self._sign = sign

    def on_mount(self) -> None:
        self.query_one(SearchIcon).icon = self._sign


class ActionProvider(Provider):
    """Actions that mean something on the screen below, as this screen sees its situation."""

    @property
    def _cockpit(self) -> Cockpit:
        return cast("Cockpit", self.app)

    async def discover(self) -> Hits:
        situation = self._situation()
        for action in self._actions():
            yield DiscoveryHit(self._line(action, situation), partial(self._cockpit.action_do, action.id), action.title)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        situation = self._situation()
        for action in self._actions():
            score = matcher.match(f"{action.title} {action.command} {action.id} {action.description}")
            if score > 0:
                does = partial(self._cockpit.action_do, action.id)
                yield Hit(score, self._line(action, situation), does, action.title)

    def _actions(self) -> list[Action]:
        places = self.screen.PLACES if isinstance(self.screen, CockpitScreen) else (Place.EVERYWHERE,)
        found = [action for action in ACTIONS if action.place in places and action.id != "app.palette"]
        # What the screen below can do comes first, then what can be done anywhere.
        return sorted(found, key=lambda action: action.place is Place.EVERYWHERE)

    def _situation(self) -> Situation:
        screen = self.screen
        return screen.situation() if isinstance(screen, CockpitScreen) else self._cockpit.base_situation()

    def _line(self, action: Action, situation: Situation) -> Content:
        why = action.why_not(situation)
        key = key_name(self._cockpit.keys.get(action.id, action.key))
        return Content.assemble(
            (f"{key:>6}  ", "$footer-key-foreground"),
            (f"{action.title:<16} ", "$text-quiet" if why else "bold"),
            (f"not now: {why}" if why else action.description, "$text-quiet"),
        )
