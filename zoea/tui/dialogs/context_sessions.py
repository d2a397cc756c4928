"""Forms that ask a commit, and that start a mysis again with its whole conversation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.widget import Widget
from textual.widgets import Input

from zoea.chain.commit import ContextCommit
from zoea.model.errors import UsageError
from zoea.text.control_characters import one_line
from zoea.tui.dialogs.first_request import FirstRequestDialog


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
