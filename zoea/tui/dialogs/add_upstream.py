"""The form that adds an MCP server to the settings."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.types import CSSPathType
from textual.widgets import Input

from zoea.model.errors import UsageError, ZoeaError
from zoea.runtime.upstream_import import describe_server, import_servers
from zoea.tools.mcp_json import drop_comments
from zoea.tui.dialogs.modal import CockpitDialog, form_row
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.widgets.clickable_text import TextBlock, key_hints


class ServerInput(Input):
    """A line that takes JSON of several lines, as clients keep it in their files."""

    def _on_paste(self, event: events.Paste) -> None:
        """Put the lines of pasted JSON into one. Comments would end with their line, so they are left out."""
        joined = " ".join(line.strip() for line in drop_comments(event.text).split("\n")).strip()
        if joined.startswith("{"):
            event.prevent_default().stop()
            self.replace(joined, *self.selection)


class AddUpstreamDialog(CockpitDialog[tuple[str, ...] | None]):
    """Takes a command line, an address or a pasted JSON. Returns the names that were added, else None."""

    CSS_PATH: ClassVar[CSSPathType | None] = ["modal.tcss", "connect.tcss"]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "add", "add", priority=True),
        Binding("escape", "leave", "back"),
        Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
    ]

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = "ADD AN MCP SERVER"
            box.border_subtitle = key_hints("enter add · tab next field · esc back")
            yield from form_row("name", Input(id="name", placeholder="a name of your choice", compact=True))
            yield from form_row(
                "server",
                ServerInput(
                    id="server", placeholder="npx -y some-server /data · https://… · pasted JSON", compact=True
                ),
            )
            yield TextBlock(id="error")

    def on_mount(self) -> None:
        self.query_one("#name", Input).focus()

    def action_leave(self) -> None:
        self.dismiss(None)

    def back(self) -> None:
        self.dismiss(None)

    def action_add(self) -> None:
        self.run_worker(DeferredWork(self._add), exclusive=True)

    async def _add(self) -> None:
        name, server = (self.query_one(f"#{field}", Input).value.strip() for field in ("name", "server"))
        try:
            if not name and not server.startswith("{"):
                raise UsageError("the name is empty", hint="Type a name of your choice.")
            text = describe_server(name, server)
            outcome = await asyncio.to_thread(import_servers, text, self.cockpit.places, replace=False)
        except ZoeaError as error:
            self.query_one("#error", TextBlock).put([[(error.what, "errored")], [(error.hint, "quiet")]])
            return
        if outcome.imported:
            self.dismiss(tuple(outcome.imported))
        else:
            lines = [[(f"{name}: {why}", "errored")] for name, why in outcome.left_out.items()]
            self.query_one("#error", TextBlock).put(lines or [[("the JSON names no server", "errored")]])
