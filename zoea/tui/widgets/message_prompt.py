"""Input for messages: several lines, history, drafts, delivery mode, limits, recipients, and the person's editor."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual import events, getters
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static, TextArea

from zoea.model.enums import DeliveryMode
from zoea.model.errors import StoreError, UsageError, ZoeaError
from zoea.model.values import MysisView, Recipients
from zoea.queries.broadcasts import read_commander_messages
from zoea.text.control_characters import reveal
from zoea.tui.commands.swarm_commands import confirm_broadcast, show_receipt
from zoea.tui.state.cockpit import Cockpit
from zoea.tui.state.drafts import Drafts
from zoea.tui.swarm_list.message_targets import Audience, MessageTarget, refresh_target, target_many, target_one
from zoea.tui.text_layout import cut_text
from zoea.tui.widgets.clickable_text import key_hints
from zoea.tui.widgets.long_text import LongText

if TYPE_CHECKING:
    from zoea.context.window.prompt_context import PromptContext

MODES = {
    DeliveryMode.QUEUE: ("queue: read when its turn ends", "queue: each reads it when its turn ends"),
    DeliveryMode.STEER: (
        "steer: read at its next step, its work goes on",
        "steer: each reads it at its next step, its work goes on",
    ),
    DeliveryMode.INTERRUPT: (
        "interrupt: breaks off its work now; finished steps stay",
        "interrupt: breaks off the work of each now; finished steps stay",
    ),
}
"""The delivery modes in the order of tab, each with its effect on one mysis and on many."""


class _PromptText(LongText):
    """Text area that passes enter, tab and history keys to the prompt."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "send", priority=True),
        Binding("tab", "mode", "delivery mode", priority=True),
        Binding("ctrl+l", "limits", show=False, priority=True),
    ]

    prompt: MessagePrompt

    def action_send(self) -> None:
        self.prompt.submit()

    def action_mode(self) -> None:
        self.prompt.choose_next_mode()

    def refuse(self, why: str) -> None:
        self.prompt.refuse(why)

    def action_limits(self) -> None:
        self.prompt.show_limits()

    async def _on_key(self, event: events.Key) -> None:
        row, _ = self.cursor_location
        if self.read_only and event.is_printable:
            event.prevent_default().stop()  # else it would run as a command
        elif event.key == "up" and row == 0:
            event.prevent_default().stop()
            self.prompt.show_history(-1)
        elif event.key == "down" and row == self.document.line_count - 1:
            event.prevent_default().stop()
            self.prompt.show_history(1)
        else:
            await super()._on_key(event)


class LimitsInput(Input):
    """One line of `key=value`: what the message overrides for the turn that it opens."""

    ON_ENTER: ClassVar[str] = "send"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "text", "back to the text", priority=True),
        Binding("ctrl+l,up", "text", show=False, priority=True),
    ]

    prompt: MessagePrompt

    def action_text(self) -> None:
        self.prompt.hide_limits()


def read_limits(text: str) -> PromptContext | None:
    """Read `key=value` texts, or a JSON object, as a prompt's context. Raises UsageError."""
    if not text.strip():
        return None
    from zoea.context.window.prompt_context import parse_pairs, parse_prompt_context  # most messages need none

    pairs = [text] if text.lstrip().startswith("{") else text.split()
    return parse_prompt_context(parse_pairs(pairs))


NARROW = 100
"""Columns below which the note has one line."""
_FRAME = 4
_MORE = " · f2 whole text"


class MessagePrompt(Vertical):
    """Write a message and send it; hidden until it is opened for somebody.

    The text stays until the swarm has it. Drafts are kept per target in the app, so that they survive the screen.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("f2", "whole_note", show=False)]

    class Closed(Message):
        """Sent when the prompt was closed; its draft is kept."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.target: MessageTarget | None = None
        self.mode = DeliveryMode.QUEUE
        self._place = 0
        self._unsent = ""
        self._has_read_history = False
        self._shows_all = False
        self._noted, self._shown_note = ("", True), ""

    def _mount_parts(self) -> None:
        """Mount the inputs when it is first opened. A screen opens sooner without them."""
        if self.children:
            return
        writing = _PromptText("", id="prompt-text", soft_wrap=True, show_line_numbers=False, compact=True)
        writing.prompt = self
        writing.cursor_blink = self.app.animation_level != "none"
        limits = LimitsInput(placeholder="token_budget_total=30000 history_window_size=100", compact=True)
        limits.prompt = self
        self.mount(writing, limits, Static("", id="prompt-note", markup=False))

    def on_mount(self) -> None:
        self.display = False
        self.border_subtitle = key_hints("^l limit tokens")  # the footer names the others

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    @property
    def text(self) -> str:
        """Return the text to send, with folded texts in full."""
        return self._writing.full_text if self.children else ""

    @property
    def is_sending(self) -> bool:
        """Return whether a sent text waits for the swarm's answer."""
        return bool(self.children) and self._writing.read_only

    _writing = getters.query_one(_PromptText)
    _limits = getters.query_one(LimitsInput)

    _cockpit = getters.app(Cockpit)

    @property
    def _drafts(self) -> Drafts:
        return self._cockpit.drafts

    # Opening and closing.

    def write_to(self, view: MysisView, *, is_task: bool = False) -> None:
        """Open the prompt for one mysis; with `is_task` for its new task."""
        self.open(target_one(view, is_task=is_task))

    def write_to_many(self) -> None:
        """Open the prompt for the marked myses, else the filtered, else all."""
        audience = self._cockpit.choose_audience()
        if audience.views:
            self.open(target_many(audience))
        else:
            self.notify(f"No mysis matches the {audience.why}; B speaks to all", severity="warning", markup=False)
            self._cockpit.type_ahead.discard_text()

    def write_to_all(self) -> None:
        """Open the prompt for all myses, despite any filter or marks."""
        self.open(target_many(Audience(tuple(self._cockpit.feed.in_order()))))

    async def _read_history(self) -> None:
        if (opened := self._cockpit.opened) is None:
            return
        with suppress(StoreError):  # messages can be written without the history
            texts = await asyncio.to_thread(read_commander_messages, opened.database)
            self._drafts.remember(texts)
            self._place = len(self._drafts.history)

    def open(self, target: MessageTarget) -> None:
        """Show the prompt with the draft of this target, and focus it."""
        self._mount_parts()
        self._keep_draft()
        self.target = target
        self.mode = DeliveryMode.QUEUE
        self._place = len(self._drafts.history)
        self._writing.put(self._drafts.of(target.key))
        self._set_limits(self._drafts.limits_of(target.key))
        self.display = True
        self._describe()
        self._writing.focus()
        if not self._has_read_history:
            self._has_read_history = True
            self._cockpit.start_work(self._read_history)

    def close(self) -> None:
        """Hide the prompt and keep the draft."""
        if not self.is_open:
            return
        self._keep_draft()
        self.display = False
        self.post_message(self.Closed())

    def add_text(self, text: str) -> None:
        """Append a text to the draft, on a line of its own."""
        draft = self.text.rstrip()
        self._writing.put(f"{draft}\n{text}" if draft else text)

    def clear_into_history(self) -> bool:
        """Move the text into the history; return False if there was none."""
        if not self.text.strip():
            return False
        self._note_sent(self.text)
        self._writing.put("")
        self._keep_draft()
        return True

    def _clear_sent(self) -> None:
        """Clear and close the prompt after the swarm took the text."""
        self._writing.read_only = False
        self._note_sent(self.text)
        if self.target is not None:
            self._drafts.end(self.target.key, self.text)
        self._writing.put("")
        self._set_limits("")
        self.close()

    def refuse(self, why: str) -> None:
        """Keep the text and show why the swarm refused it."""
        if self.is_attached:
            self._writing.read_only = False
            self._note(why)

    def resume(self) -> None:
        """Load the draft again, which another screen above may have changed or sent."""
        if self.is_open and self.target is not None and not self.is_sending:
            kept = self._drafts.of(self.target.key)
            if kept.strip() != self.text.strip():
                self._writing.put(kept)

    def retarget(self) -> None:
        """Update recipients and notes after rows changed."""
        if self.is_open and self.target is not None and not self.is_sending:
            fresh = refresh_target(self.target, self._cockpit.feed.in_order())
            if fresh != self.target:
                self.target = fresh
                self._describe()

    def _note_sent(self, text: str) -> None:
        self._drafts.note(text)
        self._place = len(self._drafts.history)

    def _keep_draft(self) -> None:
        if self.target is not None and self.is_open:
            self._drafts.keep_message(self.target.key, self.text, self._limits.value)

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Keep the draft on every change, because the screen may close at any time."""
        event.stop()
        self._keep_draft()
        if not self.is_sending and self.target is not None:
            self._note(self.target.describe(self.text), is_whole=False)  # the cost includes the text

    def _set_limits(self, text: str) -> None:
        self._limits.value = reveal(text)
        self._limits.display = bool(text)

    def _describe(self) -> None:
        if self.target is None:
            return
        effect = MODES[self.mode][self.target.is_broadcast]
        what, blank, whom = self.target.title.partition(" ")
        self.border_title = Content(reveal(f"{what.upper()}{blank}{whom} · {effect}"))
        self._note(self.target.describe(self.text), is_whole=False)

    def _note(self, text: str, is_whole: bool = True) -> None:
        """Show a note below the text. A narrow prompt shows one line of it, unless the whole one is wanted."""
        self._noted = (text, is_whole)
        note = self.query_one("#prompt-note", Static)
        shown, room = reveal(text).replace("\n", " "), self.app.size.width - _FRAME
        if self.app.size.width < NARROW and not is_whole and not self._shows_all and cell_len(shown) > room:
            shown = f"{cut_text(shown, room - len(_MORE))}{_MORE}"
        else:
            shown = reveal(text)
        if shown != self._shown_note:  # each update lays the screen out
            self._shown_note = shown
            note.update(Content(shown))
        note.display = bool(text)

    def action_whole_note(self) -> None:
        """Show all of the note, or one line of it again."""
        self._shows_all = not self._shows_all
        self._describe()

    def on_resize(self) -> None:
        self._note(*self._noted)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._keep_draft()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.submit()

    def show_limits(self) -> None:
        self._limits.display = True
        self._limits.focus()

    def hide_limits(self) -> None:
        self._limits.display = bool(self._limits.value.strip())
        self._writing.focus()

    def choose_next_mode(self) -> None:
        modes = list(MODES)
        self.mode = modes[(modes.index(self.mode) + 1) % len(modes)]
        self._describe()

    def show_history(self, by: int) -> None:
        """Show an earlier or a later message."""
        history = self._drafts.history
        place = self._place + by
        if not 0 <= place <= len(history):
            return
        if self._place == len(history):
            self._unsent = self.text
        self._place = place
        self._writing.put(self._unsent if place == len(history) else history[place])

    # Sending.

    def submit(self) -> None:
        """Send the text. First ask where it goes to many, costs much or exceeds a budget."""
        target, text, mode = self.target, self.text, self.mode
        if target is None or not text.strip() or self.is_sending:
            return
        try:
            limits = read_limits(self._limits.value)
        except UsageError as error:
            self._note(error.text)
            return
        for sentence in limits.ignored if limits is not None else ():
            self.app.notify(sentence, markup=False)
        self._writing.read_only = True

        def send() -> None:
            self._cockpit.start_work(lambda: self._send(target, text, mode, limits))

        if target.is_broadcast:
            confirm_broadcast(self._cockpit, target, text, send, refused=self.refuse)
        else:
            send()

    async def _send(self, target: MessageTarget, text: str, mode: DeliveryMode, context: PromptContext | None) -> None:
        cockpit, limits = self._cockpit, context.to_json() if context is not None else ""
        key = cockpit.drafts.idempotency_key(target.key, text, limits, *target.names)
        await cockpit.save_drafts()  # a draft that outlives a kill has its key, so sending it again stores nothing
        try:
            api = cockpit.api
            if target.mysis_id is None:
                receipt = await api.broadcast(
                    text, to=Recipients(names=target.names), mode=mode, idempotency_key=key, limits=limits
                )
            else:
                ref = f"#{target.mysis_id}"
                if target.relaunches:
                    await api.start(ref)
                receipt = await api.send(
                    ref, text, mode=mode, is_task=target.is_task, idempotency_key=key, limits=limits
                )
        except ZoeaError as error:
            if self.is_attached:
                self.refuse(f"{error.title}: {error.what}")
            else:
                cockpit.show_error(error)
            return
        if self.is_attached:
            self._clear_sent()
        else:
            # The screen was left while the message was sent, so the draft is removed here.
            cockpit.drafts.note(text)
            cockpit.drafts.end(target.key, text)
        show_receipt(cockpit, receipt)
