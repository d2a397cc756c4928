"""The approval dialog: all open questions, and one in full to answer.

It opens by its key only, and that key answers nothing. It never goes to another question by itself, and never closes by
itself, because the next key would then act on a mysis. A key answers a question after `DEAF_S` in which it was on the
screen and no other answer was tried, so that no key pressed for something else allows a call, and none that repeats. No
key allows a call whose end was not on the screen.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from msgspec.structs import replace
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input

from zoea.files.workbench_tools import TOOLS, WORKBENCH, is_destructive
from zoea.model.enums import ApprovalAnswer
from zoea.model.errors import ZoeaError
from zoea.model.values import ApprovalView, UpstreamView
from zoea.queries.phrases import approval_question, budget_question
from zoea.queries.stored_swarm import read_approval
from zoea.text.call_text import reveal_arguments
from zoea.text.control_characters import one_line
from zoea.text.large_json import indent
from zoea.text.sentences import count_of
from zoea.tui import number_format
from zoea.tui.commands.action import ActionContext, ActionPlace, Handlers
from zoea.tui.commands.actions import of
from zoea.tui.conversation.argument_lines import has_lines, iterate_argument_lines
from zoea.tui.conversation.tool_items import build_hint_pieces
from zoea.tui.dialogs.modal import CockpitDialog
from zoea.tui.dialogs.upstream_forms import ChangedArgumentsDialog
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.text_layout import Piece, fit_text
from zoea.tui.widgets.clickable_text import TextBlock, key_hints
from zoea.tui.widgets.line_list import PickItem, PickList, TextLines
from zoea.tui.widgets.status_bars import FooterKey, KeyFooter

DEAF_S = 0.7
"""Seconds; more than the 0.66 after which the slowest usual keyboards begin to repeat a key that is held."""
_IN_WORDS = "Your answer; enter sends it, esc leaves the question open"
_WHY_NOT = "Reason for the model; may stay empty"


_WORDS = {
    ApprovalAnswer.ONCE: "allowed once",
    ApprovalAnswer.SESSION: "allowed until stopped",
    ApprovalAnswer.TEMPLATE: "allowed for template",
    ApprovalAnswer.DENIED: "denied",
}
_WITH_NEXT = "That is all so far, with the next request and its longest answer."
_GONE = "no longer asks"
_SENT = "being answered"
_MYSIS, _TOOL, _RISK = 16, 30, 13
"""Column widths of the list; with the age they fill a box of 80 columns."""
_SHORT, _ALL_KEYS_FROM = {"approval.session": "until stopped", "approval.template": "template"}, 72
"""Titles behind `allow once` below so many columns, where not all have room else."""


class _WaitingList(PickList, inherit_bindings=False):
    """The list of what waits. All its keys are those of the dialog."""


class ApprovalDialog(CockpitDialog[None]):
    """Shows all open questions, the oldest first, and what became of them.

    Args:
        first: Show the question of this mysis first, by id.
    """

    PLACE = ActionPlace.APPROVAL
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,down,j", "other(1)", "next question", show=False),
        Binding("left,up,k", "other(-1)", "question before", show=False),
        Binding("pagedown", "scroll_call('leaf', 1)", show=False),
        Binding("pageup", "scroll_call('leaf', -1)", show=False),
        Binding("end", "scroll_call('edge', 1)", show=False),
        Binding("home", "scroll_call('edge', 0)", show=False),
    ]

    def __init__(self, first: int = 0) -> None:
        super().__init__()
        self._first = first
        self._shown: ApprovalView | None = None
        self._rows: dict[int, ApprovalView] = {}
        self._ends: dict[int, str] = {}
        """What became of questions that were listed, by id."""
        self._marked: set[int] = set()
        self._read: set[int] = set()
        """Calls of which the end was on the screen for `DEAF_S`: no key allows others."""
        self._moving: Timer | None = None
        """Runs while the end of the call may not have been seen for `DEAF_S`, because the view has just moved."""
        self._risks: dict[tuple[str, str], tuple[Piece, ...]] | None = None
        """None until they are read."""
        self._shows_json = False
        self._deaf: Timer | None = None
        self._list = _WaitingList(id="waiting")
        self._who = TextBlock(id="who")
        self._call = TextLines(id="call")
        self._sentence = Input(id="sentence", placeholder=_WHY_NOT)
        self._keys = KeyFooter(id="answers")
        self.is_listening = False
        """False until a question was shown for `DEAF_S` without a key: no key answers before."""

    def bind_actions(self) -> Handlers:
        return {
            "approval.once": lambda: self._answer(ApprovalAnswer.ONCE),
            "approval.session": lambda: self._answer(ApprovalAnswer.SESSION),
            "approval.template": lambda: self._answer(ApprovalAnswer.TEMPLATE),
            "approval.deny": self._deny,
            "approval.mark": self._mark,
            "approval.change": self._change,
            "approval.diff": self._toggle_json,
            "approval.next": lambda: self.action_other(1),
            "approval.later": self._leave_open,
        }

    def action_context(self) -> ActionContext:
        return replace(super().action_context(), question=self._shown)

    def content(self) -> Iterable[Widget]:
        return self._list, self._who, self._call, self._sentence, self._keys

    def on_mount(self) -> None:
        self._sentence.display = False
        self._call.focus()
        self.watch(self._call, "scroll_y", self._await_end, init=False)
        self.cockpit.approvals.refresh()
        self._take_rows()
        waiting = self._waiting()
        first = next((one for one in waiting if one.mysis_id == self._first), waiting[0] if waiting else None)
        self._show(first)
        self.cockpit.ask_swarm(self.cockpit.api.upstreams(), done=self._take_upstreams)

    def _take_upstreams(self, upstreams: Iterable[UpstreamView]) -> None:
        """Keep how risky each tool is, as its upstream says."""
        tools = ((upstream.name, tool) for upstream in upstreams for tool in upstream.tools)
        self._risks = {(name, tool.name): tuple(build_hint_pieces(tool)) for name, tool in tools}
        self._draw()

    def _waiting(self) -> list[ApprovalView]:
        return [one for one in self._rows.values() if one.id not in self._ends]

    # News.

    def _take_rows(self) -> None:
        """List new questions, and note which are no longer open."""
        is_open = {one.id: one for one in self.cockpit.approvals.open}
        self._rows |= {number: one for number, one in is_open.items() if number not in self._rows}
        self._ends |= {number: _GONE for number in self._rows if number not in is_open and number not in self._ends}
        self._marked.difference_update(self._ends)
        self._list.display = len(self._rows) > 1

    def approvals_changed(self) -> None:
        """List what came and went; the shown question stays."""
        self._take_rows()
        waiting = self._waiting()
        if self._shown is None and waiting:
            self._show(waiting[0])
        else:
            self._draw()

    @property
    def _is_question(self) -> bool:
        """Whether the mysis asks for words, instead of permission for a tool."""
        return self._shown is not None and bool(approval_question(self._shown))

    @property
    def _has_lines(self) -> bool:
        """Whether the arguments are shown as lines of text, instead of JSON."""
        return self._shown is not None and not self._is_question and has_lines(self._shown.arguments)

    @property
    def is_read(self) -> bool:
        """Whether the end of the shown call has been on the screen for `DEAF_S`."""
        return self._shown is None or self._shown.id in self._read

    @property
    def _has_ended(self) -> bool:
        return self._shown is not None and self._shown.id in self._ends

    def _show(self, approval: ApprovalView | None) -> None:
        self._shown = approval
        self._leave_sentence()
        self.is_listening = self._shows_json = False
        if self._moving is not None:
            self._moving.stop()
            self._moving = None
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
        self._put_call()
        self._sentence.display = bool(asked) and approval is not None and approval.id not in self._ends
        self._sentence.value = ""
        self._sentence.placeholder = _IN_WORDS if asked else _WHY_NOT
        self._draw()
        self.call_after_refresh(self._stay_deaf, approval)  # the time counts from when it is seen

    def _put_call(self) -> None:
        """Show the question, or the call exactly as it is sent."""
        if (shown := self._shown) is None:
            self._call.put("")
        elif asked := approval_question(shown):
            self._call.put(asked)
        elif asked := budget_question(shown):
            self._call.put(f"{asked}\n{_WITH_NEXT}")
        elif self._has_lines and not self._shows_json:
            self._call.put(list(iterate_argument_lines(shown.arguments)))
        else:
            self._call.put(reveal_arguments(indent(shown.arguments)))

    def _toggle_json(self) -> None:
        if self._has_lines:
            self._shows_json = not self._shows_json
            self._put_call()
            self._draw()

    def on_pick_list_moved(self, event: PickList.Moved) -> None:
        event.stop()
        if event.id and (self._shown is None or int(event.id) != self._shown.id):
            self._show(self._rows[int(event.id)])

    def action_scroll_call(self, how: str, by: int) -> None:
        (self._call.action_leaf if how == "leaf" else self._call.action_edge)(by)

    def _stay_deaf(self, approval: ApprovalView | None) -> None:
        """Restart the time in which no key answers this question."""
        if self._shown is approval:
            if self._deaf is not None:
                self._deaf.stop()
            self._deaf = self.set_timer(DEAF_S, self._listen)

    async def _read_whole(self, cut: ApprovalView) -> None:
        """Show an approval that the list has cut, as it is stored."""
        whole = await self.read(read_approval, cut.id)
        # A call that was answered is no longer listed soon.
        if whole is not None and self._shown is cut:
            self._rows[cut.id] = whole
            self._show(whole)

    def say(self, error: ZoeaError) -> None:
        self._call.put(error.text)

    def _listen(self) -> None:
        if not self._call.is_laid_out:
            self._stay_deaf(self._shown)
            return
        self.is_listening = True
        if self._sentence.display:
            self._sentence.focus()
        self._notice_end()

    def on_resize(self) -> None:
        self._await_end()

    def _await_end(self) -> None:
        """Notice the end of the call once it has been on the screen for `DEAF_S`."""
        if not self.is_listening:
            if self._deaf is not None:
                self._stay_deaf(self._shown)
            return
        if self._moving is not None:
            self._moving.stop()
        self._moving = self.set_timer(DEAF_S, self._notice_end)

    def _notice_end(self) -> None:
        self._moving = None
        if self._shown is not None and not self._call.lines_below:
            self._read.add(self._shown.id)
        self._draw()

    def tick(self) -> None:
        self._draw()

    def redraw_bars(self) -> None:
        self._draw()

    def _draw(self) -> None:
        if not self.is_mounted:
            return
        closes = f"{self.cockpit.key('approval.later')} closes"
        if self._shown is None:
            self._who.put([[("Nothing waits for your answer", "strong")]])
            self._keys.put([(f" {closes}", "quiet")])
            return
        shown, now, end = self._shown, self.cockpit.now(), self._ends.get(self._shown.id, "")
        with self.prevent(PickList.Moved):
            self._list.put([self._row(one, now) for one in self._rows.values()], on=str(shown.id))
        box, place = self.box, list(self._rows).index(shown.id) + 1
        box.border_title = Content(f"{self.cockpit.glyphs['asking']} {one_line(shown.mysis)} asks")
        hints = [("approval.mark", "mark")] if len(self._waiting()) > 1 and not (end or self._is_question) else []
        hints += [("approval.change", "edit")] * (shown.kind == "tool" and not (end or self._is_question))
        hints += [("approval.diff", "as text" if self._shows_json else "as JSON")] * self._has_lines
        hints += [("approval.later", "later" if self._waiting() else "close")]
        about = [[(end, "strong")]] if end else [*self._hold_lines(shown), *self._scope_lines(shown)]
        if self._marked:
            others = "" if shown.id in self._marked else ", not this one"
            about.insert(0, [(f"the keys answer {count_of(len(self._marked), 'marked call')}{others}", "asking")])
        lines = build_question_lines(shown, now)
        risk, role = self._risk_of(shown)
        is_listed = len(self._rows) > 1 and self.size.width >= _ALL_KEYS_FROM  # a narrow list has no room for it
        if risk and not is_listed and not self._is_question:
            lines[0] = [*lines[0], (f"  {risk}", role)]
        self._who.put([*(lines[:1] if end else lines), *about])
        answers = self._keys
        if end and not self._marked:
            others = "up and down go to another question" if self._waiting() else f"nothing else waits: {closes}"
            answers.put([(f" {others}", "quiet")])
        elif not self.is_listening:
            answers.put([(" read it first: the keys answer in a moment", "quiet")])
        elif self._sentence.display:
            enter, escape = ("answer", "later") if self._is_question else ("deny", "back")
            words = (("enter", enter), ("escape", escape))
            answers.show(FooterKey(((key, f"app.press({key!r})"),), word) for key, word in words)
        else:
            context = self.action_context()
            actions = of(ActionPlace.APPROVAL)
            possible = [one for one in actions if one.id == "approval.next" or not one.why_not(context)]
            if self.size.width < _ALL_KEYS_FROM:
                possible = [replace(one, title=_SHORT.get(one.id, one.title)) for one in possible]
            answers.describe(possible, context, self.cockpit.keys, kept=("approval.once", "approval.deny"))
        named = [f"{self.cockpit.key(action)} {words}" for action, words in hints]
        # What the line of keys names already is not named again in the frame.
        later = key_hints(" · ".join(each for each in named if f" {each} " not in answers.text))
        below = self._look_below()
        more = f"{count_of(below, 'line')} below · " if below else ""
        count = Content(f"{more}{place} of {len(self._rows)}")
        is_plain = self._sentence.display or not later.plain
        box.border_subtitle = count if is_plain else Content.assemble(later, " · ", count)

    def _risk_of(self, approval: ApprovalView) -> Piece:
        if approval_question(approval):
            return ("question", "asking")
        if not approval.upstream:
            return ("", "")
        if risks := (self._risks or {}).get((approval.upstream, approval.tool)):
            return risks[0]
        if approval.upstream == WORKBENCH and approval.tool in TOOLS and is_destructive(approval.tool):
            return ("destructive", "errored")  # Zoea's own upstream is listed only after its first call
        words = "reading risk" if self._risks is None else "risk unknown"  # no word reads as harmless
        return (words, "quiet")

    def _row(self, approval: ApprovalView, now: int) -> PickItem:
        upstream = f"{one_line(approval.upstream)}/" if approval.upstream else ""
        end = self._ends.get(approval.id, "")
        has_room = self.size.width >= _ALL_KEYS_FROM and not end
        risk, role = self._risk_of(approval) if has_room else ("", "")
        return PickItem(
            (
                (f"{'*' if approval.id in self._marked else ' '} ", "asking"),
                (fit_text(one_line(approval.mysis), _MYSIS), "quiet" if end else ""),
                ("  ", ""),
                (fit_text(f"{upstream}{one_line(approval.tool)}", _TOOL), "quiet" if end else "tool"),
                ("  ", ""),
                (fit_text(risk, _RISK), role),
            ),
            id=str(approval.id),
            right=((end or f"{number_format.age(approval.asked_at, now)} ago", "quiet"),),
        )

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
        if self._is_question or self._sentence.display:  # these keys are letters now
            return []
        until, template = self.cockpit.key("approval.session"), self.cockpit.key("approval.template")
        if shown.kind == "budget":
            once = self.cockpit.key("approval.once")
            return [
                [(f"{once} lets this turn exceed the limit to its end, {until} this mysis until it stops", "quiet")]
            ]
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

    def _mark(self) -> None:
        """Mark the shown call, or no longer. Only calls of one tool are answered together."""
        shown = self._shown
        if shown is None or self._is_question or shown.id in self._ends or not self._can_answer():
            return
        tools = {(one.kind, one.upstream, one.tool) for one in self._waiting() if one.id in self._marked}
        if shown.id in self._marked:
            self._marked.discard(shown.id)
        elif tools - {(shown.kind, shown.upstream, shown.tool)}:
            self._warn("Only calls of the same tool are answered together: unmark the others first")
        elif self._is_read_to_its_end():
            self._marked.add(shown.id)
        self._draw()

    def _change(self) -> None:
        """Let the person change the arguments of the shown call, and allow it with them."""
        shown = self._shown
        if shown is None or self._has_ended or not self._can_answer() or not self._is_read_to_its_end():
            return

        def changed(is_allowed: bool | None) -> None:
            if is_allowed:
                self._ends[shown.id] = "allowed, changed"
                self._marked.discard(shown.id)
                self.approvals_changed()
                self.cockpit.approvals.refresh()

        self.cockpit.push_screen(ChangedArgumentsDialog(shown), changed)

    def _answer(self, answer: ApprovalAnswer, sentence: str = "") -> None:
        shown = self._shown
        if shown is None or not self._can_answer() or (self._is_question and not sentence):
            return
        chosen = [one for one in self._waiting() if one.id in (self._marked or {shown.id})]
        is_lasting = answer in (ApprovalAnswer.SESSION, ApprovalAnswer.TEMPLATE)
        if not chosen:
            return
        if is_lasting and (reasons := [one.why_once for one in chosen if one.why_once]):
            self._warn(reasons[0])
            return
        if not (self._marked or self._is_question or answer is ApprovalAnswer.DENIED or self._is_read_to_its_end()):
            return
        self._ends |= dict.fromkeys((one.id for one in chosen), _SENT)
        self.cockpit.start_work(partial(self._send, chosen, answer, sentence))
        self._marked.clear()
        self._leave_sentence()
        self._draw()

    async def _send(self, chosen: list[ApprovalView], answer: ApprovalAnswer, sentence: str) -> None:
        """Answer the chosen calls. Where the swarm refuses an answer, its call is listed again."""
        cockpit, refusals = self.cockpit, list[ZoeaError]()
        for one in chosen:
            try:
                await cockpit.api.answer(one.id, answer, sentence=sentence)
            except ZoeaError as error:
                del self._ends[one.id]
                refusals.append(error)
            else:
                self._ends[one.id] = "answered" if approval_question(one) else _WORDS[answer]
        if self.is_attached:
            self.approvals_changed()
        cockpit.approvals.refresh()
        if len(refusals) > 1:
            what = f"{len(refusals)} of {len(chosen)} calls were not answered: {refusals[0].what}"
            refusals[0] = ZoeaError(what, hint=refusals[0].hint)
        if refusals:
            cockpit.show_error(refusals[0])

    def _is_read_to_its_end(self) -> bool:
        """Return whether the end of the shown call was on the screen for a while. Warn where it was not."""
        below = self._look_below()
        if self.is_read:
            return True
        if not below:
            self._warn("The end of the call came on the screen just now: read it, then press the key again")
            return False
        what = count_of(below, "line") + (" of the call is" if below == 1 else " of the call are")
        self._warn(f"{what} below: scroll to its end (end, page down) before you allow it, or enlarge the terminal")
        return False

    def _warn(self, text: str) -> None:
        self.cockpit.notify(text, severity="warning", markup=False)

    def _can_answer(self) -> bool:
        """Whether a key may answer now. One that comes too early delays the next."""
        if not self.is_listening and self._deaf is not None:
            self._stay_deaf(self._shown)
        return self.is_listening

    def _look_below(self) -> int:
        """Return how many lines of the call are below. 0 while it may not be laid out yet."""
        return self._call.lines_below if self.is_listening else 0

    def _deny(self) -> None:
        if self._can_answer() and not self._is_question and (self._marked or not self._has_ended):
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
        (self._list if len(self._rows) > 1 else self._call).focus()
        return was_open

    def _leave_open(self) -> None:
        if self._is_question or not self._leave_sentence():
            self.close()
        else:
            self._draw()

    def action_other(self, by: int) -> None:
        """Show another question without an answer to this one."""
        ids = [number for number in self._rows if number not in self._ends or self._rows[number] is self._shown]
        if self._shown is not None and len(ids) > 1 and not (self._sentence.display and self._sentence.value):
            self._show(self._rows[ids[(ids.index(self._shown.id) + by) % len(ids)]])


def build_question_lines(approval: ApprovalView, now: int) -> list[list[Piece]]:
    """Return the lines about a question: tool, upstream, waiting time and deadline."""
    upstream, is_question = one_line(approval.upstream), bool(approval_question(approval))
    head: list[Piece] = [(f"{upstream}/" if upstream else "", "quiet"), (one_line(approval.tool), "tool")]
    head += [] if upstream or approval.kind == "budget" else [("  of Zoea itself", "quiet")]
    left = number_format.span(max(0, (approval.expires_at - now) / number_format.SECOND))
    then = "goes on without an answer" if is_question else "denied automatically"
    return [
        [("The mysis asks", "strong")] if is_question else head,
        [(f"asked {number_format.age(approval.asked_at, now)} ago", ""), (f" · {then} in {left}", "quiet")],
    ]
