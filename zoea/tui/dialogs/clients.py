"""MCP clients: turn their HTTP server on or off; create, copy and revoke their tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from zoea.mcp_server.tokens import TokenRow, Tokens, TokenScope
from zoea.model.values import McpView
from zoea.settings.credentials import Credentials
from zoea.text.control_characters import one_line
from zoea.tui import number_format
from zoea.tui.dialogs.modal import ListDialog
from zoea.tui.text_layout import Piece
from zoea.tui.widgets.clickable_text import TextBlock

_MAY = {TokenScope.READ: "search, list and read", TokenScope.COMMAND: "search, list, read, send and broadcast"}
_SHOWN = 10


class McpClientsDialog(ListDialog):
    """Shows a new token until it closes, and never again."""

    TITLE = "MCP CLIENTS"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "other_scope", "rights", priority=True),
        Binding("ctrl+o", "switch", "on or off", priority=True),
        Binding("ctrl+r", "revoke", "revoke", priority=True),
        Binding("ctrl+t", "copy", "copy token", priority=True),
    ]
    KEYS = "enter new · ^o on/off · ^r revoke · ^t copy token · esc back"

    token = ""
    _view: McpView | None = None
    _rows: tuple[TokenRow, ...] = ()
    _scope = TokenScope.READ
    _change: Callable[[], Awaitable[object]] | None = None

    def content(self) -> Iterable[Widget]:
        name = Input(placeholder="name of a client, such as claude", compact=True)
        return TextBlock(id="door"), name, TextBlock(id="notes")

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    @property
    def name_given(self) -> str:
        return self.query_one(Input).value.strip()

    # Actions.

    def action_other_scope(self) -> None:
        self._scope = TokenScope.COMMAND if self._scope is TokenScope.READ else TokenScope.READ
        self.draw()

    def action_switch(self) -> None:
        """Start or stop the HTTP server."""
        if self._view is not None:
            on = not self._view.is_on
            self._change_by(lambda: self.cockpit.api.serve_mcp(on))

    def action_revoke(self) -> None:
        if name := self.name_given:
            self._change_by(lambda: asyncio.to_thread(self._tokens.revoke, name))

    def action_copy(self) -> None:
        """Copy the newest token, else the address."""
        text = self.token or (self._view.url if self._view is not None else "")
        self.cockpit.copy(text)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()

        def make() -> None:
            self.token = self._tokens.new(name, self._scope, self.cockpit.now())

        if name := self.name_given:
            self._change_by(lambda: asyncio.to_thread(make))

    # Tokens and server.

    @property
    def _tokens(self) -> Tokens:
        return Tokens(Credentials(self.cockpit.places.credentials))

    def _change_by(self, change: Callable[[], Awaitable[object]]) -> None:
        """Change the token file or the server, then read both. Do nothing while a change or a read is under way."""
        if self._change is None and not self._is_reading:
            self._change = change
            self.read_again()

    async def catch_up(self) -> None:
        try:
            if self._change is not None:
                await self._change()
            self._rows = await asyncio.to_thread(self._tokens.rows)
            self._view = await self.cockpit.api.mcp()
        finally:
            self._change = None

    def draw(self) -> None:
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
            else [("off  ", "stopped"), ("no client can connect; ^o lets clients with a token connect (HTTP)", "quiet")]
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
        if self.problem[0]:
            lines += [[], [self.problem]]
        if self._rows:
            lines.append([])
        width = max((len(row.name) for row in self._rows), default=0)
        for row in self._rows[:_SHOWN]:
            since = number_format.age(row.created_at, self.cockpit.now())
            lines.append([(f"{row.name:<{width}}  ", ""), (f"{row.scope:<9}{since} ago", "quiet")])
        if len(self._rows) > _SHOWN:
            lines.append([(f"and {len(self._rows) - _SHOWN} more: zoea mcp token list", "quiet")])
        return lines
