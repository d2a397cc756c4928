"""The command palette: actions, myses, themes, settings and sent messages.

An action that is not possible says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider, SearchIcon
from textual.content import Content

from zoea.model.errors import SettingsError, StoreError
from zoea.text.control_characters import one_line
from zoea.tui.commands.action import Action, ActionContext, ActionPlace
from zoea.tui.commands.actions import of
from zoea.tui.screens.base import BaseScreen, CockpitScreen
from zoea.tui.state.cockpit import Cockpit
from zoea.tui.text_layout import fit_text
from zoea.tui.widgets.status_bars import key_name

if TYPE_CHECKING:
    from zoea.tui.state.settings_form import SettingField

_KIND, _NAME, _TITLE = 8, 22, 19
_MESSAGE = 60
"""Characters of a message that is searched for."""
_BELOW_ACTIONS = 0.9
"""Factor on scores, because an action of the same name comes first."""


class _CockpitProvider(Provider):
    """Finds one kind of thing in the cockpit."""

    KIND = ""

    @property
    def cockpit(self) -> Cockpit:
        return cast("Cockpit", self.app)

    def hit(self, score: float, name: str, about: str, run: Callable[[], object]) -> Hit:
        """Return a line of the palette: kind, name, description."""
        shown, said = one_line(name), one_line(about)
        line = Content.assemble(
            (f"{self.KIND:>{_KIND}}  ", "$footer-key-foreground"),
            (f"{fit_text(shown, _NAME).rstrip():<{_TITLE}} ", "bold"),
            (said, "$text-quiet"),
        )
        return Hit(score * _BELOW_ACTIONS, line, run, shown)


class MysisProvider(_CockpitProvider):
    """Finds myses by name, tag and template; opens the conversation."""

    KIND = "mysis"

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for view in self.cockpit.feed.in_order():
            tags = " ".join(f"#{tag}" for tag in view.tags)
            score = max(matcher.match(view.name), matcher.match(f"{view.template} {tags}") / 2)
            if score > 0:
                about = f"{view.status} · {view.template} {tags}"
                yield self.hit(score, view.name, about, partial(self.cockpit.act_on_mysis, "mysis.focus", view.id))


class ThemeProvider(_CockpitProvider):
    """Finds themes by name and title; shows the theme."""

    KIND = "theme"

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        self.cockpit.find_themes()
        for name, spec in self.cockpit.theme_specs.items():
            score = matcher.match(f"theme {name} {spec.title}")
            if score > 0:
                yield self.hit(score, name, spec.title, partial(self.cockpit.use_theme, name))


class SettingProvider(_CockpitProvider):
    """Finds settings by key and title; opens the setting in the form."""

    KIND = "setting"
    _fields: tuple[tuple[str, SettingField], ...] = ()

    async def startup(self) -> None:
        self._fields = await asyncio.to_thread(self._read)

    def _read(self) -> tuple[tuple[str, SettingField], ...]:
        from zoea.settings.layers import load
        from zoea.tui.state.settings_form import KEYS, groups

        try:
            found = groups(load(self.cockpit.places))
        except SettingsError:
            return ()  # the settings screen shows the error
        return tuple((group.id, field) for group in found if group.id != KEYS for field in group.fields)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for group, field in self._fields:
            words = f"{field.key} {field.title} {field.description}"
            score = max(matcher.match(field.key), matcher.match(words) / 2)
            if score > 0 and _has_words(words, query):
                about = f"{field.text or 'unset'} · {field.title}"
                yield self.hit(score, field.key, about, partial(self._open, group, field.key))

    def _open(self, group: str, key: str) -> None:
        from zoea.tui.screens.settings import SettingsScreen

        self.cockpit.push_screen(SettingsScreen(group=group, field=key))


class SentMessageProvider(_CockpitProvider):
    """Finds messages that you sent, the newest first; searches for the place of the message."""

    KIND = "message"
    _texts: tuple[str, ...] = ()

    async def startup(self) -> None:
        from zoea.queries.broadcasts import read_commander_messages

        if (database := self.cockpit.database) is not None:
            with suppress(StoreError):  # the other sources still serve
                self._texts = await asyncio.to_thread(read_commander_messages, database)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for text in list(dict.fromkeys(reversed(list(self._texts)))):
            score = matcher.match(text[: _MESSAGE * 4])
            if score > 0 and _has_words(text, query):
                yield self.hit(score / 2, text[:_MESSAGE], "you said it; shows where", partial(self._open, text))

    def _open(self, text: str) -> None:
        from zoea.tui.screens.search import SearchScreen

        self.cockpit.push_screen(SearchScreen(one_line(text)[:_MESSAGE]))


def _has_words(text: str, query: str) -> bool:
    """Return whether the text has every word. Letters in their order are in every long text."""
    folded = text.casefold()
    return all(word in folded for word in query.casefold().split())


TITLE_WEIGHT = 1.5
"""Factor on scores of titles, because descriptions have letters of everything."""


class ActionPalette(CommandPalette):
    """Textual's palette with Zoea's actions.

    Args:
        sign: One cell before the input, from the theme's glyphs.
    """

    def __init__(self, sign: str) -> None:
        super().__init__(
            providers=[ActionProvider, MysisProvider, ThemeProvider, SettingProvider, SentMessageProvider],
            placeholder="Type to find a command, a mysis, a setting, a message",
            id="palette",
        )
        self._sign = sign

    @classmethod
    def open_over(cls, cockpit: Cockpit) -> ActionPalette:
        return cls(cockpit.glyphs["brand"])

    @property
    def holds_keys(self) -> bool:
        """Whether actions with the typed words are still to come. Until then enter would run another one."""
        return any(worker.node is self and not worker.is_finished for worker in self.workers)

    def on_mount(self) -> None:
        self.query_one(SearchIcon).icon = self._sign


class ActionProvider(_CockpitProvider):
    """Finds the actions of the screen below, in that screen's context."""

    async def discover(self) -> Hits:
        context = self._action_context()
        for action in self._actions():
            yield DiscoveryHit(self._line(action, context), partial(self.cockpit.action_do, action.id), action.title)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        context = self._action_context()
        for action in self._actions():
            words = f"{action.title} {action.command} {action.id} {action.description}"
            score = max(matcher.match(action.title) * TITLE_WEIGHT, matcher.match(words))
            if score > 0:
                does = partial(self.cockpit.action_do, action.id)
                yield Hit(score, self._line(action, context), does, action.title)

    def _actions(self) -> list[Action]:
        place = self.screen.PLACE if isinstance(self.screen, CockpitScreen) else ActionPlace.EVERYWHERE
        found = [action for action in of(place, ActionPlace.EVERYWHERE) if action.id != "app.palette"]
        # Actions of the screen below come before those of every screen.
        return sorted(found, key=lambda action: action.place is ActionPlace.EVERYWHERE)

    def _action_context(self) -> ActionContext:
        screen = self.screen
        return screen.action_context() if isinstance(screen, BaseScreen) else self.cockpit.build_context()

    def _line(self, action: Action, context: ActionContext) -> Content:
        why = action.why_not(context)
        key = key_name(self.cockpit.keys.get(action.id, action.key))
        return Content.assemble(
            (f"{key:>6}  ", "$footer-key-foreground"),
            (f"{action.title:<{_TITLE}} ", "$text-quiet" if why else "bold"),
            (f"not now: {why} · {action.description}" if why else action.description, "$text-quiet"),
        )
