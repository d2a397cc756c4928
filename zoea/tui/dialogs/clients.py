"""MCP clients: turn their HTTP server on or off; create, copy and revoke their tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input

from zoea.mcp_server.tokens import TokenRow, Tokens, TokenScope
from zoea.model.errors import ZoeaError
from zoea.model.values import McpView
from zoea.settings import Credentials
from zoea.text.control_characters import one_line
from zoea.tui import number_format
from zoea.tui.dialogs.modal import CockpitDialog
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.text_layout import Piece
from zoea.tui.widgets.clickable_text import TextBlock, key_hints

_MAY = {TokenScope.READ: "search, list and read", TokenScope.COMMAND: "search, list, read, send and broadcast"}
_SHOWN = 10


class _Name(Input):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "screen.other_scope", "rights", priority=True),
        Binding("ctrl+o", "screen.switch", "on or off", priority=True),
        Binding("ctrl+r", "screen.revoke", "revoke", priority=True),
        Binding("ctrl+t", "screen.copy", "copy token", priority=True),
    ]


class McpClientsDialog(CockpitDialog[None]):
    """Shows a new token until it closes, and never again."""

    DEFAULT_CSS = """
    McpClientsDialog .box { width: 84; }
    McpClientsDialog #door { height: auto; margin-bottom: 1; }
    McpClientsDialog #notes { height: auto; margin-top: 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._view: McpView | None = None
        self._rows: tuple[TokenRow, ...] = ()
        self._scope = TokenScope.READ
        self._problem = ""
        self._is_busy = False
        self.token = ""

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = "MCP CLIENTS"
            box.border_subtitle = key_hints("enter new · ^o on/off · ^r revoke · ^t copy token · esc back")
            yield TextBlock(id="door")
            yield _Name(placeholder="name of a client, such as claude", compact=True)
            yield TextBlock(id="notes")

    def on_mount(self) -> None:
        self.query_one(_Name).focus()
        self._draw()
        self._beside(lambda: None)

    @property
    def name_given(self) -> str:
        return self.query_one(_Name).value.strip()

    # Actions.

    def action_other_scope(self) -> None:
        self._scope = TokenScope.COMMAND if self._scope is TokenScope.READ else TokenScope.READ
        self._draw()

    def action_switch(self) -> None:
        """Start or stop the HTTP server."""
        if self._view is not None and not self._is_busy:
            on = not self._view.is_on
            self._is_busy = True
            self.run_worker(DeferredWork(lambda: self._switch(on)))

    def action_revoke(self) -> None:
        if name := self.name_given:
            self._beside(lambda: self._tokens.revoke(name))

    def action_copy(self) -> None:
        """Copy the newest token, else the address."""
        text = self.token or (self._view.url if self._view is not None else "")
        if text:
            self.cockpit.copy_to_clipboard(text)
            self.cockpit.notify("Copied", markup=False, timeout=1.5)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if name := self.name_given:
            self._beside(lambda: self._make(name))

    # Tokens and server.

    @property
    def _tokens(self) -> Tokens:
        return Tokens(Credentials(self.cockpit.places.credentials))

    def _make(self, name: str) -> None:
        self.token = self._tokens.new(name, self._scope, self.cockpit.now())

    def _beside(self, work: Callable[[], None]) -> None:
        """Change the token file in a thread, then read tokens and server state."""
        if not self._is_busy:
            self._is_busy = True
            self.run_worker(DeferredWork(lambda: self._change(work)))

    async def _change(self, work: Callable[[], None]) -> None:
        try:
            await asyncio.to_thread(work)
            self._rows = await asyncio.to_thread(self._tokens.rows)
            self._view = await self.cockpit.api.mcp()
            self._problem = ""
        except ZoeaError as error:
            self._problem = error.text
        finally:
            self._is_busy = False
        self._draw()

    async def _switch(self, on: bool) -> None:
        try:
            self._view = await self.cockpit.api.serve_mcp(on)
            self._problem = ""
        except ZoeaError as error:
            self._problem = error.text
        finally:
            self._is_busy = False
        self._draw()

    def _draw(self) -> None:
        if not self.is_mounted:
            return
        self.query_one("#door", TextBlock).put(self._door_lines())
        self.query_one("#notes", TextBlock).put(self._note_lines())

    def _door_lines(self) -> list[list[Piece]]:
        view = self._view
        if view is None:
            return [[("Asking…", "quiet")]]
        lines: list[list[Piece]] = [
            [("on  ", "running"), (view.url, "strong")]
            if view.is_on
            else [
                ("off  ", "stopped"),
                ("no client can connect; ^o lets clients with a token connect (HTTP)", "quiet"),
            ]
        ]
        return lines + ([[(one_line(view.problem), "errored")]] if view.problem else [])

    def _note_lines(self) -> list[list[Piece]]:
        lines: list[list[Piece]] = [
            [
                ("rights of a new client: ", "quiet"),
                (_MAY[self._scope], "title" if self._scope is TokenScope.READ else "asking"),
                (" (tab changes them)", "quiet"),
            ]
        ]
        if self.token:
            lines += [[], [(self.token, "strong")], [("it is shown only now: press ^t to copy it", "waiting")]]
        if self._problem:
            lines += [[], [(one_line(self._problem), "errored")]]
        if self._rows:
            lines.append([])
        width = max((len(row.name) for row in self._rows), default=0)
        for row in self._rows[:_SHOWN]:
            since = number_format.age(row.created_at, self.cockpit.now())
            lines.append([(f"{row.name:<{width}}  ", ""), (f"{row.scope:<9}{since} ago", "quiet")])
        if len(self._rows) > _SHOWN:
            lines.append([(f"and {len(self._rows) - _SHOWN} more: zoea mcp token list", "quiet")])
        return lines
