"""Forms that begin with a commit: fork it, ask it, resume its mysis, name it.

Those that send a request say what it costs before they spend.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.timer import Timer
from textual.types import CSSPathType
from textual.widget import Widget
from textual.widgets import Input

from zoea.chain.commit import ContextCommit
from zoea.model.errors import UsageError, ZoeaError
from zoea.model.values import SAME_MYSIS, MysisOverrides, MysisView
from zoea.runtime.first_request_estimate import (
    MOST_FORKS,
    FirstRequestEstimate,
    describe_first_request,
    estimate_from_commit,
)
from zoea.runtime.mysis_options import read_options
from zoea.text.control_characters import one_line, prose_line
from zoea.tui.dialogs.modal import CockpitDialog, form_row
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.state.undo_history import UndoStep
from zoea.tui.text_layout import Piece
from zoea.tui.widgets.clickable_text import TextBlock, key_hints
from zoea.tui.widgets.inline_choice import InlineChoice

WAIT_S = 0.08


class FirstRequestDialog(CockpitDialog[None]):
    """A form with the input `#message`; enter carries it out once its cost is shown.

    Args:
        commit: What the first request begins with.
        short_id: The commit's id, as people write it.
    """

    VERB: ClassVar[str] = ""
    """What enter does."""
    CSS_PATH: ClassVar[CSSPathType | None] = ["modal.tcss", "first_request.tcss"]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "proceed", "proceed", priority=True),
        Binding("escape", "leave", "back"),
        Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
    ]

    def __init__(self, commit: ContextCommit, short_id: str) -> None:
        super().__init__()
        self.commit = commit
        self.short_id = short_id
        self._timer: Timer | None = None
        self._is_proceeding = False
        self._counted: tuple[int, str, MysisOverrides, str] | None = None
        self.plan: FirstRequestEstimate | None = None

    def fields(self) -> Iterable[tuple[str, Widget]]:
        """Return the labels and inputs of the form."""
        raise NotImplementedError

    async def carry_out(self, count: int, message: str) -> None:
        """Do what the form is for, once the cost is shown."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = Content(self.VERB.upper())
            box.border_subtitle = key_hints(f"enter {self.VERB} · tab next field · esc back")
            yield TextBlock(id="from")
            for label, widget in self.fields():
                yield from form_row(label, widget)
            yield TextBlock(id="cost")
            yield TextBlock(id="error")

    def on_mount(self) -> None:
        commit = self.commit
        about: list[Piece] = [(self.short_id, "title"), (f"  {one_line(commit.provenance.principal)}", "")]
        self.query_one("#from", TextBlock).put([about, [(prose_line(commit.note.summary), "quiet")]])
        self.query_one("#message", Input).focus()
        self._count()

    # The cost.

    @property
    def wanted(self) -> tuple[int, str]:
        """The number of first requests and their message. Raises UsageError."""
        return 1, self.query_one("#message", Input).value.strip()

    @property
    def overrides(self) -> MysisOverrides:
        """What each new mysis has instead of what the commit's has."""
        return SAME_MYSIS

    @property
    def thread(self) -> str:
        """The discussion that the message belongs to; empty for none."""
        return ""

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
            self.plan, self._counted = plan, basis
            cost.put([[(describe_first_request(plan, count, plan.price(count)), "strong")]])
            self.query_one("#error", TextBlock).put([])

    # Carrying it out.

    def action_leave(self) -> None:
        self.dismiss()

    def action_proceed(self) -> None:
        if self._is_proceeding:
            return
        try:
            wanted = self.wanted
        except UsageError as error:
            self.say(error)
            return
        if not self.is_counted:
            said = "The cost is being counted: press enter again when it is shown"
            self.query_one("#error", TextBlock).put([[(said, "waiting")]])
            return
        self._is_proceeding = True
        self.cockpit.ask_swarm(self.carry_out(*wanted), done=lambda _: self._close(), refused=self.say)

    def _close(self) -> None:
        if self.is_current:
            self.dismiss()

    def let_undo(self, made: list[MysisView]) -> None:
        """Let the key for undo remove these myses."""
        cockpit = self.cockpit
        taken = tuple((one.id, one.name) for one in made)
        cockpit.undo.add(UndoStep(taken, lambda mysis_id: cockpit.api.delete(f"#{mysis_id}"), "removed"))
        cockpit.redraw_bars()

    def say(self, error: ZoeaError) -> None:
        """Show an error in the form, which keeps its text."""
        self._is_proceeding = False
        if not self.is_attached:
            self.cockpit.show_error(error)
            return
        self.query_one("#error", TextBlock).put_error(error)


class AskDialog(FirstRequestDialog):
    """A question and the thread that it belongs to."""

    VERB: ClassVar[str] = "ask"

    def fields(self) -> Iterable[tuple[str, Widget]]:
        thread = self.commit.provenance.thread_id or ""
        return (
            ("question", Input(id="message", placeholder="answered with what it knew then", compact=True)),
            (
                "thread",
                Input(thread, id="thread", placeholder="empty: a new one; or the name of an earlier one", compact=True),
            ),
        )

    @property
    def thread(self) -> str:
        return self.query_one("#thread", Input).value.strip()

    async def carry_out(self, count: int, message: str) -> None:
        if not message:
            raise UsageError("there is no question", hint="Write what you want to know.")
        asked = await self.cockpit.api.ask(self.commit.id, message, thread=self.thread)
        self.let_undo([asked.mysis])
        said = f"{one_line(asked.mysis.name)} answers in thread {one_line(asked.thread)}. z removes it"
        self.cockpit.notify(said, markup=False)


class ResumeDialog(FirstRequestDialog):
    """The first message of the new session.

    Args:
        commit: The newest one of the mysis.
        ref: The mysis, or the branch of a deleted one.
    """

    VERB: ClassVar[str] = "resume"

    def __init__(self, commit: ContextCommit, short_id: str, ref: str) -> None:
        super().__init__(commit, short_id)
        self._ref = ref

    def fields(self) -> Iterable[tuple[str, Widget]]:
        return (("first message", Input(id="message", placeholder="empty: it waits for one", compact=True)),)

    async def carry_out(self, count: int, message: str) -> None:
        api = self.cockpit.api
        made = await api.resume(self._ref)
        if message:
            await api.send(f"#{made.id}", message)
        said = f"{one_line(made.name)} goes on from {self.short_id} with its whole conversation"
        self.cockpit.notify(said, markup=False)


class ForkDialog(FirstRequestDialog):
    """How many, their first message and template."""

    VERB: ClassVar[str] = "fork"

    def fields(self) -> Iterable[tuple[str, Widget]]:
        return (
            ("how many", Input("1", id="count", compact=True, max_length=2)),
            ("first message", Input(id="message", placeholder="empty: they wait for one", compact=True)),
            ("template", InlineChoice([("", "the commit's own")], id="template")),
        )

    def on_mount(self) -> None:
        super().on_mount()
        self.run_worker(DeferredWork(self._read_templates), exit_on_error=False)

    async def _read_templates(self) -> None:
        cockpit = self.cockpit
        opened = cockpit.opened
        if opened is None:
            return
        try:
            found = await asyncio.to_thread(read_options, opened.places, opened.database, cockpit.now())
        except ZoeaError as error:
            self.say(error)
            return
        if self.is_attached:
            named = [(one.name, f"{one.name}  {one.title}") for one in found.templates]
            self.query_one("#template", InlineChoice).offer([("", "the commit's own"), *named])

    @property
    def wanted(self) -> tuple[int, str]:
        written = self.query_one("#count", Input).value.strip()
        if not written.isdecimal() or not 1 <= int(written) <= MOST_FORKS:
            raise UsageError(f"{written!r} is no number of forks", hint=f"Give 1 to {MOST_FORKS}.")
        return int(written), super().wanted[1]

    @property
    def overrides(self) -> MysisOverrides:
        return MysisOverrides(template=self.query_one("#template", InlineChoice).value)

    async def carry_out(self, count: int, message: str) -> None:
        cockpit, made, template = self.cockpit, list[MysisView](), self.overrides.template
        try:
            for _ in range(count):
                one = await cockpit.api.create("", template=template, context=self.commit.id)
                made.append(one)
                if message:
                    await cockpit.api.send(f"#{one.id}", message)
        finally:
            # Those made before one was refused stay, and can be removed.
            self.let_undo(made)
            if made:
                names = ", ".join(one_line(one.name) for one in made)
                words = "it" if len(made) == 1 else "them"
                cockpit.notify(f"{names}: made from {self.short_id}. z removes {words}", markup=False)


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
