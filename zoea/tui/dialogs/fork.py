"""The form that makes myses from a commit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import ClassVar

from textual.widget import Widget
from textual.widgets import Input

from zoea.model.errors import UsageError, ZoeaError
from zoea.model.values import MysisOverrides, MysisView
from zoea.runtime.first_request_estimate import MOST_FORKS
from zoea.runtime.mysis_options import read_options
from zoea.text.control_characters import one_line
from zoea.tui.dialogs.first_request import FirstRequestDialog
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.widgets.inline_choice import InlineChoice


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
