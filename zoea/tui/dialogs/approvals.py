"""The approval dialog: one open question at a time, answered with one key.

It opens by its key only, and that key answers nothing. A key answers a question after `DEAF_S` in which it was on the
screen and no other answer was tried, so that no key pressed for something else allows a call, and none that repeats.
No key allows a call whose end was not on the screen.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Input

from zoea.model.enums import ApprovalAnswer
from zoea.model.errors import ZoeaError
from zoea.model.values import ApprovalView
from zoea.queries.phrases import approval_question
from zoea.queries.stored_swarm import read_approval
from zoea.text.call_text import reveal_arguments
from zoea.text.control_characters import one_line
from zoea.text.large_json import indent
from zoea.text.sentences import count_of
from zoea.tui import number_format
from zoea.tui.commands.action import ActionContext, ActionPlace, Handlers
from zoea.tui.commands.actions import of
from zoea.tui.dialogs.modal import CockpitDialog
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.text_layout import Piece
from zoea.tui.widgets.clickable_text import TextBlock, key_hints
from zoea.tui.widgets.line_list import TextLines
from zoea.tui.widgets.status_bars import KeyFooter, TypedKey

DEAF_S = 0.7
"""Seconds; more than the 0.66 after which the slowest usual keyboards begin to repeat a key that is held."""
_IN_WORDS = "Your answer; enter sends it, esc leaves the question open"
_WHY_NOT = "Reason for the model; enter denies, esc goes back"


class ApprovalDialog(CockpitDialog[None]):
    """Shows the oldest open question; closes when none is left.

    Args:
        first: Show the question of this mysis first, by id.
    """

    PLACE = ActionPlace.APPROVAL
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right", "other(1)", "next question", show=False),
        Binding("left", "other(-1)", "question before", show=False),
    ]

    def __init__(self, first: int = 0) -> None:
        super().__init__()
        self._first = first
        self._shown: ApprovalView | None = None
        self._answered: set[int] = set()
        self._deaf: Timer | None = None
        self._box = Vertical(id="approval", classes="box")
        self._who = TextBlock(id="who")
        self._call = TextLines(id="call")
        self._sentence = Input(id="sentence", placeholder=_WHY_NOT)
        self._keys = KeyFooter(id="answers")
        self.is_listening = False
        """False until a question was shown for `DEAF_S` without a key: no key answers before."""
        self._is_read = False
        """Whether the end of the call was on the screen: no key allows it before."""

    def bind_actions(self) -> Handlers:
        return {
            "app.back": self.back,
            "approval.once": lambda: self._answer(ApprovalAnswer.ONCE),
            "approval.session": lambda: self._answer(ApprovalAnswer.SESSION),
            "approval.template": lambda: self._answer(ApprovalAnswer.TEMPLATE),
            "approval.deny": self._deny,
            "approval.next": lambda: self.action_other(1),
            "approval.later": self._leave_open,
        }

    def action_context(self) -> ActionContext:
        return replace(super().action_context(), question=self._shown)

    def compose(self) -> ComposeResult:
        with self._box:
            yield self._who
            yield self._call
            yield self._sentence
            yield self._keys

    def on_mount(self) -> None:
        self._sentence.display = False
        self._call.focus()
        self.cockpit.approvals.refresh()
        waiting = self._waiting()
        first = next((one for one in waiting if one.mysis_id == self._first), waiting[0] if waiting else None)
        self._show(first)

    def _waiting(self) -> list[ApprovalView]:
        return [one for one in self.cockpit.approvals.open if one.id not in self._answered]

    # News.

    def approvals_changed(self) -> None:
        """Keep the shown question while it is open, else show the next one."""
        waiting = self._waiting()
        if not waiting:
            if self._shown is not None or self.cockpit.approvals.open:
                self.close()
        elif self._shown is None or self._shown.id not in {one.id for one in waiting}:
            self._show(waiting[0])
        else:
            self._draw()

    @property
    def _is_question(self) -> bool:
        """Whether the mysis asks for words, instead of permission for a tool."""
        return self._shown is not None and bool(approval_question(self._shown))

    def _show(self, approval: ApprovalView | None) -> None:
        self._shown = approval
        self._leave_sentence()
        self.is_listening = self._is_read = False
        # Keys that were typed before the question was seen answer nothing, also where they come late.
        self.cockpit.type_ahead.discard()
        if self._deaf is not None:
            self._deaf.stop()
            self._deaf = None
        if approval is not None and approval.is_cut:
            self._call.put("Reading the whole call…")
            self._draw()
            self.run_worker(DeferredWork(lambda: self._read_whole(approval)), exit_on_error=False)
            return
        asked = approval_question(approval) if approval else ""
        self._call.put(asked or (reveal_arguments(indent(approval.arguments)) if approval else ""))
        self._sentence.display = bool(asked)
        self._sentence.value = ""
        self._sentence.placeholder = _IN_WORDS if asked else _WHY_NOT
        self._draw()
        self.call_after_refresh(self._stay_deaf, approval)  # the time counts from when it is seen

    def _stay_deaf(self, approval: ApprovalView | None) -> None:
        """Restart the time in which no key answers this question."""
        if self._shown is approval:
            if self._deaf is not None:
                self._deaf.stop()
            self._deaf = self.set_timer(DEAF_S, self._listen)

    async def _read_whole(self, cut: ApprovalView) -> None:
        """Show an approval that the list has cut, as it is stored."""
        whole = await self.read(read_approval, cut.id)
        # Answered meanwhile, it is no longer listed soon.
        if whole is not None and self._shown is cut:
            self._show(whole)

    def say(self, error: ZoeaError) -> None:
        self._call.put(error.text)

    def _listen(self) -> None:
        if not self._call.is_laid_out:
            self._stay_deaf(self._shown)
            return
        self.is_listening = True
        if self._is_question:
            self._sentence.focus()
        self._draw()

    def tick(self) -> None:
        self._draw()

    def redraw_bars(self) -> None:
        self._draw()

    def _draw(self) -> None:
        if not self.is_mounted or self._shown is None:
            return
        waiting, shown, now = self._waiting(), self._shown, self.cockpit.now()
        place = next((at for at, one in enumerate(waiting, 1) if one.id == shown.id), 1)
        box = self._box
        box.border_title = Content(f"{self.cockpit.glyphs['asking']} {one_line(shown.mysis)} asks")
        later = key_hints(f"{self.cockpit.key('approval.later')} later")
        below = self._look_below()
        more = f"{count_of(below, 'line')} below · " if below else ""
        count = Content(f"{more}{place} of {max(place, len(waiting))}")
        box.border_subtitle = count if self._sentence.display else Content.assemble(later, " · ", count)
        self._who.put([*build_question_lines(shown, now), *self._hold_lines(shown), *self._scope_lines(shown)])
        answers = self._keys
        if not self.is_listening:
            answers.put([(" the keys to answer work in a moment (guards against slips)", "quiet")])
        elif self._sentence.display:
            enter, escape = ("answer", "later") if self._is_question else ("deny", "back")
            words = (("enter", enter), ("escape", escape))
            answers.describe_typed([TypedKey(key, word, f"app.press({key!r})") for key, word in words])
        else:
            context = self.action_context()
            actions = of(ActionPlace.APPROVAL)
            possible = [one for one in actions if one.id == "approval.next" or not one.why_not(context)]
            answers.describe(possible, context, self.cockpit.keys)

    def _hold_lines(self, shown: ApprovalView) -> list[list[Piece]]:
        """Return when the answer takes effect, where a hold keeps its mysis back."""
        feed = self.cockpit.feed
        mysis = feed.myses.get(shown.mysis_id)
        if feed.view is not None and feed.view.held:
            return [[("on hold: what you answer takes effect when the swarm is resumed", "waiting")]]
        if mysis is not None and mysis.held:
            return [[("paused: what you answer takes effect when this mysis is resumed", "waiting")]]
        return []

    def _scope_lines(self, shown: ApprovalView) -> list[list[Piece]]:
        """Return for how long each key allows it; nothing for a question."""
        if self._is_question:
            return []
        until, template = self.cockpit.key("approval.session"), self.cockpit.key("approval.template")
        if shown.kind == "budget":
            return [[(f"{until} lets this mysis exceed the limit until it stops", "quiet")]]
        grants = self.cockpit.key("screen.grants")
        if shown.why_once:
            return [[("a command that a shell may read as more than one program can be allowed only once", "quiet")]]
        what = "this tool with any arguments" if shown.grant_scope is None else "exactly this command"
        return [
            [(f"{until} allows {what} to this mysis, until it is stopped", "quiet")],
            [
                (
                    f"{template} allows it to every mysis of its template, until you revoke it ({grants} lists it)",
                    "quiet",
                )
            ],
        ]

    # Answering.

    def _answer(self, answer: ApprovalAnswer, sentence: str = "") -> None:
        shown = self._shown
        if shown is None or not self._can_answer() or (self._is_question and not sentence):
            return
        below = self._look_below()
        if not (self._is_read or self._is_question or answer is ApprovalAnswer.DENIED):
            what = count_of(below, "line") + (" of the call is" if below == 1 else " of the call are")
            hint = "scroll to its end (end, page down) before you allow it, or enlarge the terminal"
            self.cockpit.notify(f"{what} below: {hint}", severity="warning", markup=False)
            return
        self._answered.add(shown.id)
        self.cockpit.ask_swarm(
            self.cockpit.api.answer(shown.id, answer, sentence=sentence),
            done=lambda _: self.cockpit.approvals.refresh(),
        )
        waiting = self._waiting()
        if waiting:
            self._show(waiting[0])
        else:
            self.close()

    def _can_answer(self) -> bool:
        """Whether a key may answer now. One that comes too early delays the next."""
        if not self.is_listening and self._deaf is not None:
            self._stay_deaf(self._shown)
        return self.is_listening

    def _look_below(self) -> int:
        """Return how many lines of the call are below, and notice when its end is on the screen."""
        if not self.is_listening:
            return 0  # it may not be laid out yet
        below = self._call.lines_below
        self._is_read = self._is_read or not below
        return below

    def _deny(self) -> None:
        if self._can_answer() and not self._is_question:
            sentence = self._sentence
            sentence.value = ""
            sentence.display = True
            sentence.focus()
            self._draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        said = event.value.strip()
        if not self._is_question:
            self._answer(ApprovalAnswer.DENIED, said)
        elif said:
            self._answer(ApprovalAnswer.ONCE, said)

    def _leave_sentence(self) -> bool:
        sentence = self._sentence
        was_open = bool(sentence.display)
        sentence.display = False
        self._call.focus()
        return was_open

    def _leave_open(self) -> None:
        if self._is_question or not self._leave_sentence():
            self.close()
        else:
            self._draw()

    def action_other(self, by: int) -> None:
        """Show another question without an answer to this one."""
        waiting = self._waiting()
        ids = [one.id for one in waiting]
        if self._shown is not None and self._shown.id in ids and len(ids) > 1:
            self._show(waiting[(ids.index(self._shown.id) + by) % len(ids)])


def build_question_lines(approval: ApprovalView, now: int) -> list[list[Piece]]:
    """Return the lines about a question: tool, upstream, waiting time and deadline."""
    upstream, is_question = one_line(approval.upstream), bool(approval_question(approval))
    head: list[Piece] = [(f"{upstream}/" if upstream else "", "quiet"), (one_line(approval.tool), "tool")]
    head += [] if upstream else [("  of Zoea itself", "quiet")]
    left = number_format.span(max(0, (approval.expires_at - now) / number_format.SECOND))
    then = "goes on without an answer" if is_question else "denied automatically"
    return [
        [("The mysis asks", "strong")] if is_question else head,
        [(f"asked {number_format.age(approval.asked_at, now)} ago", ""), (f" · {then} in {left}", "quiet")],
    ]
