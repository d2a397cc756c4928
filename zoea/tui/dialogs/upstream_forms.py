"""The form that adds an MCP server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from textual import events
from textual.widget import Widget
from textual.widgets import Input

from zoea.model.errors import UsageError, ZoeaError
from zoea.runtime.upstream_import import describe_server, import_servers
from zoea.tools.mcp_json import drop_comments
from zoea.tui.dialogs.modal import FormDialog
from zoea.tui.widgets.clickable_text import TextBlock


class ServerInput(Input):
    """A line that takes JSON of several lines, as clients keep it in their files."""

    def _on_paste(self, event: events.Paste) -> None:
        """Put the lines of pasted JSON into one. Comments would end with their line, so they are left out."""
        joined = " ".join(line.strip() for line in drop_comments(event.text).split("\n")).strip()
        if joined.startswith("{"):
            event.prevent_default().stop()
            self.replace(joined, *self.selection)


class AddUpstreamDialog(FormDialog[tuple[str, ...] | None]):
    """Takes a command line, an address or a pasted JSON. Returns the names that were added, else None."""

    TITLE = "ADD AN MCP SERVER"
    VERB = "add"
    GOES_ON = False

    def fields(self) -> Iterable[tuple[str, Widget]]:
        example = "npx -y some-server /data · https://… · pasted JSON"
        return (
            ("name", Input(id="name", placeholder="a name of your choice", compact=True)),
            ("server", ServerInput(id="server", placeholder=example, compact=True)),
        )

    async def carry_out(self) -> None:
        name, server = self.typed("name"), self.typed("server")
        if not name and not server.startswith("{"):
            raise UsageError("the name is empty", hint="Type a name of your choice.")
        text = describe_server(name, server)
        outcome = await asyncio.to_thread(import_servers, text, self.cockpit.places, replace=False)
        if outcome.imported:
            self.close(tuple(outcome.imported))
        else:
            lines = [[(f"{name}: {why}", "errored")] for name, why in outcome.left_out.items()]
            self.query_one("#error", TextBlock).put(lines or [[("the JSON names no server", "errored")]])

    def say(self, error: ZoeaError) -> None:
        self.query_one("#error", TextBlock).put([[(error.what, "errored")], [(error.hint, "quiet")]])
