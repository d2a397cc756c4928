"""The message of a commit by hand of what a mysis changed in its worktree."""

from __future__ import annotations

from collections.abc import Iterable

from textual.widget import Widget
from textual.widgets import Input

from zoea.model.errors import UsageError
from zoea.tui.dialogs.modal import FormDialog


class WorktreeCommitDialog(FormDialog[str]):
    """Returns the message."""

    TITLE = "COMMIT THE CHANGES OF THE WORKTREE"
    VERB = "commit"
    FIRST = "#message"

    def fields(self) -> Iterable[tuple[str, Widget] | Widget]:
        return [("message", Input(id="message", compact=True))]

    async def carry_out(self) -> None:
        if not (message := self.typed("message")):
            raise UsageError("A commit needs a message", hint="Say what was changed.")
        self.close(message)
