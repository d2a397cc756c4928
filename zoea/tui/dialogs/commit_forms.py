"""Forms that fork, ask, resume and name commits, and that commit files.

Those that send a request say what it costs before they spend.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input

from zoea.chain.commit import ContextCommit
from zoea.model.errors import UsageError, ZoeaError
from zoea.model.values import SAME_MYSIS, MysisOverrides, MysisView
from zoea.queries.commit_details import read_details
from zoea.queries.stored_swarm import read_newest_answer
from zoea.runtime.first_request_estimate import (
    MOST_FORKS,
    FirstRequestEstimate,
    describe_first_request,
    estimate_from_commit,
)
from zoea.runtime.mysis_options import MysisOptions, read_options
from zoea.text.control_characters import one_line, prose_line
from zoea.text.task_parts import TaskParts
from zoea.tui.commands import swarm_commands
from zoea.tui.dialogs.modal import CockpitDialog, FormDialog
from zoea.tui.screens.focus import FocusScreen
from zoea.tui.state.deferred_work import DeferredWork, reread
from zoea.tui.state.drafts import message_key
from zoea.tui.text_layout import strip_emphasis
from zoea.tui.widgets.clickable_text import TextBlock
from zoea.tui.widgets.inline_choice import InlineChoice
from zoea.tui.widgets.line_list import TextLines

WAIT_S = 0.08


class CommitForm(FormDialog[None]):
    """A form that begins with a commit, which it describes.

    Args:
        commit: The commit.
        short_id: The commit's id, as people write it.
    """

    def __init__(self, commit: ContextCommit, short_id: str) -> None:
        super().__init__()
        self.commit = commit
        self.short_id = short_id

    def describe(self) -> TextBlock:
        """Return the lines about the commit."""
        block = TextBlock(id="from")
        principal = f"  {one_line(self.commit.provenance.principal)}"
        block.put(
            [
                [(self.short_id, "title"), (principal, "")],
                [(strip_emphasis(prose_line(self.commit.note.summary)), "quiet")],
            ]
        )
        return block


class FirstRequestDialog(CommitForm):
    """A form with the input `#message`; enter carries it out once its cost is shown."""

    FIRST = "#message"

    def __init__(self, commit: ContextCommit, short_id: str) -> None:
        super().__init__(commit, short_id)
        self._timer: Timer | None = None
        self._counted: tuple[int, str, MysisOverrides, str] | None = None
        self._was_early = False
        self.plan: FirstRequestEstimate | None = None

    def inputs(self) -> Iterable[tuple[str, Widget]]:
        """Return the labels and inputs of the form."""
        raise NotImplementedError

    async def begin(self, count: int, message: str) -> None:
        """Do what the form is for, once the cost is shown."""
        raise NotImplementedError

    def fields(self) -> Iterable[tuple[str, Widget] | Widget]:
        return (self.describe(), *self.inputs(), TextBlock(id="cost"))

    async def fill(self) -> None:
        self._count()

    # The cost.

    @property
    def wanted(self) -> tuple[int, str]:
        """The number of first requests and their message. Raises UsageError."""
        return 1, self.typed("message")

    @property
    def overrides(self) -> MysisOverrides:
        """What each new mysis has instead of what the commit's has."""
        return SAME_MYSIS

    @property
    def thread(self) -> str:
        """The discussion that the message belongs to; empty for none."""
        return ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What one might not expect of the choices."""
        return ()

    @property
    def _basis(self) -> tuple[int, str, MysisOverrides, str]:
        """All that the cost depends on. Raises UsageError."""
        return (*self.wanted, self.overrides, self.thread)

    @property
    def is_counted(self) -> bool:
        """Whether the shown cost belongs to the present text and choices."""
        try:
            return self.plan is not None and self._counted == self._basis
        except UsageError:
            return False

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._count_soon()

    def on_inline_choice_changed(self, event: InlineChoice.Changed) -> None:
        event.stop()
        self._count_soon()

    def _count_soon(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(WAIT_S, self._count)

    def _count(self) -> None:
        self.run_worker(DeferredWork(self._count_cost), group="cost", exclusive=True, exit_on_error=False)

    async def _count_cost(self) -> None:
        opened = self.cockpit.opened
        if opened is None:
            return
        cost = self.query_one("#cost", TextBlock)
        try:
            basis = count, message, overrides, thread = self._basis
            places, seq = self.cockpit.places, self.commit.seq
            plan = await asyncio.to_thread(
                estimate_from_commit, places, opened.database, seq, message, overrides, thread=thread
            )
        except ZoeaError as error:
            self.plan, self._counted = None, None
            cost.put([])
            self.say(error)
            return
        if self.is_attached:
            if basis != self._counted:  # counted once more for the same, it leaves what was refused since
                again = [[("The cost is shown now: press enter again", "waiting")]] if self._was_early else []
                self.query_one("#error", TextBlock).put(again)
            self._was_early = False
            self.plan, self._counted = plan, basis
            said = describe_first_request(plan, count, plan.price(count))
            cost.put([[(said, "strong")], *([(one_line(text), "asking")] for text in self.warnings)])

    # Carrying it out.

    async def carry_out(self) -> None:
        wanted = self.wanted
        if self.is_counted:
            await self.begin(*wanted)
            self.close()
        else:
            self._was_early = True
            text = "The cost is being counted: press enter again when it is shown"
            self.query_one("#error", TextBlock).put([[(text, "waiting")]])


class AskDialog(FirstRequestDialog):
    """A question and the thread that it belongs to."""

    VERB = "ask"

    def inputs(self) -> Iterable[tuple[str, Widget]]:
        thread, hint = self.commit.provenance.thread_id or "", "empty: new; an old name continues it"
        return (
            ("question", Input(id="message", placeholder="answered with what it knew then", compact=True)),
            ("thread", Input(thread, id="thread", placeholder=hint, compact=True)),
        )

    @property
    def thread(self) -> str:
        return self.typed("thread")

    async def begin(self, count: int, message: str) -> None:
        if not message:
            raise UsageError("there is no question", hint="Write what you want to know.")
        asked = await self.cockpit.api.ask(self.commit.id, message, thread=self.thread)
        swarm_commands.let_remove(self.cockpit, [asked.mysis])
        said = f"{one_line(asked.mysis.name)} answers in thread {one_line(asked.thread)}; z removes it"
        self.cockpit.notify(said, markup=False)
        if self.is_active:
            answer = AnswerDialog(asked.mysis.id, f"{self.short_id} {one_line(asked.mysis.name)}", message)
            self.cockpit.call_later(self.cockpit.push_screen, answer)


class AnswerDialog(CockpitDialog[None]):
    """The answer to a question, over the screen that it was asked on.

    Args:
        mysis_id: The mysis that answers.
        whose: The commit and the name of the mysis.
    """

    KEYS = "enter its conversation · esc back"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", "its conversation", priority=True)]

    def __init__(self, mysis_id: int, whose: str, question: str) -> None:
        super().__init__()
        self._mysis_id = mysis_id
        self._whose = whose
        self._question = question
        self._is_answered = False

    @property
    def heading(self) -> str:
        return f"ANSWER OF {self._whose}"

    def content(self) -> Iterable[Widget]:
        return TextBlock(id="question"), TextLines(id="answer", by_words=True)

    def on_mount(self) -> None:
        self.query_one("#question", TextBlock).put([[(prose_line(self._question), "commander")]])
        answer = self.query_one("#answer", TextLines)
        answer.put([[("It is answering…", "waiting")]])
        answer.focus()
        self._show()

    def feed_changed(self, ids: frozenset[int]) -> None:
        super().feed_changed(ids)
        if self._mysis_id in ids and not self._is_answered and self.is_mounted:
            self._show()

    def tick(self) -> None:
        if not self._is_answered:
            self._show()

    @reread
    async def _show(self) -> None:
        view = self.cockpit.feed.myses.get(self._mysis_id)
        if view is None or view.in_turn or (found := await self.read(read_newest_answer, self._mysis_id)) is None:
            return
        if found.outcome and not self._is_answered:
            self._is_answered = True
            failed = [[(found.failure or f"it ended without an answer: {found.outcome}", "errored")]]
            self.query_one("#answer", TextLines).put(found.text or failed)

    def action_open(self) -> None:
        self.dismiss()
        self.cockpit.call_later(self.cockpit.push_screen, FocusScreen(self._mysis_id))


class ResumeDialog(FirstRequestDialog):
    """The first message of the new session.

    Args:
        commit: The newest one of the mysis.
        ref: The mysis, or the branch of a deleted one.
    """

    VERB = "resume"

    def __init__(self, commit: ContextCommit, short_id: str, ref: str) -> None:
        super().__init__(commit, short_id)
        self._ref = ref

    def inputs(self) -> Iterable[tuple[str, Widget]]:
        return (("first message", Input(id="message", placeholder="empty: it waits for one", compact=True)),)

    async def begin(self, count: int, message: str) -> None:
        api = self.cockpit.api
        made = await api.resume(self._ref)
        if message:
            await api.send(f"#{made.id}", message)
        said = f"{one_line(made.name)} goes on from {self.short_id} with its whole conversation"
        self.cockpit.notify(said, markup=False)


class ForkDialog(FirstRequestDialog):
    """How many, their first message and template. `xN` at the end of the message makes N forks."""

    VERB = "fork"

    def inputs(self) -> Iterable[tuple[str, Widget]]:
        return (
            ("first message", Input(id="message", placeholder="empty: they wait; x3 makes three", compact=True)),
            ("how many", Input("1", id="count", compact=True, max_length=2)),
            ("template", InlineChoice([("", "the commit's own")], id="template")),
        )

    _options: MysisOptions | None = None
    _own_template = ""
    _identity = ""
    _own_count = ""
    """The number that was typed before the message ended with one."""

    def on_mount(self) -> None:
        self._identity = secrets.token_hex(8)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show the number that the message ends with as how many."""
        field, count = self.query_one("#count", Input), TaskParts.read(self.typed("message")).count
        if event.input.id == "message" and (count > 1 or field.disabled):
            self._own_count = self._own_count if field.disabled else field.value
            field.value, field.disabled = str(count) if count > 1 else self._own_count, count > 1

    @property
    def warnings(self) -> tuple[str, ...]:
        found, chosen = self._options, self.overrides.template
        return found.warn_of(chosen, self._own_template) if found is not None and chosen else ()

    async def fill(self) -> None:
        await super().fill()
        places, now = self.cockpit.places, self.cockpit.now()
        if (details := await self.read(read_details, self.commit.seq)) is not None:
            self._own_template = details.template.partition("@")[0]  # without its hash
        if (options := await self.read(lambda database: read_options(places, database, now))) is not None:
            self._options = options
            named = [(one.name, f"{one.name}  {one.title}") for one in options.templates]
            self.query_one("#template", InlineChoice).offer([("", "the commit's own"), *named])

    @property
    def wanted(self) -> tuple[int, str]:
        task = TaskParts.read(self.typed("message"))
        written = str(task.count) if task.count > 1 else self.typed("count")
        if not written.isdecimal() or not 1 <= int(written) <= MOST_FORKS:
            raise UsageError(f"how many: {written!r} is no number of forks", hint=f"Give 1 to {MOST_FORKS}.")
        return int(written), task.text

    @property
    def overrides(self) -> MysisOverrides:
        return MysisOverrides(template=self.query_one("#template", InlineChoice).value)

    async def begin(self, count: int, message: str) -> None:
        cockpit, made, template = self.cockpit, list[MysisView](), self.overrides.template
        task = TaskParts.read(self.typed("message"))
        try:
            for number, text in enumerate(task.tasks if task.is_divided else (message,) * count):
                # A try that got no answer may have made it: the next one gets the same.
                key = message_key(self._identity, str(number), text, template)
                one = await cockpit.api.create("", template=template, commit=self.commit.id, idempotency_key=key)
                made.append(one)
                if text:
                    await cockpit.api.send(f"#{one.id}", text, idempotency_key=key)
        finally:
            # Those made before one was refused stay, and can be removed.
            swarm_commands.let_remove(cockpit, made)
            if made:
                names = ", ".join(one_line(one.name) for one in made)
                words = "it" if len(made) == 1 else "them"
                cockpit.notify(f"{names}: made from {self.short_id}. z removes {words}", markup=False)


class CommitNameDialog(CommitForm):
    """A name, which becomes the ref `tag/NAME`."""

    TITLE = "NAME"
    VERB = "name it"
    HINTS = ""

    def fields(self) -> Iterable[tuple[str, Widget] | Widget]:
        return self.describe(), ("name", Input(id="name", placeholder="before-the-storm", compact=True))

    async def carry_out(self) -> None:
        name = self.typed("name")
        if not name:
            raise UsageError("there is no name", hint="Write one, such as before-the-storm.")
        ref = await self.cockpit.api.name_commit(name, self.commit.id)
        self.cockpit.notify(f"{one_line(ref)} names {self.short_id}", markup=False)
        self.cockpit.feed_changed(frozenset())
        self.close()


class WorktreeCommitDialog(FormDialog[str]):
    """Asks for the message of a commit of what a mysis changed in its worktree. Returns it."""

    TITLE = "COMMIT THE CHANGES OF THE WORKTREE"
    VERB = "commit"
    FIRST = "#message"

    def fields(self) -> Iterable[tuple[str, Widget] | Widget]:
        return [("message", Input(id="message", compact=True))]

    async def carry_out(self) -> None:
        if not (message := self.typed("message")):
            raise UsageError("A commit needs a message", hint="Say what was changed.")
        self.close(message)
