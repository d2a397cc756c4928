"""The form that makes myses from a commit; it says what their first requests cost before it spends."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.timer import Timer
from textual.types import CSSPathType
from textual.widgets import Input

from zoea.chain.commit import ContextCommit
from zoea.model.errors import UsageError, ZoeaError
from zoea.model.values import MysisView
from zoea.runtime.first_request import MOST_FORKS, FirstRequest, describe_first_request, estimate_from_commit
from zoea.runtime.mysis_options import read_options
from zoea.text.control_characters import one_line
from zoea.tui.dialogs.modal import CockpitDialog, form_row
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.state.undo_history import UndoStep
from zoea.tui.text_layout import Piece
from zoea.tui.widgets.clickable_text import TextBlock, key_hints
from zoea.tui.widgets.inline_choice import InlineChoice

WAIT_S = 0.08


class ForkDialog(CockpitDialog[None]):
    """How many, their first message and template; enter makes them once the cost is shown.

    Args:
        commit: What they will know.
        short_id: The commit's id, as people write it.
    """

    CSS_PATH: ClassVar[CSSPathType | None] = ["modal.tcss", "fork.tcss"]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "fork", "fork", priority=True),
        Binding("escape", "leave", "back"),
        Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
    ]

    def __init__(self, commit: ContextCommit, short_id: str) -> None:
        super().__init__()
        self._commit = commit
        self._short_id = short_id
        self._timer: Timer | None = None
        self._is_making = False
        self._counted: tuple[int, str] | None = None
        self.plan: FirstRequest | None = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = "FORK"
            box.border_subtitle = key_hints("enter fork · tab next field · esc back")
            yield TextBlock(id="from")
            yield from form_row("how many", Input("1", id="count", compact=True, max_length=2))
            yield from form_row(
                "first message", Input(id="message", placeholder="empty: they wait for one", compact=True)
            )
            yield from form_row("template", InlineChoice([("", "the commit's own")], id="template"))
            yield TextBlock(id="cost")
            yield TextBlock(id="error")

    def on_mount(self) -> None:
        said = one_line(self._commit.note.summary)
        about: list[list[Piece]] = [
            [(self._short_id, "title"), (f"  {one_line(self._commit.provenance.principal)}", "")]
        ]
        self.query_one("#from", TextBlock).put([*about, [(said, "quiet")]])
        self.query_one("#message", Input).focus()
        self.cockpit.run_worker(DeferredWork(self._read_templates), exit_on_error=False)
        self._count()

    async def _read_templates(self) -> None:
        cockpit = self.cockpit
        opened = cockpit.opened
        if opened is None:
            return
        try:
            found = await asyncio.to_thread(read_options, opened.places, opened.database, cockpit.now())
        except ZoeaError as error:
            self._say(error)
            return
        if self.is_attached:
            named = [(one.name, f"{one.name}  {one.title}") for one in found.templates]
            self.query_one("#template", InlineChoice).offer([("", "the commit's own"), *named])

    # The cost.

    @property
    def is_counted(self) -> bool:
        """Whether the shown cost is that of what is written."""
        try:
            return self.plan is not None and self._counted == self._wanted
        except UsageError:
            return False

    @property
    def _wanted(self) -> tuple[int, str]:
        """The number of forks and their message. Raises UsageError."""
        written = self.query_one("#count", Input).value.strip()
        if not written.isdecimal() or not 1 <= int(written) <= MOST_FORKS:
            raise UsageError(f"{written!r} is no number of forks", hint=f"Give 1 to {MOST_FORKS}.")
        return int(written), self.query_one("#message", Input).value.strip()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
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
            wanted = self._wanted
            count, message = wanted
            plan = await asyncio.to_thread(
                estimate_from_commit, self.cockpit.places, opened.database, self._commit.seq, message
            )
        except ZoeaError as error:
            self.plan, self._counted = None, None
            cost.put([])
            self._say(error)
            return
        if self.is_attached:
            self.plan, self._counted = plan, wanted
            cost.put([[(describe_first_request(plan, count, plan.price(count)), "strong")]])
            self.query_one("#error", TextBlock).put([])

    # Making them.

    def action_leave(self) -> None:
        self.dismiss()

    def action_fork(self) -> None:
        if self._is_making:
            return
        try:
            wanted = self._wanted
        except UsageError as error:
            self._say(error)
            return
        if not self.is_counted:
            said = "The cost is being counted: press enter again when it is shown"
            self.query_one("#error", TextBlock).put([[(said, "waiting")]])
            return
        self._is_making = True
        self.cockpit.ask_swarm(self._make(*wanted), refused=self._say)

    async def _make(self, count: int, message: str) -> None:
        cockpit, made = self.cockpit, list[MysisView]()
        template = self.query_one("#template", InlineChoice).value
        try:
            for _ in range(count):
                one = await cockpit.api.create("", template=template, context=self._commit.id)
                made.append(one)
                if message:
                    await cockpit.api.send(f"#{one.id}", message)
        finally:
            # Those made before one was refused stay, and can be removed.
            taken = tuple((one.id, one.name) for one in made)
            cockpit.undo.add(UndoStep(taken, lambda mysis_id: cockpit.api.delete(f"#{mysis_id}"), "removed"))
            cockpit.redraw_bars()
            if made:
                names = ", ".join(one_line(one.name) for one in made)
                words = "it" if len(made) == 1 else "them"
                cockpit.notify(f"{names}: made from {self._short_id}. z removes {words}", markup=False)
        if self.is_attached:
            self.dismiss()

    def _say(self, error: ZoeaError) -> None:
        self._is_making = False
        if not self.is_attached:
            self.cockpit.show_error(error)
            return
        self.query_one("#error", TextBlock).put_error(error)
