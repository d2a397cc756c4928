"""Forms of MCP servers: one that adds a server to the settings, one that calls a tool by hand."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import events, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.types import CSSPathType
from textual.widgets import Input, TextArea

from zoea.model.errors import UsageError, ZoeaError
from zoea.model.values import ToolTrial, ToolView
from zoea.runtime.upstream_import import describe_server, import_servers
from zoea.text.control_characters import one_line
from zoea.tools.mcp_json import drop_comments
from zoea.tui import number_format
from zoea.tui.conversation.tool_items import build_argument_skeleton, build_hint_pieces
from zoea.tui.dialogs.modal import CockpitDialog, form_row
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.text_layout import Piece
from zoea.tui.widgets.clickable_text import TextBlock, key_hints
from zoea.tui.widgets.line_list import TextLines


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


RUN_KEY = "ctrl+r"


class TryToolDialog(CockpitDialog[None]):
    """Calls the tool on ctrl+r; a destructive tool on the second press."""

    CSS_PATH: ClassVar[CSSPathType | None] = ["modal.tcss", "try_tool.tcss"]
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
        lines: list[list[Piece]] = [
            [(f"{one_line(self._upstream)}/", "quiet"), (one_line(tool.name), "tool")]
            + [(f"  {word}", role) for word, role in build_hint_pieces(tool)],
            [(one_line(tool.description), "quiet")],
        ]
        if tool.injected:
            filled = ", ".join(map(one_line, tool.injected))
            lines.append(
                [
                    (
                        f"{filled}: each mysis has its own, from its login. If this server has a tool that logs in, "
                        "try it first and copy the value.",
                        "asking",
                    )
                ]
            )
        self.query_one("#what", TextBlock).put(lines)
        self._say([("^r call it · tab go to the result · esc back", "quiet")])
        self.query_one("#arguments").focus()

    def _say(self, line: list[Piece]) -> None:
        self.query_one("#outcome", TextBlock).put([line])

    def action_leave(self) -> None:
        self.dismiss()

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
