"""What the app itself does for actions that are everywhere, whichever screen is on top.

A mixin of the app: screens carry out what is theirs, and everything here works
over any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from textual.screen import Screen
from textual.widgets import Input, TextArea

from zoea.model.values import MysisView, Receipt
from zoea.text.control_characters import one_line
from zoea.tui.swarm_list.broadcasts_panel import format_receipt

if TYPE_CHECKING:
    from zoea.tui.app import Cockpit


_NAMED = 5


class Acting:
    """Approvals, stop-all, the palette, the `:` prompt, ctrl+c."""

    @property
    def _cockpit(self) -> Cockpit:
        return cast("Cockpit", self)

    def do_approval_oldest(self) -> None:
        from zoea.tui.dialogs.approvals import ApprovalPanel

        self._cockpit.push_screen(ApprovalPanel())

    def do_swarm_stop_all(self) -> None:
        cockpit = self._cockpit
        count = sum(1 for view in cockpit.feed.myses.values() if view.state != "stopped")
        if cockpit.arming.press("stop-all", f"press {cockpit.keys['swarm.stop-all']} again to stop all {count}"):
            cockpit.stop_all()

    def stop_all(self) -> None:
        """Stop every mysis; the person has confirmed it."""
        cockpit = self._cockpit
        cockpit.ask_swarm(cockpit.api.stop_all(), done=lambda count: cockpit.notify(f"{count} stopped", markup=False))

    def confirm_deletion(self, views: Sequence[MysisView]) -> None:
        """Ask, naming them, then archive each; what was archived can be undone."""
        from zoea.tui.dialogs.confirm import Confirm

        cockpit = self._cockpit
        names = ", ".join(one_line(view.name) for view in views[:_NAMED])
        names += f" and {len(views) - _NAMED} more" if len(views) > _NAMED else ""
        running = sum(1 for view in views if view.state == "running")
        lines = [f"Delete {names}?"]
        if len(views) == 1:
            lines += ["It is running; what it does now is cut off."] if running else []
            lines += ["Its name becomes free. Its memories stay, and z brings it back."]
        else:
            lines += [f"{running} of them running; what they do now is cut off."] if running else []
            lines += ["Their names become free. Their memories stay, and z brings them back."]

        def answered(yes: bool | None) -> None:
            for view in views if yes else ():
                cockpit.ask_swarm(cockpit.api.delete(f"#{view.id}"), done=self._was_deleted)

        cockpit.push_screen(Confirm("DELETE", lines, "delete"), answered)

    def _was_deleted(self, view: MysisView) -> None:
        self._cockpit.deleted.append((view.id, view.name))
        self._cockpit.notify(f"{one_line(view.name)} is deleted: z brings it back", markup=False)
        self._cockpit._tell_screens("redraw_bars")

    def do_screen_search(self) -> None:
        from zoea.tui.screens.search import Search

        self._once(Search)

    def do_screen_clients(self) -> None:
        from zoea.tui.dialogs.clients import Clients

        self._once(Clients)

    def do_screen_grants(self) -> None:
        from zoea.tui.dialogs.grants import Grants

        self._once(Grants)

    def do_screen_log(self) -> None:
        from zoea.tui.screens.log import EventLog

        self._once(EventLog)

    def do_screen_upstreams(self) -> None:
        from zoea.tui.screens.upstreams import Upstreams

        self._once(Upstreams)

    def do_mysis_inspect(self) -> None:
        from zoea.tui.screens.inspector import Inspector

        self._cockpit.push_screen(Inspector(self._cockpit.situation().targets[0].id))

    def _once(self, kind: Callable[[], Screen[Any]]) -> None:
        """Open a screen, or nothing where it is on top already."""
        if type(self._cockpit.screen) is not kind:
            self._cockpit.push_screen(kind())

    def tell_receipt(self, receipt: Receipt) -> None:
        """What became of a message at once."""
        self._cockpit.notify(format_receipt(receipt), markup=False)

    def do_at(self, action_id: str, mysis_id: int) -> None:
        """Carry out an action of the list on one mysis: back to the list, the cursor on it, no marks."""
        from zoea.tui.screens.dashboard import Dashboard

        cockpit = self._cockpit
        while len(cockpit.screen_stack) > 1 and not isinstance(cockpit.screen, Dashboard):
            cockpit.pop_screen()
        if isinstance(cockpit.screen, Dashboard):
            cockpit.screen.select(mysis_id)
            cockpit.action_do(action_id)

    def do_app_command(self) -> None:
        from zoea.tui.dialogs.command_line import CommandLine

        self._cockpit.push_screen(CommandLine())

    def do_app_palette(self) -> None:
        from zoea.tui.commands.action_palette import open_palette

        open_palette(self._cockpit)

    async def action_quit(self) -> None:
        self._cockpit.action_do("app.quit")

    def action_interrupt(self) -> None:
        """ctrl+c: copy what is selected, else empty the input that has the focus, else arm the end."""
        from zoea.tui.dialogs.quit import Quitting

        cockpit = self._cockpit
        if isinstance(cockpit.screen, Quitting):
            cockpit.screen.interrupt()
            return
        selected = _selected(cockpit)
        if selected:
            cockpit.copy_to_clipboard(selected)
            cockpit.notify("copied", markup=False, timeout=1.5)
            return
        if _cleared(cockpit.focused):
            return
        if cockpit.arming.press("quit", "press ctrl+c again to quit"):
            cockpit.do_app_quit()


def _selected(cockpit: Cockpit) -> str:
    focused = cockpit.focused
    if isinstance(focused, TextArea | Input) and focused.selected_text:
        return focused.selected_text
    return cockpit.screen.get_selected_text() or ""


def _cleared(focused: Any) -> bool:
    """True where the input that has the focus held something; a prompt keeps it in its history."""
    from zoea.tui.widgets.message_prompt import MessagePrompt

    if isinstance(focused, TextArea):
        prompt = next((node for node in focused.ancestors if isinstance(node, MessagePrompt)), None)
        if prompt is not None:
            return prompt.clear_into_history()
    if isinstance(focused, Input) and focused.value:
        focused.value = ""
        return True
    return False
