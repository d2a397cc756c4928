"""Input for messages: several lines, history, drafts, delivery mode, limits of the turn, recipients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, cast

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static, TextArea

from zoea.model.enums import DeliveryMode
from zoea.model.errors import UsageError
from zoea.text.control_characters import reveal, strip
from zoea.text.sentences import count_of
from zoea.tui import number_format
from zoea.tui.state.drafts import Drafts
from zoea.tui.swarm_list.message_targets import MessageTarget
from zoea.tui.widgets.clickable_text import key_hints
from zoea.tui.widgets.widget_part import WidgetPart

if TYPE_CHECKING:
    from zoea.context.window.prompt_context import PromptContext

FOLD_OVER = 4_000
"""Longer pasted texts are replaced by a mark."""


class FoldedTexts:
    """Keep long texts that are shown as a short mark in the input.

    A mark that a person edits becomes plain text.
    """

    def __init__(self) -> None:
        self._kept: dict[str, str] = {}

    def fold(self, text: str) -> str:
        """Return a short text unchanged, else its mark."""
        if len(text) <= FOLD_OVER:
            return text
        for mark, kept in self._kept.items():
            if kept == text:
                return mark
        lines = text.count("\n") + 1
        mark = f"‹text {len(self._kept) + 1}: {number_format.size(len(text))}, {count_of(lines, 'line')}›"
        self._kept[mark] = text
        return mark

    def unfold(self, text: str) -> str:
        """Return the text with every mark replaced by its full text."""
        for mark, kept in self._kept.items():
            if mark in text:
                text = text.replace(mark, kept)
        return text


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


class _PromptText(TextArea):
    """Text area that passes enter, tab and history keys to the prompt."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "send", priority=True),
        Binding("ctrl+j,alt+enter", "line", "new line", show=False, priority=True),
        Binding("tab", "mode", "delivery mode", priority=True),
        Binding("ctrl+o", "editor", "editor", priority=True),
        Binding("ctrl+l", "limits", show=False, priority=True),
    ]

    class EnterPressed(Message):
        """Sent on enter, before the swarm has the text."""

    class ModeWanted(Message):
        """Sent on tab."""

    class EditorWanted(Message):
        """Sent when the text is to be edited in an external editor."""

    class LimitsWanted(Message):
        """Sent when limits of the turn are to be given."""

    class HistoryWanted(Message):
        """Sent on up in the first line and on down in the last."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    folds: FoldedTexts

    def action_send(self) -> None:
        self.post_message(self.EnterPressed())

    def action_line(self) -> None:
        self.insert("\n")

    def action_mode(self) -> None:
        self.post_message(self.ModeWanted())

    def action_editor(self) -> None:
        self.post_message(self.EditorWanted())

    def action_limits(self) -> None:
        self.post_message(self.LimitsWanted())

    async def _on_paste(self, event: events.Paste) -> None:
        """Fold a large pasted text."""
        event.prevent_default().stop()
        if not self.read_only and (done := self._replace_via_keyboard(self.folds.fold(event.text), *self.selection)):
            self.move_cursor(done.end_location)

    async def _on_key(self, event: events.Key) -> None:
        row, _ = self.cursor_location
        if self.read_only and event.is_printable:
            event.prevent_default().stop()  # else it would run as a command
        elif event.key == "up" and row == 0:
            event.prevent_default().stop()
            self.post_message(self.HistoryWanted(-1))
        elif event.key == "down" and row == self.document.line_count - 1:
            event.prevent_default().stop()
            self.post_message(self.HistoryWanted(1))
        else:
            await super()._on_key(event)


class LimitsInput(Input):
    """One line of `key=value`: what the message overrides for the turn that it opens."""

    ON_ENTER: ClassVar[str] = "send"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "text", "back to the text", priority=True),
        Binding("ctrl+l,up", "text", show=False, priority=True),
    ]

    class TextWanted(Message):
        """Sent when the person goes back to the text."""

    def action_text(self) -> None:
        self.post_message(self.TextWanted())


def read_limits(text: str) -> PromptContext | None:
    """Read `key=value` texts, or a JSON object, as a prompt's context. Raises UsageError."""
    if not text.strip():
        return None
    from zoea.context.window.prompt_context import parse_pairs, parse_prompt_context  # most messages need none

    pairs = [text] if text.lstrip().startswith("{") else text.split()
    return parse_prompt_context(parse_pairs(pairs))


def limits_key(target: MessageTarget) -> str:
    """Return the key under which the limits of a draft are kept."""
    return f"limits of {target.key}"


class _HasDrafts(Protocol):
    """App that keeps drafts."""

    drafts: Drafts


class MessagePrompt(Vertical):
    """Write a message; hidden until `open`.

    Drafts are kept per target in the app, so that they survive the screen.
    """

    class Submitted(Message):
        """Sent on enter, with the target, the text, the delivery mode and JSON of the limits of the turn."""

        def __init__(self, target: MessageTarget, text: str, mode: DeliveryMode, limits: str) -> None:
            super().__init__()
            self.target = target
            self.text = text
            self.mode = mode
            self.limits = limits

    class Closed(Message):
        """Sent when the prompt was closed; its draft is kept."""

    class EditorWanted(Message):
        """Sent when the text is to be edited in an external editor."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.target: MessageTarget | None = None
        self.mode = DeliveryMode.QUEUE
        self._place = 0
        self._unsent = ""
        self._folds = FoldedTexts()

    def compose(self) -> ComposeResult:
        writing = _PromptText("", id="prompt-text", soft_wrap=True, show_line_numbers=False, compact=True)
        writing.folds = self._folds
        writing.cursor_blink = self.app.animation_level != "none"
        yield writing
        yield LimitsInput(placeholder="token_budget_total=30000 history_window_size=100", compact=True)
        yield Static("", id="prompt-note", markup=False)

    def on_mount(self) -> None:
        self.display = False
        self.border_subtitle = key_hints("enter send · tab delivery mode · ^l limit tokens · esc back")

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    @property
    def text(self) -> str:
        """Return the text to send, with folded texts in full."""
        return self._folds.unfold(self._writing.text)

    @property
    def is_sending(self) -> bool:
        """Return whether a sent text waits for the swarm's answer."""
        return self._writing.read_only

    _writing = WidgetPart(_PromptText)
    _limits = WidgetPart(LimitsInput)

    @property
    def _drafts(self) -> Drafts:
        return cast(_HasDrafts, self.app).drafts

    def remember(self, texts: Sequence[str]) -> None:
        """Add earlier messages to the history, oldest first."""
        self._drafts.remember(texts)
        self._place = len(self._drafts.history)

    def open(self, target: MessageTarget) -> None:
        """Show the prompt with the draft of this target, and focus it."""
        self._keep_draft()
        self.target = target
        self.mode = DeliveryMode.QUEUE
        self._place = len(self._drafts.history)
        self._set(self._drafts.of(target.key))
        self._set_limits(self._drafts.of(limits_key(target)))
        self.display = True
        self._describe()
        self._writing.focus()

    def close(self) -> None:
        """Hide the prompt and keep the draft."""
        if not self.is_open:
            return
        self._keep_draft()
        self.display = False
        self.post_message(self.Closed())

    def clear_into_history(self) -> bool:
        """Move the text into the history; return False if there was none."""
        if not self.text.strip():
            return False
        self._note_sent(self.text)
        self._set("")
        self._keep_draft()
        return True

    def put(self, text: str) -> None:
        """Replace the text, as an external editor does."""
        self._set(text)
        self._writing.focus()

    def sent(self) -> None:
        """Clear and close the prompt after the swarm took the text."""
        self._writing.read_only = False
        self._note_sent(self.text)
        if self.target is not None:
            self._drafts.keep(self.target.key, "")
            self._drafts.keep(limits_key(self.target), "")
        self._set("")
        self._set_limits("")
        self.close()

    def refused(self, why: str) -> None:
        """Keep the text and show why the swarm refused it."""
        self._writing.read_only = False
        self._note(why)

    def taken_elsewhere(self) -> None:
        """Load the draft again, which another screen may have changed or sent."""
        if self.is_open and self.target is not None and not self.is_sending:
            kept = self._drafts.of(self.target.key)
            if kept.strip() != self.text.strip():
                self._set(kept)

    def retarget(self, target: MessageTarget) -> None:
        """Update the note for the same target."""
        if self.target is not None and target.key == self.target.key:
            self.target = target
            self._describe()

    def _note_sent(self, text: str) -> None:
        self._drafts.note(text)
        self._place = len(self._drafts.history)

    def _keep_draft(self) -> None:
        if self.target is not None and self.is_open:
            self._drafts.keep(self.target.key, self.text)
            self._drafts.keep(limits_key(self.target), self._limits.value)

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Keep the draft on every change, because the screen may close at any time."""
        event.stop()
        self._keep_draft()
        if not self.is_sending and self.target is not None:
            self._note(self.target.describe(self.text))  # the cost includes the text

    def _set_limits(self, text: str) -> None:
        self._limits.value = reveal(text)
        self._limits.display = bool(text)

    def _set(self, text: str) -> None:
        # A text area writes what it holds to the terminal, and drafts and sent messages may hold anything.
        self._writing.load_text(self._folds.fold(reveal(text)))
        self._writing.move_cursor(self._writing.document.end)

    def _describe(self) -> None:
        if self.target is None:
            return
        effect = MODES[self.mode][self.target.is_broadcast]
        what, blank, whom = self.target.title.partition(" ")
        self.border_title = Content(strip(f"{what.upper()}{blank}{whom} · {effect}"))
        self._note(self.target.describe(self.text))

    def _note(self, text: str) -> None:
        note = self.query_one("#prompt-note", Static)
        note.update(Content(strip(text)))
        note.display = bool(text)

    def on__prompt_text_enter_pressed(self, event: _PromptText.EnterPressed) -> None:
        event.stop()
        self._submit()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._keep_draft()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._submit()

    def _submit(self) -> None:
        if self.target is None or not self.text.strip() or self.is_sending:
            return
        try:
            limits = read_limits(self._limits.value)
        except UsageError as error:
            self._note(error.text)
            return
        for sentence in limits.ignored if limits is not None else ():
            self.app.notify(sentence, markup=False)
        self._writing.read_only = True
        self.post_message(
            self.Submitted(self.target, self.text, self.mode, limits.to_json() if limits is not None else "")
        )

    def on__prompt_text_limits_wanted(self, event: _PromptText.LimitsWanted) -> None:
        event.stop()
        self._limits.display = True
        self._limits.focus()

    def on_limits_input_text_wanted(self, event: LimitsInput.TextWanted) -> None:
        event.stop()
        self._limits.display = bool(self._limits.value.strip())
        self._writing.focus()

    def on__prompt_text_mode_wanted(self, event: _PromptText.ModeWanted) -> None:
        event.stop()
        modes = list(MODES)
        self.mode = modes[(modes.index(self.mode) + 1) % len(modes)]
        self._describe()

    def on__prompt_text_editor_wanted(self, event: _PromptText.EditorWanted) -> None:
        event.stop()
        self.post_message(self.EditorWanted(self.text))

    def on__prompt_text_history_wanted(self, event: _PromptText.HistoryWanted) -> None:
        event.stop()
        history = self._drafts.history
        place = self._place + event.by
        if not 0 <= place <= len(history):
            return
        if self._place == len(history):
            self._unsent = self.text
        self._place = place
        self._set(self._unsent if place == len(history) else history[place])
