"""The `:` prompt at the bottom of a screen, with completions above it."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.types import CSSPathType
from textual.widgets import Input, Static

from zoea.model.errors import ZoeaError
from zoea.text.control_characters import one_line
from zoea.tui.commands.action_requirements import ActionContext
from zoea.tui.commands.command_prompt import CommandCompletion, complete, needs_open_swarm_for, run
from zoea.tui.dialogs.modal import CockpitDialog
from zoea.tui.screens.base import BaseScreen
from zoea.tui.text_layout import Piece, fit_text, wrap_words
from zoea.tui.widgets.clickable_text import TextBlock

_WORD = 24


class CommandPromptDialog(CockpitDialog[None]):
    """Tab takes a completion, up and down choose one, enter runs the line."""

    CSS_PATH: ClassVar[CSSPathType | None] = ["modal.tcss", "command_line.tcss"]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "take", "complete", priority=True),
        Binding("up", "choose(-1)", show=False, priority=True),
        Binding("down", "choose(1)", show=False, priority=True),
        Binding("enter", "run", "run", priority=True),
        Binding("escape", "leave", "back"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._found: list[CommandCompletion] = []
        self._chosen = -1

    def compose(self) -> ComposeResult:
        with Vertical(id="commands"):
            yield TextBlock(id="completions")
            yield TextBlock(id="error")
            with Horizontal(id="line"):
                yield Static(":", id="mark", markup=False)
                yield Input(id="command", compact=True)

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self._complete()

    def action_context(self) -> ActionContext:
        """Return the context of the screen below, where commands are run."""
        below = self.cockpit.screen_stack[-2] if len(self.cockpit.screen_stack) > 1 else None
        return below.action_context() if isinstance(below, BaseScreen) else self.cockpit.build_context()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._complete()

    def _complete(self) -> None:
        self._found = complete(self.cockpit, self.query_one(Input).value)
        self._chosen = -1
        self.query_one("#error", TextBlock).put([])
        self._draw()

    def _draw(self) -> None:
        lines: list[list[Piece]] = []
        for place, one in enumerate(self._found):
            mark = "› " if place == self._chosen else "  "
            role = "quiet" if one.why_not else "title" if place == self._chosen else "strong"
            said = one_line(f"{one.title} (not now: {one.why_not})" if one.why_not else one.title)
            first, *more = wrap_words(said, max(_WORD, self.size.width - _WORD - 5))
            lines.append([(mark, "key"), (fit_text(one_line(one.line), _WORD), role), (f" {first}", "quiet")])
            lines += [[(" " * (_WORD + 3), ""), (line, "quiet")] for line in more]
        self.query_one("#completions", TextBlock).put(lines)

    def action_choose(self, by: int) -> None:
        if self._found:
            self._chosen = (max(self._chosen, -1 if by > 0 else 0) + by) % len(self._found)
            self._draw()

    def action_take(self) -> None:
        if self._found:
            line = self.query_one(Input)
            line.value = f"{self._found[max(0, self._chosen)].line} "
            line.cursor_position = len(line.value)

    def action_leave(self) -> None:
        self.dismiss()

    def action_run(self) -> None:
        line = self.query_one(Input).value.strip()
        if self._chosen >= 0 and self._found:
            line = self._found[self._chosen].line
        if not line:
            self.action_leave()
            return
        if needs_open_swarm_for(line) and self.cockpit.opening_wait.defer(self.action_run):
            return
        try:
            run(self.cockpit, line)
        except ZoeaError as error:
            said = [(error.what, "errored")] + ([(f"  {error.hint}", "quiet")] if error.hint else [])
            self.query_one("#error", TextBlock).put([said])
            return
        if self.is_current:
            self.dismiss()
