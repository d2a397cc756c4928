"""The choices when the swarm cannot be opened, mostly because its owner does not answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from zoea.model.errors import NoRunningSwarm, WorkspaceHeld, ZoeaError
from zoea.settings.paths import places
from zoea.text.control_characters import one_line
from zoea.tui.dialogs.modal import CockpitDialog
from zoea.tui.state.cockpit import OTHER_WORKSPACE
from zoea.tui.text_layout import Piece
from zoea.tui.widgets.clickable_text import TextBlock

TRY_AGAIN, READ_ONLY, QUIT = "again", "read-only", "quit"


class WorkspaceHeldDialog(CockpitDialog[str]):
    """Returns TRY_AGAIN, READ_ONLY, QUIT, or OTHER_WORKSPACE with a workspace's name."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a,r", f"choose('{TRY_AGAIN}')", "try again"),
        Binding("l", f"choose('{READ_ONLY}')", "open read-only"),
        Binding("w", "name", "another workspace"),
        Binding("q", f"choose('{QUIT}')", "quit"),
    ]

    def __init__(self, error: ZoeaError) -> None:
        super().__init__()
        self._error = error

    @property
    def _is_held(self) -> bool:
        return isinstance(self._error, NoRunningSwarm | WorkspaceHeld)

    @property
    def heading(self) -> str:
        return "THE WORKSPACE IS IN USE" if self._is_held else "THE SWARM COULD NOT BE OPENED"

    def content(self) -> Iterable[Widget]:
        name = Input(id="name", placeholder="Name of a workspace; enter opens it", compact=True)
        name.cursor_blink = name.display = False
        return TextBlock(id="words"), name

    def on_mount(self) -> None:
        error = self._error
        lines: list[list[Piece]] = [[(one_line(error.title), "errored")], [(one_line(error.what), "")]]
        lines += [[(one_line(error.hint), "quiet")]] if error.hint else []
        lines += [
            [],
            [("a", "key"), ("  try again", "")],
            [("l", "key"), ("  open read-only: stored conversations, no commands", "")],
            [("w", "key"), ("  open another workspace", "")],
            [("q", "key"), ("  quit; the swarm is left as it is" if self._is_held else "  quit", "")],
        ]
        self.query_one(TextBlock).put(lines)

    def action_choose(self, what: str) -> None:
        self.dismiss(what)

    def action_name(self) -> None:
        name = self.query_one(Input)
        name.display = True
        name.focus()

    def back(self) -> None:
        name = self.query_one(Input)
        if name.display:
            name.display = False
            self.set_focus(None)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        name = event.value.strip()
        if not name:
            return
        try:
            places(name)
        except ZoeaError as error:
            self.notify(error.what, title=error.title, severity="error", markup=False)
        else:
            self.dismiss(f"{OTHER_WORKSPACE}{name}")
