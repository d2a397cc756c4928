"""Forms that add an MCP server, try a tool, and change a waiting call's arguments."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import ClassVar

from textual import events, getters
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input, TextArea

from zoea.model.enums import ApprovalAnswer
from zoea.model.errors import UsageError, ZoeaError
from zoea.model.values import ApprovalView, ToolTrial, ToolView
from zoea.runtime.upstream_import import describe_server, import_servers
from zoea.text.call_text import reveal_arguments
from zoea.text.control_characters import one_line
from zoea.text.large_json import indent
from zoea.tools.mcp_json import drop_comments
from zoea.tui import number_format
from zoea.tui.conversation.tool_items import build_argument_skeleton, build_hint_pieces
from zoea.tui.dialogs.modal import CockpitDialog, FormDialog, T
from zoea.tui.state.deferred_work import DeferredWork
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


class ArgumentsDialog(CockpitDialog[T]):
    """Arguments as JSON, which ctrl+r sends, above a line that says what came of it."""

    GOES_ON: ClassVar[bool] = True
    """Whether closing the dialog lets what it sent go on."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "send", "send", priority=True),
        Binding("escape", "leave", "back", priority=True),
    ]

    area = getters.query_one(TextArea)
    _outcome = getters.query_one("#outcome", TextBlock)
    _is_sending = False

    def edit(self, text: str) -> Iterable[Widget]:
        """Return the input with this text, and the line below it."""
        area = TextArea(text, id="arguments", show_line_numbers=False, soft_wrap=True)
        area.cursor_blink = False
        return area, TextBlock(id="outcome")

    def on_mount(self) -> None:
        self.area.focus()

    async def send(self, arguments: str) -> None:
        """Send the arguments. Raises ZoeaError, which is shown."""
        raise NotImplementedError

    def tell(self, *lines: list[Piece]) -> None:
        """Show these lines below the arguments."""
        self._outcome.put(lines)

    def action_send(self) -> None:
        if not self._is_sending:
            self._is_sending = True
            worker = self.cockpit if self.GOES_ON else self
            worker.run_worker(DeferredWork(self._send), exit_on_error=False)

    async def _send(self) -> None:
        try:
            await self.send(self.area.text)
        except ZoeaError as error:
            self.say(error)
        finally:
            self._is_sending = False


class ChangedArgumentsDialog(ArgumentsDialog[bool]):
    """Allows a call once with arguments of the person. Returns True where it was allowed."""

    _KEYS: ClassVar[list[Piece]] = [("^r allow once with these arguments · esc back", "quiet")]
    _SHOWN = "It held hidden characters, which are escapes now: look at them, then allow the call again"

    def __init__(self, asked: ApprovalView) -> None:
        super().__init__()
        self._asked = asked

    @property
    def heading(self) -> str:
        asked = self._asked
        upstream = f"{one_line(asked.upstream)}/" if asked.upstream else ""
        return f"CHANGE {upstream}{one_line(asked.tool)} OF {one_line(asked.mysis)}"

    def content(self) -> Iterable[Widget]:
        return self.edit(reveal_arguments(indent(self._asked.arguments)))

    def on_mount(self) -> None:
        self.tell([("The mysis reads what you changed.", "quiet")], self._KEYS)

    def action_send(self) -> None:
        if (shown := reveal_arguments(self.area.text)) != self.area.text:  # pasted: nothing is sent that was not seen
            self.area.text = shown
            self.tell([(self._SHOWN, "asking")], self._KEYS)
        else:
            super().action_send()

    async def send(self, arguments: str) -> None:
        await self.cockpit.api.answer(self._asked.id, ApprovalAnswer.ONCE, arguments=arguments or "{}")
        self.close(True)

    def say(self, error: ZoeaError) -> None:
        if self.is_open:
            self.tell([(error.what, "errored")], [(error.hint, "quiet")])
        else:
            self.cockpit.show_error(error)


class TryToolDialog(ArgumentsDialog[None]):
    """Calls the tool; a destructive tool on the second press."""

    GOES_ON = False

    def __init__(self, upstream: str, tool: ToolView) -> None:
        super().__init__()
        self._upstream = upstream
        self._tool = tool
        self.trial: ToolTrial | None = None

    def content(self) -> Iterable[Widget]:
        return TextBlock(id="what"), *self.edit(build_argument_skeleton(self._tool)), TextLines(id="result")

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
        self.tell([("^r call it · tab go to the result · esc back", "quiet")])

    def action_send(self) -> None:
        arming = self.cockpit.arming
        if self._is_sending:
            return
        if self._tool.destructive and not arming.press(f"try {self._tool.name}", "press ^r again to call it"):
            self.tell([("This tool may destroy something: press ^r again to call it", "errored")])
        else:
            self.tell([("calling…", "waiting")])
            super().action_send()

    async def send(self, arguments: str) -> None:
        self.trial = trial = await self.cockpit.api.try_tool(self._upstream, self._tool.name, arguments)
        word, role = ("failed", "errored") if trial.is_error else ("done", "running")
        size = number_format.size(len(trial.content))
        self.tell([(word, role), (f"  {number_format.duration(trial.took_us)}  {size}", "quiet")])
        self.query_one("#result", TextLines).put(trial.content)

    def say(self, error: ZoeaError) -> None:
        self.tell([(error.text, "errored")])
