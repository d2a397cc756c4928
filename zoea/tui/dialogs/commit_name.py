"""The form that gives a commit a name."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.types import CSSPathType
from textual.widgets import Input

from zoea.chain.commit import ContextCommit
from zoea.model.errors import UsageError, ZoeaError
from zoea.text.control_characters import one_line, prose_line
from zoea.tui.dialogs.modal import CockpitDialog, form_row
from zoea.tui.widgets.clickable_text import TextBlock, key_hints


class CommitNameDialog(CockpitDialog[None]):
    """A name, which becomes the ref `tag/NAME`."""

    CSS_PATH: ClassVar[CSSPathType | None] = ["modal.tcss", "first_request.tcss"]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "give", "name it", priority=True),
        Binding("escape", "leave", "back"),
    ]

    def __init__(self, commit: ContextCommit, short_id: str) -> None:
        super().__init__()
        self._commit = commit
        self._short_id = short_id

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = "NAME"
            box.border_subtitle = key_hints("enter name it · esc back")
            yield TextBlock(id="from")
            yield from form_row("name", Input(id="name", placeholder="before-the-storm", compact=True))
            yield TextBlock(id="error")

    def on_mount(self) -> None:
        said = prose_line(self._commit.note.summary)
        self.query_one("#from", TextBlock).put([[(self._short_id, "title")], [(said, "quiet")]])
        self.query_one("#name", Input).focus()

    def action_leave(self) -> None:
        self.dismiss()

    def action_give(self) -> None:
        name = self.query_one("#name", Input).value.strip()
        if not name:
            self._say(UsageError("there is no name", hint="Write one, such as before-the-storm."))
            return
        self.cockpit.ask_swarm(
            self.cockpit.api.name_context(name, self._commit.id), done=self._named, refused=self._say
        )

    def _named(self, ref: str) -> None:
        self.cockpit.notify(f"{one_line(ref)} names {self._short_id}", markup=False)
        self.cockpit.feed_changed(frozenset())
        if self.is_current:
            self.dismiss()

    def _say(self, error: ZoeaError) -> None:
        if not self.is_attached:
            self.cockpit.show_error(error)
            return
        self.query_one("#error", TextBlock).put_error(error)
