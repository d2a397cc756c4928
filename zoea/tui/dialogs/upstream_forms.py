"""Forms that add an MCP server and that call a tool."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import ClassVar

from textual import events, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Input, TextArea

from zoea.model.errors import UsageError, ZoeaError
from zoea.model.values import ToolTrial, ToolView
from zoea.runtime.upstream_import import describe_server, import_servers
from zoea.text.control_characters import one_line
from zoea.tools.mcp_json import drop_comments
from zoea.tui import number_format
from zoea.tui.conversation.tool_items import build_argument_skeleton, build_hint_pieces
from zoea.tui.dialogs.modal import CockpitDialog, FormDialog
from zoea.tui.text_layout import Piece
from zoea.tui.widgets.clickable_text import TextBlock
from zoea.tui.widgets.line_list import TextLines


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


RUN_KEY = "ctrl+r"


class TryToolDialog(CockpitDialog[None]):
    """Calls the tool on ctrl+r; a destructive tool on the second press."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(RUN_KEY, "call", "call it", priority=True),
        Binding("escape", "leave", "back", priority=True),
    ]

    def __init__(self, upstream: str, tool: ToolView) -> None:
        super().__init__()
        self._upstream = upstream
        self._tool = tool
        self._is_calling = False
        self.trial: ToolTrial | None = None

    def compose(self) -> ComposeResult:
        with Vertical(id="try", classes="box"):
            yield TextBlock(id="what")
            area = TextArea(
                build_argument_skeleton(self._tool), id="arguments", show_line_numbers=False, soft_wrap=True
            )
            area.cursor_blink = False
            yield area
            yield TextBlock(id="outcome")
            yield TextLines(id="result")

    def on_mount(self) -> None:
        tool = self._tool
        hints = [(f"  {word}", role) for word, role in build_hint_pieces(tool)]
        lines: list[list[Piece]] = [
            [(f"{one_line(self._upstream)}/", "quiet"), (one_line(tool.name), "tool"), *hints],
            [(one_line(tool.description), "quiet")],
        ]
        if tool.injected:
            filled = f"{', '.join(map(one_line, tool.injected))}: each mysis has its own, from its login."
            login = "If this server has a tool that logs in, try it first and copy the value."
            lines.append([(f"{filled} {login}", "asking")])
        self.query_one("#what", TextBlock).put(lines)
        self._say([("^r call it · tab go to the result · esc back", "quiet")])
        self.query_one("#arguments").focus()

    def _say(self, line: list[Piece]) -> None:
        self.query_one("#outcome", TextBlock).put([line])

    def action_call(self) -> None:
        if self._is_calling:
            return
        arming = self.cockpit.arming
        if self._tool.destructive and not arming.press(f"try {self._tool.name}", "press ^r again to call it"):
            self._say([("This tool may destroy something: press ^r again to call it", "errored")])
            return
        self._is_calling = True
        self._say([("calling…", "waiting")])
        self._call()

    @work(exit_on_error=False)
    async def _call(self) -> None:
        arguments = self.query_one("#arguments", TextArea).text
        try:
            trial = await self.cockpit.api.try_tool(self._upstream, self._tool.name, arguments)
        except ZoeaError as error:
            self._say([(error.text, "errored")])
        else:
            self.trial = trial
            word, role = ("failed", "errored") if trial.is_error else ("done", "running")
            size = number_format.size(len(trial.content))
            self._say([(word, role), (f"  {number_format.duration(trial.took_us)}  {size}", "quiet")])
            self.query_one("#result", TextLines).put(trial.content)
        finally:
            self._is_calling = False
