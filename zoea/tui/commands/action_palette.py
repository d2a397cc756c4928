"""The command palette over the action registry; an action that is not possible says why."""

from __future__ import annotations

from functools import partial
from typing import cast

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider, SearchIcon
from textual.content import Content

from zoea.tui.commands.action import Action, ActionPlace
from zoea.tui.commands.action_requirements import ActionContext
from zoea.tui.commands.actions import ACTIONS
from zoea.tui.commands.palette_sources import SOURCES
from zoea.tui.screens.base import BaseScreen, CockpitScreen
from zoea.tui.state.cockpit import Cockpit
from zoea.tui.widgets.status_bars import key_name

TITLE_WEIGHT = 1.5
"""Factor on scores of titles, because descriptions have letters of everything."""


class ActionPalette(CommandPalette):
    """Textual's palette with Zoea's actions.

    Args:
        sign: One cell before the input, from the theme's glyphs.
    """

    def __init__(self, sign: str) -> None:
        super().__init__(
            providers=[ActionProvider, *SOURCES],
            placeholder="Type to find a command, a mysis, a setting, a message",
            id="palette",
        )
        self._sign = sign

    @property
    def holds_keys(self) -> bool:
        """Whether actions with the typed words are still to come. Until then enter would run another one."""
        return any(worker.node is self and not worker.is_finished for worker in self.workers)

    def on_mount(self) -> None:
        self.query_one(SearchIcon).icon = self._sign


class ActionProvider(Provider):
    """Finds the actions of the screen below, in that screen's context."""

    @property
    def _cockpit(self) -> Cockpit:
        return cast("Cockpit", self.app)

    async def discover(self) -> Hits:
        context = self._action_context()
        for action in self._actions():
            yield DiscoveryHit(self._line(action, context), partial(self._cockpit.action_do, action.id), action.title)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        context = self._action_context()
        for action in self._actions():
            words = f"{action.title} {action.command} {action.id} {action.description}"
            score = max(matcher.match(action.title) * TITLE_WEIGHT, matcher.match(words))
            if score > 0:
                does = partial(self._cockpit.action_do, action.id)
                yield Hit(score, self._line(action, context), does, action.title)

    def _actions(self) -> list[Action]:
        places = self.screen.PLACES if isinstance(self.screen, CockpitScreen) else (ActionPlace.EVERYWHERE,)
        found = [action for action in ACTIONS if action.place in places and action.id != "app.palette"]
        # Actions of the screen below come before those of every screen.
        return sorted(found, key=lambda action: action.place is ActionPlace.EVERYWHERE)

    def _action_context(self) -> ActionContext:
        screen = self.screen
        return screen.action_context() if isinstance(screen, BaseScreen) else self._cockpit.build_context()

    def _line(self, action: Action, context: ActionContext) -> Content:
        why = action.why_not(context)
        key = key_name(self._cockpit.keys.get(action.id, action.key))
        return Content.assemble(
            (f"{key:>6}  ", "$footer-key-foreground"),
            (f"{action.title:<16} ", "$text-quiet" if why else "bold"),
            (f"not now: {why} · {action.description}" if why else action.description, "$text-quiet"),
        )
