"""The tools that were allowed for whole templates; pressing `r` twice revokes one."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from zoea.model.enums import ApprovalAnswer
from zoea.model.errors import ZoeaError
from zoea.model.values import Event, GrantView
from zoea.text.control_characters import one_line
from zoea.tui import number_format
from zoea.tui.dialogs.modal import CockpitDialog
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.text_layout import Piece, fit_text
from zoea.tui.widgets.clickable_text import TextBlock, key_hints
from zoea.tui.widgets.line_list import PickItem, PickList

_TEMPLATE, _TOOL, _UPSTREAM = 18, 30, 12
"""Column widths; with the age they fill a box of 80 columns."""
_NAME_MOST = 120
"""Longest shown name, because an upstream may name a tool with any length."""
_OWN = "Zoea's own"


class GrantsDialog(CockpitDialog[None]):
    """One row for each grant, with errors below the rows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "revoke", "revoke"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._grants: tuple[GrantView, ...] | None = None
        self._is_busy = False
        self._is_old = False
        self._to_revoke: GrantView | None = None
        self._line: Piece = ("", "")
        self._unread: Piece = ("", "")
        self._box = Vertical(classes="box")
        self._list = PickList(id="grants")
        self._notes = TextBlock(id="notes")

    def compose(self) -> ComposeResult:
        with self._box:
            yield self._list
            yield self._notes

    def on_mount(self) -> None:
        self._box.border_title = "ALLOWED TOOLS (GRANTS)"
        self._draw()
        self._list.focus()
        self._read()

    # Actions.

    def action_revoke(self) -> None:
        """Revoke the grant under the cursor, on the second press."""
        grant = self._chosen
        if grant is None or self._to_revoke is not None or self._read_only_reason:
            return
        self._line = ("", "")
        if self.cockpit.arming.press(f"revoke {grant.id}", "press r again to revoke it"):
            self._to_revoke = grant
            self._read()

    def on_pick_list_moved(self, event: PickList.Moved) -> None:
        event.stop()
        self._draw()

    # Reading and revoking.

    def feed_event(self, event: Event) -> None:
        """Read again after a grant was made or revoked, here or in another front end."""
        allowed = event.kind == "approval.answered" and event.data.get("answer") == ApprovalAnswer.TEMPLATE
        if allowed or event.kind == "grant.revoked":
            self._read()

    def _read(self) -> None:
        """Read the grants once the current work is done; revoke the chosen one before."""
        self._is_old = True
        if not self._is_busy:
            self._is_busy = True
            # The app's worker, so that closing the dialog does not cancel it.
            self.cockpit.run_worker(DeferredWork(self._catch_up), exit_on_error=False)

    async def _catch_up(self) -> None:
        try:
            while self._is_old:
                self._is_old = False
                revoked = self._to_revoke
                if revoked is not None:
                    await self._revoke(revoked)
                try:
                    self._show(await self.cockpit.api.grants())
                    self._unread = ("", "")
                except ZoeaError as error:
                    self._unread = _said(error)
                if revoked is not None:
                    self._to_revoke = None
        finally:
            self._is_busy = False
            self._to_revoke = None
            self._draw()

    async def _revoke(self, grant: GrantView) -> None:
        try:
            gone = await self.cockpit.api.revoke(grant.id)
            self._line = (f"revoked: myses of {_name(gone.template)} ask again for {_tool_name(gone)}", "running")
        except ZoeaError as error:
            self._line = _said(error)

    def _show(self, grants: tuple[GrantView, ...]) -> None:
        """Show the grants; the cursor keeps its place where its row went."""
        ids = self._list.ids
        place = ids.index(self._list.chosen) if self._list.chosen else 0
        stays = any(str(grant.id) == self._list.chosen for grant in grants)
        self._grants = grants
        next_to = grants[min(place, len(grants) - 1)] if grants and not stays else None
        self._draw(on=str(next_to.id) if next_to else "")

    # Drawing.

    @property
    def _chosen(self) -> GrantView | None:
        return next((grant for grant in self._grants or () if str(grant.id) == self._list.chosen), None)

    @property
    def _read_only_reason(self) -> str:
        return self.action_context().read_only_reason

    def tick(self) -> None:
        self._draw()

    def redraw_bars(self) -> None:
        self._draw()

    def _draw(self, on: str = "") -> None:
        if not self.is_attached:
            return
        grants, now = self._grants or (), self.cockpit.now()
        self._list.display = bool(grants)
        self._list.put([_heading(), *(_row(grant, now) for grant in grants)] if grants else [], on=on)
        if grants and self.focused is None:
            self._list.focus()
        can_revoke = grants and not self._read_only_reason
        self._box.border_subtitle = key_hints("r revoke · esc back" if can_revoke else "esc back")
        self._notes.put(self._note_lines(now))

    def _note_lines(self, now: int) -> list[list[Piece]]:
        said = self._note_piece()
        if self._grants is None:
            return [[said if said[0] else ("Asking…", "quiet")]]
        grant = self._chosen
        if grant is None:
            return [*self._nothing(), *([[], [said]] if said[0] else [])]
        since = number_format.clock(grant.granted_at, now)
        line = f"myses of {_name(grant.template)} call {_tool_name(grant)} without asking, allowed at {since}"
        return [[(line, "quiet")], [said]]

    def _note_piece(self) -> Piece:
        """Return the line below the rows: a key to repeat, an error, or the result."""
        if note := self.cockpit.arming.note:
            return (note, "asking")
        said = (self._unread, self._line, (self._read_only_reason, "waiting"))
        return next((piece for piece in said if piece[0]), ("", ""))

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


def _heading() -> PickItem:
    words = f"{'template':<{_TEMPLATE}}  {'tool':<{_TOOL}}  {'upstream':<{_UPSTREAM}}"
    return PickItem(((words, "quiet"),), right=(("allowed", "quiet"),))


def _row(grant: GrantView, now: int) -> PickItem:
    upstream = _name(grant.upstream) or _OWN
    return PickItem(
        (
            (fit_text(_name(grant.template), _TEMPLATE), ""),
            ("  ", ""),
            (fit_text(_name(grant.tool), _TOOL), "tool"),
            ("  ", ""),
            (fit_text(upstream, _UPSTREAM), "quiet"),
        ),
        id=str(grant.id),
        right=((f"{number_format.age(grant.granted_at, now)} ago", "quiet"),),
    )


def _tool_name(grant: GrantView) -> str:
    return f"{_name(grant.upstream)}/{_name(grant.tool)}" if grant.upstream else _name(grant.tool)


def _name(text: str) -> str:
    return one_line(text[:_NAME_MOST])


def _said(error: ZoeaError) -> Piece:
    return (one_line(error.text), "errored")
