"""Quitting an owner asks: end the swarm, or let it run on without a screen. An attached cockpit just goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from zoea.tui.widgets.text_block import TextBlock

if TYPE_CHECKING:
    from zoea.tui.app import Cockpit


class Quitting(ModalScreen[None]):
    """Shows what is being shut down; the end comes within ten seconds."""

    CSS_PATH = "quitting.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s,enter", "end('stop')", "end the swarm"),
        Binding("l", "end('leave')", "leave it running"),
        Binding("escape", "stay", "back"),
    ]

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            block = TextBlock(id="words", classes="panel")
            block.border_title = "QUIT"
            yield block

    @property
    def cockpit(self) -> Cockpit:
        return cast("Cockpit", self.app)

    def on_mount(self) -> None:
        opened = self.cockpit.opened
        if opened is not None and not opened.is_owner:
            self.run_worker(self.action_end("detach"))
            return
        running = sum(1 for view in self.cockpit.feed.myses.values() if view.state == "running")
        self.query_one("#words", TextBlock).put(
            [
                [(f"{running} myses are running.", "strong")],
                [("s", "title"), ("  end the swarm: open turns go on at the next start", "")],
                [("l", "title"), ("  leave it running without a screen; zoea run attaches to it", "")],
                [("esc", "title"), ("  back", "")],
            ]
        )

    def action_stay(self) -> None:
        self.app.pop_screen()

    async def action_end(self, how: str) -> None:
        words = {
            "stop": "Ending the swarm: calls in flight are cut off, nothing stored is lost…",
            "leave": "Handing the swarm on: it runs without a screen…",
            "detach": "Detaching; the swarm runs on…",
        }
        self.query_one("#words", TextBlock).put([[(words[how], "strong")]])
        self.run_worker(self.cockpit.leave(how))
