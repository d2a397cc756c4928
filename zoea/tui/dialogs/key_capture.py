"""The choice of a new key for an action; a clash is shown and refused."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content

from zoea.tui.commands import keymap
from zoea.tui.commands.action import Action
from zoea.tui.dialogs.modal import CockpitDialog
from zoea.tui.text_layout import Piece
from zoea.tui.widgets.clickable_text import TextBlock
from zoea.tui.widgets.status_bars import key_name


class KeyCaptureDialog(CockpitDialog[str]):
    """Returns the pressed key; None after escape, which only `app.back` may have.

    Args:
        action: The action that gets the key.
        chosen: The person's keys, by action id.
    """

    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(self, action: Action, chosen: dict[str, str]) -> None:
        super().__init__()
        self._action = action
        self._chosen = chosen

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = Content(f"A KEY FOR {self._action.title.upper()}")
            yield TextBlock(id="words")

    def on_mount(self) -> None:
        self._draw("")

    def _draw(self, problem: str) -> None:
        now = key_name(self.cockpit.keys[self._action.id])
        lines: list[list[Piece]] = [
            [(self._action.description, "strong"), (f"   now {now}", "quiet")],
            [],
            [("Press the new key", ""), ("     esc", "key"), (" cancels", "")],
        ]
        self.query_one(TextBlock).put([*lines, [], [(problem, "errored")]] if problem else lines)

    async def on_event(self, event: events.Event) -> None:
        """Take every key as the answer."""
        if not isinstance(event, events.Key):
            await super().on_event(event)
            return
        event.stop()
        event.prevent_default()
        if event.key == "escape":
            self.dismiss(None)
            return
        problem = keymap.problems({**self._chosen, self._action.id: event.key}).get(self._action.id, "")
        if problem:
            self._draw(problem)
        else:
            self.dismiss(event.key)
