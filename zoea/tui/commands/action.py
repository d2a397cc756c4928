"""An action: one thing that a person can do, where, by which key, and when.

A screen or the app binds an action to the function that carries it out, with `Action.bind`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct

from zoea.tui.commands.action_requirements import ActionContext, Requirement, require_nothing


class ActionPlace(StrEnum):
    """Where a key triggers an action."""

    EVERYWHERE = "everywhere"
    DASHBOARD = "dashboard"
    FOCUS = "focus"
    APPROVAL = "approval"
    INPUT = "input"
    SETTINGS = "settings"
    WELCOME = "welcome"
    INSPECTOR = "inspector"
    SEARCH = "search"
    LOG = "log"
    UPSTREAMS = "upstreams"
    CHARTS = "charts"
    HISTORY = "history"
    COMPARISON = "comparison"
    TIMELINE = "timeline"


class Action(Struct, frozen=True):
    """One thing a person can do.

    Attributes:
        id: Stable name, for key settings, the palette and the `:` prompt.
        key: Default key, as Textual names it.
        requires: Says why the action is not possible in a context.
        footer: Rank in the footer, lowest first; None keeps it out.
        only_if_room: In the footer only where all others fit.
        asks_first: Spends or destroys, so that it is confirmed.
        command: Word at the `:` prompt, the same as the CLI's where the CLI has one.
        commands_swarm: Changes the swarm, so that it is not possible in a read-only cockpit.
        takes_text: Opens an input; where it is refused, the text that follows in the same burst is dropped.
        pair: The title in the footer of this action and its neighbour with the same pair, shown as one.
    """

    place: ActionPlace
    id: str
    key: str
    title: str
    description: str
    requires: Requirement = require_nothing
    footer: int | None = None
    only_if_room: bool = False
    asks_first: bool = False
    command: str = ""
    commands_swarm: bool = False
    takes_text: bool = False
    pair: str = ""

    def why_not(self, context: ActionContext) -> str:
        """Return why this is not possible now; an empty text where it is."""
        if self.commands_swarm and context.read_only_reason:
            return context.read_only_reason
        return self.requires(context)

    def bind(self, run: Callable[[], object]) -> BoundAction:
        """Return this action with the function that carries it out."""
        return BoundAction(self, run)


class BoundAction(Struct, frozen=True):
    """An action and its handler on one screen, or on the app for every screen."""

    action: Action
    run: Callable[[], object]
