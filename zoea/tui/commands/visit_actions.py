"""What the app does around the swarm: help, settings, welcome, looks and keys, the swarm opened anew.

A mixin of the app, as `Acting` is for what happens in the swarm.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, cast

from textual.events import Key
from textual.screen import Screen

from zoea.model.errors import OwnerError, SettingsError, ZoeaError
from zoea.settings.paths import Places
from zoea.tui.commands import keymap
from zoea.tui.commands.actions import BY_ID, Action, Place
from zoea.tui.state.deferred_worker import Beside
from zoea.tui.theme import themes

if TYPE_CHECKING:
    from zoea.tui.app import Cockpit, Opener

REOPEN_S = 10.0


class Visiting:
    """Screens that stand over every other, and what they change in the app."""

    _offered_welcome = False

    @property
    def _app(self) -> Cockpit:
        return cast("Cockpit", self)

    # Screens.

    def do_app_help(self) -> None:
        from zoea.tui.screens.help import Help

        cockpit = self._app
        screen = cockpit.screen
        places: tuple[Place, ...] = getattr(screen, "PLACES", ())
        cockpit.push_screen(Help(places, cockpit.situation(), lambda action: self.can_do(action, screen)))

    def can_do(self, action: Action, screen: Screen[Any]) -> bool:
        """Whether a screen, or the app over it, carries the action out at all."""
        return hasattr(screen, action.method) or hasattr(self, action.method)

    def do_screen_settings(self) -> None:
        from zoea.tui.screens.settings import SettingsScreen

        self._show(SettingsScreen)

    def do_screen_welcome(self) -> None:
        from zoea.tui.screens.welcome import Welcome

        self._show(Welcome)

    def offer_welcome(self) -> None:
        """Show the welcome once, where the swarm is open and has no mysis yet."""
        cockpit = self._app
        if self._offered_welcome or cockpit.opened is None or cockpit.feed.view is None:
            return
        self._offered_welcome = True
        if not cockpit.feed.myses and len(cockpit.screen_stack) == 2:
            self.do_screen_welcome()

    def _show(self, kind: type[Screen[Any]]) -> None:
        """Push a screen of a kind, or go back to the one that stands below others already."""
        cockpit = self._app
        if isinstance(cockpit.screen, kind):
            return
        cockpit.push_screen(kind())

    # The swarm, opened anew.

    @property
    def where(self) -> Places:
        """The places of the workspace, as far as they are known."""
        cockpit = self._app
        opened = cockpit.opened
        if opened is not None and opened.places is not None:
            return opened.places
        data = opened.database.parent if opened is not None else cockpit.config
        return Places(data=data, config=cockpit.config, runtime=data)

    async def reopen(self, opener: Opener | None = None) -> None:
        """Close the swarm and open it again, so that new settings or a world count.

        Raises ZoeaError where it cannot be opened; the cockpit then shows that too.
        """
        cockpit = self._app
        cockpit._close.set()
        if cockpit._swarm is not None:
            await asyncio.wait({cockpit._swarm}, timeout=REOPEN_S)
        cockpit._close = asyncio.Event()
        cockpit.opened, cockpit.open_error = None, None
        cockpit.feed.forget()
        if opener is not None:
            cockpit._opener = opener
        cockpit.is_settled.clear()
        cockpit._begin()
        await cockpit.is_settled.wait()
        if cockpit.open_error is not None:
            raise cockpit.open_error

    def offer_instead(self, error: ZoeaError) -> None:
        """Whoever holds the workspace cannot be attached to: try again, only look, or open another one."""
        cockpit = self._app
        if cockpit.looker is None or not isinstance(error, OwnerError):
            return
        from zoea.tui.dialogs.unreachable import Unreachable

        cockpit.push_screen(Unreachable(error), self._instead)

    def _instead(self, chosen: str | None) -> None:
        from zoea.tui.app import OTHER
        from zoea.tui.dialogs.unreachable import AGAIN, LOOK

        cockpit = self._app
        if chosen in (AGAIN, LOOK):
            opener = cockpit.looker if chosen == LOOK else None
            cockpit.run_worker(Beside(lambda: self._reopened(opener)), exit_on_error=False)
        elif chosen is not None:
            if chosen.startswith(OTHER):
                cockpit.open_error = None  # it is this workspace's
            cockpit.run_worker(
                Beside(lambda: cockpit.leave(chosen if chosen.startswith(OTHER) else "detach")), exit_on_error=False
            )

    async def _reopened(self, opener: Opener | None) -> None:
        with contextlib.suppress(OwnerError):  # which is offered again
            await self.reopen(opener)

    # Looks and keys.

    def reload_looks(self) -> list[SettingsError]:
        """Read the themes' files again and show what changed. The errors of those that are none."""
        cockpit = self._app
        found, errors = themes.load_themes(cockpit.config)
        for name in set(cockpit.looks) - set(found) - {cockpit.look.name}:
            cockpit.unregister_theme(name)
        changed = found.get(cockpit.look.name, cockpit.look) != cockpit.look
        # A theme that broke while it is shown stays as it was.
        cockpit.looks = {cockpit.look.name: cockpit.look, **found}
        cockpit.look_errors = errors
        for look in cockpit.looks.values():
            cockpit.register_theme(look.theme())
        if changed:
            cockpit.use_look(cockpit.look.name)
            # The name is the same, so Textual itself would see nothing to do.
            cockpit._invalidate_css()
            cockpit.refresh_css(animate=False)
        return errors

    def use_keys(self, chosen: dict[str, str]) -> None:
        """Put a person's keys in force, over the defaults; what is wrong with them is said."""
        cockpit = self._app
        cockpit.keys, wrong = keymap.in_force(chosen)
        cockpit.set_keymap({name: key for name, key in cockpit.keys.items() if key != BY_ID[name].key})
        if wrong:
            cockpit.notify(
                "\n".join(f"tui.keys: {message}" for message in dict.fromkeys(wrong.values())),
                title="Keys that cannot be",
                severity="error",
                markup=False,
                timeout=20,
            )
        cockpit._tell_screens("redraw_bars")

    def action_press(self, key: str) -> None:
        """A key that stands somewhere was clicked."""
        event = Key(key, None)
        # Not of the widget that was clicked: what comes from a widget stops bubbling there.
        event.set_sender(self._app)
        self._app.post_message(event)

    def use_motion(self, *, reduced: bool) -> None:
        """Let things blink and move, or not; never where this run was asked to stay calm."""
        cockpit = self._app
        reduced = reduced or cockpit.stays_calm
        cockpit.calm = reduced
        cockpit.animation_level = "none" if reduced else "full"
        cockpit.cursors.settle()
