"""The tools that were allowed for whole templates; pressing `r` twice revokes one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from zoea.model.enums import ApprovalAnswer
from zoea.model.errors import ZoeaError
from zoea.model.values import Event, GrantView
from zoea.text.control_characters import one_line
from zoea.tui import number_format
from zoea.tui.dialogs.modal import ListDialog, describe_problem
from zoea.tui.text_layout import Piece, fit_text
from zoea.tui.widgets.clickable_text import TextBlock, key_hints
from zoea.tui.widgets.line_list import PickItem, PickList

_TEMPLATE, _TOOL, _UPSTREAM = 18, 30, 12
"""Column widths; with the age they fill a box of 80 columns."""
_NAME_MOST = 120
"""Longest shown name, because an upstream may name a tool with any length."""
_OWN = "Zoea's own"
_ALL_FROM = 80
"""Width of a screen from which the upstream has a column; the line below names it too."""


class GrantsDialog(ListDialog):
    """One row for each grant, with errors below the rows."""

    TITLE = "ALLOWED TOOLS (GRANTS)"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("r", "revoke", "revoke")]

    def __init__(self) -> None:
        super().__init__()
        self._grants: tuple[GrantView, ...] | None = None
        self._to_revoke: GrantView | None = None
        self._list = PickList(id="grants")
        self._notes = TextBlock(id="notes")

    def content(self) -> Iterable[Widget]:
        return self._list, self._notes

    def on_mount(self) -> None:
        self._list.focus()

    # Actions.

    def action_revoke(self) -> None:
        """Revoke the grant under the cursor, on the second press."""
        grant = self._chosen
        if grant is None or self._to_revoke is not None or self.action_context().read_only_reason:
            return
        self.result = ("", "")
        if self.cockpit.arming.press(f"revoke {grant.id}", "press r again to revoke it"):
            self._to_revoke = grant
            self.read_again()

    # Reading and revoking.

    def feed_event(self, event: Event) -> None:
        """Read again after a grant was made or revoked, here or in another front end."""
        allowed = event.kind == "approval.answered" and event.data.get("answer") == ApprovalAnswer.TEMPLATE
        if allowed or event.kind == "grant.revoked":
            self.read_again()

    async def catch_up(self) -> None:
        """Revoke the chosen grant, then read all."""
        revoked = self._to_revoke
        try:
            if revoked is not None:
                gone = await self.cockpit.api.revoke(revoked.id)
                said = f"revoked: myses of {_name(gone.template)} ask again for {_tool_name(gone)}"
                self.result = (said, "running")
        except ZoeaError as error:
            self.result = describe_problem(error)
        try:
            self._show(await self.cockpit.api.grants())
        finally:
            if revoked is not None:
                self._to_revoke = None

    def _show(self, grants: tuple[GrantView, ...]) -> None:
        """Show the grants; the cursor keeps its place where its row went."""
        ids = self._list.ids
        place = ids.index(self._list.chosen) if self._list.chosen else 0
        stays = any(str(grant.id) == self._list.chosen for grant in grants)
        self._grants = grants
        next_to = grants[min(place, len(grants) - 1)] if grants and not stays else None
        self.draw(on=str(next_to.id) if next_to else "")

    # Drawing.

    @property
    def _chosen(self) -> GrantView | None:
        return next((grant for grant in self._grants or () if str(grant.id) == self._list.chosen), None)

    def draw(self, on: str = "") -> None:
        if not self.is_attached:
            return
        grants, now = self._grants or (), self.cockpit.now()
        self._list.display = bool(grants)
        has_upstream = self.app.size.width >= _ALL_FROM
        head = _line(("template", "quiet"), ("tool", "quiet"), "upstream" * has_upstream, "allowed")
        rows = (_row(grant, now, has_upstream=has_upstream) for grant in grants)
        self._list.put([head, *rows] if grants else [], on=on)
        if grants and self.focused is None:
            self._list.focus()
        can_revoke = grants and not self.action_context().read_only_reason
        self.box.border_subtitle = key_hints("r revoke · esc back" if can_revoke else "esc back")
        self._notes.put(self._note_lines(now))

    def _note_lines(self, now: int) -> list[list[Piece]]:
        said = self.note
        if self._grants is None:
            return [[said if said[0] else ("Asking…", "quiet")]]
        grant = self._chosen
        if grant is None:
            return [*self._nothing(), *([[], [said]] if said[0] else [])]
        since = number_format.clock(grant.granted_at, now)
        line = f"myses of {_name(grant.template)} call {_tool_name(grant)} without asking, allowed at {since}"
        return [[(line, "quiet")], [said]]

    def _nothing(self) -> list[list[Piece]]:
        keys = self.cockpit.keys
        ask, allow = keys["approval.oldest"], keys["approval.template"]
        return [
            [("Nothing is allowed for a whole template", "strong")],
            [],
            [
                ("A grant lets every mysis of a template call a tool without asking you. It is made where ", "quiet"),
                (f"you answer a call that asks ({ask}) with {allow}, template. It holds until the tool ", "quiet"),
                ("changes or you revoke it here.", "quiet"),
            ],
        ]


def _row(grant: GrantView, now: int, *, has_upstream: bool) -> PickItem:
    upstream = (_name(grant.upstream) or _OWN) if has_upstream else ""
    names = (_name(grant.template), ""), (_name(grant.tool), "tool")
    return _line(*names, upstream, f"{number_format.age(grant.granted_at, now)} ago", id=str(grant.id))


def _line(template: Piece, tool: Piece, upstream: str, allowed: str, id: str = "") -> PickItem:
    pieces = [(fit_text(template[0], _TEMPLATE), template[1]), ("  ", ""), (fit_text(tool[0], _TOOL), tool[1])]
    if upstream:
        pieces += [("  ", ""), (fit_text(upstream, _UPSTREAM), "quiet")]
    return PickItem(tuple(pieces), id, ((allowed, "quiet"),))


def _tool_name(grant: GrantView) -> str:
    return f"{_name(grant.upstream)}/{_name(grant.tool)}" if grant.upstream else _name(grant.tool)


def _name(text: str) -> str:
    return one_line(text[:_NAME_MOST])
