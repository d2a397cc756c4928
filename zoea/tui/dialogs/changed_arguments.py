"""The arguments of a call that waits, to be changed before it runs."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import TextArea

from zoea.model.enums import ApprovalAnswer
from zoea.model.errors import ZoeaError
from zoea.model.values import ApprovalView
from zoea.text.call_text import reveal_arguments
from zoea.text.control_characters import one_line
from zoea.text.large_json import indent
from zoea.tui.dialogs.modal import CockpitDialog
from zoea.tui.dialogs.upstream_forms import RUN_KEY
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.widgets.clickable_text import TextBlock

_KEYS = "^r allow once with these arguments · esc back"
_SHOWN = "It held hidden characters, which are escapes now: look at them, then allow the call again"


class ChangedArgumentsDialog(CockpitDialog[bool]):
    """Allows a call once with arguments of the person. Returns True where it was allowed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(RUN_KEY, "allow", "allow with these", priority=True),
        Binding("escape", "leave", "back", priority=True),
    ]

    def __init__(self, asked: ApprovalView) -> None:
        super().__init__()
        self._asked = asked
        self._is_sending = False

    def compose(self) -> ComposeResult:
        asked = self._asked
        upstream = f"{one_line(asked.upstream)}/" if asked.upstream else ""
        with Vertical(classes="box") as box:
            box.border_title = Content(f"CHANGE {upstream}{one_line(asked.tool)} OF {one_line(asked.mysis)}")
            area = TextArea(reveal_arguments(indent(asked.arguments)), id="arguments", soft_wrap=True)
            area.cursor_blink = False
            yield area
            yield TextBlock(id="outcome")

    def on_mount(self) -> None:
        self.query_one(TextBlock).put([[("The mysis reads what you changed.", "quiet")], [(_KEYS, "quiet")]])
        self.query_one(TextArea).focus()

    def action_allow(self) -> None:
        area = self.query_one(TextArea)
        if (shown := reveal_arguments(area.text)) != area.text:  # pasted: nothing is sent that was not seen
            area.text = shown
            self.query_one(TextBlock).put([[(_SHOWN, "asking")], [(_KEYS, "quiet")]])
        elif not self._is_sending:
            self._is_sending = True
            self.cockpit.run_worker(DeferredWork(self._send), exit_on_error=False)

    async def _send(self) -> None:
        text = self.query_one(TextArea).text
        try:
            await self.cockpit.api.answer(self._asked.id, ApprovalAnswer.ONCE, arguments=text or "{}")
        except ZoeaError as error:
            self.say(error)
        else:
            self.close(True)
        finally:
            self._is_sending = False

    def say(self, error: ZoeaError) -> None:
        if self.is_attached:
            self.query_one(TextBlock).put([[(error.what, "errored")], [(error.hint, "quiet")]])
        else:
            self.cockpit.show_error(error)
